"""Forced decoding: the log-probabilities of given translations and texts."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.decoding.batches import BATCH_TOKENS, by_length, deterministic, ensemble_of, max_positions, padded
from regard.decoding.special_tokens import refuse_other_id
from regard.errors import DataError
from regard.models.decoder_only import DecoderOnly
from regard.models.sequence_to_sequence import SequenceToSequence

PROJECTED = 1024  # positions whose logits are in memory at a time


@dataclass(frozen=True, kw_only=True)
class ForcedScore:
    """The score of a pair, or of a text. The end token of a target counts."""

    log_prob: float  # of the target or the text, in nats
    num_tokens: int
    token_log_probs: list[float] = field(repr=False)  # in nats; the last of a target is the end token's

    @classmethod
    def of(cls, token_log_probs: Sequence[float]) -> "ForcedScore":
        """The score of these tokens."""
        found = list(token_log_probs)
        return cls(log_prob=math.fsum(found), num_tokens=len(found), token_log_probs=found)

    @property
    def perplexity(self) -> float | None:
        """The perplexity of a token: e^-(mean log-probability); None if no token was predicted."""
        return perplexity_of(self.log_prob, self.num_tokens)


def perplexity_of(log_prob: float, num_tokens: int) -> float | None:
    """The perplexity of so many tokens; None for none. It is at most 1e304."""
    return math.exp(min(-log_prob / num_tokens, 700.0)) if num_tokens else None


def forced_scores(
    models: SequenceToSequence | Sequence[SequenceToSequence],
    pairs: Sequence[tuple[list[int], list[int]]],
    *,
    batch_tokens: int = BATCH_TOKENS,
    pad_id: int = 0,
    bos_id: int = 2,
    eos_id: int = 3,
) -> list[ForcedScore]:
    """The score of each (source, target), ids without bos and eos; several models are an ensemble.

    An ensemble's probability of a token is the mean of its models'. A batch has at most `batch_tokens`
    positions of the longer side, padding counted.

    Raises:
        DataError: a pair is longer than a model can read.
    """
    models = ensemble_of(models)
    for name, value in (("bos_id", bos_id), ("eos_id", eos_id)):
        refuse_other_id(name, value)
    sources = [[*source, eos_id] for source, _ in pairs]
    targets = [[bos_id, *target, eos_id] for _, target in pairs]
    lengths = [max(len(source), len(target) - 1) for source, target in zip(sources, targets, strict=True)]
    most = max_positions(models)
    if lengths and max(lengths) > most:
        raise DataError(
            f"pair {lengths.index(max(lengths)) + 1} has {max(lengths)} tokens with its end token,"
            f" but the model has only {most} positions",
            "cut it into shorter sentences",
        )
    scores: dict[int, ForcedScore] = {}
    with torch.no_grad(), deterministic(models):
        for places in by_length(lengths, batch_tokens):
            src_ids, src_lengths = padded([sources[place] for place in places], pad_id, most=most)
            inputs, _ = padded([targets[place][:-1] for place in places], pad_id, most=most)
            labels, num_tokens = padded([targets[place][1:] for place in places], pad_id, most=most)
            log_probs = torch.stack(
                [_label_log_probs(model, src_ids, src_lengths, inputs, labels) for model in models]
            )
            rows = (log_probs.double().logsumexp(dim=0) - math.log(len(models))).tolist()
            for place, row, count in zip(places, rows, num_tokens.tolist(), strict=True):
                scores[place] = ForcedScore.of(row[:count])
    return [scores[place] for place in range(len(pairs))]


def _label_log_probs(
    model: SequenceToSequence,
    src_ids: Int64[Tensor, "rows src_len"],
    src_lengths: Int64[Tensor, " rows"],
    inputs: Int64[Tensor, "rows tgt_len"],
    labels: Int64[Tensor, "rows tgt_len"],
) -> Float[Tensor, "rows tgt_len"]:
    """One model's log-probability of each label, on the CPU."""
    device = model.device
    logits = model(src_ids.to(device), src_lengths.to(device), inputs.to(device)).float()
    label_logits = logits.gather(2, labels.to(device)[:, :, None])[:, :, 0]
    return (label_logits - logits.logsumexp(dim=2)).cpu()


def next_token_log_probs(
    model: DecoderOnly,
    sequences: Sequence[Sequence[int]],
    *,
    batch_tokens: int = BATCH_TOKENS,
    pad_id: int = 0,
) -> list[list[float]]:
    """The log-probability of each id of a sequence but the first, given those before it, in nats.

    A batch has at most `batch_tokens` positions, padding counted, or a single sequence. No sequence may have
    more ids after its first than the model has positions.
    """
    found: list[list[float]] = [[] for _ in sequences]
    lengths = [len(each) - 1 for each in sequences]
    most = model.max_length or sys.maxsize
    with torch.no_grad(), deterministic([model]):
        for places in by_length(lengths, batch_tokens):
            inputs, counts = padded([sequences[place][:-1] for place in places], pad_id, most=most)
            labels, _ = padded([sequences[place][1:] for place in places], pad_id, most=most)
            states = model.states(inputs.to(model.device))
            rows = _projected(model, states, labels.to(model.device)).tolist()
            for place, row, count in zip(places, rows, counts.tolist(), strict=True):
                found[place] = row[:count]
    return found


def _projected(
    model: DecoderOnly, states: Float[Tensor, "rows len d_model"], labels: Int64[Tensor, "rows len"]
) -> Float[Tensor, "rows len"]:
    """The log-probability of each label by the states, on the CPU."""
    parts = []
    for some, ids in zip(
        states.flatten(0, 1).split(PROJECTED), labels.flatten().split(PROJECTED), strict=True
    ):
        logits = model.project(some).float()
        parts.append((logits.gather(1, ids[:, None])[:, 0] - logits.logsumexp(dim=1)).cpu())
    return torch.cat(parts).double().view(labels.shape)
