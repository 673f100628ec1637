"""Columns that no task reads: pairs of texts with a label, and numbers in another notation."""

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

from regard.data.column_names import (
    ANSWER_NAMES,
    LABEL_NAMES,
    OTHER_NAMES,
    SOURCE_NAMES,
    TARGET_NAMES,
    TEXT_NAMES,
    names_language,
)
from regard.errors import DataError
from regard.verbs.proposals.column_statistics import Column
from regard.verbs.proposals.questions import TOPIC_NAMES

_JOIN = (
    "join both texts in one column, as in 'FIRST || SECOND', and name it and the label: --columns TEXT,LABEL"
)
_PAIRS = (("premise", "hypothesis"), ("query", "passage"), ("claim", "evidence"))
_NUMBERED = re.compile(r"(.*?)[\W_]*([12ab])")  # sentence1 and sentence2, text_a and text_b
SIMILAR = 1 / 3  # the mean length of the shorter of two texts of a pair, at least, as a share of the longer


def refuse_three_columns(named: Sequence[Column]) -> None:
    """Raise a DataError for three named columns: both texts of a pair, and their label."""
    if len(named) == 3:
        names = [repr(each.name) for each in named]
        raise DataError(
            f"three columns are named ({', '.join(names)}), but a model of labels reads one text",
            f"name two: --columns FIRST,SECOND; for pairs of texts, {_JOIN}",
        )


def refuse_labelled_pairs(path: Path, columns: Sequence[Column]) -> None:
    """Raise a DataError if a table holds two texts and a label or a number in each row.

    Their names say so, as premise and hypothesis do; or there are two texts of similar lengths, neither or
    both of them named as a text.
    """
    labels = [each for each in columns if each.kind in ("label", "number")]
    label = next((each for each in columns if each.short_name in LABEL_NAMES), None) or next(
        iter(labels), None
    )
    if label is None:
        return
    pair = _named_pair(columns)
    if label.short_name in LABEL_NAMES:
        answered = None if label.short_name in TOPIC_NAMES else _answered_prompt(columns)
        pair = pair or answered or _similar_texts(columns)
    if not pair:
        return
    first, second = (each.name for each in pair)
    raise DataError(
        f"{path}: {first!r} and {second!r} are two texts with {label.name!r}, but a model of labels reads one"
        " text",
        f"{_JOIN}; to use one text alone, --columns {second},{label.name}",
    )


def refuse_formatted_target(path: Path, target: Column) -> None:
    """Raise a DataError if the column that would be translated into has numbers in another notation."""
    if found := formatted_numbers([target]):
        raise DataError(
            f"{path}: {found}",
            "write them as 1007.5, without separators and units; if they are texts, add --task translation",
        )


def formatted_numbers(columns: Sequence[Column]) -> str:
    """The column of numbers in another notation, in words; empty if there is none."""
    for each in columns:
        if (example := each.formatted_number) is not None:
            return f"{example!r} in the column {each.name!r} is a number that is not read as one"
    return ""


def _named_pair(columns: Sequence[Column]) -> tuple[Column, Column] | None:
    """Two columns whose names are those of a pair: premise and hypothesis, sentence1 and sentence2."""
    names = {each.short_name: each for each in columns}
    numbered = [
        (one, other)
        for one in names
        for other in names
        if (first := _NUMBERED.fullmatch(one))
        and (second := _NUMBERED.fullmatch(other))
        and first[1] == second[1] != ""
        and (first[2], second[2]) in (("1", "2"), ("a", "b"))
        and names[one].kind == names[other].kind == "text"
    ]
    for first, second in (*_PAIRS, *numbered):
        if first in names and second in names:
            return names[first], names[second]
    return None


def _answered_prompt(columns: Sequence[Column]) -> tuple[Column, Column] | None:
    """A prompt or an instruction, and the text that answers it."""
    texts = {each.short_name: each for each in columns if each.kind == "text"}
    names = itertools.product(("prompt", "instruction"), (*ANSWER_NAMES, *TARGET_NAMES))
    return next(((texts[one], texts[two]) for one, two in names if one in texts and two in texts), None)


def _similar_texts(columns: Sequence[Column]) -> tuple[Column, Column] | None:
    """The only two texts, if their lengths are similar and their names do not say which one is read."""
    texts = [
        each
        for each in columns
        if each.kind == "text" and each.short_name not in {*OTHER_NAMES, *LABEL_NAMES}
    ]
    names = {each.short_name for each in texts}
    sides = any(each in (*SOURCE_NAMES, *TARGET_NAMES) or names_language(each) for each in names)
    if len(texts) != 2 or sides:
        return None
    known = sum(each.short_name in TEXT_NAMES for each in texts)
    known = known or sum(not {*re.split(r"[\W_]+", each.short_name)}.isdisjoint(TEXT_NAMES) for each in texts)
    lengths = sorted(each.mean_length for each in texts)
    return (texts[0], texts[1]) if known != 1 and lengths[0] >= SIMILAR * lengths[1] else None
