"""The most probable tokens of each row, on the host; ties go to the lower id."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from regard.errors import OutputIsNaN

CHUNK = 128
CHUNKS_OF_VALUE = 4  # for each of the largest values; with fewer chunks one step is faster than two


@dataclass(frozen=True)
class TopCandidates:
    """The ranking by probability: the `size` most probable tokens, best first."""

    size: int

    def __call__(
        self, log_probs: Float[Tensor, "rows vocab"]
    ) -> tuple[Float64[np.ndarray, "rows size"], Int64[np.ndarray, "rows size"]]:
        return argmax(log_probs) if self.size == 1 else top_candidates(log_probs, self.size)


def top_candidates(
    log_probs: Float[Tensor, "rows vocab"], size: int
) -> tuple[Float64[np.ndarray, "rows size"], Int64[np.ndarray, "rows size"]]:
    """The `size` largest values of each row (the whole row where it is shorter) and their ids.

    Sorted; of equal values the one with the lower id comes first. `torch.topk` promises nothing
    about ties, so one value more is computed: rows in which it equals the last are sorted whole.
    """
    vocab = log_probs.size(1)
    if size >= vocab:
        return _sorted(log_probs, vocab)
    values, ids = (part.cpu().numpy() for part in _largest(log_probs, size + 1))
    doubtful = (values[:, size] == values[:, size - 1]) & np.isfinite(values[:, size])
    values, ids = values[:, :size].astype(np.float64), ids[:, :size]
    if (values[:, 1:] == values[:, :-1]).any():
        order = np.lexsort((ids, -values))
        values, ids = np.take_along_axis(values, order, 1), np.take_along_axis(ids, order, 1)
    if doubtful.any():
        values[doubtful], ids[doubtful] = _sorted(log_probs[torch.from_numpy(doubtful)], size)
    return values, ids


def argmax(
    log_probs: Float[Tensor, "rows vocab"],
) -> tuple[Float64[np.ndarray, "rows 1"], Int64[np.ndarray, "rows 1"]]:
    """The most probable token of each row: PyTorch promises the first of equal maxima."""
    values, ids = log_probs.max(dim=1, keepdim=True)
    return values.cpu().numpy().astype(np.float64), ids.cpu().numpy()


def _sorted(
    log_probs: Float[Tensor, "rows vocab"], size: int
) -> tuple[Float64[np.ndarray, "rows size"], Int64[np.ndarray, "rows size"]]:
    values, ids = log_probs.sort(dim=1, descending=True, stable=True)
    return values[:, :size].cpu().numpy().astype(np.float64), ids[:, :size].cpu().numpy()


def _largest(
    log_probs: Float[Tensor, "rows vocab"], size: int
) -> tuple[Float[Tensor, "rows size"], Int64[Tensor, "rows size"]]:
    """`topk`, in two steps: the `size` chunks with the largest maxima hold the `size` largest values.

    Of values equal to the last either may come.
    """
    # 320 rows of 10,000 on one core: 1.1 ms, not 6.0 ms
    rows, vocab = log_probs.shape
    chunks = vocab // CHUNK
    if chunks < CHUNKS_OF_VALUE * size:
        return log_probs.topk(size, dim=1)
    whole = log_probs[:, : chunks * CHUNK].unflatten(1, (chunks, CHUNK))
    chosen = whole.amax(dim=2).topk(size, dim=1).indices
    starts = torch.arange(CHUNK, device=log_probs.device)
    candidates = (chosen[:, :, None] * CHUNK + starts).flatten(1)
    rest = torch.arange(chunks * CHUNK, vocab, device=log_probs.device).expand(rows, -1)
    candidates = torch.cat((candidates, rest), dim=1)
    values, places = log_probs.gather(1, candidates).topk(size, dim=1)
    return values, candidates.gather(1, places)


def without(
    banned: Sequence[int | Int64[np.ndarray, " rows"]],
    size: int,
    values: Float64[np.ndarray, "rows candidates"],
    ids: Int64[np.ndarray, "rows candidates"],
) -> tuple[Float64[np.ndarray, "rows size"], Int64[np.ndarray, "rows size"]]:
    """The first `size` candidates of each row that are not banned: one token of all rows, or one of each."""
    barred = np.zeros(ids.shape, bool)
    for token in banned:
        barred |= ids == (token if isinstance(token, int) else token[:, None])
    if barred.any():
        order = barred.argsort(axis=1, kind="stable")
        values = np.where(barred, -np.inf, values)  # where fewer than `size` are left
        values, ids = np.take_along_axis(values, order, 1), np.take_along_axis(ids, order, 1)
    return values[:, :size], ids[:, :size]


def without_choice(
    live: Int64[np.ndarray, " live"],
    values: Float64[np.ndarray, "rows size"],
    others: Float64[np.ndarray, " rows"] | None = None,
) -> Int64[np.ndarray, " stuck"]:
    """The rows in which the rules forbid every token. `others`: log-probabilities of one more token of each.

    Raises:
        OutputIsNaN: the model's output is NaN.
    """
    if np.isnan(values[live]).any() or (others is not None and np.isnan(others[live]).any()):
        raise OutputIsNaN
    return live[values[live, 0] == -np.inf]
