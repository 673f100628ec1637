"""Compare: scores of several systems' outputs, and the significance of their differences."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.errors import DataError, UserError
from regard.evaluation.label_comparison import are_labels, compare_labels
from regard.evaluation.line_pairs import check_aligned
from regard.evaluation.translation import Comparison, compare_systems, refuse_no_system
from regard.verbs.shared.learned_metric import (
    AnyMetrics,
    SourcesAndReferences,
    learned_comparison,
    open_metrics,
    several_models,
)
from regard.verbs.shared.lines import lines_of, references_of
from regard.verbs.shared.python_call import python_call
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.shared.tokenize import Tokenize
from regard.verbs.shared.translation_scoring import scoring_for


@python_call
def compare(
    systems: Sequence[str | Path],
    *,
    ref: str | Path | Iterable[str | Path] = (),
    metric: AnyMetrics = (),
    src: str | Path | None = None,
    tokenize: Tokenize = "auto",
    lowercase: bool = False,
    labels: bool | None = None,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> list[Comparison]:
    """Score the outputs of one system, or compare those of several with the first, the baseline.

    Translations have BLEU, chrF++, chrF and TER, with sacreBLEU's paired bootstrap resampling (Koehn 2004),
    and one tokeniser for all systems. Labels have accuracies, with McNemar's exact test.

    Args:
        systems: a file of translations or labels by each system, the baseline first; one system alone has
            scores and intervals.
        ref: one or several files of references, aligned with the translations line by line; none for a metric
            that reads sources alone.
        metric: one or several learned metrics, each a folder that `regard convert` writes of a COMET metric,
            or what `regard.load` returns; they are compared after BLEU, chrF++ and TER.
        src: a file of the sources, for a metric that reads them.
        tokenize: sacreBLEU's tokeniser; "auto" is the one for the references' script, "none" is for text that
            is tokenised already.
        lowercase: ignore case; learned metrics never do.
        labels: True if each line is the label of a class; None: if all files share a few different lines,
            and have 20 or more.

    Raises:
        DataError: there is no file, one is named twice, files are not aligned, or the tokeniser cannot be
            used.
        UserError: a metric lacks what it reads, a system is a folder, or labels are given another metric.
        FolderError: a folder is not a metric.
    """
    names = [str(system) for system in systems]
    duplicates = [name for name in names if names.count(name) > 1]
    if duplicates:
        raise DataError(
            f"{duplicates[0]} is named twice", "name each system's output once, the baseline first"
        )
    if src is not None and not several_models(metric):
        raise UserError("src is for learned metrics alone", "give a metric (--metric DIR), or leave src out")
    _refuse_folders(names)
    texts = {name: lines_of(name) for name in names}
    references = references_of(ref)
    refuse_no_system(texts)
    one_reference = len(references) == 1 and not several_models(metric) and tokenize == "auto"
    if labels and not one_reference:
        raise UserError(
            "labels are compared with one file of labels, without a metric or a tokeniser",
            "give one ref (--ref FILE), and leave the others out",
        )
    if labels or (labels is None and one_reference and are_labels([*texts.values(), *references])):
        return [compare_labels(texts, references[0], lowercase=lowercase)]
    others = SourcesAndReferences(sources=None if src is None else lines_of(src), references=references)
    for name, lines in texts.items():
        if others.sources is not None:
            check_aligned(lines, [others.sources], name, "source")
        if references:
            check_aligned(lines, references, name)
    metrics = open_metrics(metric, others, runtime)
    found: list[Comparison] = []
    if references or not metrics:
        chosen = scoring_for(references, tokenize).tokenize
        found += compare_systems(texts, references, tokenize=chosen, lowercase=lowercase)
    elif tokenize != "auto" or lowercase:
        raise UserError("tokenize and lowercase are for BLEU, which needs ref", "give ref (--ref FILE)")
    return [*found, *(learned_comparison(each, texts, others) for each in metrics)]


def _refuse_folders(systems: Sequence[str]) -> None:
    """Raise a UserError for a system that is a folder, such as a model."""
    for name in systems:
        if Path(name).is_dir():
            raise UserError(
                f"{name} is a folder; a system is a file of its outputs, one a line",
                f"write them first: regard translate --model {shlex.quote(name)} --input FILE --output OUT,"
                " or the labels of regard classify",
            )
