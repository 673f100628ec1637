"""What a model answered in a pass, and how likely it held that: the number that changes are measured by."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.errors import ConfigError
from regard.inspection.passes import ForcedPass
from regard.models.encoder_only import EncoderOnly
from regard.models.heads import (
    ClassificationHead,
    MaskedLanguageModelHead,
    RegressionHead,
    SpanHead,
    TokenHead,
)

SAYS = (ClassificationHead, TokenHead, MaskedLanguageModelHead, SpanHead)


def answer_ids(forced: ForcedPass) -> Int64[Tensor, " answers"]:
    """The tokens that were written; of an encoder what its head holds likeliest.

    That is one class of a text; a class or token at each position; the first and last place of a span.

    Raises:
        ConfigError: the model's head gives no probabilities.
    """
    if "written" in forced.sequences:
        return torch.tensor(forced.sequences["written"], device=forced.model.device)
    _refuse_silent(forced)
    with torch.no_grad():
        return forced()[0].argmax(dim=-1).reshape(-1)


def answer_log_probs(
    output: Float[Tensor, "rows *answers classes"], ids: Int64[Tensor, " answers"]
) -> Float[Tensor, "rows answers"]:
    """How likely each row of a model's output holds each answer, in nats."""
    log_probs = output.float().log_softmax(dim=-1).flatten(1, -2) if output.ndim > 2 else None
    if log_probs is None:
        log_probs = output.float().log_softmax(dim=-1)[:, None]
    return log_probs.gather(2, ids[None, :, None].expand(len(output), -1, -1))[:, :, 0]


def _refuse_silent(forced: ForcedPass) -> None:
    head = forced.model.head if isinstance(forced.model, EncoderOnly) else None
    if not isinstance(head, SAYS) or isinstance(head, RegressionHead):
        raise ConfigError(
            "this model's answer has no probability, so nothing can be said of its change",
            "heads that classify texts, tokens or spans have one, and models that write",
        )
