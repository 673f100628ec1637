"""Dataclasses whose fields are keywords of a Python call, too.

PyTorch is not imported here, so that `--help` is quick.
"""

import dataclasses
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ParamSpec, TypeVar, cast

from regard.errors import did_you_mean

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
WIDTH = 100  # of a line of a docstring


def keyword(default: Any, help: str, *, metavar: str = "N", choices: Sequence[str] = ()) -> Any:
    """A field that is a keyword of Python calls and an option of the command line, with one help text."""
    metadata = {"help": help, "metavar": metavar, "choices": tuple(choices)}
    return dataclasses.field(default=default, metadata=metadata)


def keyword_fields(call: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let `call` take the fields of its dataclass parameters as keywords: `top_k=40, threads=2`.

    Such a parameter defaults to an instance; fields that are not given have its values. The signature that
    `help` shows names each field, and the docstring gets a line about each. A str alone stands for a tuple
    of one. Type checkers see the fields in `regard/__init__.pyi`, which `tools/stub.py` writes.
    """
    signature = inspect.signature(call)
    parameters = signature.parameters.values()
    defaults = {each.name: each.default for each in parameters if _is_dataclass(each)}
    shown = signature.replace(parameters=[part for each in parameters for part in _parts(each)])

    @functools.wraps(call)
    def called(*arguments: Any, **keywords: Any) -> Result:
        instances = {name: keywords.pop(name, None) for name in defaults}
        for name in keywords:
            if name not in shown.parameters:
                near = did_you_mean(name, shown.parameters)
                raise TypeError(f"{call.__qualname__}() got an unexpected keyword argument {name!r}; {near}")
        shown.bind(*arguments, **keywords)
        for name, default in defaults.items():
            fields = {
                field.name: _as_tuple(field, keywords.pop(field.name))
                for field in dataclasses.fields(default)
                if field.name in keywords
            }
            instances[name] = _instance(call.__qualname__, name, default, instances[name], fields)
        return call(*arguments, **instances, **keywords)  # pyright: ignore[reportCallIssue]

    called.__signature__ = shown  # type: ignore[attr-defined]  # read by inspect, unknown to the types
    called.__doc__ = _with_lines(call.__doc__ or "", [*_lines(defaults.values())])
    return cast(Callable[Parameters, Result], called)


def _lines(instances: Iterable[Any]) -> Iterator[str]:
    """A line about each field."""
    for instance in instances:
        for field in dataclasses.fields(instance):
            yield f"{field.name}: {field.metadata['help']}" if "help" in field.metadata else field.name


def _with_lines(docstring: str, lines: Sequence[str]) -> str:
    """The docstring with these lines at the end of its `Args:`."""
    parts = inspect.cleandoc(docstring).split("\n\n")
    shown = "\n".join(
        textwrap.fill(line, WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8) for line in lines
    )
    for place, part in enumerate(parts):
        if part.startswith("Args:"):
            parts[place] = f"{part}\n{shown}"
            return "\n\n".join(parts)
    return "\n\n".join([*parts, f"Args:\n{shown}"])


def _is_dataclass(parameter: inspect.Parameter) -> bool:
    return dataclasses.is_dataclass(parameter.default) and not isinstance(parameter.default, type)


def _parts(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """The parameter itself, or one parameter for each of its fields."""
    if not _is_dataclass(parameter):
        yield parameter
        return
    for each in dataclasses.fields(parameter.default):
        default = getattr(parameter.default, each.name)
        yield inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=each.type
        )


def _instance(call: str, name: str, default: Any, given: Any, fields: dict[str, Any]) -> Any:
    """The instance that was passed, or the default with the fields that were passed."""
    if given is None:
        return dataclasses.replace(default, **fields)
    if fields:
        raise TypeError(f"{call}() got both {name} and {', '.join(fields)}")
    if not isinstance(given, type(default)):
        raise TypeError(f"{call}() wants a {type(default).__name__} as {name}, not {given!r}")
    return given


def _as_tuple(field: dataclasses.Field[Any], value: Any) -> Any:
    if not isinstance(field.default, tuple):
        return value
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list | tuple) else (value,)
