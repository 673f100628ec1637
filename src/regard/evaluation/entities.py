"""Precision, recall and F1 of entities, from a label for each word: BIO, IOB1, BIOES or BILOU.

Entities are counted as by conlleval, the script of CoNLL-2003, and by seqeval's default: one that is
predicted is right if its first word, its last word and its type are. A label that does not follow the scheme,
such as an I- after O, begins an entity; seqeval's mode="strict" counts none there. The L- and U- of BILOU,
which seqeval's default does not know, are E- and S-.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Int

from regard.evaluation.class_scores import ClassScore

LABEL = re.compile(r"(?:O|([BIESLU])-(.+))")
ENDS = {"L": "E", "U": "S"}  # the letters of BILOU and of BIOES
OUTSIDE = ("O", "")

Entity = tuple[int, int, str]  # its first word, the word after its last, its type
EntityCounts = Int[np.ndarray, "sentences 3"]  # of entities that are right, predicted and true


def are_entity_labels(labels: Iterable[str]) -> bool:
    """True if the labels of a task are those of entities: O, and B-, I-, E- or S- before a type."""
    found = [LABEL.fullmatch(label) for label in labels]
    return all(found) and any(each is not None and each[1] for each in found)


def entities(labels: Sequence[str]) -> set[Entity]:
    """The entities of a sentence; words of a label of another form, such as an unknown one, are one, too."""
    found: set[Entity] = set()
    start, before = 0, OUTSIDE
    for place, label in enumerate([*labels, "O"]):
        prefix, kind = parts = _parts(label)
        inside, continues = before != OUTSIDE, prefix in ("I", "E") and before[0] in ("B", "I")
        if parts != OUTSIDE and continues and kind == before[1]:
            before = parts
            continue
        if inside:
            found.add((start, place, before[1]))
        start, before = place, parts
    return found


def _parts(label: str) -> tuple[str, str]:
    """The letter of a label, B, I, E, S or O, and the type."""
    match = LABEL.fullmatch(label)
    if match is None:
        return "I", label
    return OUTSIDE if match[1] is None else (ENDS.get(match[1], match[1]), match[2])


def entity_counts(labels: Iterable[Sequence[str]], predictions: Iterable[Sequence[str]]) -> EntityCounts:
    """For each sentence the number of entities that are right, that are predicted, and that are true."""
    rows = []
    for true, predicted in zip(map(entities, labels), map(entities, predictions), strict=True):
        rows.append((len(true & predicted), len(predicted), len(true)))
    return np.array(rows, np.int64).reshape(-1, 3)


def entity_type_scores(
    labels: Iterable[Sequence[str]], predictions: Iterable[Sequence[str]]
) -> list[ClassScore]:
    """The scores of each type of entities, such as PER, in the order of their names."""
    right, predicted, true = Counter[str](), Counter[str](), Counter[str]()
    for here, there in zip(map(entities, labels), map(entities, predictions), strict=True):
        for counts, found in ((right, here & there), (predicted, there), (true, here)):
            counts.update(kind for _, _, kind in found)
    kinds = sorted({*predicted, *true} - {""})  # "": a label that is not known
    return [ClassScore.of(kind, right[kind], predicted[kind], true[kind]) for kind in kinds]


def entity_ratios(counts: EntityCounts) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Precision, recall and F1 as numerator and denominator of each sentence; their sums are divided."""
    right, predicted, true = counts.T
    return {
        "precision": (right, predicted),
        "recall": (right, true),
        "f1": (2 * right, predicted + true),
    }


def entity_scores(counts: EntityCounts) -> dict[str, float]:
    """Precision, recall and F1; 0 where there is nothing to divide by."""
    ratios = entity_ratios(counts).items()
    return {name: float(above.sum() / max(below.sum(), 1)) for name, (above, below) in ratios}
