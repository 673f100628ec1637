"""Decoding defaults of toolkits, by regard's names."""

from typing import Any

OF_BEAMS = ("early_stopping", "n_best")


def search_settings(
    beams: int, *, penalty: str = "none", alpha: float = 0.0, **others: Any
) -> dict[str, Any]:
    """The settings of a beam search (greedy if `beams` is 1) with this length penalty.

    `penalty` is "wu" or "power"; with an `alpha` of 0 there is none.
    """
    if beams == 1:  # what has no effect on a single hypothesis is refused beside it
        return {"beam_size": 1, **{name: others[name] for name in others if name not in OF_BEAMS}}
    found = {"length_penalty": penalty, "alpha": alpha} if alpha else {"length_penalty": "none"}
    return {"beam_size": beams, **found, **others}
