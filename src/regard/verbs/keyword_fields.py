"""Values whose fields are keywords of a Python call, too."""

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


def keyword_fields(call: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """`call`, whose keywords that default to a dataclass may be given field by field: `top_k=40, threads=2`.

    What is not given is as in that default. The signature, which `help` shows, names each field, and the
    docstring gets a line about each. A text alone stands for a tuple of one. Type checkers see the values
    alone, and what is spread in `regard/__init__.pyi`, which `tools/stub.py` writes.
    """
    signature = inspect.signature(call)
    parameters = signature.parameters.values()
    usual = {each.name: each.default for each in parameters if _is_spread(each)}
    shown = signature.replace(parameters=[part for each in parameters for part in _parts(each)])

    @functools.wraps(call)
    def called(*arguments: Any, **keywords: Any) -> Result:
        wholes = {name: keywords.pop(name, None) for name in usual}
        for name in keywords:
            if name not in shown.parameters:
                near = did_you_mean(name, shown.parameters)
                raise TypeError(f"{call.__qualname__}() got an unexpected keyword argument {name!r}; {near}")
        shown.bind(*arguments, **keywords)
        for name, default in usual.items():
            mine = {
                field.name: _tupled(field, keywords.pop(field.name))
                for field in dataclasses.fields(default)
                if field.name in keywords
            }
            wholes[name] = _whole(call.__qualname__, name, default, wholes[name], mine)
        return call(*arguments, **wholes, **keywords)  # pyright: ignore[reportCallIssue]

    called.__signature__ = shown  # type: ignore[attr-defined]  # read by inspect, unknown to the types
    called.__doc__ = _with_lines(call.__doc__ or "", [*_lines(usual.values())])
    return cast(Callable[Parameters, Result], called)


def _lines(values: Iterable[Any]) -> Iterator[str]:
    """A line about each field, which its metadata hold."""
    for value in values:
        for field in dataclasses.fields(value):
            yield f"{field.name}: {field.metadata['help']}" if "help" in field.metadata else field.name


def _with_lines(docstring: str, lines: Sequence[str]) -> str:
    """A docstring with these lines at the end of its `Args:`."""
    parts = inspect.cleandoc(docstring).split("\n\n")
    shown = "\n".join(
        textwrap.fill(line, WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8) for line in lines
    )
    for place, part in enumerate(parts):
        if part.startswith("Args:"):
            parts[place] = f"{part}\n{shown}"
            return "\n\n".join(parts)
    return "\n\n".join([*parts, f"Args:\n{shown}"])


def _is_spread(parameter: inspect.Parameter) -> bool:
    return dataclasses.is_dataclass(parameter.default) and not isinstance(parameter.default, type)


def _parts(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """The parameter, or one for each of its fields."""
    if not _is_spread(parameter):
        yield parameter
        return
    for each in dataclasses.fields(parameter.default):
        default = getattr(parameter.default, each.name)
        yield inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=each.type
        )


def _whole(call: str, name: str, default: Any, given: Any, mine: dict[str, Any]) -> Any:
    """The value that was given, or the default with the fields that were."""
    if given is None:
        return dataclasses.replace(default, **mine)
    if mine:
        raise TypeError(f"{call}() got both {name} and {', '.join(mine)}")
    if not isinstance(given, type(default)):
        raise TypeError(f"{call}() wants a {type(default).__name__} as {name}, not {given!r}")
    return given


def _tupled(field: dataclasses.Field[Any], value: Any) -> Any:
    if not isinstance(field.default, tuple):
        return value
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list | tuple) else (value,)
