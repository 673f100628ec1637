"""Evaluate: translate a test set, and score what comes out against references."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from regard import console
from regard.evaluation.score import Score
from regard.evaluation.streams import check_aligned
from regard.evaluation.translation import cautions, corpus_scores
from regard.verbs.lines import lines_of, references_of
from regard.verbs.translate import Translator


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a model reaches on a test set: BLEU, chrF++ and TER with signatures and 95 % intervals."""

    model: Path
    sentences: int
    beam_size: int
    device: str
    scores: list[Score]
    translations: list[str] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """As `regard evaluate --json` prints it: without the translations."""
        return {
            "model": str(self.model),
            "sentences": self.sentences,
            "beam_size": self.beam_size,
            "device": self.device,
            "scores": [asdict(score) for score in self.scores],
        }


def evaluate(
    *,
    model: str | Path | None = None,
    src: str | Path,
    ref: str | Path | Iterable[str | Path],
    tokenize: Literal["13a", "none"] = "13a",
    lowercase: bool = False,
    beam_size: int | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> Evaluation:
    """Translate the lines of `src` and score them against one file of references or several.

    Raises:
        DataError: the files have not as many lines as each other.
    """
    sources, references = lines_of(src), references_of(ref)
    check_aligned(sources, references, str(src))
    translator = Translator(model, beam_size=beam_size, device=device, threads=threads)
    console.note(
        f"translating {len(sources):,} sentences; device: {translator.device},"
        f" {torch.get_num_threads()} threads"
    )
    translations = [each.text for each in translator(sources)]
    for caution in cautions(translations, tokenize=tokenize):
        console.warn(caution)
    return Evaluation(
        model=translator.loaded.path,
        sentences=len(sources),
        beam_size=translator.settings.beam_size,
        device=str(translator.device),
        scores=corpus_scores(translations, references, tokenize=tokenize, lowercase=lowercase),
        translations=translations,
    )
