"""Attribution of an answer to input tokens: gradient x input and integrated gradients.

The log-probability of the answer, in nats, is attributed to token embeddings before positions are added.
Integrated gradients (Sundararajan et al. 2017) follow the straight path from zero embeddings to the real
ones; their sum is the gain in log-probability along that path (completeness).
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
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
POINTS = 64  # at which integrated gradients evaluate the gradient
# Most of them are evenly spread over the logarithm of the fraction, from here on: a model that normalises
# what it reads changes most close to zero. 16 evenly spread points missed 10 of 12 nats of a translation.
NEAR = 1e-4


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """`values[i, j]`: how much token j of the sequence `columns` raises (below 0: lowers) answer i."""

    method: Method
    columns: SequenceName
    values: Float[Tensor, "answers columns"]
    missing: Float[Tensor, " answers"] | None  # "integrated" alone, in nats: the gain minus a row's sum


def attributions(
    forced: ForcedPass,
    *,
    method: Method = "gradient",
    columns: SequenceName | None = None,
    points: int = POINTS,
) -> Attribution:
    """The attribution of each token of the answer to the tokens of `columns`; a prompt is not attributed.

    `columns` is "source", "text" or "read"; None takes the first that the pass has. `points` is the number
    of points on the path of integrated gradients, most of them close to zero.

    Raises:
        ConfigError: the pass has no such sequence, there is no such method or no point, or the model's answer
            has no probability.
    """
    if method not in get_args(Method):
        raise ConfigError(f"there is no method {method!r}", did_you_mean(method, get_args(Method)))
    refuse_other_count("points", points, "the path needs one point or more; the default is a good one")
    columns = columns or forced.input_name
    if columns == "written" or columns not in forced.sequences:
        raise ConfigError(
            f"nothing can be attributed to {columns!r}", "name a sequence that this model reads as input"
        )
    path = _PathFromZero(forced, columns, answer_of(forced))
    if method == "gradient":
        values, missing = path.attribute([1.0], [1.0]), None
    else:
        values = path.attribute(*points_on_path(points))
        missing = path.total_gain() - values.sum(dim=1)
    return Attribution(method=method, columns=columns, values=values, missing=missing)


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


class _PathFromZero:
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
        at_start, at_end = self._log_probs(self._scaled(torch.tensor([0.0, 1.0])))
        return (at_end - at_start).cpu()

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
