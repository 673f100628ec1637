"""All scores of the translations of a file: those of sacreBLEU, and those of learned metrics."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard import console
from regard.errors import UserError
from regard.evaluation.by_length import LengthScore, bleu_by_length
from regard.evaluation.line_pairs import check_aligned
from regard.evaluation.score import Score
from regard.evaluation.translation import corpus_scores, tokenization_warnings
from regard.verbs.shared.any_model import AnyModel
from regard.verbs.shared.learned_metric import SourcesAndReferences, learned_score, open_metrics
from regard.verbs.shared.runtime import Runtime
from regard.verbs.shared.tokenize import Tokenize
from regard.verbs.shared.translation_scoring import scoring_for


@dataclass(frozen=True, kw_only=True)
class BleuSettings:
    """How sacreBLEU scores: `evaluate` describes each."""

    tokenize: Tokenize = "auto"
    lowercase: bool = False
    by_length: bool = False


class TranslationScores:
    """Scores translations by comparing them with `others`: sources, references, or both.

    Args:
        lines: the lines with which the references must be aligned; messages call them `name`.
        metrics: learned metrics, whose scores come after those of sacreBLEU.

    Raises:
        DataError: the references have another number of lines.
        UserError: BLEU has settings, but there are no references; or a metric lacks what it reads.
        FolderError: a model is not a metric.
    """

    def __init__(
        self,
        lines: Sequence[str],
        name: str,
        others: SourcesAndReferences,
        metrics: Sequence[AnyModel],
        bleu: BleuSettings,
        runtime: Runtime,
    ) -> None:
        check_aligned(lines, others.references or [lines], name)  # without references: there is a line
        self._scoring = scoring_for(others.references, bleu.tokenize) if others.references else None
        if self._scoring is None and bleu != BleuSettings():
            raise UserError(
                "by_length, lowercase and tokenize are for BLEU, which needs references",
                "give ref, or leave them out",
            )
        self.metrics = open_metrics(metrics, others, runtime)
        self._others, self._bleu = others, bleu

    def __call__(self, translations: Sequence[str]) -> tuple[list[Score], list[LengthScore]]:
        """The scores of these translations; and BLEU by the length of the source, if requested."""
        scores, lengths = self._of_sacrebleu(translations)
        learned = [learned_score(metric, translations, self._others) for metric in self.metrics]
        return [*scores, *learned], lengths

    def _of_sacrebleu(self, translations: Sequence[str]) -> tuple[list[Score], list[LengthScore]]:
        """BLEU, chrF++, chrF and TER; none without references."""
        others, scoring = self._others, self._scoring
        if scoring is None:
            return [], []
        for caution in tokenization_warnings(translations, tokenize=scoring.tokenize):
            console.warn(caution)
        how: dict[str, Any] = {"tokenize": scoring.tokenize, "lowercase": self._bleu.lowercase}
        scores = corpus_scores(translations, others.references, metrics=scoring.metrics, **how)
        if not self._bleu.by_length:
            return scores, []
        return scores, bleu_by_length(others.sources or (), translations, others.references, **how)
