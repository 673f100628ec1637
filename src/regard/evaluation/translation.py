"""BLEU, chrF++ and TER by sacreBLEU (Post 2018), with signatures, intervals and paired significance.

The numbers are those of `sacrebleu -m bleu chrf ter --chrf-word-order 2 --confidence`. Its seed is
12345 unless SACREBLEU_SEED says otherwise, and stands in the signature.
"""

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF, CHRFScore
from sacrebleu.metrics.ter import TER, TERScore
from sacrebleu.significance import PairedTest, Result
from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
from sacrebleu.utils import SACREBLEU_DIR

from regard.data.download import download
from regard.errors import DataError, did_you_mean
from regard.evaluation.line_pairs import References, check_aligned
from regard.evaluation.score import Score
from regard.evaluation.tokenizers import (
    AUTO,
    PACKAGES,
    missing_packages,
    ordered,
    tokenizer_for,
    writing_of_references,
)

MetricName = Literal["bleu", "chrf", "ter"]
METRICS: tuple[MetricName, ...] = ("bleu", "chrf", "ter")
FEWEST = 30  # sentences: of fewer, resampling says too little about others, and too surely
MANY = 100  # lines that look wrong before it is said; sacreBLEU's own bound


@dataclass(frozen=True, kw_only=True)
class SystemScore:
    """What one of several compared systems reaches; the first is the baseline and has no `p_value`."""

    system: str
    value: float
    low: float | None  # None: fewer than FEWEST lines
    high: float | None
    p_value: float | None  # of a difference to the baseline as large as this, if there were none


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Systems compared by one metric."""

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
    metrics: Sequence[MetricName] = METRICS,
) -> list[Score]:
    """BLEU, chrF2++ and TER of a corpus.

    Args:
        references: `references[r][i]` is reference r of line i, None where a line has fewer.
        tokenize: how BLEU finds words: a tokeniser of sacreBLEU, `none` for text that is tokenised already,
            or `auto`: the one that fits the script of the references (`tokenizers.tokenizer_for`).
        lowercase: without regard to case (TER never regards it, as is sacreBLEU's default).
        bootstrap: resamples for the intervals (Koehn 2004); 0 for none. Of fewer than FEWEST lines there is
            none.

    Raises:
        DataError: the counts of lines differ, or there are none; the tokeniser is unknown or cannot be used.
    """
    check_aligned(hypotheses, references)
    tokenize = resolved(tokenize, references)
    bootstrap = bootstrap if len(hypotheses) >= FEWEST else 0
    streams = cast("Sequence[Sequence[str]]", references)  # that an item may be None, its types do not say
    scores = []
    for metric in _metrics(metrics, tokenize, lowercase).values():
        score = metric.corpus_score(hypotheses, streams, n_bootstrap=bootstrap or 1)
        signature = str(metric.get_signature())
        facts = json.loads(score.format(width=6, signature=signature, is_json=True))
        low = high = None
        if bootstrap:  # sacreBLEU leaves out an interval around 0
            mean, half = facts.get("confidence_mean", score.score), facts.get("confidence_var", 0.0)
            low, high = mean - half, mean + half
        scores.append(Score(name=score.name, value=score.score, low=low, high=high, signature=signature))
    return scores


def compare_systems(
    systems: Mapping[str, Sequence[str]],
    references: References,
    *,
    tokenize: str = AUTO,
    lowercase: bool = False,
    bootstrap: int = 1000,
) -> list[Comparison]:
    """Each system against the first, by paired bootstrap resampling (Koehn 2004), metric by metric.

    Raises:
        DataError: fewer than two systems, lines that are not aligned, or a tokeniser that cannot be used.
    """
    if len(systems) < 2:
        raise DataError("one system alone cannot be compared", "name two outputs or more, the baseline first")
    for name, hypotheses in systems.items():
        check_aligned(hypotheses, references, name)
    writing = writing_of_references(references)
    tokenize = tokenizer_for(writing) if tokenize == AUTO else tokenize
    test = PairedTest(
        list(systems.items()),
        _metrics(ordered(METRICS, writing), tokenize, lowercase),
        cast("Sequence[Sequence[str]]", references),
        test_type="bs",
        n_samples=bootstrap,
    )
    signatures, results = test()
    return [
        Comparison(
            name=name,
            signature=str(signature),
            systems=_system_scores(
                list(systems), cast("list[Result]", results[name]), len(references[0]) >= FEWEST
            ),
        )
        for name, signature in signatures.items()
    ]


def _system_scores(names: list[str], results: list[Result], intervals: bool) -> tuple[SystemScore, ...]:
    scores = []
    for name, result in zip(names, results, strict=True):
        mean, half, p_value = float(result.mean or 0), float(result.ci or 0), result.p_value
        if p_value is not None and result.score == results[0].score:
            p_value = 1.0  # no difference at all; sacreBLEU would count it as none of chance's making
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


def cautions(hypotheses: Sequence[str], *, tokenize: str = AUTO) -> list[str]:
    """What speaks against the chosen `tokenize`: text that looks tokenised, or that does not."""
    endings = [line.rstrip()[-2:] for line in hypotheses]
    apart = endings.count(" .")
    attached = sum(ending.endswith(".") for ending in endings) - apart
    if tokenize != "none" and apart >= MANY:
        return [f"{apart:,} lines end in a full stop set apart: if the text is tokenised, --tokenize none"]
    if tokenize == "none" and attached >= MANY:
        return [f"{attached:,} lines end in a full stop that --tokenize none takes for part of a word"]
    return []


def resolved(tokenize: str, references: References) -> str:
    """`tokenize`, or for `auto` the tokeniser that fits the script of the references."""
    return tokenizer_for(writing_of_references(references)) if tokenize == AUTO else tokenize


def check_tokenizer(tokenize: str) -> None:
    """Refuse a tokeniser that cannot be used here, before anything is computed; fetch the model it needs.

    Raises:
        DataError: it is unknown, or its package or its model is not there and cannot be had.
    """
    if tokenize != AUTO:
        _bleu(tokenize, lowercase=False)


def _metrics(names: Sequence[MetricName], tokenize: str, lowercase: bool) -> dict[str, Metric]:
    metrics: dict[MetricName, Metric] = {
        "bleu": _bleu(tokenize, lowercase),
        "chrf": _Chrf(word_order=2, lowercase=lowercase),
        "ter": _Ter(),
    }
    return {name: metrics[name] for name in names}


def _bleu(tokenize: str, lowercase: bool) -> BLEU:
    """BLEU with this tokeniser; one that cannot be used is a DataError that says what to install."""
    if tokenize not in BLEU.TOKENIZERS:
        known = (AUTO, *BLEU.TOKENIZERS)
        raise DataError(f"no tokeniser of scores is called {tokenize!r}", did_you_mean(tokenize, known))
    if missing := missing_packages(tokenize):
        raise DataError(
            f"tokeniser {tokenize} needs {' and '.join(missing)}, not installed here", PACKAGES[tokenize][1]
        )
    model = _model_of(tokenize) if tokenize in SPM_MODELS else None
    try:
        with _quiet():  # what it would log, `cautions` says
            return BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    except (AssertionError, RuntimeError, OSError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        hint = (
            f"remove {model}: it is fetched again" if model else f"install it anew: {PACKAGES[tokenize][1]}"
        )
        raise DataError(f"tokeniser {tokenize} cannot be started: {reason}", hint) from None


def _model_of(tokenize: str) -> Path:
    """The file of a SentencePiece tokeniser where sacreBLEU looks for it, fetched if it is not there.

    sacreBLEU would fetch it without a limit of time, and keep what a broken connection leaves.
    """
    url = SPM_MODELS[tokenize]["url"]
    path = Path(SACREBLEU_DIR) / "models" / Path(url).name
    if not path.is_file() or not path.stat().st_size:
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")  # several workers may want it
        try:
            download(url, partial, lambda done, total: None)
            os.replace(partial, path)
        except (DataError, OSError) as error:
            raise DataError(
                f"tokeniser {tokenize} needs a model that is not here and cannot be fetched: {error}",
                f"where there is a network: curl -L --create-dirs -o {path} {url}; or take another tokeniser",
            ) from None
        finally:
            partial.unlink(missing_ok=True)
    return path


@contextmanager
def _quiet() -> Iterator[None]:
    """Without sacreBLEU's warnings."""
    logger = logging.getLogger("sacrebleu")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


class _Chrf(CHRF):
    """sacreBLEU's, whose scores are one kind of float: of a mixture no mean can be computed."""

    def _compute_score_from_stats(self, stats: Any) -> CHRFScore:
        found = super()._compute_score_from_stats(stats)
        found.score = float(found.score)  # float32 of a resample with a match, float of one without
        return found


class _Ter(TER):
    """The same for TER, whose resamples may have no word in their references."""

    def _compute_score_from_stats(self, stats: Any) -> TERScore:
        found = super()._compute_score_from_stats(stats)
        found.score = float(found.score)
        return found
