"""The settings of a job, as its plan has them."""

import dataclasses
import json
from collections.abc import Iterable
from typing import Any

SPEED_ONLY = frozenset({"workers", "batch_tokens", "threads", "device"})  # settings that change no output


def settings_of(settings: Iterable[Any]) -> dict[str, Any]:
    """The fields of dataclasses that are set and may change an output, as JSON has them."""
    fields: dict[str, Any] = {}
    for each in settings:
        for one in dataclasses.fields(each):
            value = getattr(each, one.name)
            if one.name not in SPEED_ONLY and value not in (one.default, None, ()):
                fields[one.name] = value
    return json.loads(json.dumps(fields, default=str))
