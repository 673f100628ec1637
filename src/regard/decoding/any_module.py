"""Decode any module by regard's searches: a module that gives logits needs no cache and no base class."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.decoding.base_search import Search
from regard.decoding.batches import deterministic
from regard.decoding.hypothesis import Hypothesis, Request
from regard.errors import ConfigError
from regard.models.probabilities import refuse_probabilities

ARGUMENTS = ("src_ids", "src_lengths", "tgt_ids")
Forward = Callable[[Tensor, Tensor, Tensor], Float[Tensor, "rows tgt_len vocab"]]
Ids = Int64[Tensor, "rows src_len"] | Int64[np.ndarray, "rows src_len"] | Sequence[Sequence[int]]
Lengths = Int64[Tensor, " rows"] | Int64[np.ndarray, " rows"] | Sequence[int]


class ModuleStepper:
    """Steps of a function from ids to logits, which reads all ids again at each step.

    Args:
        forward: `src_ids` [rows, src_len], `src_lengths` [rows], `tgt_ids` [rows, tgt_len] -> logits of the
            next id at each target position, [rows, tgt_len, vocab].

        least_vocab: the least number of logits of a position, for the end, which the search reads.

    Raises:
        ConfigError: `forward` does not take these three, or gives something else, such as probabilities.
    """

    multiple = 1

    def __init__(self, forward: Forward, least_vocab: int = 1) -> None:
        _refuse_other_arguments(forward)
        self.forward, self.least_vocab = forward, least_vocab

    def start(self, src_ids: Int64[Tensor, "rows src_len"], src_lengths: Int64[Tensor, " rows"]) -> None:
        self.sources, self.lengths = src_ids, src_lengths
        self.targets = src_ids.new_empty(len(src_ids), 0)

    def step(self, ids: Int64[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        self.targets = torch.cat([self.targets, ids[:, None].to(self.targets.device)], dim=1)
        logits = self.forward(self.sources, self.lengths, self.targets)
        _refuse_other_logits(logits, self.targets, self.least_vocab)
        if self.targets.size(1) == 1:
            refuse_probabilities(logits[:, -1], "the module")
        return logits[:, -1].float().log_softmax(dim=1).cpu()

    def select(self, rows: Int64[Tensor, " new_rows"]) -> None:
        rows = rows.to(self.sources.device)
        self.sources, self.lengths = self.sources[rows], self.lengths[rows]
        self.targets = self.targets[rows]


def _refuse_other_arguments(forward: Any) -> None:
    """Raise a ConfigError if a module or function cannot be called with three arguments."""
    called = forward.forward if isinstance(forward, nn.Module) else forward
    try:
        inspect.signature(called).bind(*ARGUMENTS)
    except TypeError as error:
        name = type(forward).__name__ if isinstance(forward, nn.Module) else "the function"
        raise ConfigError(
            f"{name} cannot be called with ({', '.join(ARGUMENTS)}): {error}",
            "of a language model give a function: lambda src_ids, src_lengths, tgt_ids: model(tgt_ids)",
        ) from error
    except ValueError:  # a built-in function without a signature
        return


def _refuse_other_logits(logits: Any, tgt_ids: Tensor, least_vocab: int) -> None:
    """Raise a ConfigError if this is not a tensor [rows, tgt_len, vocab]."""
    shape = [*logits.shape] if isinstance(logits, Tensor) else None
    if shape is None or len(shape) != 3 or shape[:2] != [*tgt_ids.shape]:
        what = f"the shape {shape}" if shape is not None else f"a {type(logits).__name__}"
        rows, length = tgt_ids.shape
        raise ConfigError(
            f"the module gives {what}, not logits [rows, tgt_len, vocab], here [{rows}, {length}, vocab]",
            "give the logits of the next id at each target position",
        )
    if shape[2] < least_vocab:
        raise ConfigError(
            f"the module gives {shape[2]} logits, none for the end, eos_id = {least_vocab - 1}",
            "set eos_id of the search to an id that the module writes",
        )


def _refuse_other_sources(
    src_ids: Int64[Tensor, "rows src_len"], src_lengths: Int64[Tensor, " rows"]
) -> None:
    """Raise a ConfigError for lengths that rows do not have, and for ids below 0."""
    width = src_ids.size(1)
    for row, (ids, length) in enumerate(zip(src_ids, src_lengths.tolist(), strict=True)):
        if not 0 <= length <= width:
            raise ConfigError(
                f"src_lengths[{row}] is {length}, but src_ids has the width {width}",
                "count the ids of each row that are not padding",
            )
        if bool((ids[:length] < 0).any()):
            raise ConfigError(
                f"src_ids[{row}] has the id {int(ids[:length].min())}",
                "ids count from 0; padding is at the end of a row, and src_lengths does not count it",
            )


def _tensor(name: str, given: Any, axes: int) -> Int64[Tensor, "..."]:
    """Ids or lengths as a tensor.

    Raises:
        ConfigError: they are not whole numbers, or have another number of axes.
    """
    try:
        found = torch.as_tensor(given)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{name} cannot be a tensor: {error}", "pad the rows: pad of regard.data") from None
    if not found.numel():
        return torch.zeros([0] * axes, dtype=torch.int64)
    if found.is_floating_point() or found.ndim != axes:
        raise ConfigError(
            f"{name} has dtype {found.dtype} and shape {[*found.shape]}",
            f"give whole numbers with {axes} {'axes' if axes > 1 else 'axis'}",
        )
    return found.long()


def decode(
    module: nn.Module | Forward,
    src_ids: Ids,
    src_lengths: Lengths,
    search: Search,
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, best first, by `BeamSearch(...)`, `GreedySearch()` or `Sampling(...)`.

    `module` is called as `module(src_ids, src_lengths, tgt_ids)`, all tensors of int64, and gives logits
    [rows, tgt_len, vocab]. `src_ids` are padded to one length (`pad` of regard.data), `src_lengths` their own
    lengths. The module is put into evaluation mode for the time. A language model ignores the first two
    arguments. A model of regard is faster with `decode_all`, because its cache keeps what was computed.

    Targets begin with the `bos_id` of the search, and end with its `eos_id`. A `Hypothesis` has its `ids`
    without these two, its `log_prob` in nats with the end counted, and its `score`, by which they are sorted.

    Args:
        module: a module, or a function of these three arguments.
        src_ids: a tensor on the device of the module, an array or lists; padded on the right.
        src_lengths: how many ids of each row are not padding; the search limits the length of its answers by
            them.
        search: such as `BeamSearch(size=4, n_best=2, bos_id=1, eos_id=2)`.

    Returns:
        For each source, at most `search.n_best` hypotheses.

    Raises:
        ConfigError: the search guesses tokens and takes them back; or the module does not take these three
            arguments, or gives something else, such as probabilities; or the sources are not padded rows of
            ids, or have other lengths.
    """
    if search.alone:
        raise ConfigError(
            f"{type(search).__name__} takes tokens back, which needs a model with a cache",
            "leave out guesses",
        )
    stepper = ModuleStepper(module, 1 + search.eos_id)
    src_ids, src_lengths = _tensor("src_ids", src_ids, 2), _tensor("src_lengths", src_lengths, 1)
    if len(src_ids) != len(src_lengths):
        raise ConfigError(f"{len(src_ids)} sources have {len(src_lengths)} lengths", "give one for each")
    if not len(src_ids):
        return []
    _refuse_other_sources(src_ids, src_lengths)
    requests = [
        Request(src_len=int(length), index=index, source=tuple(row[: int(length)].tolist()))
        for index, (row, length) in enumerate(zip(src_ids, src_lengths, strict=True))
    ]
    with torch.no_grad(), deterministic([module] if isinstance(module, nn.Module) else []):
        stepper.start(src_ids, src_lengths)
        return search(stepper, requests)
