"""Decoding defaults of toolkits, by regard's names."""

from typing import Any


def search_settings(
    beams: int, *, penalty: str = "none", alpha: float = 0.0, **others: Any
) -> dict[str, Any]:
    """The settings of a beam search (greedy if `beams` is 1) with this length penalty.

    `penalty` is "wu" or "power"; with an `alpha` of 0 there is none.
    """
    found = {"length_penalty": penalty, "alpha": alpha} if alpha else {"length_penalty": "none"}
    return {"beam_size": beams, **found, **others}
