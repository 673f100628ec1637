"""What `translate` and `summarize` share: their options, and where the output goes."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options
from regard.cli.job_options import PLACE, Place, path_of, shard_options
from regard.cli.options import Decorator
from regard.cli.text_command import chunks_of, input_option, text_argument, write_to
from regard.errors import UserError
from regard.verbs.shared.file_formats import TableOutput, table_output
from regard.verbs.shared.runtime import DecodingRuntime
from regard.verbs.shared.text_options import FileFormat, ShardOptions, SummaryOptions

if TYPE_CHECKING:
    from regard.verbs.generation.translations import Translation
    from regard.verbs.translate import Translator


def translation_command(
    does: str, model: Decorator, fields: type[SummaryOptions], *more: Decorator
) -> Decorator:
    """The argument and the options of a command; `does` is its verb in the help of --input.

    `model`: its option --model. `fields`: what its keyword argument `options` holds. `more`: other options.
    """
    return options.stacked(
        text_argument(),
        model,
        input_option(f"{does} each line of a file"),
        *more,
        click.option(
            "--output",
            type=PLACE,
            metavar="FILE",
            help="Write to this file (FILE.gz: gzipped), not to standard output; with --column and FILE.csv,"
            " FILE.tsv or FILE.jsonl the table with one more column; with --shard or --on to a folder.",
        ),
        shard_options,
        options.fields_of("options", fields),
        options.controls,
        options.as_json,
        options.fields_of("runtime", DecodingRuntime),
    )


def table_of_output(
    sharding: ShardOptions, output: Place | None, *, as_json: bool, n_best: int
) -> TableOutput | None:
    """The kind of table that is written without a job; None: lines.

    Raises:
        UserError: the output has the name of another format, or --into is given and no table is written.
    """
    if sharding.is_job or isinstance(output, str):
        return None
    table = table_output(output, sharding.column, as_json=as_json, n_best=n_best, option="--n-best")
    if sharding.into is not None and table is None:
        hint = "give --input TABLE --column NAME --output FILE.csv"
        raise UserError("--into is for --shard and --on, and for a table that is written", hint)
    return table


def print_answers(
    kind: "type[Translator]",
    settings: Mapping[str, Any],
    lines: Sequence[str] | None,
    input: Place | None,
    output: Place | None,
    sharding: ShardOptions,
    *,
    as_json: bool,
    waits: str,
    table: TableOutput | None,
    file_format: FileFormat | None = None,
) -> None:
    """Print or write the outputs for `lines`, else for the file `input`, else for standard input.

    `table`: what is written, with the outputs in a new column; None: lines. `file_format`: what the texts are
    if not lines; None: it is not known. `waits`: the prompt on stderr if lines are typed at a terminal.
    Raises Interrupted at Ctrl-C if `output` is given: the file is then not written.
    """
    from regard import console
    from regard.verbs.generation.translated_document import document_lines
    from regard.verbs.generation.translations import check_compression, check_output
    from regard.verbs.shared.answered_table import AnsweredTable
    from regard.verbs.shared.lines import count_of, stream_lines, texts_of

    input, output, column = path_of(input), path_of(output), sharding.column
    if lines is None:
        check_output(input, output)
    else:
        check_compression(output)
    translator = kind(**settings)

    if file_format not in (None, "lines"):
        content = _document(lines, input, waits)
        name = "TEXT" if lines is not None else "standard input" if input is None else str(input)
        write_to(output, document_lines(translator, content, file_format, name))
    elif lines is not None:
        _print(translator, translator.texts(lines), output, as_json)
    elif input is not None:
        visible = console.notes_to_terminal() and not (output is None and console.is_terminal())
        total = count_of(input) if visible else 0
        with console.LinesProgress(total) if total else nullcontext() as progress:
            done = progress.advance if progress else None
            if table is not None and column is not None:
                answered = AnsweredTable.of(input, column, sharding.into or translator.answer.called, table)
                answers = translator(answered.texts(), done=done)
                write_to(output, answered.rows([each.text] for each in answers))
            else:
                by_name = file_format is None or column is not None
                read = texts_of(input, column) if by_name else stream_lines(input, notes=False)
                _print(translator, translator(read, done=done), output, as_json)
    else:
        _print(translator, translator.in_chunks(chunks_of(None, None, waits)), output, as_json)


def _document(lines: Sequence[str] | None, input: Path | None, waits: str) -> str:
    """What is given, else what is in the file, else standard input, as it is written."""
    from regard.verbs.shared.lines import document_of

    if lines is not None:
        return "".join(f"{line}\n" for line in lines)
    if input is None and sys.stdin.isatty():
        click.echo(f"{waits}; Ctrl-D ends", err=True)
    return document_of(input)


def _print(
    translator: "Translator", answers: "Iterable[Translation]", output: Path | None, as_json: bool
) -> None:
    """Write as lines."""
    from regard.verbs.generation.translations import output_lines

    ranked = translator.options.n_best > 1
    write_to(output, (output_lines(each, ranked=ranked, as_json=as_json) for each in answers))
