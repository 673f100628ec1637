"""Chat templates: programs of model folders that write a conversation as the model reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.errors import DataError, FolderError

FILE = "chat_template.json"
Message = Mapping[str, str]  # {"role": "user", "content": "..."}
KEYS = ("role", "content")


@dataclass(frozen=True, kw_only=True)
class ChatTemplate:
    """A template in Jinja's language, as Hugging Face folders have it, and what it may refer to.

    `special_tokens`: texts by their names, such as `bos_token`. The template is a program from the folder, so
    only `ChatRenderer` runs it, in a process of its own.
    """

    template: str
    special_tokens: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The content of `chat_template.json` of a model folder."""
        return {"template": self.template, "special_tokens": dict(self.special_tokens)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], where: str) -> "ChatTemplate":
        """Reads the content of `chat_template.json`; FolderError if it is something else."""
        match content:
            case {"template": str(template), "special_tokens": dict(tokens), **others} if not others:
                if all(isinstance(text, str) for text in tokens.values()):
                    return cls(template=template, special_tokens=tokens)
        raise FolderError(f"{where} is not a chat template of regard", "copy the folder again")


def checked_messages(messages: Sequence[Any], special_texts: Sequence[str]) -> list[dict[str, str]]:
    """The messages as plain dicts.

    Raises:
        DataError: one lacks its role or content, has another key, or spells a special token of the model,
            with which it could end and pretend to be another message.
    """
    if not messages:
        raise DataError("the conversation has no message", "give at least one")
    checked = []
    for number, message in enumerate(messages, start=1):
        if not isinstance(message, Mapping) or sorted(message) != sorted(KEYS):
            raise DataError(
                f"message {number} is not an object of role and content",
                'write {"role": "user", "content": "..."}',
            )
        for key in KEYS:
            if not isinstance(message[key], str):
                raise DataError(
                    f"message {number}: its {key} is {type(message[key]).__name__}, not text", "give text"
                )
            if spelled := next((text for text in special_texts if text in message[key]), None):
                raise DataError(
                    f"message {number} spells {spelled!r}, a special token of the model", "leave it out"
                )
        checked.append({key: message[key] for key in KEYS})
    return checked
