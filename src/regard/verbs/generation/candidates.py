"""Candidate translations of a text, and joining those of its sentences."""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from regard.verbs.generation.alignments import TokenAlignment, joined_alignment
from regard.verbs.generation.scored_tokens import Alternatives


@dataclass(frozen=True, kw_only=True)
class TranslationCandidate:
    """A candidate translation of a line."""

    text: str
    score: float  # the ranking in a beam: log_prob over the length penalty; the mean over sentences
    log_prob: float  # nats, the end of the sentence included
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]  # with that of the end, if there is one
    parts: tuple["TranslationCandidate", ...] = ()  # of a line that was split: those of its sentences
    alignment: TokenAlignment | None = None  # if it was asked for
    alternatives: tuple[Alternatives, ...] = ()  # of each token, if they were asked for

    @property
    def log_probs_of_tokens(self) -> tuple[float, ...]:
        """The log-probability of each token, without those of ends."""
        if self.parts:
            return tuple(each for part in self.parts for each in part.log_probs_of_tokens)
        return self.token_log_probs[: len(self.tokens)]


EMPTY_CANDIDATE = TranslationCandidate(text="", score=0.0, log_prob=0.0, tokens=(), token_log_probs=())


def combinations(
    of_sentences: Sequence[Sequence[TranslationCandidate]], count: int
) -> list[tuple[TranslationCandidate, ...]]:
    """The `count` combinations of a candidate for each sentence with the greatest sums of scores, best first.

    Candidates are sorted, so the first combination has the best of each sentence.
    """
    empty: list[tuple[float, tuple[TranslationCandidate, ...]]] = [(0.0, ())]
    chosen = reduce(lambda chosen, more: _best_pairs(chosen, more, count), of_sentences, empty)
    return [candidates for _, candidates in chosen]


def _best_pairs(
    chosen: Sequence[tuple[float, tuple[TranslationCandidate, ...]]],
    more: Sequence[TranslationCandidate],
    count: int,
) -> list[tuple[float, tuple[TranslationCandidate, ...]]]:
    """The best pairs of a combination so far and a candidate of the next sentence.

    At least (i + 1) * (j + 1) pairs are as good as that of combination i and candidate j.
    """

    def pairs() -> Iterator[tuple[float, tuple[TranslationCandidate, ...]]]:
        for i, (score, candidates) in enumerate(chosen[:count]):
            for each in more[: count // (i + 1)]:
                yield score + each.score, (*candidates, each)

    return heapq.nlargest(count, pairs(), key=lambda pair: pair[0])


def in_step(
    of_sentences: Sequence[Sequence[TranslationCandidate]], count: int
) -> list[tuple[TranslationCandidate, ...]]:
    """The first samples of all sentences, then the second, and so on; a shorter list repeats its last."""
    length = min(count, max(map(len, of_sentences)))
    return [tuple(each[min(place, len(each) - 1)] for each in of_sentences) for place in range(length)]


def as_one(text: str, candidates: Sequence[TranslationCandidate]) -> TranslationCandidate:
    """The candidates of all sentences, joined to one whose text is `text`."""
    return TranslationCandidate(
        text=text,
        score=sum(each.score for each in candidates) / len(candidates),
        log_prob=sum(each.log_prob for each in candidates),
        tokens=tuple(token for each in candidates for token in each.tokens),
        token_log_probs=tuple(each for candidate in candidates for each in candidate.token_log_probs),
        parts=tuple(candidates),
        alignment=joined_alignment(
            [each.alignment for each in candidates], [len(each.tokens) for each in candidates]
        ),
        alternatives=tuple(each for candidate in candidates for each in candidate.alternatives),
    )
