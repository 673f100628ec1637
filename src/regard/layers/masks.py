"""Attention masks: boolean, True where a query may attend to a key.

All have the shape "batch head tgt_len src_len", with size 1 on axes that do not matter, so that they
can be combined with `&` and broadcast to the scores of any attention.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def real_positions(lengths: Int[Tensor, " batch"], max_len: int) -> Bool[Tensor, "batch {max_len}"]:
    """True for the first `lengths` positions of each row, False for the padding after them."""
    return torch.arange(max_len, device=lengths.device) < lengths[:, None]


def padding_mask(lengths: Int[Tensor, " batch"], max_len: int) -> Bool[Tensor, "batch 1 1 {max_len}"]:
    """Each position may attend to the first `lengths` positions of its row, and not to padding."""
    return real_positions(lengths, max_len)[:, None, None, :]


def causal_mask(
    tgt_len: int, src_len: int | None = None, *, device: torch.device | str | None = None
) -> Bool[Tensor, "1 1 {tgt_len} src_len"]:
    """Each position may attend to itself and to earlier positions.

    If `src_len` > `tgt_len`, the queries are the last `tgt_len` of the `src_len` positions, as when a cache
    holds the earlier ones. (`is_causal` of PyTorch's kernel aligns queries with the first keys instead, so
    that a single query attends to the first key only.)
    """
    query, key = _positions(tgt_len, src_len, device)
    return (key <= query)[None, None]


def window_mask(
    tgt_len: int,
    window: int,
    src_len: int | None = None,
    *,
    bidirectional: bool = False,
    device: torch.device | str | None = None,
) -> Bool[Tensor, "1 1 {tgt_len} src_len"]:
    """Each position may attend to itself and to the `window` - 1 positions before it.

    Beltagy et al. 2020, the causal half of the sliding window; aligned like `causal_mask`. If
    `bidirectional`, it may also attend to the `window` - 1 positions after it.
    """
    query, key = _positions(tgt_len, src_len, device)
    last = query + window - 1 if bidirectional else query
    return ((key <= last) & (key > query - window))[None, None]


def prefix_mask(
    prefix_lengths: Int[Tensor, " batch"], max_len: int
) -> Bool[Tensor, "batch 1 max_len max_len"]:
    """Each position may attend to the prefix of its row, to itself and to earlier positions.

    Raffel et al. 2020, figure 3. `prefix_lengths`: how many positions of each row are its prefix.
    """
    return padding_mask(prefix_lengths, max_len) | causal_mask(max_len, device=prefix_lengths.device)


def document_mask(documents: Int[Tensor, "batch len"]) -> Bool[Tensor, "batch 1 len len"]:
    """Each position may attend to its own document, also to later positions of it.

    `documents` has the number of each position's document. `&` combines this mask with a causal one.
    """
    return (documents[:, :, None] == documents[:, None, :])[:, None]


def _positions(
    tgt_len: int, src_len: int | None, device: torch.device | str | None
) -> tuple[Int[Tensor, "{tgt_len} 1"], Int[Tensor, " src_len"]]:
    """The positions of queries and of keys; the queries are at the last positions."""
    src_len = tgt_len if src_len is None else src_len
    key = torch.arange(src_len, device=device)
    query = torch.arange(src_len - tgt_len, src_len, device=device)
    return query[:, None], key
