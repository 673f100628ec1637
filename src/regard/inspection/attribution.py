"""How much each token that was read speaks for each answer: gradient x input, integrated gradients.

What is attributed is the log-probability of an answer, in nats, to the embeddings of tokens as they enter
the model, before positions are added. Integrated gradients (Sundararajan et al. 2017) go from embeddings of
zero to the real ones, and their sum is what the log-probability gained on the way (completeness).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.decoding.batches import deterministic
from regard.errors import ConfigError
from regard.inspection.answer import Answer, answer_of, max_batch_size
from regard.inspection.passes import ForcedPass, SequenceName
from regard.layers.embedding import TokenEmbedding
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.encoder_only import EncoderOnly
from regard.models.model import Model
from regard.models.recurrent import Recurrent

Method = Literal["gradient", "integrated"]
POINTS = 16  # of integrated gradients


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """`values[i, j]`: how much token j of the sequence `columns` speaks for answer i; below 0, against it."""

    method: Method
    columns: SequenceName
    values: Float[Tensor, "answers columns"]
    missing: Float[Tensor, " answers"] | None  # of "integrated", nats: what was gained less the sum of a row


def attributions(
    forced: ForcedPass,
    *,
    method: Method = "gradient",
    columns: SequenceName | None = None,
    points: int = POINTS,
) -> Attribution:
    """Of each token of the answer to the tokens of `columns`; a prompt is no part of the answer.

    These are the source, a text, or what was read; None: the first of them that there is. `points`: at how
    many places between nothing and the real embeddings integrated gradients are looked at (Gauss-Legendre).

    Raises:
        ConfigError: the pass has no such sequence, or the model's answer has no probability.
    """
    columns = columns or next(name for name in ("source", "text", "read") if name in forced.sequences)
    if columns == "written" or columns not in forced.sequences:
        raise ConfigError(f"nothing can be attributed to {columns!r} here", "it is no sequence that was read")
    course = _PathFromZero(forced, columns, answer_of(forced))
    if method == "gradient":
        values, missing = course.attributed([1.0], [1.0]), None
    else:
        places, weights = np.polynomial.legendre.leggauss(points)  # of the way from -1 to 1
        values = course.attributed(((places + 1) / 2).tolist(), (weights / 2).tolist())
        missing = course.gained() - values.sum(dim=1)
    return Attribution(method=method, columns=columns, values=values, missing=missing)


class _PathFromZero:
    """The way from embeddings of zero to those that a sequence has, all else of the pass as it is."""

    def __init__(self, forced: ForcedPass, columns: SequenceName, answer: Answer) -> None:
        self.forced, self.answer = forced, answer
        self.embedding = token_embedding(forced.model, columns)
        read = torch.tensor(forced.sequences[columns], device=forced.model.device)
        with torch.no_grad():
            self.embedded: Float[Tensor, "columns width"] = self.embedding(read[None])[0]

    def attributed(
        self, shares: Sequence[float], weights: Sequence[float]
    ) -> Float[Tensor, "answers columns"]:
        """Gradients at these shares of the way, weighed, times the embeddings."""
        at_once, answers = max_batch_size(self.forced), len(self.answer.ids)
        total = torch.zeros(answers, *self.embedded.shape, device=self.embedded.device)
        for start in range(0, len(shares) if answers else 0, at_once):
            some = slice(start, start + at_once)
            total += self._gradients(torch.tensor(shares[some]), torch.tensor(weights[some]))
        return (total * self.embedded).sum(dim=-1).cpu()

    def _gradients(
        self, shares: Float[Tensor, " shares"], weights: Float[Tensor, " shares"]
    ) -> Float[Tensor, "answers columns width"]:
        with torch.enable_grad():
            entering = self._at(shares).requires_grad_()
            weighed = (self._log_probs(entering) * weights.to(entering)[:, None]).sum(dim=0)
            last = len(weighed) - 1
            found = [
                torch.autograd.grad(answer, entering, retain_graph=number < last)[0].sum(dim=0)
                for number, answer in enumerate(weighed)
            ]
        return torch.stack(found)

    @torch.no_grad()
    def gained(self) -> Float[Tensor, " answers"]:
        """The log-probability of each answer at the end of the way, less that at its beginning."""
        nothing, everything = self._log_probs(self._at(torch.tensor([0.0, 1.0])))
        return (everything - nothing).cpu()

    def _at(self, shares: Float[Tensor, " shares"]) -> Float[Tensor, "shares columns width"]:
        return shares.to(self.embedded)[:, None, None] * self.embedded

    def _log_probs(self, entering: Float[Tensor, "rows columns width"]) -> Float[Tensor, "rows answers"]:
        model, rows = self.forced.model, len(entering)
        with deterministic([model]), _instead(self.embedding, entering):
            output = model(*(each.expand(rows, *each.shape[1:]) for each in self.forced.inputs))
        return self.answer.log_probs(output)


@contextmanager
def _instead(embedding: TokenEmbedding, x: Float[Tensor, "rows columns width"]) -> Iterator[None]:
    """The embedding gives `x`, whatever it reads."""

    def hook(_: nn.Module, given: tuple[Any, ...], output: Tensor) -> Tensor:
        rows = torch.arange(len(output), device=x.device) % len(x)  # a recurrent encoder fills its batch up
        return x[rows]

    handle = embedding.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def token_embedding(model: Model, columns: SequenceName) -> TokenEmbedding:
    """What the tokens of this sequence enter the model by."""
    match model:
        case EncoderDecoder():
            return (model.encoder if columns == "source" else model.decoder).input.embedding
        case Recurrent():
            return (model.encoder if columns == "source" else model.decoder).embedding
        case EncoderOnly():
            return model.encoder.input.embedding
        case DecoderOnly():
            return model.input.embedding
    raise ConfigError(f"a {type(model).__name__} reads no tokens")
