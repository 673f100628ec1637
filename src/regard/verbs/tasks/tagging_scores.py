"""Scores of a tagger: accuracy and macro-F1 of words; precision, recall and F1 of entities.

A label that is not in the training data (IGNORED) is never predicted, so its words count as wrong.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from regard.data.batch import IGNORED
from regard.data.texts import EncodedText
from regard.evaluation.class_scores import class_scores
from regard.evaluation.classification import (
    SEED,
    ConfusionMatrix,
    accuracy,
    bootstrap_interval,
    central_interval,
    confusion,
    macro_f1,
)
from regard.evaluation.entities import (
    EntityCounts,
    are_entity_labels,
    entity_counts,
    entity_ratios,
    entity_scores,
    entity_type_scores,
)
from regard.evaluation.score import Score, version_fact
from regard.verbs.tasks.task import ScoreReport
from regard.verbs.tasks.text import predictions_and_labels

RESAMPLES = 1000  # of sentences, for intervals
Words = Int[np.ndarray, " words"]


def validation_scores(
    model: Any, texts: Sequence[EncodedText], names: Sequence[str], pad_id: int
) -> dict[str, float]:
    """The mean loss, and the scores in percent; `names` are those of the labels."""
    predictions, labels, loss = predictions_and_labels(model, texts, pad_id)
    table = _confusion(np.concatenate(labels), np.concatenate(predictions), len(names))
    found = {"loss": loss, "accuracy": 100 * accuracy(table), "macro_f1": 100 * macro_f1(table)}
    if are_entity_labels(names):
        counts = entity_counts(*_label_names(texts, labels, predictions, names))
        found |= {f"entity_{name}": 100 * value for name, value in entity_scores(counts).items()}
    return found


def evaluate_tags(
    model: Any, texts: Sequence[EncodedText], names: Sequence[str], pad_id: int, column: str
) -> ScoreReport:
    """Test scores with their intervals, and the confusion matrix.

    Intervals resample sentences, since a sentence's words are not independent.
    """
    num_labels = len(names)
    text_predictions, text_labels, _ = predictions_and_labels(model, texts, pad_id)
    predictions, labels = np.concatenate(text_predictions), np.concatenate(text_labels)
    lines = np.repeat([text.line for text in texts], [len(text.labels) for text in texts])
    num_sentences = len(np.unique(lines))
    sentence = np.unique(lines, return_inverse=True)[1]  # of each word
    table = _confusion(labels, predictions, num_labels)
    right = np.bincount(sentence[predictions == labels], minlength=num_sentences)
    unseen = int(np.count_nonzero(labels == IGNORED))
    facts = f"words:{len(labels)}|sentences:{num_sentences}|column:{column}"
    facts += f"|unseen:{unseen}" if unseen else ""
    scores = [
        _score(
            "accuracy",
            accuracy(table),
            bootstrap_interval(right.tolist(), np.bincount(sentence).tolist(), RESAMPLES),
            facts,
        ),
        _score("macro-F1", macro_f1(table), _f1_interval(labels, predictions, sentence, num_labels), facts),
    ]
    named = _label_names(texts, text_labels, text_predictions, names) if are_entity_labels(names) else None
    return ScoreReport(
        scores=[*scores, *(_entity_scores(entity_counts(*named)) if named else [])],
        confusion=table[:num_labels, :num_labels],
        classes=class_scores(table, names),
        entity_types=entity_type_scores(*named) if named else [],
    )


def _score(name: str, value: float, interval: tuple[float, float], facts: str) -> Score:
    """A score in percent, of fractions."""
    return Score(
        name=name,
        value=100 * value,
        low=100 * interval[0],
        high=100 * interval[1],
        signature=f"{facts}|bs:{RESAMPLES}|seed:{SEED}|{version_fact()}",
    )


def _confusion(labels: Words, predictions: Words, num_labels: int) -> ConfusionMatrix:
    """The confusion matrix (rows: true labels); its last row counts labels not in the training data."""
    return confusion(np.where(labels == IGNORED, num_labels, labels), predictions, num_labels + 1)


def _f1_interval(
    labels: Words, predictions: Words, sentence: Words, num_labels: int, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """The 95 % bootstrap interval of macro-F1; `sentence` is the number of each word's sentence, from 0."""
    random = np.random.Generator(np.random.PCG64(SEED))
    count, values = int(sentence.max()) + 1, np.empty(resamples)
    for number in range(resamples):
        times = np.bincount(random.integers(0, count, count), minlength=count)[sentence]
        table = _confusion(np.repeat(labels, times), np.repeat(predictions, times), num_labels)
        values[number] = macro_f1(table)
    return central_interval(values)


def _label_names(
    texts: Sequence[EncodedText],
    labels: Sequence[np.ndarray],
    predictions: Sequence[np.ndarray],
    names: Sequence[str],
) -> tuple[list[list[str]], list[list[str]]]:
    """The names of the labels and predictions of each sentence, whose windows are joined."""
    sentences: dict[int, tuple[list[str], list[str]]] = {}
    for text, true, predicted in zip(texts, labels, predictions, strict=True):
        true_names, predicted_names = sentences.setdefault(text.line, ([], []))
        true_names += ["" if number == IGNORED else names[number] for number in true.tolist()]
        predicted_names += [names[number] for number in predicted.tolist()]
    return [true for true, _ in sentences.values()], [predicted for _, predicted in sentences.values()]


def _entity_scores(counts: EntityCounts) -> list[Score]:
    """Precision, recall and F1 of entities."""
    _, predicted, true = counts.sum(axis=0).tolist()
    facts = f"entities:{true}|predicted:{predicted}|sentences:{len(counts)}"
    values = entity_scores(counts)
    return [
        _score(
            f"entity {name.replace('f1', 'F1')}",
            values[name],
            bootstrap_interval(above.tolist(), below.tolist(), RESAMPLES),
            facts,
        )
        for name, (above, below) in entity_ratios(counts).items()
    ]
