"""What a model answered in a pass, and how likely it held that: what changes are measured by."""

from dataclasses import dataclass

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

MAX_OUTPUT_VALUES = 2**25  # of the output of a batch: 128 MiB in float32
HEADS_WITH_PROBABILITIES = (ClassificationHead, TokenHead, MaskedLanguageModelHead, SpanHead)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a model answered in a pass, and the rows of its output in which it did so."""

    ids: Int64[Tensor, " answers"]
    rows: Int64[Tensor, " answers"]

    def log_probs(self, output: Float[Tensor, "batch *rows classes"]) -> Float[Tensor, "batch answers"]:
        """The log-probability of each part of the answer in each example of a batch, in nats."""
        log_probs = output.float().log_softmax(dim=-1)
        # one class of a text has no axis of its own
        log_probs = log_probs.reshape(len(output), -1, output.size(-1))[:, self.rows]
        return log_probs.gather(2, self.ids[None, :, None].expand(len(output), -1, -1))[:, :, 0]


def answer_of(forced: ForcedPass) -> Answer:
    """The tokens that were written as an answer; of an encoder the most probable classes of its head.

    These are one class of a text; a class or token at each position that was asked for; the first and last
    place of a span.

    Raises:
        ConfigError: the model's head gives no probabilities.
    """
    device = forced.model.device
    if "written" in forced.sequences:
        ids = torch.tensor(forced.sequences["written"], device=device)
    else:
        _refuse_silent(forced)
        with torch.no_grad():
            ids = forced()[0].argmax(dim=-1).reshape(-1)
    chosen = range(len(ids)) if forced.answer_rows is None else forced.answer_rows
    rows = torch.tensor(list(chosen), dtype=torch.long, device=device)
    return Answer(ids=ids[rows], rows=rows)


@torch.no_grad()
def answer_log_prob(forced: ForcedPass) -> float:
    """The log-probability of the whole answer, in nats."""
    return float(answer_of(forced).log_probs(forced()).double().sum())


def max_batch_size(forced: ForcedPass) -> int:
    """How many examples a batch may have, so that the output does not grow beyond NUMBERS_AT_ONCE."""
    config = forced.model.config
    classes = getattr(config, "tgt_vocab_size", getattr(config, "vocab_size", 1))
    longest = max(len(ids) for ids in forced.sequences.values())
    return max(1, MAX_OUTPUT_VALUES // (max(longest, 1) * classes))


def _refuse_silent(forced: ForcedPass) -> None:
    if isinstance(forced.model, VisionTransformer):
        return
    head = forced.model.head if isinstance(forced.model, EncoderOnly) else None
    if not isinstance(head, HEADS_WITH_PROBABILITIES) or isinstance(head, RegressionHead):
        raise ConfigError(
            "this model's answer has no probability, so nothing can be said of its change",
            "heads that classify texts, tokens or spans have one, and models that write",
        )
