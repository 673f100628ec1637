"""The registries of decoding rules and searches.

PyTorch is not imported here, so that `--help` is quick.
"""

import dataclasses
from typing import Any

from regard.registry import Registry

RULES: Registry[Any] = Registry("decoding rule", how="register_rule of regard.decoding")
SEARCHES: Registry[type[Any]] = Registry("search", how="register_search of regard.decoding")

FIELDS = {  # fields of regard's own searches -> the controls that they hold; others have the control's name
    "size": ("beam_size",),
    "groups": ("beam_groups",),
    "constraints": ("must_contain",),
    "filters": ("temperature", "top_k", "top_p", "min_p", "typical_p"),
}


def controls_taken(search: str) -> set[str]:
    """The names that the fields of a registered search take, among them those of controls."""
    names = [field.name for field in dataclasses.fields(SEARCHES[search])]
    return {control for name in names for control in FIELDS.get(name, (name,))}
