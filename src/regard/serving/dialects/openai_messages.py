"""The messages of OpenAI's chats: what a translator translates, and what a chat model reads."""

from collections.abc import Sequence

from regard.serving.dialects.controls import refuse_set
from regard.serving.dialects.openai_types import IN_PARTS, Message
from regard.serving.http_error import HttpProblem, unsupported

ROLES = {"developer": "system"}  # OpenAI's newer word for the same
WITHOUT_TOOLS = ("tool", "function")
WHY = "no model here reads it"


def last_user_message(messages: Sequence[Message]) -> str:
    """The text of the last message, which is the user's.

    Raises:
        HttpProblem: another message follows it, or it is not text.
    """
    message = messages[-1]
    if message.role != "user":
        raise unsupported(
            "a last message that is not the user's",
            "a translator answers it",
            "end with a user message",
            of="messages",
        )
    return content(message)


def conversation(messages: Sequence[Message]) -> list[dict[str, str]]:
    """The messages for a chat template.

    Raises:
        HttpProblem: one is the answer of a tool, has a name, or is not text.
    """
    found = []
    for message in messages:
        if message.role in WITHOUT_TOOLS:
            raise unsupported(
                f"a message of role {message.role}",
                "no model here calls tools",
                "leave it out",
                of="messages",
            )
        refuse_set({"name": message.name}, {"name": "chat templates here have no names"})
        found.append({"role": ROLES.get(message.role, message.role), "content": content(message)})
    return found


def content(message: Message) -> str:
    """The text of a message; the parts of its content are lines, as in vLLM.

    Raises:
        HttpProblem: it has none, or a part of it is not text.
    """
    if message.content is None:
        raise HttpProblem(
            400, f"a message of role {message.role} has no content", "give it a text", parameter="messages"
        )
    if isinstance(message.content, str):
        return message.content
    for part in message.content:
        if part.type != "text" or part.text is None:
            raise unsupported(f"content of type {part.type[:20]}", WHY, "send text", of="content")
        refuse_set({name: getattr(part, name) for name in IN_PARTS}, dict.fromkeys(IN_PARTS, WHY))
    return "\n".join(part.text or "" for part in message.content)
