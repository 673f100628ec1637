"""Options that several verbs take, with the same name, meaning and default in each."""

from pathlib import Path

import click

FILE = click.Path(path_type=Path)  # whether it is there is for the verb to say

model = click.option(
    "--model",
    type=FILE,
    metavar="DIR",
    help="Model or run folder. [default: the English-German model in the box]",
)
own_model = click.option(
    "--model", type=FILE, metavar="DIR", required=True, help="Model or run folder, such as runs/NAME."
)
allow_fresh_head = click.option(
    "--allow-fresh-head", is_flag=True, help="Let a model speak whose head nobody has trained."
)
beam_size = click.option(
    "--beam-size", type=click.IntRange(min=1), metavar="N", help="Hypotheses kept. [default: the model's own]"
)
batch_tokens = click.option(
    "--batch-tokens",
    type=click.IntRange(min=1),
    default=4096,
    show_default=True,
    metavar="N",
    help="Padded source tokens looked at together; changes speed and memory, not the answer.",
)
src = click.option("--src", type=FILE, required=True, metavar="FILE", help="Source, one sentence a line.")
refs = click.option(
    "--ref",
    type=FILE,
    required=True,
    multiple=True,
    metavar="FILE",
    help="Reference, aligned line by line; again for each further one.",
)
tokenize = click.option(
    "--tokenize",
    type=click.Choice(["13a", "none"]),
    default="13a",
    show_default=True,
    help="sacreBLEU's tokeniser; none for text that is tokenised already.",
)
lowercase = click.option("--lowercase", is_flag=True, help="Score without regard to case.")
device = click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda", "mps"]),
    default="auto",
    show_default=True,
    help="Where to compute; auto takes a GPU where there is one.",
)
threads = click.option(
    "--threads", type=click.IntRange(min=1), metavar="N", help="CPU threads. [default: torch's choice]"
)
workers = click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes that share many lines. [default: one a core of a CPU; one where --threads is given]",
)
precision = click.option(
    "--precision",
    type=click.Choice(["float32", "int8"]),
    default="float32",
    show_default=True,
    help="Of products; int8 is faster on a CPU, and a little less exact.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text for people.")
