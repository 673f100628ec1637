"""Files of conversations, whose messages are a list in each JSON object."""

import shlex
from pathlib import Path
from typing import Any

from regard.data.files import read_lines
from regard.data.json_lines import parse_record
from regard.errors import DataError

MESSAGES = {  # the key of the messages -> the keys of the speaker and of the text of one
    "messages": ("role", "content"),
    "conversations": ("from", "value"),
    "conversation": ("role", "content"),
}


def refuse_chats(path: Path) -> None:
    """Raise a DataError if a file of JSON Lines holds conversations: training reads texts alone."""
    first = next((line for line in read_lines(path) if line and not line.isspace()), "")
    try:
        record: dict[str, Any] = parse_record(first, refuses_duplicates=False)
    except ValueError:
        return  # reading the table names what is wrong
    for key, (speaker, text) in MESSAGES.items():
        messages = record.get(key)
        if isinstance(messages, list) and messages and all(isinstance(each, dict) for each in messages):
            if "role" in messages[0]:
                speaker, text = "role", "content"
            write = f'{{text: ([.{key}[] | "\\(.{speaker}): \\(.{text})"] | join("\\n"))}}'
            raise DataError(
                f"{path}: {key!r} holds conversations, lists of messages, and training reads texts alone",
                "write each conversation as one text, in the form that the model is to learn:"
                f" jq -c {shlex.quote(write)} {shlex.quote(str(path))} > texts.jsonl",
            )
