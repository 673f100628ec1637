"""What there is to see of attention: weights, what they are made of, and what blocks give."""

from functools import partial

from regard.verbs.views.recorded_pass import RecordedPass, Resource, ResourceFunction, to_array


def attention_resources(watched: RecordedPass) -> dict[str, ResourceFunction]:
    """`attention/NAME` of each, and, where queries are compared with keys, what its cells are made of."""
    found: dict[str, ResourceFunction] = {}
    for name in watched.places:
        found[f"attention/{name}"] = partial(_weights, watched, name)
    if watched.has_keys:
        for name in watched.places:
            for part in ("query", "key", "value", "mask"):
                found[f"{part}/{name}"] = partial(_part, watched, part, name)
            if has_bias(watched, name):
                found[f"bias/{name}"] = partial(_part, watched, "bias", name)
    for name in watched.blocks:
        found[f"hidden/{name}"] = partial(_hidden, watched, name)
    return found


def has_bias(watched: RecordedPass, name: str) -> bool:
    """Whether positions add something to the scores of this attention: never to those between sequences."""
    config = watched.run.loaded.config
    return getattr(config, "positions", None) in ("alibi", "t5") and watched.places[name].part != "cross"


def _weights(watched: RecordedPass, name: str) -> Resource:
    return to_array(watched.weights(name), "float16")


def _part(watched: RecordedPass, part: str, name: str) -> Resource:
    found = getattr(watched.recording, part)(name)
    return to_array(found, "uint8" if part == "mask" else "float32")


def _hidden(watched: RecordedPass, name: str) -> Resource:
    return to_array(watched.recording.hidden(name))
