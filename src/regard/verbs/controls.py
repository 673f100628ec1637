"""The controls of decoding as keywords of a Python call; declared in `decoding/controls.py`."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from regard.decoding.controls import CONTROLS, Control, Controls

__all__ = ["CONTROLS", "UNSET", "Control", "Controls", "spread"]

Result = TypeVar("Result")
UNSET = Controls()  # everything as the model's folder says


def spread(call: Callable[..., Result]) -> Callable[..., Result]:
    """`call`, whose keyword `controls` may also be given one by one: `temperature=0.7, top_k=40`.

    Its signature, which `help` shows, names each of them. A text alone stands for a tuple of one.
    """
    signature = inspect.signature(call)
    given = {each.name: each for each in dataclasses.fields(Controls)}
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name == "controls":
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters += [
                inspect.Parameter(name, kind, default=each.default, annotation=each.type)
                for name, each in given.items()
            ]
        else:
            parameters.append(parameter)
    shown = signature.replace(parameters=parameters)

    @functools.wraps(call)
    def called(*arguments: Any, controls: Controls | None = None, **keywords: Any) -> Result:
        shown.bind(*arguments, **keywords)
        mine = {name: _tuples(name, keywords.pop(name)) for name in given if name in keywords}
        if controls is not None and mine:
            raise TypeError(f"{call.__name__}() got both controls and {', '.join(mine)}")
        return call(*arguments, controls=controls or Controls(**mine), **keywords)

    called.__signature__ = shown  # type: ignore[attr-defined]
    return called


def _tuples(name: str, value: Any) -> Any:
    if not isinstance(getattr(UNSET, name), tuple) or value is None:
        return () if value is None and isinstance(getattr(UNSET, name), tuple) else value
    return tuple(value) if isinstance(value, list | tuple) else (value,)
