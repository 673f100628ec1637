"""Survey of a parallel corpus in one pass: sizes, scripts, and findings such as misaligned lines."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from regard.data.character_counts import CharacterCounts, shared_letters
from regard.data.corpus import Corpus, Pair
from regard.data.corpus_statistics import CorpusStatistics
from regard.data.line_sample import LineSample
from regard.data.scripts import Script
from regard.data.token_estimate import estimated_tokens
from regard.evaluation.tokenizers import best_metric_for, tokenizer_for
from regard.verbs.proposals.corpus_finding import CorpusFinding
from regard.verbs.proposals.corpus_findings import (
    Overlap,
    findings_of,
    line_findings,
)
from regard.verbs.proposals.line_checks import LineChecks, LineProblem, Occurrences
from regard.verbs.proposals.pair_languages import languages_of

SPECIAL_TOKENS_PER_LINE = 2  # begin and end of sentence, as in training
COVERAGE = 0.9995  # share of a text that is covered by its frequent characters


@dataclass(frozen=True, kw_only=True)
class Side:
    """One side of a corpus.

    `frequent_characters`: how many different characters, the most frequent ones, cover 99.95 % of the text.
    """

    script: Script
    characters: int  # length of the text, spaces included
    frequent_characters: int

    @classmethod
    def of(cls, characters: CharacterCounts) -> "Side":
        return cls(
            script=characters.script,
            characters=characters.total,
            frequent_characters=characters.covering(COVERAGE),
        )


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The statistics and findings of a corpus.

    `statistics`: what they are taken from. `shared_letters`: the overlap of the two sides' letter
    frequencies, from 0 to 1. `findings`: likely mistakes and notes, the most serious first. `checks`: which
    pairs have them. `held_out_sources`: digests of training sources that are in held-out corpora too.
    """

    pairs: int
    source: Side
    target: Side
    shared_letters: float
    findings: tuple[CorpusFinding, ...]
    statistics: CorpusStatistics = field(repr=False)
    checks: LineChecks = field(repr=False)
    held_out_sources: frozenset[int] = field(repr=False)

    @property
    def sample(self) -> LineSample:
        """Evenly spaced pairs."""
        return self.statistics.sample

    def exact_findings(self, found: Mapping[LineProblem, Occurrences]) -> list[CorpusFinding]:
        """The findings; those of single pairs by all pairs that have them, not by those of the sample."""
        exact = {each.problem: each for each in line_findings(self.statistics, found, 1.0)}
        return [each if each.problem is None else exact.get(each.problem, each) for each in self.findings]

    @property
    def tokenize(self) -> str:
        """sacreBLEU's tokeniser for the target side, among those whose packages are installed."""
        return tokenizer_for(self.target.script)

    @property
    def best_metric(self) -> Literal["bleu", "chrf++"]:
        """The metric that should choose the best model."""
        return "bleu" if best_metric_for(self.target.script) == "bleu" else "chrf++"

    @property
    def target_tokens(self) -> float:
        """The estimated number of tokens of the target side with a BPE vocabulary of 8,000."""
        return self.target_tokens_by(8000)

    def target_tokens_by(self, vocab_size: int) -> float:
        """The estimated number of tokens of the target side with a BPE vocabulary of `vocab_size`.

        The estimate is within about 20 %, special tokens included.
        """
        texts = [pair.target for pair in self.sample.pairs]
        sampled = estimated_tokens(texts, vocab_size, spaces=self.target.script.spaces)
        scale = self.target.characters / max(sum(map(len, texts)), 1)
        return sampled * scale + SPECIAL_TOKENS_PER_LINE * self.pairs


def survey(corpus: Corpus, held_out: Mapping[str, Corpus] | None = None) -> Survey:
    """Survey a corpus in one pass. `held_out` corpora, by name such as "validation", are read first."""
    surveyor = Surveyor(corpus, held_out)
    for pair in corpus:
        surveyor.add(pair)
    return surveyor.survey()


class Surveyor:
    """Surveys a corpus that the caller reads: call `add` for every pair, then `survey`."""

    def __init__(self, corpus: Corpus, held_out: Mapping[str, Corpus] | None = None) -> None:
        self._statistics = CorpusStatistics(corpus.name, corpus.files)
        self._held_out = {part: CorpusStatistics.of(each) for part, each in (held_out or {}).items()}
        self._overlaps = {part: Overlap.of(each) for part, each in (held_out or {}).items()}

    def add(self, pair: Pair) -> None:
        """Add the next pair of the corpus."""
        source, both = self._statistics.add(pair)
        for overlap in self._overlaps.values():
            overlap.add(source, both, pair.line)

    @property
    def pairs(self) -> int:
        """The number of pairs so far."""
        return self._statistics.pairs

    def survey(self) -> Survey:
        """The survey of all pairs that were added."""
        statistics = self._statistics.finish()
        source, target = map(Side.of, statistics.characters)
        languages = languages_of(statistics.sample.pairs)
        checks = LineChecks(statistics, languages)
        return Survey(
            pairs=statistics.pairs,
            source=source,
            target=target,
            shared_letters=shared_letters(*statistics.characters),
            findings=tuple(findings_of(statistics, self._held_out, self._overlaps, languages, checks)),
            statistics=statistics,
            checks=checks,
            held_out_sources=frozenset(
                digest for overlap in self._overlaps.values() for digest in overlap.trained_sources
            ),
        )
