"""What the requests of a batch force: their prefixes, and the end at their greatest length."""

import sys
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int64

from regard.decoding.hypothesis import Request
from regard.decoding.rows import SPARE, HypothesisRows
from regard.decoding.rules import SOURCE_PADDING, LengthLimits

FREE = -1  # where no token is forced


class RequestConstraints:
    """The forced prefixes and the greatest lengths of the requests of a batch."""

    def __init__(self, requests: Sequence[Request], limits: LengthLimits, eos_id: int) -> None:
        self.requests, self.eos_id = list(requests), eos_id
        self.prefix_lengths = np.array([len(request.prefix) for request in requests])
        self.uncounted = np.array([request.uncounted for request in requests])
        self.prefix = np.full((len(requests), int(self.prefix_lengths.max())), FREE)
        for row, request in enumerate(requests):
            self.prefix[row, : len(request.prefix)] = request.prefix
        self.longest: Int64[np.ndarray, " sentences"] = np.array(
            [max(min(limits.longest(each.src_len), each.most), len(each.prefix)) for each in requests]
        )
        self._note()

    def _note(self) -> None:
        """What follows from the requests."""
        self.soonest = int(self.longest.min(initial=sys.maxsize))
        self._sources: Int64[np.ndarray, "sentences src_len"] | None = None

    def join(self, other: "RequestConstraints") -> None:
        """Append the requests of `other`."""
        width = max(self.prefix.shape[1], other.prefix.shape[1])
        self.prefix = np.concatenate([_with_columns(each.prefix, width, FREE) for each in (self, other)])
        self.prefix_lengths, self.uncounted, self.longest = (
            np.concatenate(both)
            for both in (
                (self.prefix_lengths, other.prefix_lengths),
                (self.uncounted, other.uncounted),
                (self.longest, other.longest),
            )
        )
        self.requests += other.requests
        self._note()

    def select(self, kept: Int64[np.ndarray, " kept"]) -> None:
        """Request i becomes what request `kept[i]` was."""
        self.requests = [self.requests[place] for place in kept.tolist()]
        self.prefix_lengths, self.uncounted = self.prefix_lengths[kept], self.uncounted[kept]
        self.prefix, self.longest = (
            self.prefix[kept, : int(self.prefix_lengths.max(initial=0))],
            self.longest[kept],
        )
        self._note()

    def forced(self, rows: HypothesisRows) -> Int64[np.ndarray, " rows"]:
        """The forced next token of each row; FREE where there is none."""
        spare = rows.sentence == SPARE
        of, at = np.where(spare, 0, rows.sentence), rows.lengths
        tokens = np.where(at >= self.longest[of], self.eos_id, FREE)
        width = self.prefix.shape[1]
        if at.min() < width:
            prefix = np.where(at < width, self.prefix[of, np.minimum(at, width - 1)], FREE)
            tokens = np.where(prefix == FREE, tokens, prefix)
        return np.where(spare, FREE, tokens)

    def forced_or_free(self, rows: HypothesisRows) -> Int64[np.ndarray, " rows"]:
        """As `forced`, without looking at each row if no token is forced in any."""
        return np.full(len(rows.sentence), FREE) if self.is_free(rows) else self.forced(rows)

    def in_prompt(self, rows: HypothesisRows) -> Bool[np.ndarray, " rows"]:
        """True for each row whose next token belongs to its prompt, where an end token ends nothing."""
        return rows.lengths < self.uncounted[np.where(rows.sentence == SPARE, 0, rows.sentence)]

    def is_free(self, rows: HypothesisRows) -> bool:
        """True if no token is forced in any row."""
        return bool(self.prefix.shape[1] <= rows.lengths.min() and rows.length < self.soonest)

    @property
    def sources(self) -> Int64[np.ndarray, "sentences src_len"]:
        """A row of ids for each request, padded with SOURCE_PADDING."""
        if self._sources is None:
            each = [request.source or () for request in self.requests]
            self._sources = np.full((len(each), max(map(len, each))), SOURCE_PADDING)
            for row, source in zip(self._sources, each, strict=True):
                row[: len(source)] = source
        return self._sources


def _with_columns(values: np.ndarray, width: int, filling: int) -> np.ndarray:
    return np.pad(values, ((0, 0), (0, width - values.shape[1])), constant_values=filling)
