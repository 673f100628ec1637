"""The decoding controls of a request, within the server's limits (see `decoding/control_fields.py`)."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Optional

import msgspec

from regard.serving.http_error import HttpProblem, unsupported
from regard.serving.limits import ServerLimits
from regard.verbs.generation.controls import CONTROLS_BY_NAME, Controls

NOT_FOR_CLIENTS = {"draft_model", "draft_tokens"}  # a folder of the server
MOST_PHRASES = 64  # texts of one control
NAMES = [name for name in CONTROLS_BY_NAME if name not in NOT_FOR_CLIENTS]


def control_fields() -> list[tuple[str, Any, Any]]:
    """The fields of a msgspec struct: one for each control, with its range and its help."""
    hints = typing.get_type_hints(Controls)
    fields = []
    for each in dataclasses.fields(Controls):
        if each.name in NAMES:
            kind = _kind(each.name, hints[each.name])
            default = msgspec.field(default_factory=list) if _is_list(hints[each.name]) else None
            fields.append((each.name, kind, default))
    return fields


def controls_in(body: Any, limits: ServerLimits) -> Controls:
    """The controls that a request has set.

    Raises:
        HttpProblem: one is beyond the server's limits. ConfigError: they contradict each other.
    """
    values: dict[str, Any] = {}
    for name in NAMES:
        value = getattr(body, name)
        if value is not None and value != []:
            values[name] = tuple(value) if isinstance(value, list) else value
    return checked_controls(values, limits)


def checked_controls(
    values: dict[str, Any], limits: ServerLimits, fields: Mapping[str, str] = MappingProxyType({})
) -> Controls:
    """Controls with these values, as in `controls_in`; `fields`: other names of fields, for messages."""
    units = {"hypotheses": limits.hypotheses, "tokens": limits.new_tokens}
    most = {name: units[each.unit] for name, each in CONTROLS_BY_NAME.items() if each.unit}
    most |= {"beam_groups": limits.hypotheses, "prompt_lookup": limits.proposed_tokens}
    for name, value in values.items():
        if name in most and value > most[name]:
            field, limit = fields.get(name, name), most[name]
            raise HttpProblem(
                400, f"{field} may be at most {limit:,} here", f"{field} = {limit}", parameter=field
            )
        if isinstance(value, tuple) and len(value) > (limits.stops if name == "stop" else MOST_PHRASES):
            raise HttpProblem(400, f"{name} has too many items", "leave some out", parameter=name)
    return Controls(**values)


def count_in(name: str, count: int, limits: ServerLimits) -> int:
    """How many candidates a request wants.

    Raises:
        HttpProblem: more than the server gives.
    """
    if not 1 <= count <= limits.candidates:
        raise HttpProblem(
            400,
            f"{name} must be from 1 to {limits.candidates}",
            f"{name} = {limits.candidates}",
            parameter=name,
        )
    return count


def refuse_set(fields: dict[str, Any], reasons: dict[str, str]) -> None:
    """Raise an HttpProblem for the first field that is set and cannot be honoured."""
    for name, why in reasons.items():
        if fields.get(name) not in (None, msgspec.UNSET, [], {}, False, ""):
            raise unsupported(name, why)


def _is_list(hint: Any) -> bool:
    return typing.get_origin(hint) is tuple


def _kind(name: str, hint: Any) -> Any:
    """The type of a control in a request."""
    declared = CONTROLS_BY_NAME[name]
    if _is_list(hint):
        return Annotated[list[typing.get_args(hint)[0]], msgspec.Meta(description=declared.help)]  # type: ignore[misc]
    [kind] = [each for each in typing.get_args(hint) if each is not types.NoneType] or [hint]
    bounds: dict[str, Any] = {"description": declared.help}
    if kind in (int, float):
        if declared.least is not None and declared.neutral in (None, declared.least):
            bounds["ge"] = kind(declared.least)
        if declared.most is not None:
            bounds["le"] = kind(declared.most)
    return Optional[Annotated[kind, msgspec.Meta(**bounds)]]  # noqa: UP045 (`|` takes no Annotated here)
