"""BLEU, chrF++, chrF and TER by sacreBLEU (Post 2018): signatures, intervals and paired significance.

The scores are those of `sacrebleu -m bleu chrf ter --confidence`, chrF++ with `--chrf-word-order 2`. The seed
is 12345 unless SACREBLEU_SEED is set, and is part of the signature.
"""

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF, CHRFScore
from sacrebleu.metrics.ter import TER, TERScore
from sacrebleu.significance import PairedTest, Result
from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
from sacrebleu.utils import SACREBLEU_DIR

from regard.data.download import download
from regard.errors import DataError, RegardError, did_you_mean
from regard.evaluation.line_pairs import References, check_aligned
from regard.evaluation.score import BleuScore, Score
from regard.evaluation.tokenizers import (
    AUTO,
    PACKAGES,
    best_metric_first,
    missing_packages,
    script_of_references,
    tokenizer_for,
)

MetricName = Literal["bleu", "chrf", "chrf2", "ter"]  # chrf is chrF2++, chrf2 has no n-grams of words
METRIC_NAMES: tuple[MetricName, ...] = ("bleu", "chrf", "chrf2", "ter")
MIN_RESAMPLED_SENTENCES = 30  # sentences that resampling needs; with fewer, intervals are too narrow
MIN_SUSPICIOUS = 100  # suspicious lines before a warning, as in sacreBLEU


