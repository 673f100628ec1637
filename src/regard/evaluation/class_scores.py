"""Precision, recall and F1 of each class, from a confusion matrix, and of each type of entities."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.evaluation.classification import ConfusionMatrix


@dataclass(frozen=True, kw_only=True)
class ClassScore:
    """Precision, recall and F1 of a class, or of a type of entities, in percent; 0 where nothing counts."""

    label: str
    count: int  # of true examples
    predicted: int
    precision: float
    recall: float
    f1: float

    @classmethod
    def of(cls, label: str, right: int, predicted: int, count: int) -> "ClassScore":
        """The scores from the numbers of examples that are right, that are predicted, and that are true."""
        return cls(
            label=label,
            count=count,
            predicted=predicted,
            precision=100 * right / max(predicted, 1),
            recall=100 * right / max(count, 1),
            f1=200 * right / max(predicted + count, 1),
        )


def class_scores(table: ConfusionMatrix, labels: Sequence[str]) -> list[ClassScore]:
    """The scores of each class of `labels`; further rows of the matrix are true classes without a label."""
    right, predicted, count = (
        table.diagonal().tolist(),
        table.sum(axis=0).tolist(),
        table.sum(axis=1).tolist(),
    )
    return [
        ClassScore.of(label, right[number], predicted[number], count[number])
        for number, label in enumerate(labels)
    ]
