"""Attribution of an answer to input tokens: gradient x input and integrated gradients.

The log-probability of the answer, in nats, is attributed to token embeddings before positions are added.
Integrated gradients (Sundararajan et al. 2017) follow the straight path from zero embeddings to the real
ones; their sum is the gain in log-probability along that path (completeness).
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.decoding.batches import deterministic
from regard.errors import ConfigError, did_you_mean
from regard.inspection.answer import Answer, answer_of, max_batch_size
from regard.inspection.numbers_given import refuse_other_count
from regard.inspection.own_thread import in_this_thread
from regard.inspection.passes import ForcedPass, SequenceName
from regard.layers.embedding import TokenEmbedding
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.encoder_only import EncoderOnly
from regard.models.model import Model
from regard.models.recurrent import Recurrent

Method = Literal["gradient", "integrated"]
POINTS = 64  # at which integrated gradients evaluate the gradient first
MOST_POINTS = 1024  # where rows still miss too much
MOST_MISSING_SHARE = 0.1  # of its gain, for a row that can be relied on;
MOST_MISSING_NATS = 0.1  # or so much
# Most of them are evenly spread over the logarithm of the fraction, from here on: a model that normalises
# what it reads changes most close to zero. 16 evenly spread points missed 10 of 12 nats of a translation.
NEAR = 1e-4
PART_POINTS = 8  # of each part, where parts are halved
LOWEST_POWER = -30  # of ten, of the smallest fraction; float32 ends at -38


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """`values[i, j]`: how much token j of the sequence `columns` raises (below 0: lowers) answer i."""

    method: Method
    columns: SequenceName
    values: Float[Tensor, "answers columns"]
    missing: Float[Tensor, " answers"] | None  # "integrated" alone, in nats: the gain minus a row's sum

    @property
    def incomplete(self) -> list[int]:
        """The rows of integrated gradients whose sum misses more than a tenth of the gain, and 0.1 nats."""
        if self.missing is None:
            return []
        return misses_much(self.missing, self.missing + self.values.sum(dim=1)).nonzero()[:, 0].tolist()


def attributions(
    forced: ForcedPass,
    *,
    method: Method = "gradient",
    columns: SequenceName | None = None,
    points: int | None = None,
) -> Attribution:
    """The attribution of each token of the answer to the tokens of `columns`; a prompt is not attributed.

    `columns` is "source", "text" or "read"; None takes the first that the pass has. `points` is the number
    of points on the path of integrated gradients, most of them close to zero. None: 64, and up to 1024 where
    the path has sharp turns, which are then found by the gains of its parts. `incomplete` of the result are
    the rows that still miss much.

    Raises:
        ConfigError: the pass has no such sequence, there is no such method or no point, or the model's answer
            has no probability.
    """
    if method not in get_args(Method):
        raise ConfigError(f"there is no method {method!r}", did_you_mean(method, get_args(Method)))
    if points is not None:
        refuse_other_count("points", points, "the path needs one point or more; the default is a good one")
    columns = columns or forced.input_name
    if columns == "written" or columns not in forced.sequences:
        raise ConfigError(
            f"nothing can be attributed to {columns!r}", "name a sequence that this model reads as input"
        )
    path = PathFromZero(forced, columns, answer_of(forced))
    if method == "gradient":
        values, missing = path.attribute([1.0], [1.0]), None
    else:
        values, gain = path.attribute(*points_on_path(points or POINTS)), path.total_gain()
        if points is None and misses_much(gain - values.sum(dim=1), gain).any():
            values = min((values, refined(path, gain)), key=lambda each: _most_missing(each, gain))
        missing = gain - values.sum(dim=1)
    return Attribution(method=method, columns=columns, values=values, missing=missing)


def misses_much(
    missing: Float[Tensor, " answers"], gain: Float[Tensor, " answers"]
) -> Bool[Tensor, " answers"]:
    """True for rows that miss more than a share of their gain, and more than a few nats; or are NaN."""
    return ~(missing.abs() <= (MOST_MISSING_SHARE * gain.abs()).clamp(min=MOST_MISSING_NATS))


def points_on_path(count: int) -> tuple[list[float], list[float]]:
    """Fractions of the path and their weights: Gauss-Legendre up to `NEAR`, then in the logarithm.

    The weights sum to 1.
    """
    near = max(1, count // 16)
    if count <= near:
        return _gauss(count, 0.0, 1.0)
    first, first_weights = _gauss(near, 0.0, NEAR)
    logarithms, widths = _gauss(count - near, math.log(NEAR), 0.0)
    fractions = np.exp(logarithms)
    weights = fractions * widths
    weights *= (1.0 - NEAR) / weights.sum()  # which few points only approximate
    return [*first, *fractions.tolist()], [*first_weights, *weights.tolist()]


def _gauss(count: int, start: float, end: float) -> tuple[list[float], list[float]]:
    """The points and weights of Gauss and Legendre between two numbers."""
    points, weights = np.polynomial.legendre.leggauss(count)  # on [-1, 1]
    half = (end - start) / 2
    return (start + half * (points + 1)).tolist(), (half * weights).tolist()


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A part of the path, with its attributions from a few points, and its gain."""

    start: float
    end: float
    gain: Float[Tensor, " answers"]
    values: Float[Tensor, "answers columns"]

    @property
    def error(self) -> Float[Tensor, " answers"]:
        return self.gain - self.values.sum(dim=1)


