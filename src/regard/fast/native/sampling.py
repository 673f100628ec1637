"""Sampling from logits by sampling.c: temperature, top-k, top-p and min-p, and a token for each row."""

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from regard.fast.native.kernels import constant, kernel, threads_for

TOKEN = 8  # bytes of `Token` of sampling.c
WORK = 16  # multiplications that take as long as the work for one logit


class Filters(ctypes.Structure):
    """The struct of kernels.h. These values change nothing: temperature 1, top_k 0, top_p 1, min_p 0."""

    _fields_ = [
        *[(name, ctypes.c_float) for name in ("temperature", "top_p", "min_p")],
        ("top_k", ctypes.c_long),
    ]


class SampledTokens(NamedTuple):
    """Log-probabilities, which no filter changes, and ids of the tokens; those of the ids `asked`.

    Log-probabilities are logits - the greatest of the row - `log_sums`.
    """

    candidates: tuple[Float[Tensor, "rows 1"], Int64[Tensor, "rows 1"], Float[Tensor, " rows"]]
    log_sums: Float[Tensor, " rows"]


def sample_tokens(
    logits: Float[Tensor, "rows vocab"],
    filters: Filters,
    noise: Float64[Tensor, " rows"],
    banned: Int64[Tensor, "rows banned"],
    asked: Int64[Tensor, " rows"],
) -> SampledTokens:
    """A token of each row.

    Its log-probability is -inf if all tokens are banned, and NaN if the logits are NaN or infinite.

    Args:
        noise: from 0 to 1; the token is the one at which the sum of the probabilities exceeds it.
        banned: ids that are never chosen; negative ones stand for none.
    """
    logits, (rows, vocab) = logits.contiguous(), logits.shape
    values, ids = torch.empty(rows, 1), torch.empty(rows, 1, dtype=torch.int64)
    asked_log_probs, log_sums = torch.empty(rows), torch.empty(rows)
    threads = threads_of_sampling(rows, vocab)
    weights, tokens = scratch(threads, vocab)
    banned, noise, asked = banned.contiguous(), noise.contiguous(), asked.contiguous()
    kernel("sample_tokens")(
        logits.data_ptr(), rows, vocab, banned.data_ptr(), banned.size(1), banned.stride(0),
        ctypes.addressof(filters), noise.data_ptr(), asked.data_ptr(), values.data_ptr(), ids.data_ptr(),
        asked_log_probs.data_ptr(), log_sums.data_ptr(), weights.data_ptr(), tokens.data_ptr(), threads,
    )  # fmt: skip
    return SampledTokens((values, ids, asked_log_probs), log_sums)


def threads_of_sampling(rows: int, vocab: int) -> int:
    """The threads of the kernel for so many rows."""
    return threads_for(rows * vocab * WORK)


def scratch(threads: int, vocab: int) -> Sequence[Tensor]:
    """The scratch memory of the kernel: weights and tokens."""
    padded = vocab + constant("panel_width")  # whole vectors
    return torch.empty(threads, padded), torch.empty(threads, vocab * TOKEN, dtype=torch.uint8)
