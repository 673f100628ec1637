"""`regard tag`."""

from collections.abc import Iterable
from pathlib import Path

import click

from regard.cli.group import Command
from regard.cli.importing import importing
from regard.cli.job_options import Place, path_of, refuse_half_a_job, run, table_or_job_output
from regard.cli.options import fields_of
from regard.cli.table_output import table_of_output, write_table
from regard.cli.text_command import check_text, chunks_of, lines_of, text_command, write_output
from regard.errors import UserError
from regard.verbs.shared.runtime import Runtime
from regard.verbs.shared.text_options import ShardOptions, TaggingOptions


@click.command("tag", cls=Command)
@text_command(
    "Tag each line of a file",
    click.option(
        "--conllu",
        is_flag=True,
        help="The input is CoNLL-U, and so is the output. [default: for files called *.conllu or"
        " *.conllu.gz]",
    ),
    click.option("--words", is_flag=True, help="Split at white space only: punctuation stays on the words."),
    fields_of("options", TaggingOptions),
    output=table_or_job_output,
)
def command(
    text: str | None,
    model: Path,
    input: Place | None,
    output: Place | None,
    sharding: ShardOptions,
    conllu: bool,
    words: bool,
    options: TaggingOptions,
    as_json: bool,
    runtime: Runtime,
) -> None:
    """Label each word of a text, of the lines of a file or of a pipe.

    Without TEXT and --input standard input is read, a sentence a line. Each word is printed on a line of its
    own, WORD and LABEL separated by a tab, with an empty line after each sentence.

    Text is split into words at white space and at the punctuation on their ends, more coarsely than in
    treebanks: `Don't` is one word here, and two (`Do`, `n't`) in English treebanks. In CoNLL-U, which brings
    its own words, the column that the model was trained on is filled, and everything else stays the same.
    Files called *.bio, *.iob, *.iob2 or *.conll bring their own words, too, a word on each line; labels in
    them are not read.

    With --column and --output FILE.csv the table is written with the columns `words` and `words_labels`, or
    NAME and NAME_labels with --into NAME: the words of a text, and as many labels, with spaces between.
    """
    check_text(text, input)
    refuse_half_a_job(sharding, text=text is not None, input=input, output=output, output_is_file=True)
    table = table_of_output(sharding, output, as_json=as_json)

    with importing():
        from regard.verbs.shards import tag_shard
        from regard.verbs.shared.lines import STDIN, chunks
        from regard.verbs.tag import (
            TaggedSentence,
            Tagger,
            cells_of,
            columns_of,
            has_words_in_columns,
            is_conllu,
            output_lines,
            sentences_in_columns,
        )

    if sharding.is_job:
        if conllu:
            raise UserError(
                "a job reads lines of text, not CoNLL-U", "leave out --conllu: tag each such file by itself"
            )
        settings = {"model": model, "words": words, "as_json": as_json}
        run(tag_shard, sharding, output, input=input, **settings, options=options, runtime=runtime)
        return
    conllu = conllu or (input is not None and is_conllu(input))
    file = path_of(input)
    for given, option in ((text is not None, "TEXT"), (words, "--words"), (as_json, "--json")):
        if conllu and given:
            raise UserError(f"{option} does not go with CoNLL-U", "leave one of them out")
    tagger = Tagger(model, options=options, runtime=runtime)
    if table is not None and sharding.column is not None:

        def answers(texts: Iterable[str]) -> Iterable[TaggedSentence]:
            return tagger(text.split() for text in texts) if words else tagger(texts)

        write_table(answers, cells_of, columns_of(sharding.into), (input, output), sharding.column, table)
        return
    if file is not None and not conllu and has_words_in_columns(file):
        found = tagger.in_chunks(chunks(sentences_in_columns(file)))
        write_output(output_lines(each, as_json=as_json) for each in found)
        return
    lines = chunks_of(
        None if text is None else lines_of(text), file, "type a line to tag its words", column=sharding.column
    )
    if conllu:
        write_output(map(str, tagger.conllu(lines, STDIN if file is None else str(file))))
    else:
        sentences = ([line.split() for line in chunk] if words else chunk for chunk in lines)
        write_output(output_lines(each, as_json=as_json) for each in tagger.in_chunks(sentences))
