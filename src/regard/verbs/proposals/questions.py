"""Tables of questions and answers, or instructions and responses: pairs, which a translation learns."""

from collections.abc import Sequence
from pathlib import Path

from regard.data.column_names import ANSWER_NAMES, LABEL_NAMES, QUESTION_NAMES, TARGET_NAMES
from regard.errors import DataError
from regard.verbs.proposals.column_statistics import Column

FEW_ANSWERS = 20  # so few different answers, such as yes and no, are classes
MORE_NAMES = ("input", "context")  # what is read beside a question
TOPIC_NAMES = ("category", "topic", "tag")  # labels of what a pair is about, not of how good an answer is


def answered_questions(path: Path, columns: Sequence[Column], task: str | None = None) -> list[Column]:
    """The question and the answer, by their names; empty if there are none.

    Answers of which there are few different ones are labels. Unless the `task` is known, pairs with a column
    called as a label are none to translate; beside a prompt or an instruction, a topic is not such a label.

    Raises:
        DataError: a second column is read beside the question.
    """
    filled = {each.short_name: each for each in columns if len(each.values) > 1}
    question = next((filled[name] for name in QUESTION_NAMES if name in filled), None)
    answers = [filled[name] for name in (*ANSWER_NAMES, *TARGET_NAMES) if name in filled]
    answer = next((each for each in answers if _is_text(each)), None)
    if question is None or answer is None:
        return []
    topics = () if question.short_name == "question" else TOPIC_NAMES
    if task is None and not set(LABEL_NAMES).difference(topics).isdisjoint(filled):
        return []
    if more := next((filled[name] for name in MORE_NAMES if name in filled), None):
        raise DataError(
            f"{path}: {answer.name!r} answers both {question.name!r} and {more.name!r}, but a model of pairs"
            " reads one text",
            f"join both in one column, as in 'QUESTION || TEXT', and name it and the answer: --columns"
            f" SOURCE,TARGET; to use one alone, --columns {question.name},{answer.name}",
        )
    return [question, answer]


def _is_text(column: Column) -> bool:
    return column.kind == "text" or (column.kind == "label" and len(column.values) > FEW_ANSWERS)
