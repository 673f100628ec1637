"""Options that several verbs take, with the same name, meaning and default in each."""

import dataclasses
import functools
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from regard.verbs.controls import CONTROLS, Control, Controls
from regard.verbs.limits import LIMITS
from regard.verbs.tokenize import TOKENIZE

FILE = click.Path(path_type=Path)  # whether it is there is for the verb to say


class LimitedInt(click.IntRange):
    """A whole number within the limit of that name, which refuses it as it does in a Python call."""

    name = "integer"

    def __init__(self, name: str) -> None:
        self.limit = LIMITS[name]
        super().__init__(min=self.limit.least, max=self.limit.most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = click.INT.convert(value, param, ctx)
        self.limit.refuse(param.opts[0] if param else "the number", number)
        return number


model = click.option(
    "--model",
    type=FILE,
    metavar="DIR",
    help="Model or run folder, or en-de. [default: en-de, the English-German model in the box]",
)


def _refuse_no_model(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """The model; where there is none, it is said which recipe trains one."""
    if value is None and not context.resilient_parsing:
        from regard.verbs.suggested_recipes import missing_model

        raise missing_model(str(context.command.name))
    return value


own_model = click.option(
    "--model",
    type=FILE,
    metavar="DIR",
    callback=_refuse_no_model,
    help="Model or run folder, such as runs/NAME.  [required]",
)
allow_fresh_head = click.option(
    "--allow-fresh-head", is_flag=True, help="Let a model speak whose head nobody has trained."
)
beam_size = click.option(
    "--beam-size",
    type=LimitedInt("beam_size"),
    metavar="N",
    help="Hypotheses kept. [default: the model's own]",
)
batch_tokens = click.option(
    "--batch-tokens",
    type=LimitedInt("batch_tokens"),
    default=4096,
    show_default=True,
    metavar="N",
    help="Padded source tokens looked at together; changes speed and memory, not the answer.",
)
prefix = click.option(
    "--prefix",
    metavar="TEXT",
    help="What stands before each text, such as >>fra<<. [default: what the model's folder says]",
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
    type=click.Choice(TOKENIZE),
    default="auto",
    show_default=True,
    help="sacreBLEU's tokeniser. auto: by the script of the references, 13a where words stand between"
    " spaces; none: for text that is tokenised already; spm, flores and spBLEU fetch a model.",
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
    "--threads", type=LimitedInt("threads"), metavar="N", help="CPU threads. [default: torch's choice]"
)
workers = click.option(
    "--workers",
    type=LimitedInt("workers"),
    metavar="N",
    help="Processes that share many lines. [default: one a core of a CPU; one where --threads is given]",
)
precision = click.option(
    "--precision",
    type=click.Choice(["float32", "int8"]),
    default="float32",
    show_default=True,
    help="Of products; int8 is faster on a CPU, a little less exact, as are its scores.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text for people.")


def controls(command: Callable[..., None]) -> Callable[..., None]:
    """An option for each control of decoding; the command gets what was given as `controls`."""

    @functools.wraps(command)
    def gathered(**given: Any) -> None:
        asked = {name: given.pop(name) for name in CONTROLS}
        command(controls=Controls(**asked), **given)

    hints = typing.get_type_hints(Controls)
    decorated: Callable[..., None] = gathered
    for each in reversed(dataclasses.fields(Controls)):
        decorated = _option(each.name, hints[each.name], CONTROLS[each.name])(decorated)
    return decorated


SHORTER = {"--no-repeat-ngram-size": ("--no-repeat-ngram",)}


def _option(name: str, kind: Any, control: Control) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A control as an option: of its type, within its range."""
    flag = "--" + name.replace("_", "-")
    flags = [flag, *SHORTER.get(flag, ())]
    if typing.get_origin(kind) is tuple:
        [item, *_] = typing.get_args(kind)
        help = f"{control.help.removesuffix('.')}; again for more."
        return click.option(flag, type=item, multiple=True, metavar=control.metavar, help=help)
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        [kind] = [each for each in typing.get_args(kind) if each is not type(None)]
    if kind is bool:
        return click.option(f"{flag}/--no-{flag[2:]}", default=None, help=control.help)
    if typing.get_origin(kind) is typing.Literal:
        choice = click.Choice(list(typing.get_args(kind)))
        return click.option(flag, type=choice, help=control.help)
    if name in LIMITS:
        kind = LimitedInt(name)
    elif kind in (int, float):
        ranged: Any = click.IntRange if kind is int else click.FloatRange
        if (control.least, control.most) != (None, None):
            kind = ranged(min=control.least, max=control.most)
    return click.option(*flags, name, type=kind, metavar=control.metavar, help=control.help)
