"""Conversations are refused by name, with a command that writes them as texts."""

import json
import shutil
import subprocess

import pytest

from regard.errors import DataError
from regard.verbs.new import new
from regard.verbs.proposals.input_files import input_files
from regard.verbs.proposals.task_detection import detect_task

ROLES = [{"role": "user", "content": "Hello\nyou"}, {"role": "assistant", "content": "Yes?"}]
SPEAKERS = [{"from": "human", "value": "Hello\nyou"}, {"from": "gpt", "value": "Yes?"}]


@pytest.mark.parametrize(("key", "messages"), [("messages", ROLES), ("conversations", SPEAKERS)])
@pytest.mark.parametrize("task", [None, "language_model"])
def test_conversations_are_refused_with_a_command_that_writes_them_as_texts(tmp_path, key, messages, task):
    path = tmp_path / "chats.jsonl"
    path.write_text("".join(json.dumps({"id": str(n), key: messages}) + "\n" for n in range(3)))
    with pytest.raises(DataError, match=f"'{key}' holds conversations") as refused:
        new(path, task=task, out=tmp_path / "chats.toml")
    command = refused.value.hint.partition(": ")[2]
    if shutil.which("jq"):
        subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, check=True)
        [text, *_] = (tmp_path / "texts.jsonl").read_text().splitlines()
        first, second = (next(iter(message.values())) for message in messages)
        assert json.loads(text) == {"text": f"{first}: Hello\nyou\n{second}: Yes?"}


def test_lists_of_other_things_are_not_conversations(tmp_path):
    path = tmp_path / "lists.jsonl"
    path.write_text('{"messages": ["a", "b"]}\n' * 30)
    with pytest.raises(DataError, match=r"lists|no record"):
        new(path, out=tmp_path / "lists.toml")


def test_texts_beside_a_conversation_are_read_if_their_column_is_named(tmp_path):
    path = tmp_path / "chats.jsonl"
    records = [{"prompt": f"the film number {n}", "messages": ROLES} for n in range(30)]
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    found = detect_task(input_files(path), None, ("prompt",))
    assert (found.task, found.columns) == ("language_model", ("prompt",))
    with pytest.raises(DataError, match="'messages' holds conversations"):
        detect_task(input_files(path), None, ("messages",))
