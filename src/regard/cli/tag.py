"""`regard tag`."""

import sys
from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.errors import UserError


@click.command("tag", cls=Command)
@click.argument("text", required=False)
@options.own_model
@click.option(
    "--input", type=options.FILE, metavar="FILE", help="Tag each line of a file (plain or gzipped)."
)
@click.option(
    "--conllu",
    is_flag=True,
    help="The input is CoNLL-U, and so is the output. [default: for files called *.conllu or *.conllu.gz]",
)
@click.option("--words", is_flag=True, help="Words stand between white space: leave punctuation on them.")
@options.batch_tokens
@options.allow_fresh_head
@options.as_json
@options.device
@options.threads
def command(
    text: str | None,
    model: Path,
    input: Path | None,
    conllu: bool,
    words: bool,
    batch_tokens: int,
    allow_fresh_head: bool,
    as_json: bool,
    device: str,
    threads: int | None,
) -> None:
    """Give each word of a text, of the lines of a file or of a pipe its label.

    Without TEXT and --input the standard input is read, a sentence a line. Each word comes out on a
    line of its own, WORD and LABEL between tabs, with an empty line after each sentence.

    Text is cut into words at white space and at the punctuation on their ends, more coarsely than the
    treebanks that models learn from cut it: `Don't` is one word here, and two (`Do`, `n't`) in English ones.
    Of CoNLL-U, which brings its own words, the column that the model was trained for is filled, and
    everything else stays as it is.
    """
    if text is not None and input is not None:
        raise UserError("both TEXT and --input are given", "leave one of them out")

    with importing():
        from regard.verbs.lines import STDIN, arriving, chunks, stream
        from regard.verbs.tag import Tagger, is_conllu, printed

    conllu = conllu or (input is not None and is_conllu(input))
    for given, option in ((text is not None, "TEXT"), (words, "--words"), (as_json, "--json")):
        if conllu and given:
            raise UserError(f"{option} does not go with CoNLL-U", "leave one of them out")
    tagger = Tagger(
        model, batch_tokens=batch_tokens, allow_fresh_head=allow_fresh_head, device=device, threads=threads
    )
    if text is None and input is None and sys.stdin.isatty():
        click.echo("type a line to tag its words; Ctrl-D ends", err=True)
    if text is not None:
        lines = chunks(text.split("\n"))
    else:
        lines = arriving(0) if input is None else chunks(stream(input))
    if conllu:
        found = map(str, tagger.conllu(lines, STDIN if input is None else str(input)))
    else:
        sentences = ([line.split() for line in chunk] if words else chunk for chunk in lines)
        found = (printed(each, as_json=as_json) for each in tagger.in_chunks(sentences))
    for each in found:
        sys.stdout.buffer.write(each.encode("utf-8"))
        sys.stdout.buffer.flush()
