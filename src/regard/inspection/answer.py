"""What a model answered in a pass, and how likely it held that: what changes are measured by."""

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
from regard.models.vision import VisionTransformer

NUMBERS_AT_ONCE = 2**25  # of the output of a batch: 128 MiB in float32
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
    log_probs = output.float().log_softmax(dim=-1)
    log_probs = log_probs.reshape(
        len(output), -1, output.size(-1)
    )  # one class of a text has no axis of its own
    return log_probs.gather(2, ids[None, :, None].expand(len(output), -1, -1))[:, :, 0]


def rows_at_once(forced: ForcedPass, answers: int) -> int:
    """How many rows a batch may have, so that the output does not grow beyond NUMBERS_AT_ONCE."""
    config = forced.model.config
    classes = getattr(config, "tgt_vocab_size", getattr(config, "vocab_size", 1))
    return max(1, NUMBERS_AT_ONCE // (max(answers, 1) * classes))


def _refuse_silent(forced: ForcedPass) -> None:
    if isinstance(forced.model, VisionTransformer):
        return
    head = forced.model.head if isinstance(forced.model, EncoderOnly) else None
    if not isinstance(head, SAYS) or isinstance(head, RegressionHead):
        raise ConfigError(
            "this model's answer has no probability, so nothing can be said of its change",
            "heads that classify texts, tokens or spans have one, and models that write",
        )
