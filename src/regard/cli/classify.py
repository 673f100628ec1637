"""`regard classify`."""

import sys
from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.errors import UserError


@click.command("classify", cls=Command)
@click.argument("text", required=False)
@options.own_model
@click.option(
    "--input",
    type=options.FILE,
    metavar="FILE",
    help="Classify each line of a file (plain or gzipped); each image, each node of a graph in it.",
)
@click.option(
    "--top",
    type=options.LimitedInt("top"),
    default=1,
    show_default=True,
    metavar="N",
    help="Tell that many classes a line: LINE, LABEL, PROBABILITY between tabs.",
)
@options.batch_tokens
@options.allow_fresh_head
@options.as_json
@options.device
@options.threads
def command(
    text: str | None,
    model: Path,
    input: Path | None,
    top: int,
    batch_tokens: int,
    allow_fresh_head: bool,
    as_json: bool,
    device: str,
    threads: int | None,
) -> None:
    """Say to which class a text, each line of a file or of a pipe belongs.

    Without TEXT and --input the standard input is read. There is a line out for each line in, LABEL and
    PROBABILITY between tabs, in the same order; an empty line gives an empty line. A model of images reads
    them from --input, an IDX file or an NPZ file with an array `images`: a line out for each. A model of
    graphs reads one from --input, an NPZ file with `features` and `edges`: a line out for each of its nodes.
    FILE may be NAME:FILE of a known data set.
    """
    if text is not None and input is not None:
        raise UserError("both TEXT and --input are given", "leave one of them out")

    with importing():
        from regard.verbs.classify import Classifier, printed
        from regard.verbs.classify_images import ImageClassifier, reads_images
        from regard.verbs.classify_nodes import NodeClassifier, reads_graphs
        from regard.verbs.lines import arriving, stream

    if input is not None and reads_images(model):
        found = ImageClassifier(model, top=top, device=device, threads=threads).file(input)
    elif input is not None and reads_graphs(model):
        found = NodeClassifier(model, top=top, device=device, threads=threads)(input)
    else:
        classifier = Classifier(
            model,
            top=top,
            batch_tokens=batch_tokens,
            allow_fresh_head=allow_fresh_head,
            device=device,
            threads=threads,
        )
        if text is not None:
            found = classifier(text.split("\n"))
        elif input is not None:
            found = classifier(stream(input))
        else:
            if sys.stdin.isatty():
                click.echo("type a line to classify it; Ctrl-D ends", err=True)
            found = classifier.in_chunks(arriving(0))
    for each in found:
        sys.stdout.buffer.write(printed(each, ranked=top > 1, as_json=as_json).encode("utf-8"))
        sys.stdout.buffer.flush()
