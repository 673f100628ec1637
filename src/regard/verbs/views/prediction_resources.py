"""What there is to see of what was predicted: each step, its logits, the logit lens, the beam."""

from functools import partial

from regard.inspection.lens import lens
from regard.inspection.steps import TokenCandidate, steps
from regard.verbs.views.recorded_pass import RecordedPass, Resource, ResourceFunction, to_array

CANDIDATES, LENS_CANDIDATES = 20, 5
MAX_KEPT_LOGITS = 512  # logits of each step, the greatest: a page can then draw and filter among them


def prediction_resources(watched: RecordedPass) -> dict[str, ResourceFunction]:
    found: dict[str, ResourceFunction] = {}
    if watched.writes:
        found["steps"] = partial(_steps, watched)
        found["logits"] = partial(_logits, watched)
        found["logit_ids"] = partial(_logit_ids, watched)
        found["logit_tokens"] = partial(_logit_tokens, watched)
    if has_lens(watched):
        found["lens"] = partial(_lens, watched)
    return found


def num_kept_logits(watched: RecordedPass) -> int:
    """How many logits of each step are handed out."""
    return min(MAX_KEPT_LOGITS, watched.logits.size(-1))


def has_lens(watched: RecordedPass) -> bool:
    """Whether what stands between layers can be read as tokens."""
    config = watched.run.loaded.config
    return config.kind in ("encoder_decoder", "decoder_only") or (
        getattr(config, "head", None) == "masked_language_model"
    )


def _candidates(watched: RecordedPass, found: tuple[TokenCandidate, ...]) -> list[dict]:
    tokens = watched.run.tokens([each.id for each in found])
    return [
        {"id": each.id, "token": token, "log_prob": round(each.log_prob, 5)}
        for each, token in zip(found, tokens, strict=True)
    ]


def _steps(watched: RecordedPass) -> Resource:
    written = watched.run.sequences["written"]
    return [
        {
            "id": step.id,
            "token": token,
            "log_prob": round(step.log_prob, 5),
            "entropy": round(step.entropy, 5),
            "rank": step.rank,
            "candidates": _candidates(watched, step.candidates),
        }
        for step, token in zip(
            steps(watched.logits, written.ids, candidates=CANDIDATES), written.tokens, strict=True
        )
    ]


def _logits(watched: RecordedPass) -> Resource:
    """As log-probabilities, which are logits too: what is left to one is the share of those not kept."""
    return to_array(watched.logits.float().log_softmax(dim=-1).topk(num_kept_logits(watched)).values)


def _logit_ids(watched: RecordedPass) -> Resource:
    return to_array(watched.logits.topk(num_kept_logits(watched)).indices, "int32")


def _logit_tokens(watched: RecordedPass) -> Resource:
    ids = sorted(set(watched.logits.topk(num_kept_logits(watched)).indices.flatten().tolist()))
    return dict(zip(map(str, ids), watched.run.tokens(ids), strict=True))


def _lens(watched: RecordedPass) -> Resource:
    seen = lens(watched.run.forced, candidates=LENS_CANDIDATES)
    return {
        "layers": list(seen.layers),
        "positions": seen.positions,
        "cells": [[_candidates(watched, each) for each in row] for row in seen.cells],
        "rank": seen.rank,
        "entropy": [[round(each, 5) for each in row] for row in seen.entropy],
    }
