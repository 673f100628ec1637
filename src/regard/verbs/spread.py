"""Values whose fields are keywords of a Python call, too."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

Result = TypeVar("Result")


def spread(call: Callable[..., Result]) -> Callable[..., Result]:
    """`call`, whose keywords that are dataclasses may also be given field by field: `top_k=40, threads=2`.

    Its signature, which `help` shows, names each of them. A text alone stands for a tuple of one.
    """
    signature = inspect.signature(call)
    parameters = signature.parameters.values()
    kinds: dict[str, Any] = {
        each.name: each.annotation for each in parameters if dataclasses.is_dataclass(each.annotation)
    }
    shown = signature.replace(parameters=[part for each in parameters for part in _parts(each)])

    @functools.wraps(call)
    def called(*arguments: Any, **keywords: Any) -> Result:
        wholes = {name: keywords.pop(name, None) for name in kinds}
        shown.bind(*arguments, **keywords)
        for name, kind in kinds.items():
            mine = {
                field.name: _tupled(field, keywords.pop(field.name))
                for field in dataclasses.fields(kind)
                if field.name in keywords
            }
            if wholes[name] is not None and mine:
                raise TypeError(f"{call.__name__}() got both {name} and {', '.join(mine)}")
            wholes[name] = wholes[name] or kind(**mine)
        return call(*arguments, **wholes, **keywords)

    called.__signature__ = shown  # type: ignore[attr-defined]
    return called


def _parts(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """The parameter, or one for each of its fields."""
    if not dataclasses.is_dataclass(parameter.annotation):
        yield parameter
        return
    for each in dataclasses.fields(parameter.annotation):
        yield inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.type
        )


def _tupled(field: dataclasses.Field[Any], value: Any) -> Any:
    if not isinstance(field.default, tuple):
        return value
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list | tuple) else (value,)
