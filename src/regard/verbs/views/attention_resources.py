"""Resources of attention (weights, queries, keys, values, masks, biases) and of hidden states."""

from functools import partial

from regard.models.registered import POSITIONS
from regard.verbs.views.recorded_pass import RecordedPass, Resource, ResourceFunction, to_array


def attention_resources(recorded: RecordedPass) -> dict[str, ResourceFunction]:
    """`attention/NAME` for each attention with weights, inputs if it has queries and keys, and `hidden/NAME`.

    A kernel that is not one of regard's has no queries, keys and biases here: a reader would compute other
    weights from them.
    """
    found: dict[str, ResourceFunction] = {}
    for site in recorded.shown_sites:
        found[f"attention/{site.name}"] = partial(_weights, recorded, site.name)
    if recorded.has_keys:
        for name in recorded.sites:
            is_known = not recorded.has_own_kernel(name)
            for part in ("query", "key", "value", "mask") if is_known else ("value", "mask"):
                found[f"{part}/{name}"] = partial(_part, recorded, part, name)
            if is_known and has_bias(recorded, name):
                found[f"bias/{name}"] = partial(_part, recorded, "bias", name)
    for name in recorded.blocks:
        found[f"hidden/{name}"] = partial(_hidden, recorded, name)
    return found


def has_bias(recorded: RecordedPass, name: str) -> bool:
    """True if this attention has a position bias; cross-attentions never have one."""
    positions = getattr(recorded.run.loaded.config, "positions", "none")
    return POSITIONS[positions].where == "scores" and recorded.sites[name].part != "cross"


def _weights(recorded: RecordedPass, name: str) -> Resource:
    return to_array(recorded.weights(name), "float16")


def _part(recorded: RecordedPass, part: str, name: str) -> Resource:
    found = getattr(recorded.recording, part)(name)
    return to_array(found, "uint8" if part == "mask" else "float32")


def _hidden(recorded: RecordedPass, name: str) -> Resource:
    return to_array(recorded.recording.hidden(name))
