"""Options of several commands. Most are derived from the dataclasses that declare them."""

import dataclasses
import functools
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from regard.verbs.generation.controls import Control, Controls
from regard.verbs.shared.limits import LIMITS
from regard.verbs.shared.runtime import Runtime
from regard.verbs.shared.tokenize import TOKENIZERS

FILE_PATH = click.Path(path_type=Path, readable=False)  # not checked here: the verb raises with a hint
Decorator = Callable[[Any], Any]


class LimitedInt(click.IntRange):
    """An integer within the limit of this name in `LIMITS`, refused with the message of the Python call."""

    name = "integer"

    def __init__(self, name: str) -> None:
        self.limit = LIMITS[name]
        super().__init__(min=int(self.limit.least), max=self.limit.most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = click.INT.convert(value, param, ctx)
        self.limit.refuse(param.opts[0] if param else "the number", number)
        return number


class LimitedFloat(click.FloatRange):
    """A number within the limit of this name in `LIMITS`, refused with the message of the Python call."""

    name = "float"

    def __init__(self, name: str) -> None:
        self.limit = LIMITS[name]
        super().__init__(min=self.limit.least, max=self.limit.most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = click.FLOAT.convert(value, param, ctx)
        self.limit.refuse(param.opts[0] if param else "the number", number)
        return number


model = click.option(
    "--model",
    type=FILE_PATH,
    metavar="DIR",
    help="Model or run folder, or en-de. [default: en-de, the included English-German model]",
)


overrides = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="SECTION.KEY=VALUE",
    help="Change a setting of the recipe; VALUE is TOML, or else a string; null removes the key. May be"
    " repeated.",
)


def _refuse_no_model(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """The given model; raises a UserError that names a recipe to train one if there is none."""
    if value is None and not context.resilient_parsing:
        from regard.verbs.shared.suggested_recipes import missing_model

        raise missing_model(str(context.command.name))
    return value


own_model = click.option(
    "--model",
    type=FILE_PATH,
    metavar="DIR",
    callback=_refuse_no_model,
    help="Model or run folder, such as runs/NAME.  [required]",
)
src = click.option(
    "--src", type=FILE_PATH, required=True, metavar="FILE", help="Source, one sentence a line."
)
refs = click.option(
    "--ref",
    type=FILE_PATH,
    multiple=True,
    metavar="FILE",
    help="Reference, aligned line by line; again for each further one.",
)
metrics = click.option(
    "--metric",
    type=FILE_PATH,
    multiple=True,
    metavar="DIR",
    help="Also score by a learned metric, a folder that `regard convert` writes of a COMET metric; again for"
    " more.",
)
tokenize = click.option(
    "--tokenize",
    type=click.Choice(TOKENIZERS),
    default="auto",
    show_default=True,
    help="sacreBLEU's tokeniser. auto: by the script of the references, 13a for words between spaces;"
    " none: for text that is tokenised already; spm, flores and spBLEU fetch a model.",
)
lowercase = click.option("--lowercase", is_flag=True, help="Score without regard to case.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text for people.")


def together(name: str, cls: type, *decorators: Decorator) -> Decorator:
    """These options, which the command gets as one argument, an instance of the dataclass `cls`."""
    fields = [field.name for field in dataclasses.fields(cls)]

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def gathering(**given: Any) -> None:
            values = {field: given.pop(field) for field in fields}
            command(**{name: cls(**values)}, **given)

        return stacked(*decorators)(gathering)

    return decorated


def stacked(*decorators: Decorator) -> Decorator:
    """One decorator for these, whose options are in this order in the help."""

    def decorated(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorated


def fields_of(name: str, cls: type) -> Decorator:
    """An option for each field of a dataclass, of which the command gets an instance as `name`."""
    return together(name, cls, field_options(cls))


def field_options(cls: type) -> Decorator:
    """An option for each field of a dataclass."""
    hints = typing.get_type_hints(cls)
    return stacked(*(_option(field, hints[field.name]) for field in dataclasses.fields(cls)))


SHORTER = {"--no-repeat-ngram-size": ("--no-repeat-ngram",)}  # other names of an option
SINGULAR = {"--rules": "--rule"}  # names of options that may be repeated


def _option(field: dataclasses.Field[Any], kind: Any) -> Decorator:
    """A field as an option: of its type, within its range, with its default."""
    flag = "--" + field.name.replace("_", "-")
    control = field.metadata.get("control", Control())
    metavar, help = field.metadata.get("metavar", control.metavar), field.metadata["help"]
    if typing.get_origin(kind) is tuple:
        [item, *_] = typing.get_args(kind)
        item = str if str in typing.get_args(item) else item
        help = f"{help.removesuffix('.')}; again for more."
        flag = SINGULAR.get(flag, flag)
        return click.option(flag, field.name, type=item, multiple=True, metavar=metavar, help=help)
    if kind is bool:
        return click.option(flag, is_flag=True, help=help)
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kinds = [each for each in typing.get_args(kind) if each is not type(None)]
        [kind] = [Path] if Path in kinds else kinds  # a call takes paths as strings, too
    if kind is bool:  # or None, which neither option gives
        return click.option(f"{flag}/--no-{flag[2:]}", default=None, help=help)
    shared: dict[str, Any] = {
        "help": help,
        "default": field.default,
        "show_default": field.default is not None,
    }
    if kind is Path:
        return click.option(flag, field.name, type=FILE_PATH, metavar=metavar, **shared)
    if choices := typing.get_args(kind) or field.metadata.get("choices"):
        return click.option(flag, type=click.Choice(list(choices)), **shared)
    flags = [flag, *SHORTER.get(flag, ()), field.name]
    return click.option(*flags, type=_number(field.name, kind, control), metavar=metavar, **shared)


def _number(name: str, kind: Any, control: Control) -> Any:
    """The type of an option, with the bounds of a number if it has some."""
    if name in LIMITS:
        return LimitedInt(name) if kind is int else LimitedFloat(name)
    if kind in (int, float) and (control.least, control.most) != (None, None):
        ranged: Any = click.IntRange if kind is int else click.FloatRange
        return ranged(min=control.least, max=control.most)
    return kind


def names(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    """A callback: the names in an option's value, separated by commas."""
    return tuple(name.strip() for name in value.split(",")) if value else ()


def columns(help: str) -> Decorator:
    """The option --columns with this help text."""
    return click.option("--columns", callback=names, metavar="NAME,NAME", help=help)


controls = fields_of("controls", Controls)
runtime = fields_of("runtime", Runtime)
