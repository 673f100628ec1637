"""A table instead of a model, and the slow, plain searches that the fast ones must equal."""

import itertools
from collections.abc import Callable, Sequence

import pytest
import torch

from regard.decoding.hypothesis import Hypothesis, best_first

PAD, UNK, BOS, EOS = 0, 1, 2, 3


class Table:
    """A stepper with a random next-token distribution for each source and each prefix."""

    def __init__(self, vocab: int = 7, seed: int = 0, sharpness: float = 1.5) -> None:
        self.vocab, self.seed, self.sharpness = vocab, seed, sharpness
        self.sizes: list[int] = []  # rows at each step
        self.known: dict[tuple, torch.Tensor] = {}

    def log_probs(self, source: tuple[int, ...], said: tuple[int, ...]) -> torch.Tensor:
        if (source, said) not in self.known:
            generator = torch.Generator().manual_seed(hash((self.seed, source, said)) % 2**63)
            logits = torch.randn(self.vocab, generator=generator) * self.sharpness
            self.known[source, said] = logits.log_softmax(dim=0)
        return self.known[source, said]

    def start(self, src_ids: torch.Tensor, src_lengths: torch.Tensor) -> None:
        rows = zip(src_ids.tolist(), src_lengths.tolist(), strict=True)
        self.sources = [tuple(row[:length]) for row, length in rows]
        self.said: list[tuple[int, ...]] = [()] * len(self.sources)

    def step(self, ids: torch.Tensor) -> torch.Tensor:
        self.sizes.append(len(ids))
        self.said = [(*said, token) for said, token in zip(self.said, ids.tolist(), strict=True)]
        return torch.stack(list(map(self.log_probs, self.sources, self.said)))

    def select(self, rows: torch.Tensor) -> None:
        self.sources = [self.sources[row] for row in rows.tolist()]
        self.said = [self.said[row] for row in rows.tolist()]

    def read(self, sources: Sequence[Sequence[int]]) -> "Table":
        """Started with these sources."""
        lengths = torch.tensor([len(source) for source in sources])
        ids = torch.zeros(len(sources), int(lengths.max()), dtype=torch.int64)
        for row, source in zip(ids, sources, strict=True):
            row[: len(source)] = torch.tensor(source)
        self.start(ids, lengths)
        return self

    def hypothesis(self, source: Sequence[int], ids: Sequence[int], penalty: Callable) -> Hypothesis:
        """Its score, token by token."""
        each = [
            self.log_probs(tuple(source), (BOS, *ids[:place]))[token].item()
            for place, token in enumerate([*ids, EOS])
        ]
        total = sum(each)
        return Hypothesis(
            ids=list(ids), log_prob=total, score=total / penalty(len(each)), token_log_probs=each
        )


def exhaustive_search(
    table: Table, source: Sequence[int], *, penalty: Callable, n_best: int, lengths: range,
    allowed: Callable[[tuple[int, ...]], bool] = lambda ids: True,
) -> list[Hypothesis]:  # fmt: skip
    """The best of all translations that there are (but for pad and bos in them)."""
    words = [token for token in range(table.vocab) if token not in (PAD, BOS, EOS)]
    every = (ids for length in lengths for ids in itertools.product(words, repeat=length) if allowed(ids))
    return best_first([table.hypothesis(source, ids, penalty) for ids in every], n_best)


def plain_beam_search(
    table: Table, source: Sequence[int], *, penalty: Callable, n_best: int, lengths: range, beam_size: int
) -> list[Hypothesis]:
    """Beam search as one would explain it: one sentence, nothing kept, nothing dropped early."""
    words = [token for token in range(table.vocab) if token not in (PAD, BOS, EOS)]
    beam: list[tuple[int, ...]] = [()]
    finished = []
    for length in range(lengths.stop):
        sayable = (words if length + 1 in lengths or length + 1 < lengths.start else []) + (
            [EOS] if length in lengths else []
        )
        candidates = []
        for rank, ids in enumerate(beam):
            before = table.hypothesis(source, ids, penalty).token_log_probs[:-1]
            log_probs = table.log_probs(tuple(source), (BOS, *ids)).tolist()
            candidates += [(-sum(before) - log_probs[token], token, rank, ids) for token in sayable]
        candidates.sort()
        finished += [ids for _, token, _, ids in candidates[:beam_size] if token == EOS]
        beam = [(*ids, token) for _, token, _, ids in candidates if token != EOS][:beam_size]
    return best_first([table.hypothesis(source, ids, penalty) for ids in finished], n_best)


@pytest.fixture(name="make_table")
def _make_table() -> type[Table]:
    return Table


@pytest.fixture(name="exhaustive_search")
def _exhaustive_search() -> Callable[..., list[Hypothesis]]:
    return exhaustive_search


@pytest.fixture(name="plain_beam_search")
def _plain_beam_search() -> Callable[..., list[Hypothesis]]:
    return plain_beam_search
