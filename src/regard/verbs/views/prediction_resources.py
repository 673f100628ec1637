"""Resources of predictions: steps, logits and the logit lens."""

from functools import partial

from regard.inspection.lens import logit_lens
from regard.inspection.steps import TokenCandidate, prediction_steps
from regard.verbs.views.recorded_pass import RecordedPass, Resource, ResourceFunction, to_array

CANDIDATES, LENS_CANDIDATES = 20, 5
MAX_KEPT_LOGITS = 512  # of each step, the greatest, for the page to sample from and filter


def prediction_resources(recorded: RecordedPass) -> dict[str, ResourceFunction]:
    """`steps`, `logits`, `logit_ids`, `logit_tokens` of a model that writes, and `lens` where it applies."""
    found: dict[str, ResourceFunction] = {}
    if recorded.writes:
        found["steps"] = partial(_steps, recorded)
        found["logits"] = partial(_logits, recorded)
        found["logit_ids"] = partial(_logit_ids, recorded)
        found["logit_tokens"] = partial(_logit_tokens, recorded)
    if has_lens(recorded):
        found["lens"] = partial(_lens, recorded)
    return found


def num_kept_logits(recorded: RecordedPass) -> int:
    """The number of logits in the resource for each step."""
    return min(MAX_KEPT_LOGITS, recorded.logits.size(-1))


def has_lens(recorded: RecordedPass) -> bool:
    """True if the logit lens can decode the model's hidden states to tokens."""
    config = recorded.run.loaded.config
    return config.kind in ("encoder_decoder", "decoder_only") or (
        getattr(config, "head", None) == "masked_language_model"
    )


def _candidates(recorded: RecordedPass, found: tuple[TokenCandidate, ...]) -> list[dict]:
    tokens = recorded.run.tokens([each.id for each in found])
    return [
        {"id": each.id, "token": token, "log_prob": round(each.log_prob, 5)}
        for each, token in zip(found, tokens, strict=True)
    ]


def _steps(recorded: RecordedPass) -> Resource:
    written = recorded.run.sequences["written"]
    return [
        {
            "id": step.id,
            "token": token,
            "log_prob": round(step.log_prob, 5),
            "entropy": round(step.entropy, 5),
            "rank": step.rank,
            "candidates": _candidates(recorded, step.candidates),
        }
        for step, token in zip(
            prediction_steps(recorded.logits, written.ids, candidates=CANDIDATES), written.tokens, strict=True
        )
    ]


def _logits(recorded: RecordedPass) -> Resource:
    """The greatest log-probabilities of each step; the missing probability belongs to the other tokens."""
    return to_array(recorded.logits.float().log_softmax(dim=-1).topk(num_kept_logits(recorded)).values)


def _logit_ids(recorded: RecordedPass) -> Resource:
    return to_array(recorded.logits.topk(num_kept_logits(recorded)).indices, "int32")


def _logit_tokens(recorded: RecordedPass) -> Resource:
    ids = sorted(set(recorded.logits.topk(num_kept_logits(recorded)).indices.flatten().tolist()))
    return dict(zip(map(str, ids), recorded.run.tokens(ids), strict=True))


def _lens(recorded: RecordedPass) -> Resource:
    found = logit_lens(recorded.run.forced, candidates=LENS_CANDIDATES)
    return {
        "layers": list(found.layers),
        "positions": found.positions,
        "cells": [[_candidates(recorded, each) for each in row] for row in found.cells],
        "rank": found.rank,
        "entropy": [[round(each, 5) for each in row] for row in found.entropy],
    }
