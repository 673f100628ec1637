"""Questions with answers and instructions with responses are pairs; documents with an address are texts."""

import pytest

from regard.errors import DataError
from regard.verbs.proposals.columns import Roles, roles_of
from tests.verbs.proposals.test_columns import few, reply, table_of, text


def pair(*columns):
    return Roles(task="translation", columns=columns)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("prompt", "completion"),
        ("question", "answer"),
        ("instruction", "output"),
        ("instruction", "response"),
    ],
)
@pytest.mark.parametrize("task", [None, "translation"])
def test_a_question_and_its_answer_are_a_pair(tmp_path, question, answer, task):
    table = table_of(tmp_path, id=str, **{answer: reply, question: text}, empty=lambda number: "")
    assert roles_of(table, task, ()) == pair(question, answer)


def test_short_answers_are_texts_unless_there_are_few(tmp_path):
    names = {"question": text, "answer": lambda number: f"{number % 30} films"}
    long = table_of(tmp_path, **names)
    long_again = [Roles(task="translation", columns=("question", "answer"))]
    assert [roles_of(long, None, ())] == long_again
    yes_no = table_of(tmp_path, question=text, answer=few)
    assert roles_of(yes_no, None, ()).task == "classification"


@pytest.mark.parametrize("more", ["input", "context"])
@pytest.mark.parametrize("task", [None, "translation"])
def test_a_text_beside_the_instruction_is_not_lost_silently(tmp_path, more, task):
    def some(number):
        return text(number) if number % 2 else ""

    columns = {"instruction": text, more: some, "response": reply, "category": few}
    with pytest.raises(DataError, match=f"'response' answers both 'instruction' and '{more}'") as refused:
        roles_of(table_of(tmp_path, **columns), task, ())
    assert "--columns instruction,response" in refused.value.hint
    assert roles_of(table_of(tmp_path, **columns), None, ["instruction", "response"]) == pair(
        "instruction", "response"
    )
    none = table_of(tmp_path, **{**columns, more: lambda number: ""})
    assert roles_of(none, None, ()) == pair("instruction", "response")


@pytest.mark.parametrize("length", [1, 9])
@pytest.mark.parametrize("names", [("prompt", "response"), ("instruction", "output")])
def test_answers_with_a_label_are_refused_and_those_with_a_topic_are_a_pair(tmp_path, names, length):
    def long(number):
        return reply(number) * length

    both = dict(zip(names, (text, long), strict=True))
    table = table_of(tmp_path, **both, label=few)
    with pytest.raises(DataError, match=f"'{names[0]}' and '{names[1]}' are two texts with 'label'"):
        roles_of(table, None, ())
    assert roles_of(table, "translation", ()) == pair(*names)
    assert roles_of(table_of(tmp_path, **both, category=few), None, ()) == pair(*names)


def test_one_instruction_for_all_inputs_says_nothing(tmp_path):
    table = table_of(tmp_path, instruction=lambda number: "Answer.", input=text, output=reply)
    assert roles_of(table, None, ()) == pair("input", "output")


@pytest.mark.parametrize(
    "others",
    [
        {"url": "http://x/{}", "title": "Chapter {} of the book"},
        {"timestamp": "2019-04-25T12:57:{}Z", "url": "http://x/{}"},
        {"shelf": "row {}"},
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_text_with_its_address_and_title_is_running_text(tmp_path, others, first):
    def document(number):
        return text(number) * 5

    some = {name: form.format for name, form in others.items()}
    table = table_of(tmp_path, **({"text": document, **some} if first else {**some, "text": document}))
    assert roles_of(table, None, ()) == Roles(task="language_model", columns=("text",))


def test_a_text_and_its_summary_are_a_pair(tmp_path):
    table = table_of(tmp_path, text=lambda number: text(number) * 5, url="http://x/{}".format, summary=text)
    assert roles_of(table, None, ()) == pair("text", "summary")
