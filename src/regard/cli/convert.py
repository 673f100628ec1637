"""`regard convert`."""

from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.verbs.shared.text_options import LanguageOptions

PICKLE = (
    "Also read weights in a pickle (.bin, .pt, .ckpt), which could run code; it is read in a separate process"
    " that only builds tensors (weights_only)."
)


@click.command("convert", cls=Command)
@click.argument("model", type=options.FILE_PATH)
@click.option("--out", type=options.FILE_PATH, required=True, metavar="DIR", help="Folder to write.")
@click.option(
    "--to",
    type=click.Choice(["regard", "hf"]),
    default="regard",
    show_default=True,
    help="regard: Hugging Face folder or checkpoint to model folder; hf: model to Hugging Face folder.",
)
@click.option(
    "--family", metavar="NAME", help="With --to hf: the model type to write, such as marian, bert, gpt2."
)
@options.field_options(LanguageOptions)
@click.option("--trust-pickle", is_flag=True, help=PICKLE)
@click.option(
    "--encoder",
    type=options.FILE_PATH,
    metavar="DIR",
    help="For a metric of COMET: a folder with config.json and tokenizer.json of its encoder, such as"
    " xlm-roberta-large.",
)
def command(
    model: Path,
    out: Path,
    to: str,
    family: str | None,
    trust_pickle: bool,
    encoder: Path | None,
    source_lang: str | None,
    target_lang: str | None,
) -> None:
    """Convert models of Hugging Face and of translation toolkits, or a model to Hugging Face.

    \b
    Known families: gpt2, llama, mistral, qwen2, qwen3, gemma, bert (sentence encoders too), roberta,
    distilbert, marian, bart, mbart, pegasus, m2m_100 (NLLB too), t5, vit, whisper. Checkpoints of toolkits:
    Marian (model.npz), JoeyNMT (best.ckpt with config.yaml), eole, OpenNMT-py, fairseq (model.pt),
    Sockeye (params.best). Metrics of COMET (checkpoints/model.ckpt with hparams.yaml). The logits do not
    change.

    A run or model folder of regard whose weights are in shards (of fsdp2) is written with its weights in
    one file.
    """
    with importing():
        from regard.verbs.convert import convert

    to_hf = to == "hf"
    converted = convert(
        model,
        out=out,
        to="hf" if to_hf else "regard",
        family=family,
        trust_pickle=trust_pickle,
        encoder=encoder,
        source_lang=source_lang,
        target_lang=target_lang,
    )
    if converted.unused_tensors:
        click.echo(f"tensors that were not converted: {', '.join(converted.unused_tensors)}", err=True)
    if converted.unused_decoding:
        click.echo(
            f"decoding defaults that were not converted: {', '.join(converted.unused_decoding)}", err=True
        )
    click.echo(converted.path)
