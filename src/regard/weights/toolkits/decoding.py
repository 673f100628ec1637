"""Decoding defaults of toolkits, by regard's names."""

from typing import Any

OF_BEAMS = ("early_stopping", "n_best")  # settings of a search with several hypotheses


def search_settings(
    beams: int, *, penalty: str = "none", alpha: float = 0.0, **others: Any
) -> dict[str, Any]:
    """The settings of a beam search (greedy if `beams` is 1) with this length penalty.

    `penalty` is "wu", "power" or "none"; with an `alpha` of 0 there is none.
    """
    if beams == 1:  # `GenerationSettings` refuses what has no effect on a single hypothesis
        return {"beam_size": 1, **{name: others[name] for name in others if name not in OF_BEAMS}}
    has_penalty = penalty != "none" and alpha != 0
    by_length = {"length_penalty": penalty, "alpha": alpha} if has_penalty else {"length_penalty": "none"}
    return {"beam_size": beams, **by_length, **others}
