"""`regard score`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.cli.job_options import (
    Place,
    path_of,
    refuse_half_a_job,
    run,
    shard_options,
    table_or_job_output,
)
from regard.cli.table_output import table_of_output, write_table
from regard.cli.text_command import chunks_of, input_option, write_output, write_to
from regard.counted import counted
from regard.errors import UserError
from regard.verbs.shared.file_formats import table_output
from regard.verbs.shared.runtime import Runtime
from regard.verbs.shared.text_options import ScoringOptions, ShardOptions

if TYPE_CHECKING:
    from regard.verbs.shared.scored_lines import ScoreTotals


@click.command("score", cls=Command)
@options.model
@click.option(
    "--src", type=options.FILE_PATH, metavar="FILE", help="Sources, one sentence a line; or prompts."
)
@click.option(
    "--ref",
    type=options.FILE_PATH,
    metavar="FILE",
    help="Translations, or completions of the prompts, aligned line by line.",
)
@click.option(
    "--data",
    type=options.FILE_PATH,
    metavar="FILE",
    help="Pairs in one file (TSV, CSV, JSON Lines), instead of --src and --ref.",
)
@options.columns(
    "With --data: its columns of source and translation, or of prompt and completion, by name or number."
    " [default: detected]"
)
@input_option(
    "With a language model: score each line of a file; with --shard or --on and a model that translates:"
    " lines of SOURCE and TRANSLATION with a tab between"
)
@table_or_job_output
@shard_options
@options.fields_of("options", ScoringOptions)
@options.as_json
@options.runtime
def command(
    model: Path | None,
    src: Path | None,
    ref: Path | None,
    data: Path | None,
    columns: tuple[str, ...],
    input: Place | None,
    output: Place | None,
    sharding: ShardOptions,
    options: ScoringOptions,
    as_json: bool,
    runtime: Runtime,
) -> None:
    """Score given translations, or texts of a language model, by their probability.

    A line for each pair: the log-probability in nats, the number of tokens, the end of the sentence included
    in both, and the perplexity of a token.

    A language model scores texts: each line of --input, or of standard input without it. --src and --ref, or
    --data, are then prompts with their completions, and only the completions count; both are joined as they
    are, so a completion begins with its space. With --column or --data, and --output FILE.csv, the table is
    written with the columns `log_prob`, `num_tokens` and `perplexity`.
    """
    has_pairs = (src, ref, data) != (None, None, None) or bool(columns)
    if sharding.is_job:
        if has_pairs:
            hint = "leave out --src, --ref, --data and --columns"
            raise UserError("a job reads texts or pairs from --input", hint)
        _score_job(sharding, input, output, model=model, as_json=as_json, options=options, runtime=runtime)
        return
    if model is not None and (not has_pairs or output is not None):
        with importing():
            from regard.verbs.score_texts import scores_texts

        if not has_pairs and scores_texts(model):
            _score_texts(model, (input, output), sharding, options, as_json=as_json, runtime=runtime)
            return
        if input is None and scores_texts(model):
            _refuse_no_table(sharding, output, data, (src, ref), as_json=as_json)
            _write_completions(model, (data, output), columns, sharding, options, runtime)
            return
    _refuse_other_than_pairs(sharding, input, output, (src, ref, data))

    with importing():
        from regard.verbs.score import score
        from regard.verbs.shared.scored_lines import columns_of_score

    found = score(model=model, src=src, ref=ref, data=data, columns=columns, options=options, runtime=runtime)
    if as_json:
        for record in found.to_dicts():
            click.echo(json.dumps(record))
        return
    for each in found.scores:
        click.echo(columns_of_score(each), nl=False)
    _note(counted(len(found.scores), "pair"), found.tokens, found.perplexity)


def _score_job(sharding: ShardOptions, input: Place | None, output: Place | None, **settings: Any) -> None:
    """Score the lines of a job; `settings` are those of `score_shard`."""
    refuse_half_a_job(sharding, text=False, input=input, output=output)
    with importing():
        from regard.verbs.shards import score_shard

    run(score_shard, sharding, output, input=input, **settings)


def _refuse_other_than_pairs(
    sharding: ShardOptions,
    input: Place | None,
    output: Place | None,
    files: tuple[Path | None, Path | None, Path | None],
) -> None:
    """Raise a UserError for options of a language model or of a job, and for half a pair of files."""
    for name, value in (("--input", input), ("--column", sharding.column)):
        if value is not None:
            hint = "give --src and --ref, or pairs in one file: --data FILE --columns SOURCE,TRANSLATION"
            raise UserError(f"{name} is for --shard and --on, and for texts of a language model", hint)
    refuse_half_a_job(sharding, text=False, input=input, output=output)
    src, ref, data = files
    if data is None and (src is None or ref is None):
        hint = "give both --src and --ref, or --data; a language model (--model DIR) reads --input"
        raise UserError(f"{'--src' if src is None else '--ref'} is missing", hint)


def _score_texts(
    model: Path,
    places: tuple[Place | None, Place | None],
    sharding: ShardOptions,
    options: ScoringOptions,
    *,
    as_json: bool,
    runtime: Runtime,
) -> None:
    """Print the score of each text, or write the table with them; `places` are input and output."""
    input, output = places
    refuse_half_a_job(sharding, text=False, input=input, output=output, output_is_file=True)
    table = table_of_output(sharding, output, as_json=as_json)
    with importing():
        from regard.verbs.score_texts import TextScorer, cells_of, columns_of
        from regard.verbs.shared.scored_lines import ScoreTotals, output_lines

    scorer = TextScorer(model, options=options, runtime=runtime)
    if table is not None and sharding.column is not None:
        names = columns_of(sharding.into)
        column, totals = sharding.column, ScoreTotals()
        write_table(
            lambda texts: totals.added(scorer(texts)), cells_of, names, places, column, table, as_written=True
        )
        _note_of(totals, "text")
        return
    chunks = chunks_of(
        None, path_of(input), "type a line to score it", column=sharding.column, as_written=True
    )
    found = scorer.in_chunks(chunks)
    if as_json:
        write_output(output_lines(each, as_json=True) for each in found)
        return
    totals = ScoreTotals()
    write_output(map(output_lines, totals.added(found)))
    _note_of(totals, "text")


def _refuse_no_table(
    sharding: ShardOptions,
    output: Place | None,
    data: Path | None,
    files: tuple[Path | None, Path | None],
    *,
    as_json: bool,
) -> None:
    """Raise a UserError unless a table of completions is to be read and written."""
    refuse_half_a_job(sharding, text=False, input=None, output=output, output_is_file=True)
    if data is None or files != (None, None):
        hint = "give prompts and completions in one file, --data TABLE, or leave out --output"
        raise UserError("--output is the table of --data with its scores", hint)
    if as_json or table_output(output, "--data", as_json=False) is None:
        hint = "give --output FILE.csv, FILE.tsv or FILE.jsonl, without --json"
        raise UserError(f"--output {output} is not written as a table", hint)


def _write_completions(
    model: Path,
    places: tuple[Path | None, Place | None],
    columns: tuple[str, ...],
    sharding: ShardOptions,
    options: ScoringOptions,
    runtime: Runtime,
) -> None:
    """Write the table of prompts and completions with the scores of these; `places` are it and the output."""
    with importing():
        from regard.verbs.generation.translations import check_output
        from regard.verbs.score_texts import TextScorer, cells_of, columns_of
        from regard.verbs.shared.answered_table import AnsweredTable
        from regard.verbs.shared.scored_lines import ScoreTotals

    data, output = map(path_of, places)
    assert data is not None
    kind = table_output(output, "--data", as_json=False)
    assert kind is not None
    check_output(data, output)
    into, *more = columns_of(sharding.into)
    table = AnsweredTable.of_completions(data, columns, into, kind, more)
    scorer, totals = TextScorer(model, options=options, runtime=runtime), ScoreTotals()
    write_to(output, table.rows(map(cells_of, totals.added(scorer.completions(table.pairs())))))
    _note_of(totals, "pair")


def _note_of(totals: "ScoreTotals", what: str) -> None:
    _note(counted(totals.lines, what), totals.tokens, totals.perplexity)


def _note(what: str, tokens: int, perplexity: float | None) -> None:
    from regard import console

    shown = "" if perplexity is None else f", perplexity {perplexity:.6g}"
    console.note(f"{what}, {counted(tokens, 'predicted token')}{shown}")
