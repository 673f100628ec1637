"""The registries of decoding rules and searches.

PyTorch is not imported here, so that `--help` is quick.
"""

import dataclasses
from typing import Any

from regard.registry import Registry

RULES: Registry[Any] = Registry("decoding rule", how="register_rule of regard.decoding")
SEARCHES: Registry[type[Any]] = Registry("search", how="register_search of regard.decoding")

# Fields of regard's own searches -> the controls that they hold. Any other field has the name of its control.
CONTROLS_OF_FIELD = {
    "size": ("beam_size",),
    "groups": ("beam_groups",),
    "constraints": ("must_contain",),
    "filters": ("temperature", "top_k", "top_p", "min_p", "typical_p"),
}


def controls_taken(search: str) -> set[str]:
    """The controls for which a registered search has fields.

    The names of fields that hold no control (`limits`, `rules`) are among them.
    """
    names = [field.name for field in dataclasses.fields(SEARCHES[search])]
    return {control for name in names for control in CONTROLS_OF_FIELD.get(name, (name,))}
