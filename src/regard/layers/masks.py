"""Masks: which positions may be looked at. Boolean, True = may look, everywhere.

All have the shape "batch head tgt_len src_len", with 1 where an axis does not matter, so that they
combine with `&` and fit the scores of any attention.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding_mask(lengths: Int[Tensor, " batch"], max_len: int) -> Bool[Tensor, "batch 1 1 {max_len}"]:
    """Every position may look at the first `lengths` positions of its own row, and at no padding."""
    positions = torch.arange(max_len, device=lengths.device)
    return (positions < lengths[:, None])[:, None, None, :]


def causal_mask(
    tgt_len: int, src_len: int | None = None, *, device: torch.device | str | None = None
) -> Bool[Tensor, "1 1 {tgt_len} src_len"]:
    """A position may look at itself and at what came before it.

    With `src_len` > `tgt_len` the queries are the last `tgt_len` of the `src_len` positions, as they
    are when a cache holds the earlier ones. (`is_causal` of PyTorch's kernel aligns them with the
    first instead, so that a single query sees only the first key.)
    """
    query, key = _positions(tgt_len, src_len, device)
    return (key <= query)[None, None]


def window_mask(
    tgt_len: int, window: int, src_len: int | None = None, *, device: torch.device | str | None = None
) -> Bool[Tensor, "1 1 {tgt_len} src_len"]:
    """A position may look at itself and at the `window` - 1 positions before it.

    Beltagy et al. 2020, the causal half of the sliding window; aligned like `causal_mask`.
    """
    query, key = _positions(tgt_len, src_len, device)
    return ((key <= query) & (key > query - window))[None, None]


def prefix_mask(
    prefix_lengths: Int[Tensor, " batch"], max_len: int
) -> Bool[Tensor, "batch 1 max_len max_len"]:
    """All may look at the prefix of their row; beyond it, only back (Raffel et al. 2020, figure 3)."""
    return padding_mask(prefix_lengths, max_len) | causal_mask(max_len, device=prefix_lengths.device)


def document_mask(documents: Int[Tensor, "batch len"]) -> Bool[Tensor, "batch 1 len len"]:
    """Several documents in one row do not see each other: `documents` numbers that of each position."""
    return (documents[:, :, None] == documents[:, None, :])[:, None]


def _positions(
    tgt_len: int, src_len: int | None, device: torch.device | str | None
) -> tuple[Int[Tensor, "{tgt_len} 1"], Int[Tensor, " src_len"]]:
    """Where queries and keys stand: the queries are the last of the keys' positions."""
    src_len = tgt_len if src_len is None else src_len
    key = torch.arange(src_len, device=device)
    query = torch.arange(src_len - tgt_len, src_len, device=device)
    return query[:, None], key
