"""Several steps of a search or of sampling by one call of search.c, up to one that the caller decides."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from regard.fast.native.kernels import constant, kernel
from regard.fast.native.linear import PackedLinear
from regard.fast.native.plan import AttentionInputs, Plan, refuse_ids
from regard.fast.native.sampling import Filters, scratch, threads_of_sampling

NUMBER = 8  # bytes of an int64 or float64


class Search(ctypes.Structure):
    """The struct `Search` of search.c, which describes the fields."""

    _fields_ = [
        *[(name, ctypes.c_void_p) for name in (
            "output", "values", "ids", "asked_log_probs", "asked", "block", "statistics", "last", "ranks",
            "origins", "log_probs", "tokens", "gains", "scratch", "banned", "ends", "filters", "noise",
            "logits", "weights", "kept_tokens", "penalties", "ended_origins", "ended_lengths",
            "ended_tokens", "ended_gains", "ended_totals",
        )],
        *[(name, ctypes.c_long) for name in (
            "num_banned", "num_ends", "steps", "candidates", "plus_features", "rotary_features",
            "size", "most_ends", "sampling_threads",
        )],
        *[(name, ctypes.c_double) for name in ("greatest", "bar")],
        ("scale", ctypes.c_float),
        *[(name, ctypes.c_long) for name in ("rows", "num_ended")],
    ]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SearchState:
    """A search between two steps: greedy hypotheses, one in each row, or the beam of one sentence.

    Attributes:
        last: the last id of each row.
        log_probs: the log-probability of the hypothesis in each row.
        ranks: the rank of each row in the beam, 0 is the best; or among the hypotheses of its sentence.
        ends: ids that end a hypothesis.
        banned: ids that are never chosen.
        asked: an id whose log-probability is computed for each row, too.
        candidates: how many of the most likely next tokens of each row are computed, banned ones included.
        size: the beam size; 0 for greedy hypotheses.
        most_ends: if more hypotheses of a beam end than this, the caller decides. Greedy ones may all end.
        penalties: the length penalty of a hypothesis that ends at each step, by which its log-probability is
            divided; None if no hypothesis is dropped.
        greatest: the greatest length penalty. A hypothesis is dropped unless its log-probability divided by
            this is above `bar`.
        bar: the best score of a finished hypothesis.
        filters: of sampling; None: the most likely token is taken.
        noise: the random number of each step and row of sampling.
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
    filters: Filters | None = None
    noise: Float64[Tensor, "steps rows"] | None = None

    @property
    def most_rows(self) -> int:
        """The greatest number of rows that the search can have."""
        return self.size or len(self.last)


@dataclass(frozen=True, kw_only=True)
class EndedTokens:
    """A hypothesis that ended during the steps."""

    origin: int  # the row that it continues, as rows were numbered before the steps
    tokens: list[int]  # the ids that it gained, without the end token
    gains: list[float]  # their log-probabilities, and that of the end token
    log_prob: float  # of the whole hypothesis


@dataclass(frozen=True, kw_only=True)
class StepsTaken:
    """A search after some steps, and the candidates from which the caller chooses the next step.

    Row i continues the former row `origins[i]` by the ids `tokens[i]`, whose log-probabilities are
    `gains[i]`. `candidates` are what `PackedLinear.top_candidates` returns.
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
    """Continue the hypotheses by several steps; each runs `plan` and the `output` layer.

    A step gives what the search in Python gives, to the bit. The steps end before one in which more than
    `most_ends` hypotheses of a beam end, no hypothesis is left, or a log-probability is not finite: its
    candidates are returned, and the caller decides.

    Args:
        inputs: the attention inputs of `steps` steps, one after the other, with `state.most_rows` rows each.
            All of them are reordered in place, as the hypotheses are; so is the noise.
        steps: how often the plan runs at most: hypotheses gain up to `steps` - 1 tokens.
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
    threads = threads_of_sampling(most, output.shape[0])
    room = (None,) * 3 if state.filters is None else _scratch(most, output.shape[0], threads)
    rearranged = _empty(most, max(inputs.table.size(1), steps) * NUMBER, torch.uint8)
    ended = _EndedBuffers(min(state.most_ends, steps * most) if state.size else most, steps)
    search = Search(
        output.address,
        *map(_address, (
            values, ids, asked_log_probs, asked, block, statistics, last, ranks, origins, log_probs, tokens,
            gains, rearranged, banned, ends,
        )),
        None if state.filters is None else ctypes.addressof(state.filters),
        *map(_address, (
            state.noise, *room, state.penalties, *ended.in_order,
        )),
        len(banned), len(ends), steps, state.candidates, _features(inputs.positional),
        _features(inputs.rotary), state.size, ended.most, threads, state.greatest, state.bar, scale, rows, 0,
    )  # fmt: skip
    prepared = plan.prepared(last, inputs, output.levels)
    taken = kernel("run_steps")(*plan.calls, ctypes.addressof(prepared.run), ctypes.addressof(search))
    if taken < 0:
        refuse_ids()
    rows = search.rows
    return StepsTaken(
        origins=origins[:rows],
        ranks=ranks[:rows],
        log_probs=log_probs[:rows],
        tokens=tokens[:rows, :taken],
        gains=gains[:rows, :taken],
        candidates=(values[:rows], ids[:rows], asked_log_probs[:rows]),
        ended=ended.read(search.num_ended),
    )


class _EndedBuffers:
    """The memory in which search.c writes up to `most` hypotheses that end, each of up to `steps` tokens."""

    def __init__(self, most: int, steps: int) -> None:
        self.most = most
        self._origins, self._lengths = _empty(2, most, torch.int64)
        self._tokens, self._gains = _empty(most, steps, torch.int64), _empty(most, steps, torch.float64)
        self._totals = torch.empty(most, dtype=torch.float64)
        self.in_order = (self._origins, self._lengths, self._tokens, self._gains, self._totals)  # of `Search`

    def read(self, count: int) -> list[EndedTokens]:
        """The hypotheses, of which there are `count`."""
        return [
            EndedTokens(
                origin=int(self._origins[each]),
                tokens=self._tokens[each, : self._lengths[each]].tolist(),
                gains=self._gains[each, : self._lengths[each] + 1].tolist(),
                log_prob=float(self._totals[each]),
            )
            for each in range(count)
        ]


def _enlarged(values: Tensor, rows: int) -> Tensor:
    """A copy of `values` with this many rows; the new ones are 0."""
    return torch.cat((values, values.new_zeros(rows - len(values))))


def _empty(rows: int, columns: int, dtype: torch.dtype) -> Tensor:
    return torch.empty(rows, columns, dtype=dtype)


def _scratch(rows: int, columns: int, threads: int) -> Sequence[Tensor]:
    """The scratch memory of sampling: logits, and that of the kernel `sample_tokens`."""
    return torch.empty(rows, columns), *scratch(threads, columns)


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _features(vectors: Float[Tensor, "rows features"] | None) -> int:
    return 0 if vectors is None else vectors.size(1)
