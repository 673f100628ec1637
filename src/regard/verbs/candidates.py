"""Candidates: the translations of a text, best first, and those of its sentences put together."""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce


@dataclass(frozen=True, kw_only=True)
class TranslationCandidate:
    """One translation of a line."""

    text: str
    score: float  # by which a beam ranks candidates: log_prob by the length penalty; of sentences the mean
    log_prob: float  # nats, the end of the sentence included
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]  # the end's too, where there is one


NOTHING = TranslationCandidate(text="", score=0.0, log_prob=0.0, tokens=(), token_log_probs=())


def combinations(
    of_sentences: Sequence[Sequence[TranslationCandidate]], count: int
) -> list[tuple[TranslationCandidate, ...]]:
    """The `count` choices of a candidate for each sentence with the greatest sums of scores, best first.

    The candidates of a sentence come best first, so the first choice is the best of each.
    """
    none: list[tuple[float, tuple[TranslationCandidate, ...]]] = [(0.0, ())]
    chosen = reduce(lambda chosen, more: _best_pairs(chosen, more, count), of_sentences, none)
    return [candidates for _, candidates in chosen]


def _best_pairs(
    chosen: Sequence[tuple[float, tuple[TranslationCandidate, ...]]],
    more: Sequence[TranslationCandidate],
    count: int,
) -> list[tuple[float, tuple[TranslationCandidate, ...]]]:
    """Each choice so far with each candidate of the next sentence, as many as can be among the best.

    At least (i + 1) * (j + 1) pairs are as good as the i-th choice with the j-th candidate.
    """

    def pairs() -> Iterator[tuple[float, tuple[TranslationCandidate, ...]]]:
        for i, (score, candidates) in enumerate(chosen[:count]):
            for each in more[: count // (i + 1)]:
                yield score + each.score, (*candidates, each)

    return heapq.nlargest(count, pairs(), key=lambda pair: pair[0])


def in_step(
    of_sentences: Sequence[Sequence[TranslationCandidate]], count: int
) -> list[tuple[TranslationCandidate, ...]]:
    """The first samples of all sentences, the second of all, and so on; a list that ends has its last."""
    length = min(count, max(map(len, of_sentences)))
    return [tuple(each[min(place, len(each) - 1)] for each in of_sentences) for place in range(length)]


def as_one(text: str, candidates: Sequence[TranslationCandidate]) -> TranslationCandidate:
    """The candidates of all sentences as one of the whole, whose text is `text`."""
    return TranslationCandidate(
        text=text,
        score=sum(each.score for each in candidates) / len(candidates),
        log_prob=sum(each.log_prob for each in candidates),
        tokens=tuple(token for each in candidates for token in each.tokens),
        token_log_probs=tuple(each for candidate in candidates for each in candidate.token_log_probs),
    )
