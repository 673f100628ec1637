"""Steps of greedy or beam search by one call (search.c), as long as no hypothesis ends or is dropped."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from regard.fast.largest import CandidateTensors
from regard.fast.native.kernels import constant, kernel
from regard.fast.native.linear import PackedLinear
from regard.fast.native.plan import AttentionInputs, Plan, refuse_ids

NUMBER = 8  # bytes


class Search(ctypes.Structure):
    """The struct of search.c."""

    _fields_ = [
        *[(name, ctypes.c_void_p) for name in (
            "output", "values", "ids", "asked_log_probs", "asked", "block", "statistics", "last", "ranks",
            "origins", "log_probs", "tokens", "gains", "room", "banned", "ends", "bars", "greatest",
        )],
        *[(name, ctypes.c_long) for name in (
            "num_banned", "num_ends", "size", "steps", "candidates", "plus_features", "turns_features",
        )],
        ("scale", ctypes.c_float),
    ]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SearchState:
    """A search between two steps. Rows come in groups of `size`: a beam, or greedy hypotheses of size 1.

    Attributes:
        last: the last id of each row.
        ranks: of each row in its group, from 0 on, the best first.
        log_probs: of each row; `greatest`: the greatest divisor of it for each group.
        bars: a hypothesis whose log-probability, over the greatest divisor, does not exceed the bar of its
            group is dropped.
        ends: tokens that end a hypothesis; `banned`: tokens that no hypothesis has.
        asked: an id of each row whose log-probability is wanted.
        candidates: how many next tokens of each row are found, banned ones among them.
    """

    size: int
    last: Int64[Tensor, " rows"]
    ranks: Int64[Tensor, " rows"]
    log_probs: Float64[Tensor, " rows"]
    bars: Float64[Tensor, " groups"]
    greatest: Float64[Tensor, " groups"]
    ends: Sequence[int]
    banned: Sequence[int]
    asked: Int64[Tensor, " rows"]
    candidates: int


@dataclass(frozen=True, kw_only=True)
class StepsTaken:
    """What a search gained by some steps, and the candidates of one step more, for the caller to choose from.

    Row i continues what row `origins[i]` was by `tokens[i]`, whose log-probabilities are `gains[i]`.
    """

    origins: Int64[Tensor, " rows"]
    ranks: Int64[Tensor, " rows"]
    log_probs: Float64[Tensor, " rows"]
    tokens: Int64[Tensor, "rows taken"]
    gains: Float64[Tensor, "rows taken"]
    candidates: CandidateTensors


def run_steps(
    plan: Plan,
    output: PackedLinear,
    state: SearchState,
    inputs: AttentionInputs,
    steps: int,
    scale: float,
) -> StepsTaken:
    """Run `plan` and the `output` layer, and continue the hypotheses, until one ends or is dropped.

    Each step does what a search does in Python, to the bit.

    Args:
        inputs: of so many steps; slots, positions and vectors are those of the first step's rows, then those
            of the next step's.
        steps: at most. The hypotheses are not continued by the last one, whose candidates are returned.
        scale: a factor of the plan's results.

    Raises:
        IndexError: an id has no embedding.
    """
    rows = len(state.last)
    last, ranks, log_probs = (each.clone() for each in (state.last, state.ranks, state.log_probs))
    origins, tokens = torch.arange(rows), torch.empty(rows, steps, dtype=torch.int64)
    gains = torch.empty(rows, steps, dtype=torch.float64)
    values = torch.empty(rows, state.candidates)
    ids = torch.empty(rows, state.candidates, dtype=torch.int64)
    asked_log_probs, block = torch.empty(rows), torch.empty(rows, constant("block_size"))
    statistics = torch.empty(rows, constant("statistics_size"), dtype=torch.uint8)
    banned, ends = (torch.tensor(each, dtype=torch.int64) for each in (state.banned, state.ends))
    widest = max(inputs.table.size(1) * inputs.table.element_size(), steps * NUMBER)
    room = torch.empty(state.size, widest, dtype=torch.uint8)
    search = Search(
        output.address,
        *(each.data_ptr() for each in (
            values, ids, asked_log_probs, state.asked, block, statistics, last, ranks, origins, log_probs,
            tokens, gains, room, banned, ends, state.bars, state.greatest,
        )),
        len(banned), len(ends), state.size, steps, state.candidates,
        _features(inputs.positional), _features(inputs.turns), scale,
    )  # fmt: skip
    prepared = plan.prepared(last, inputs, output.levels)
    taken = kernel("run_steps")(*plan.calls, ctypes.addressof(prepared.run), ctypes.addressof(search))
    if taken < 0:
        refuse_ids()
    return StepsTaken(
        origins=origins,
        ranks=ranks,
        log_probs=log_probs,
        tokens=tokens[:, :taken],
        gains=gains[:, :taken],
        candidates=(values, ids, asked_log_probs),
    )


def _features(vectors: Float32[Tensor, "rows features"] | None) -> int:
    return 0 if vectors is None else vectors.size(1)
