"""What a decoder-only model reads: texts to continue, or conversations to answer by its chat template."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast

from regard.data.chat_renderer import ChatRenderer
from regard.data.chat_template import Message, checked_messages
from regard.data.tokenizer import Tokenizer
from regard.errors import DataError, FolderError, UserError
from regard.verbs.shared.text_options import ChatOptions
from regard.verbs.shared.texts import refuse_non_str, refuse_non_texts, several
from regard.weights.model_folder import LoadedModel

Asked = (
    str | Sequence[Message]
)  # a prompt; in a chat a message of the user, or all messages of a conversation


class Rendered(str):
    """A conversation as its template wrote it."""

    __slots__ = ()


class Prompts(ABC):
    """Reads prompts in one way.

    `chat`: an answer stands alone; otherwise it continues its prompt. `begin_id`: the token before each.
    """

    chat: ClassVar[bool]
    begin_id: int | None

    @abstractmethod
    def text(self, asked: Asked) -> str:
        """The text that the model reads.

        Raises:
            DataError: a prompt is not text, or a conversation is not one of messages.
        """

    @abstractmethod
    def texts(self, asked: Iterable[Asked]) -> Iterator[str]:
        """The text of each prompt of several."""

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of what `text` gives, without `begin_id`."""


class PlainPrompts(Prompts):
    """Texts to continue."""

    chat = False

    def __init__(self, tokenizer: Tokenizer, begin_id: int | None) -> None:
        self._tokenizer, self.begin_id = tokenizer, begin_id

    def text(self, asked: Asked) -> str:
        if not isinstance(asked, str):
            raise DataError(f"a prompt is {type(asked).__name__}, not a str", "chat = True reads messages")
        return asked

    def texts(self, asked: Iterable[Asked]) -> Iterator[str]:
        return several(asked)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return self._tokenizer.encode_batch(texts)


class ChatPrompts(Prompts):
    """Conversations, written by the model's chat template, which writes the special tokens too.

    Raises:
        FolderError: the model has no chat template.
    """

    chat, begin_id = True, None

    def __init__(self, loaded: LoadedModel, system: str | None) -> None:
        if loaded.chat_template is None:
            raise FolderError(
                f"{loaded.path} has no chat template",
                "leave out --chat, or convert a folder that has one again (chat_template.jinja)",
            )
        self._tokenizer, self._system = loaded.tokenizers.source, system
        self._renderer = ChatRenderer(loaded.chat_template, str(loaded.path))
        self._special_texts = self._tokenizer.special_texts()

    def text(self, asked: Asked) -> Rendered:
        if isinstance(asked, Rendered):
            return asked
        messages = [{"role": "user", "content": asked}] if isinstance(asked, str) else [*asked]
        if self._system is not None:
            if messages and messages[0].get("role") == "system":
                raise DataError("the conversation has a system message already", "leave out system")
            messages = [{"role": "system", "content": self._system}, *messages]
        return Rendered(self._renderer.render(checked_messages(messages, self._special_texts)))

    def texts(self, asked: Iterable[Asked]) -> Iterator[str]:
        if isinstance(asked, str):
            raise DataError("a message is given where several conversations are expected", "put it in a list")
        return map(self.text, asked)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._tokenizer.encode_rendered(text) for text in texts]


def prompts_of(loaded: LoadedModel, options: ChatOptions, *, begin: bool) -> Prompts:
    """How a model is asked; `begin`: texts to continue begin with the begin token.

    Raises:
        FolderError: it has no chat template. UserError: `system` without `chat`.
    """
    if options.chat:
        return ChatPrompts(loaded, options.system)
    if options.system is not None:
        raise UserError("system is for a chat", "give chat too, or leave it out")
    tokenizer = loaded.tokenizers.source
    return PlainPrompts(tokenizer, tokenizer.bos_id if begin else None)


def refuse_non_prompts(asked: Any) -> None:
    """Raise a DataError if this is neither a prompt nor several; iterators are checked later."""
    if isinstance(asked, list | tuple):
        for number, each in enumerate(asked if single(asked) is None else (), start=1):
            if single(each) is None:
                refuse_non_str(each, number)
    elif not isinstance(asked, str):
        refuse_non_texts(asked)


def single(asked: Any) -> Asked | None:
    """The prompt or conversation, if it is one; None for several."""
    if isinstance(asked, str):
        return asked
    if isinstance(asked, Sequence) and asked and all(isinstance(each, Mapping) for each in asked):
        return cast(Sequence[Message], asked)
    return None