@dataclass(frozen=True, kw_only=True)
class SystemScore:
    """The score of one of several compared systems, or of one alone."""

    system: str
    value: float
    low: float | None  # None: fewer than MIN_RESAMPLED_SENTENCES lines
    high: float | None
    p_value: float | None  # of the difference to the baseline; None for the baseline, the first system


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The scores of several systems by one metric."""

    decimals: ClassVar[int] = 2  # that are shown
    name: str
    signature: str
    systems: tuple[SystemScore, ...]


def corpus_scores(
    hypotheses: Sequence[str],
    references: References,
    *,
    tokenize: str = AUTO,
    lowercase: bool = False,
    bootstrap: int = 1000,
    metrics: Sequence[MetricName] = METRIC_NAMES,
) -> list[Score]:
    """BLEU, chrF2++, chrF2 and TER of a corpus.

    Args:
        references: `references[r][i]` is reference r of line i; None for a missing one.
        tokenize: a tokeniser of sacreBLEU for BLEU, `none` for text that is tokenised already, or `auto`:
            the one for the script of the references (`tokenizers.tokenizer_for`).
        lowercase: ignore case (TER always ignores it, the default of sacreBLEU).
        bootstrap: the number of resamples for the intervals (Koehn 2004); 0 for no intervals. Fewer than
            MIN_RESAMPLED_SENTENCES lines have no intervals.

    Raises:
        DataError: the numbers of lines differ or are 0; the tokeniser is unknown or cannot be used.
    """
    check_aligned(hypotheses, references)
    tokenize = resolve_tokenizer(tokenize, references)
    bootstrap = bootstrap if len(hypotheses) >= MIN_RESAMPLED_SENTENCES else 0
    streams = cast("Sequence[Sequence[str]]", references)  # items may be None, unlike in sacreBLEU's types
    scores = []
    for metric in _metrics(metrics, tokenize, lowercase).values():
        score = metric.corpus_score(hypotheses, streams, n_bootstrap=bootstrap or 1)
        signature = str(metric.get_signature())
        facts = json.loads(score.format(width=6, signature=signature, is_json=True))
        low = high = None
        if bootstrap:  # sacreBLEU omits the interval of a score of 0
            mean, half = facts.get("confidence_mean", score.score), facts.get("confidence_var", 0.0)
            low, high = mean - half, mean + half
        fields = {"name": score.name, "value": score.score, "low": low, "high": high, "signature": signature}
        scores.append(_bleu_score(score, fields) if isinstance(score, BLEUScore) else Score(**fields))
    return scores


def _bleu_score(score: BLEUScore, fields: Mapping[str, Any]) -> BleuScore:
    return BleuScore(
        **fields,
        brevity_penalty=float(score.bp),
        precisions=tuple(map(float, score.precisions)),
        hypothesis_length=int(score.sys_len),
        reference_length=int(score.ref_len),
    )


def compare_systems(
    systems: Mapping[str, Sequence[str]],
    references: References,
    *,
    tokenize: str = AUTO,
    lowercase: bool = False,
    bootstrap: int = 1000,
) -> list[Comparison]:
    """Compares each system with the first by paired bootstrap resampling (Koehn 2004), for each metric.

    One system alone has its scores and their intervals.

    Raises:
        DataError: no system, lines that are not aligned, or a tokeniser that cannot be used.
    """
    refuse_no_system(systems)
    for name, hypotheses in systems.items():
        check_aligned(hypotheses, references, name)
    script = script_of_references(references)
    tokenize = tokenizer_for(script) if tokenize == AUTO else tokenize
    test = PairedTest(
        list(systems.items()),
        _metrics(best_metric_first(METRIC_NAMES, script), tokenize, lowercase),
        cast("Sequence[Sequence[str]]", references),
        test_type="bs",
        n_samples=bootstrap,
    )
    signatures, results = test()
    return [
        Comparison(
            name=name,
            signature=str(signature),
            systems=system_scores(
                list(systems),
                cast("list[Result]", results[name]),
                len(references[0]) >= MIN_RESAMPLED_SENTENCES,
            ),
        )
        for name, signature in signatures.items()
    ]


def refuse_no_system(systems: Mapping[str, Sequence[str]]) -> None:
    """Raise a DataError if there is no system."""
    if not systems:
        raise DataError("there is no output to score", "give one output, or several, the baseline first")


def system_scores(names: list[str], results: list[Result], intervals: bool) -> tuple[SystemScore, ...]:
    """The scores of systems of these names from sacreBLEU's results, the baseline's first."""
    scores = []
    for name, result in zip(names, results, strict=True):
        mean, half, p_value = float(result.mean or 0), float(result.ci or 0), result.p_value
        if p_value is not None and result.score == results[0].score:
            p_value = 1.0  # equal scores, for which sacreBLEU would report a p-value near 0
        scores.append(
            SystemScore(
                system=name,
                value=float(result.score),
                low=mean - half if intervals else None,
                high=mean + half if intervals else None,
                p_value=p_value,
            )
        )
    return tuple(scores)


def tokenization_warnings(hypotheses: Sequence[str], *, tokenize: str = AUTO) -> list[str]:
    """Warnings if the text does not suit `tokenize`: it looks tokenised, or not tokenised."""
    endings = [line.rstrip()[-2:] for line in hypotheses]
    apart = endings.count(" .")
    attached = sum(ending.endswith(".") for ending in endings) - apart
    if tokenize != "none" and apart >= MIN_SUSPICIOUS:
        return [f"{apart:,} lines end in a separate full stop: if the text is tokenised, use --tokenize none"]
    if tokenize == "none" and attached >= MIN_SUSPICIOUS:
        return [f"{attached:,} lines end in a full stop that --tokenize none counts as part of a word"]
    return []


def resolve_tokenizer(tokenize: str, references: References) -> str:
    """`tokenize`; for `auto`, the tokeniser for the script of the references."""
    return tokenizer_for(script_of_references(references)) if tokenize == AUTO else tokenize


def check_tokenizer(tokenize: str) -> None:
    """Checks that a tokeniser can be used, and downloads the model that it needs.

    Raises:
        DataError: it is unknown, or its package or model is missing and cannot be downloaded.
    """
    if tokenize != AUTO:
        _bleu(tokenize, lowercase=False)


def _metrics(names: Sequence[MetricName], tokenize: str, lowercase: bool) -> dict[str, Metric]:
    metrics: dict[MetricName, Metric] = {
        "bleu": _bleu(tokenize, lowercase),
        "chrf": _Chrf(word_order=2, lowercase=lowercase),
        "chrf2": _Chrf(word_order=0, lowercase=lowercase),
        "ter": _Ter(),
    }
    return {name: metrics[name] for name in names}


def _bleu(tokenize: str, lowercase: bool) -> BLEU:
    """BLEU with this tokeniser; DataError with what to install if it cannot be used."""
    if tokenize not in BLEU.TOKENIZERS:
        known = (AUTO, *BLEU.TOKENIZERS)
        raise DataError(f"sacreBLEU has no tokeniser {tokenize!r}", did_you_mean(tokenize, known))
    if missing := missing_packages(tokenize):
        raise DataError(
            f"tokeniser {tokenize} needs {' and '.join(missing)}, not installed here", PACKAGES[tokenize][1]
        )
    model = _model_of(tokenize) if tokenize in SPM_MODELS else None
    try:
        with _quiet():  # `tokenization_warnings` replaces its warnings
            return BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    except (AssertionError, RuntimeError, OSError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        hint = (
            f"remove {model}: it is downloaded again"
            if model
            else f"install it again: {PACKAGES[tokenize][1]}"
        )
        raise DataError(f"tokeniser {tokenize} cannot be started: {reason}", hint) from None


def _model_of(tokenize: str) -> Path:
    """The model file of a SentencePiece tokeniser, downloaded to sacreBLEU's folder if it is missing.

    sacreBLEU itself would download it without a timeout, and keep a partial file.
    """
    url = SPM_MODELS[tokenize]["url"]
    path = Path(SACREBLEU_DIR) / "models" / Path(url).name
    if not path.is_file() or not path.stat().st_size:
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")  # several processes may download it
        try:
            download(url, partial, lambda done, total: None)
            os.replace(partial, path)
        except (RegardError, OSError) as error:
            raise DataError(
                f"tokeniser {tokenize} needs a model that is missing and cannot be downloaded: {error}",
                f"with a network: curl -L --create-dirs -o {path} {url}; or use another tokeniser",
            ) from None
        finally:
            partial.unlink(missing_ok=True)
    return path


@contextmanager
def _quiet() -> Iterator[None]:
    """A context without sacreBLEU's warnings."""
    logger = logging.getLogger("sacrebleu")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


class _Chrf(CHRF):
    """chrF with all scores of type float: sacreBLEU's are mixed, and then have no mean."""

    def _compute_score_from_stats(self, stats: Any) -> CHRFScore:
        found = super()._compute_score_from_stats(stats)
        found.score = float(found.score)  # float32 for resamples with a match, float without
        return found


class _Ter(TER):
    """TER with all scores of type float; resamples without a word in their references have another type."""

    def _compute_score_from_stats(self, stats: Any) -> TERScore:
        found = super()._compute_score_from_stats(stats)
        found.score = float(found.score)
        return found
