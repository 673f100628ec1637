"""Survey: what one reading tells about a parallel corpus, its sizes, its scripts, its mistakes."""

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
from regard.verbs.corpus_findings import CorpusFinding, Overlap, findings_of

MARKS = 2  # tokens of each line beside its text, as in training: its beginning and its end
COVERAGE = 0.9995  # of the text, by its frequent characters


@dataclass(frozen=True, kw_only=True)
class Side:
    """One side of a corpus.

    `distinct_characters`: how many there are; `frequent_characters`: how many make up 99.95 % of the text.
    A subword vocabulary of kind `bpe` holds each distinct character, so it must be larger than that.
    """

    writing: Script
    characters: int
    distinct_characters: int
    frequent_characters: int

    @classmethod
    def of(cls, characters: CharacterCounts) -> "Side":
        return cls(
            writing=characters.script,
            characters=characters.total,
            distinct_characters=characters.distinct,
            frequent_characters=characters.covering(COVERAGE),
        )


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What is known of a corpus before anything is trained on it.

    `sample`: evenly spaced pairs. `shared_letters`: how much of the letters of the sides is the same, 0 to 1.
    `findings`: what looks like a mistake, or should be known, a line each, the gravest first.
    """

    pairs: int
    source: Side
    target: Side
    shared_letters: float
    findings: tuple[CorpusFinding, ...]
    sample: LineSample = field(repr=False)

    @property
    def source_script(self) -> str:
        """Such as "Latin", "Japanese", "Han": see `data.scripts.Writing`."""
        return self.source.writing.script

    @property
    def target_script(self) -> str:
        return self.target.writing.script

    @property
    def tokenize(self) -> str:
        """sacreBLEU's tokeniser for the target side, of those whose packages are installed."""
        return tokenizer_for(self.target.writing)

    @property
    def best_metric(self) -> Literal["bleu", "chrf"]:
        """What should choose the best model."""
        return best_metric_for(self.target.writing)

    @property
    def target_tokens(self) -> float:
        """Of the target side by a vocabulary of 8,000, the marks among them; an estimate."""
        return self.target_tokens_by(8000)

    def target_tokens_by(self, vocab_size: int) -> float:
        """Tokens of the target side by a BPE of `vocab_size` trained on it, within some 20 %."""
        texts = [pair.target for pair in self.sample.pairs]
        found = estimated_tokens(texts, vocab_size, spaces=self.target.writing.spaces)
        return found * self.target.characters / max(sum(map(len, texts)), 1) + MARKS * self.pairs


def survey(corpus: Corpus, held_out: Mapping[str, Corpus] | None = None) -> Survey:
    """Read a corpus once, and before it what is held out from training: name ("validation") -> corpus."""
    surveyor = Surveyor(corpus, held_out)
    for pair in corpus:
        surveyor.see(pair)
    return surveyor.survey()


class Surveyor:
    """The same for a caller who does something else in the same reading: `see` every pair, then `survey`."""

    def __init__(self, corpus: Corpus, held_out: Mapping[str, Corpus] | None = None) -> None:
        self._reading = CorpusStatistics(corpus.name, corpus.files)
        self._held_out = {part: CorpusStatistics.of(each) for part, each in (held_out or {}).items()}
        self._overlaps = {part: Overlap.of(each) for part, each in (held_out or {}).items()}

    def see(self, pair: Pair) -> None:
        source, both = self._reading.add(pair)
        for overlap in self._overlaps.values():
            overlap.see(source, both, pair.line)

    @property
    def pairs(self) -> int:
        """How many there were so far."""
        return self._reading.pairs

    def survey(self) -> Survey:
        """What there was to see."""
        reading = self._reading.finish()
        source, target = map(Side.of, reading.characters)
        return Survey(
            pairs=reading.pairs,
            source=source,
            target=target,
            shared_letters=shared_letters(*reading.characters),
            findings=tuple(findings_of(reading, self._held_out, self._overlaps)),
            sample=reading.sample,
        )
