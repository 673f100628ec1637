"""The answer of a model in a pass, and its log-probability: what ablation and attribution measure."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.errors import ConfigError
from regard.inspection.numbers_given import refuse_other_rows
from regard.inspection.passes import PASSES, ForcedPass
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_only import EncoderOnly
from regard.models.heads import (
    ClassificationHead,
    MaskedLanguageModelHead,
    RegressionHead,
    SpanHead,
    TokenHead,
)
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.models.vision import VisionTransformer

MAX_OUTPUT_VALUES = 2**25  # in the output of one batch: 128 MiB in float32
HEADS_WITH_PROBABILITIES = (ClassificationHead, TokenHead, MaskedLanguageModelHead, SpanHead)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The classes or tokens that a model answered, and the rows of its output that predict them."""

    ids: Int64[Tensor, " answers"]
    rows: Int64[Tensor, " answers"]

    def log_probs(self, output: Float[Tensor, "batch *rows classes"]) -> Float[Tensor, "batch answers"]:
        """The log-probability of each id of the answer in each example of a batch, in nats."""
        log_probs = output.float().log_softmax(dim=-1)
        # the output of a text classifier has no axis for positions
        log_probs = log_probs.reshape(len(output), -1, output.size(-1))[:, self.rows]
        return log_probs.gather(2, self.ids[None, :, None].expand(len(output), -1, -1))[:, :, 0]


def answer_of(forced: ForcedPass) -> Answer:
    """The tokens that a decoder wrote, or the most probable classes of an encoder's head.

    A head gives one class for a text, a class or token for each position of `answer_rows`, or the first and
    last position of a span.

    Raises:
        ConfigError: the model's head gives no probabilities, or a model that generates has no forced target,
            or one of another length than its output.
    """
    device = forced.model.device
    if "written" in forced.sequences:
        ids = torch.tensor(forced.sequences["written"], dtype=torch.long, device=device)
    elif isinstance(forced.model, SequenceToSequence | DecoderOnly):
        raise ConfigError("this pass has no forced target: it lacks the sequence 'written'", PASSES)
    else:
        _refuse_without_probabilities(forced)
        with torch.no_grad():
            ids = forced()[0].argmax(dim=-1).reshape(-1)
    chosen = range(len(ids)) if forced.answer_rows is None else forced.answer_rows
    refuse_other_rows(chosen, len(ids))
    rows = torch.tensor(list(chosen), dtype=torch.long, device=device)
    return Answer(ids=ids[rows], rows=rows)


@torch.no_grad()
def answer_log_prob(forced: ForcedPass) -> float:
    """The log-probability of the whole answer, in nats."""
    return float(answer_of(forced).log_probs(forced()).double().sum())


def max_batch_size(forced: ForcedPass) -> int:
    """The number of examples in a batch whose output has at most MAX_OUTPUT_VALUES values; at least 1."""
    config = forced.model.config
    classes = getattr(config, "tgt_vocab_size", getattr(config, "vocab_size", 1))
    longest = max(len(ids) for ids in forced.sequences.values())
    return max(1, MAX_OUTPUT_VALUES // (max(longest, 1) * classes))


def _refuse_without_probabilities(forced: ForcedPass) -> None:
    if isinstance(forced.model, VisionTransformer):
        return
    head = forced.model.head if isinstance(forced.model, EncoderOnly) else None
    if not isinstance(head, HEADS_WITH_PROBABILITIES) or isinstance(head, RegressionHead):
        raise ConfigError(
            "this model's answer has no probability whose change could be measured",
            "models that generate text have one, and heads that classify texts, tokens or spans",
        )
