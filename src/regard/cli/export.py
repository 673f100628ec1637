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
    type=click.Choice(["ctranslate2", "onnx", "web", "argos", "gguf", "hf"]),
    required=True,
    help="The engine: ctranslate2, onnx, or web, a page, for encoder-decoders and decoder-only models; onnx"
    " and web for classifiers, taggers and masked language models too; argos, a package for Argos Translate"
    " and LibreTranslate, for encoder-decoders; gguf, a file of llama.cpp, for decoder-only models; hf, for"
    " transformers: as a published family, else with the model's code.",
)
@click.option(
    "--out",
    type=options.FILE_PATH,
    required=True,
    metavar="DIR",
    help="Folder to write; for argos a file.argosmodel.",
)
@click.option(
    "--quantization",
    type=click.Choice(["float32", "float16", "bfloat16", "int8"]),
    default="float32",
    show_default=True,
    help="Of the weights; onnx has no bfloat16, hf no int8.",
)
@click.option(
    "--texts",
    type=options.FILE_PATH,
    metavar="FILE",
    help="Texts to compare by, one a line. [default: texts of random pieces of the vocabulary]",
)
@click.option(
    "--languages",
    metavar="CODES",
    help="For argos: source and target, as en-de. [default: the model's name, if it is two codes]",
)
@click.option(
    "--runtime",
    type=options.FILE_PATH,
    metavar="PATH",
    help="For web: onnxruntime-web as npm packs or installs it. [default: fetched once by npm]",
)
@click.option(
    "--one-file", is_flag=True, help="For web: also write the page with all that it loads as page.html."
)
def command(
    model: Path,
    to: str,
    out: Path,
    quantization: str,
    texts: Path | None,
    languages: str | None,
    runtime: Path | None,
    one_file: bool,
) -> None:
    """Write a model for another engine, with a certificate.

    The engine reads it in a process of its own. It appears only if its greedy outputs and beams, or its
    labels, and its log-probabilities are those of regard, within the bounds that CERTIFICATE.json has.
    """
    with importing():
        from regard.verbs.export import export

    report = export(
        model,
        to=to,  # type: ignore[arg-type]
        out=out,
        quantization=quantization,  # type: ignore[arg-type]
        texts=texts,
        languages=languages,
        runtime=runtime,
        one_file=one_file,
    )
    click.echo(report.summary(), err=True)
    click.echo(report.path)
