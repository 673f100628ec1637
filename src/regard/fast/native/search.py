"""Steps of greedy or beam search by one call (search.c), until one is left to the caller."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from regard.fast.native.kernels import constant, kernel
from regard.fast.native.linear import PackedLinear
from regard.fast.native.plan import AttentionInputs, Plan, refuse_ids

NUMBER = 8  # bytes


class Search(ctypes.Structure):
    """The struct of search.c."""

    _fields_ = [
        *[(name, ctypes.c_void_p) for name in (
            "output", "values", "ids", "asked_log_probs", "asked", "block", "statistics", "last", "ranks",
            "origins", "log_probs", "tokens", "gains", "scratch", "banned", "ends", "penalties",
            "ended_origins", "ended_lengths", "ended_tokens", "ended_gains", "ended_totals",
        )],
        *[(name, ctypes.c_long) for name in (
            "num_banned", "num_ends", "steps", "candidates", "plus_features", "turns_features",
            "size", "most_ends",
        )],
        *[(name, ctypes.c_double) for name in ("greatest", "bar")],
        ("scale", ctypes.c_float),
        *[(name, ctypes.c_long) for name in ("rows", "num_ended")],
    ]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SearchState:
    """A search between two steps: greedy hypotheses, one a row, or the beam of one sentence.

    Attributes:
        last: the last id of each row.
        log_probs: of each row.
        ranks: of each row in the beam, from 0 on, the best first.
        ends: tokens that end a hypothesis; `banned`: tokens that no hypothesis has.
        asked: an id, whose log-probability is found in each row.
        candidates: how many next tokens of each row are found, banned ones among them.
        size: of the beam; 0 for greedy hypotheses.
        most_ends: so many hypotheses of a beam may end before the caller is asked.
        penalties: the divisor of the log-probability of a hypothesis that ends at each step; None if none is
            dropped.
        greatest: the greatest divisor. A hypothesis is kept if its log-probability over it exceeds `bar`, the
            best score of those that ended.
    """

    last: Int64[Tensor, " rows"]
    log_probs: Float64[Tensor, " rows"]
    ranks: Int64[Tensor, " rows"]
    ends: Sequence[int]
    banned: Sequence[int]
    asked: int
    candidates: int
    size: int = 0
    most_ends: int = 0
    penalties: Float64[Tensor, " steps"] | None = None
    greatest: float = 1.0
    bar: float = -float("inf")

    @property
    def most_rows(self) -> int:
        """How many rows there may be."""
        return self.size or len(self.last)


@dataclass(frozen=True, kw_only=True)
class EndedTokens:
    """What a hypothesis that ended gained since row `origin`: without its end, whose gain is the last."""

    origin: int
    tokens: list[int]
    gains: list[float]
    log_prob: float  # of the whole hypothesis


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
    candidates: tuple[Float[Tensor, "rows size"], Int64[Tensor, "rows size"], Float[Tensor, " rows"]]
    ended: list[EndedTokens]  # in the order in which they ended


def run_steps(
    plan: Plan,
    output: PackedLinear,
    state: SearchState,
    inputs: AttentionInputs,
    steps: int,
    scale: float,
) -> StepsTaken:
    """Run `plan` and the `output` layer, and continue the hypotheses, as long as the caller need not decide.

    Each step does what a search does in Python, to the bit. It is left to the caller if a greedy hypothesis
    ends, if more hypotheses of a beam end than may, if none is left, or if a log-probability is not finite.

    Args:
        inputs: of so many steps, one after the other, with `state.most_rows` rows each.
        steps: at most. The hypotheses are not continued by the last one, whose candidates are returned.
        scale: a factor of the plan's results.

    Raises:
        IndexError: an id has no embedding.
    """
    rows, most = len(state.last), state.most_rows
    last, log_probs, ranks = (_enlarged(each, most) for each in (state.last, state.log_probs, state.ranks))
    origins = torch.arange(most)
    tokens, gains = _empty(most, steps, torch.int64), _empty(most, steps, torch.float64)
    values, ids = torch.empty(most, state.candidates), _empty(most, state.candidates, torch.int64)
    asked, asked_log_probs = torch.full((most,), state.asked), torch.empty(most)
    block = torch.empty(most, constant("block_size"))
    statistics = _empty(most, constant("statistics_size"), torch.uint8)
    banned, ends = (torch.tensor(each, dtype=torch.int64) for each in (state.banned, state.ends))
    scratch = _empty(most, max(inputs.table.size(1), steps) * NUMBER, torch.uint8)
    most_ends = min(state.most_ends, steps * most)
    ended_origins, ended_lengths = _empty(2, most_ends, torch.int64)
    ended_tokens, ended_gains = _empty(most_ends, steps, torch.int64), _empty(most_ends, steps, torch.float64)
    ended_totals = torch.empty(most_ends, dtype=torch.float64)
    search = Search(
        output.address,
        *(None if each is None else each.data_ptr() for each in (
            values, ids, asked_log_probs, asked, block, statistics, last, ranks, origins, log_probs, tokens,
            gains, scratch, banned, ends, state.penalties, ended_origins, ended_lengths, ended_tokens,
            ended_gains, ended_totals,
        )),
        len(banned), len(ends), steps, state.candidates, _features(inputs.positional),
        _features(inputs.turns), state.size, most_ends, state.greatest, state.bar, scale, rows, 0,
    )  # fmt: skip
    prepared = plan.prepared(last, inputs, output.levels)
    taken = kernel("run_steps")(*plan.calls, ctypes.addressof(prepared.run), ctypes.addressof(search))
    if taken < 0:
        refuse_ids()
    rows, ended = search.rows, search.num_ended
    return StepsTaken(
        origins=origins[:rows],
        ranks=ranks[:rows],
        log_probs=log_probs[:rows],
        tokens=tokens[:rows, :taken],
        gains=gains[:rows, :taken],
        candidates=(values[:rows], ids[:rows], asked_log_probs[:rows]),
        ended=[
            EndedTokens(
                origin=int(ended_origins[each]),
                tokens=ended_tokens[each, : ended_lengths[each]].tolist(),
                gains=ended_gains[each, : ended_lengths[each] + 1].tolist(),
                log_prob=float(ended_totals[each]),
            )
            for each in range(ended)
        ],
    )


def _enlarged(values: Tensor, rows: int) -> Tensor:
    """A copy with room for so many rows."""
    return torch.cat((values, values.new_zeros(rows - len(values))))


def _empty(rows: int, columns: int, dtype: torch.dtype) -> Tensor:
    return torch.empty(rows, columns, dtype=dtype)


def _features(vectors: Float[Tensor, "rows features"] | None) -> int:
    return 0 if vectors is None else vectors.size(1)
