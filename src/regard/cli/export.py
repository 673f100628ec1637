"""`regard export`."""

from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing


@click.command("export", cls=Command)
@click.argument("model", type=options.FILE_PATH)
@click.option(
    "--to",
    type=click.Choice(["ctranslate2", "onnx", "web"]),
    required=True,
    help="The engine: ctranslate2, onnx, or web, a page; for encoder-decoders and decoder-only models.",
)
@click.option("--out", type=options.FILE_PATH, required=True, metavar="DIR", help="Folder to write.")
@click.option(
    "--quantization",
    type=click.Choice(["float32", "float16", "bfloat16", "int8"]),
    default="float32",
    show_default=True,
    help="Of the weights; bfloat16 for ctranslate2 only.",
)
@click.option(
    "--texts",
    type=options.FILE_PATH,
    metavar="FILE",
    help="Texts to compare by, one a line. [default: texts of random pieces of the vocabulary]",
)
@click.option(
    "--runtime",
    type=options.FILE_PATH,
    metavar="PATH",
    help="Of web: onnxruntime-web as npm packs or installs it. [default: fetched once by npm]",
)
@click.option(
    "--one-file", is_flag=True, help="Of web: also write the page with all that it loads as page.html."
)
def command(
    model: Path,
    to: str,
    out: Path,
    quantization: str,
    texts: Path | None,
    runtime: Path | None,
    one_file: bool,
) -> None:
    """Write a model as a folder of another engine, with a certificate.

    The engine reads the folder in a process of its own. The folder appears only if its greedy outputs, its
    beams and its log-probabilities are those of regard, within the bounds that CERTIFICATE.json has.
    """
    with importing():
        from regard.verbs.export import export

    report = export(
        model,
        to=to,  # type: ignore[arg-type]
        out=out,
        quantization=quantization,  # type: ignore[arg-type]
        texts=texts,
        runtime=runtime,
        one_file=one_file,
    )
    click.echo(report.summary(), err=True)
    click.echo(report.path)