def refined(path: "PathFromZero", gain: Float[Tensor, " answers"]) -> Float[Tensor, "answers columns"]:
    """Integrated gradients from parts of the path; the part that misses most is halved again and again.

    The gain of a part is known from its ends, so that each part's error is known. The first parts are powers
    of ten: a pre-norm model without added positions multiplies states close to zero by a large factor in each
    layer, so that its output may change where the fraction is 1e-12.
    """
    edges = [0.0, *(10.0**power for power in range(LOWEST_POWER, 1))]
    at = path.log_probs_at(edges)
    same = (at - at[0]).abs().amax(dim=1) < MOST_MISSING_NATS / 10
    first = max(1, int(same.long().cumprod(dim=0).sum()) - 1)  # nothing changes before this edge
    edges, at = [0.0, *edges[first:]], torch.cat([at[:1], at[first:]])
    parts = [_part(path, *ends, at[i + 1] - at[i]) for i, ends in enumerate(pairwise(edges))]
    used = PART_POINTS * len(parts)
    while used + 2 * PART_POINTS <= MOST_POINTS:
        if not misses_much(sum_of([each.error.abs() for each in parts]), gain).any():
            break
        worst = max(range(len(parts)), key=lambda i: float(parts[i].error.abs().max()))
        start, end, whole = parts[worst].start, parts[worst].end, parts[worst].gain
        middle = math.sqrt(start * end) if start else end / 2
        before, half = path.log_probs_at([start, middle])
        parts[worst : worst + 1] = [
            _part(path, start, middle, half - before),
            _part(path, middle, end, whole - (half - before)),
        ]
        used += 2 * PART_POINTS
    return sum_of([each.values for each in parts])


def _most_missing(values: Float[Tensor, "answers columns"], gain: Float[Tensor, " answers"]) -> float:
    """What the worst row misses; infinite for numbers that are not finite."""
    missing = float((gain - values.sum(dim=1)).abs().max())
    return missing if math.isfinite(missing) else math.inf


def sum_of(tensors: Sequence[Tensor]) -> Tensor:
    """The sum of tensors of one shape."""
    return torch.stack([*tensors]).sum(dim=0)


def _part(path: "PathFromZero", start: float, end: float, gain: Float[Tensor, " answers"]) -> _Part:
    """A part of the path; its points are evenly spread over the logarithm, from zero over the fraction."""
    if not start:
        fractions, weights = _gauss(PART_POINTS, start, end)
    else:
        logarithms, widths = _gauss(PART_POINTS, math.log(start), math.log(end))
        fractions = np.exp(logarithms).tolist()
        weights = [fraction * width for fraction, width in zip(fractions, widths, strict=True)]
    return _Part(start=start, end=end, gain=gain, values=path.attribute(fractions, weights))


