"""`regard convert`."""

from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing

PICKLE = (
    "Read weights in a pickle (.bin), which can run code: in a process of its own, that builds tensors and"
    " nothing else (weights_only)."
)


@click.command("convert", cls=Command)
@click.argument("model", type=options.FILE)
@click.option("--out", type=options.FILE, required=True, metavar="DIR", help="Folder to write.")
@click.option(
    "--to",
    type=click.Choice(["regard", "hf"]),
    default="regard",
    show_default=True,
    help="regard: a model folder, of a Hugging Face one; hf: one that transformers loads, of a model folder.",
)
@click.option(
    "--family", metavar="NAME", help="With --to hf: whose shape to write, such as marian, bert, gpt2."
)
@click.option("--trust-pickle", is_flag=True, help=PICKLE)
def command(model: Path, out: Path, to: str, family: str | None, trust_pickle: bool) -> None:
    """Turn a Hugging Face folder into a model folder, or a model into a Hugging Face folder.

    \b
    Known families: gpt2, bert (sentence encoders too), roberta, distilbert, marian, bart, t5, llama, qwen3,
    vit. Logits stay the same.
    """
    with importing():
        from regard.verbs.convert import convert

    to_hf = to == "hf"
    done = convert(model, out=out, to="hf" if to_hf else "regard", family=family, trust_pickle=trust_pickle)
    if done.left:
        click.echo(f"not used: {', '.join(done.left)}", err=True)
    if done.undecoded:
        click.echo(f"not taken of decoding: {', '.join(done.undecoded)}", err=True)
    click.echo(done.path)