class PathFromZero:
    """The path from zero embeddings to those of one sequence; the other inputs of the pass stay fixed."""

    def __init__(self, forced: ForcedPass, columns: SequenceName, answer: Answer) -> None:
        self.forced, self.answer = forced, answer
        self.embedding = token_embedding(forced.model, columns)
        read = torch.tensor(forced.sequences[columns], device=forced.model.device)
        with torch.no_grad():
            self.embedded: Float[Tensor, "columns width"] = self.embedding(read[None])[0]

    def attribute(
        self, fractions: Sequence[float], weights: Sequence[float]
    ) -> Float[Tensor, "answers columns"]:
        """The weighted sum of gradients at these fractions of the path, times the embeddings."""
        batch_size, answers = max_batch_size(self.forced), len(self.answer.ids)
        total = torch.zeros(answers, *self.embedded.shape, device=self.embedded.device)
        for start in range(0, len(fractions) if answers else 0, batch_size):
            chunk = slice(start, start + batch_size)
            total += self._gradients(torch.tensor(fractions[chunk]), torch.tensor(weights[chunk]))
        return (total * self.embedded).sum(dim=-1).cpu()

    def _gradients(
        self, fractions: Float[Tensor, " shares"], weights: Float[Tensor, " fractions"]
    ) -> Float[Tensor, "answers columns width"]:
        with torch.enable_grad():
            embeddings = self._scaled(fractions).requires_grad_()
            weighed = (self._log_probs(embeddings) * weights.to(embeddings)[:, None]).sum(dim=0)
            last = len(weighed) - 1
            found = [
                torch.autograd.grad(answer, embeddings, retain_graph=number < last)[0].sum(dim=0)
                for number, answer in enumerate(weighed)
            ]
        return torch.stack(found)

    @torch.no_grad()
    def total_gain(self) -> Float[Tensor, " answers"]:
        """The log-probability of each answer at the end of the path, minus that at its start."""
        at_start, at_end = self.log_probs_at([0.0, 1.0])
        return at_end - at_start

    @torch.no_grad()
    def log_probs_at(self, fractions: Sequence[float]) -> Float[Tensor, "fractions answers"]:
        """The log-probability of each answer at these fractions of the path."""
        size = max_batch_size(self.forced)
        starts = range(0, len(fractions), size)
        found = [self._log_probs(self._scaled(torch.tensor(fractions[at : at + size]))) for at in starts]
        return torch.cat(found).cpu()

    def _scaled(self, fractions: Float[Tensor, " shares"]) -> Float[Tensor, "fractions columns width"]:
        return fractions.to(self.embedded)[:, None, None] * self.embedded

    def _log_probs(self, embeddings: Float[Tensor, "rows columns width"]) -> Float[Tensor, "rows answers"]:
        model, rows = self.forced.model, len(embeddings)
        with deterministic([model]), _replaced_output(self.embedding, embeddings):
            output = model(*(each.expand(rows, *each.shape[1:]) for each in self.forced.inputs))
        return self.answer.log_probs(output)


@contextmanager
def _replaced_output(embedding: TokenEmbedding, x: Float[Tensor, "rows columns width"]) -> Iterator[None]:
    """A context in which `embedding` returns `x` for any input."""

    def hook(_: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        rows = torch.arange(len(output), device=x.device) % len(
            x
        )  # a recurrent encoder pads its batch with copies of rows
        return x[rows]

    handle = embedding.register_forward_hook(in_this_thread(hook))
    try:
        yield
    finally:
        handle.remove()


def token_embedding(model: Model, columns: SequenceName) -> TokenEmbedding:
    """The embedding with which the model reads this sequence."""
    match model:
        case EncoderDecoder():
            return (model.encoder if columns == "source" else model.decoder).input.embedding
        case Recurrent():
            return (model.encoder if columns == "source" else model.decoder).embedding
        case EncoderOnly():
            return model.encoder.input.embedding
        case DecoderOnly():
            return model.input.embedding
    raise ConfigError(
        f"a {type(model).__name__} reads no tokens that have embeddings", "it needs a model that reads texts"
    )
