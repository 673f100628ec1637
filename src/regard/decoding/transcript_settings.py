"""The decoding settings of a model that turns speech into text, as generation.json holds them."""

import dataclasses
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import ClassVar

from regard.decoding.assembly import assembled, score_by
from regard.decoding.base_search import Search
from regard.decoding.control import MOST_TOKENS, bounded
from regard.decoding.control_fields import Beam
from regard.decoding.controls import Controls
from regard.decoding.phrases import Words
from regard.decoding.rules import LengthLimits, Rule
from regard.decoding.special_tokens import SpecialTokenIds
from regard.decoding.timestamps import BannedFirstTokens, TimestampRule
from regard.errors import ConfigError, did_you_mean
from regard.models.speech_to_text import DETECTED

TRANSCRIBE = "transcribe"


@dataclass(frozen=True, kw_only=True)
class TranscriptSettings(Beam, Controls):
    """How to decode a window of speech. Lengths are in tokens, the prompt and the end not counted.

    A text begins with a prompt: the token of its `language`, of the `task`, and <|notimestamps|> unless there
    are `timestamps`. If neither language nor task is chosen, `prompt` has their tokens.
    """

    samples_by_default: ClassVar[bool | None] = False

    sample: bool | None = False
    max_length: int = bounded(
        448, least=1, most=MOST_TOKENS, unit="tokens"
    )  # or max_new_tokens, if it is set
    language: str | None = None  # its code; None: the model detects it
    task: str | None = None
    timestamps: bool = False  # True: the text has times
    languages: dict[str, int] | None = None  # code -> id of its token; None: the model has no such tokens
    tasks: dict[str, int] | None = None  # task -> id of its token
    prompt: tuple[int, ...] = ()  # DETECTED stands for the language's token
    no_timestamps_id: int | None = None  # the token before the times; None: the model has none
    latest_first_timestamp: int | None = None  # in steps of a timestamp
    suppressed_ids: tuple[int, ...] = ()  # never generated
    first_suppressed_ids: tuple[int, ...] = ()  # not generated directly after the prompt

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_context is not None:
            raise ConfigError(
                f"max_context = {self.max_context} is for a language model, but this model hears speech",
                "leave it out",
            )
        for name in ("languages", "tasks"):
            table = getattr(self, name)
            if table is not None and not all(type(number) is int for number in table.values()):
                raise ConfigError(f"{name} = {table}: each value must be a token's id", "copy it again")
        if self.timestamps and self.no_timestamps_id is None:
            raise ConfigError("timestamps are set, but the model has no tokens for them", "leave them out")
        for name, known in (("language", self.languages), ("task", self.tasks)):
            _refuse_unknown(name, getattr(self, name), known)

    def token_ids(self) -> Iterator[tuple[str, int]]:
        """All token ids in these settings, each with the name of its setting."""
        for name in ("suppressed_ids", "first_suppressed_ids", "prompt"):
            yield from ((name, number) for number in getattr(self, name) if number != DETECTED)
        for name in ("languages", "tasks"):
            yield from ((name, number) for number in (getattr(self, name) or {}).values())
        if self.no_timestamps_id is not None:
            yield "no_timestamps_id", self.no_timestamps_id

    @property
    def detects(self) -> bool:
        """True if the language's token is the model's to choose."""
        if self.language is not None or self.languages is None:
            return False
        return self.task is not None or not self.prompt or self.prompt[0] == DETECTED

    def prompt_with(self, detected: int | None) -> tuple[int, ...]:
        """The tokens with which every text begins; `detected` is the token of the language, if it was."""
        by_name = self.task is not None or self.language is not None
        begin = [] if by_name else [number for number in self.prompt if number != DETECTED]
        if self.language is not None:
            begin.append((self.languages or {})[self.language])
        elif detected is not None:
            begin.insert(0, detected)
        if by_name and self.tasks is not None:
            begin.append(self.tasks[self.task or TRANSCRIBE])
        if begin and begin[-1] == self.no_timestamps_id:
            begin.pop()
        if not self.timestamps and self.no_timestamps_id is not None:
            begin.append(self.no_timestamps_id)
        return tuple(begin)

    def strategy(self, prompt_length: int, *, bos_id: int, eos_id: int, tokenizer: Words | None) -> Search:
        """The search that these settings describe. The `tokenizer` encodes the texts in them."""
        longest = prompt_length + (self.max_new_tokens or self.max_length)
        search = assembled(
            self,
            special=SpecialTokenIds(pad_id=eos_id, bos_id=bos_id, eos_id=eos_id, ends=self.end_ids),
            never=self.suppressed_ids,
            n_best=1,
            limits=LengthLimits(offset=longest, most=longest),
            least=self.min_new_tokens or 0,
            length_penalty=score_by(self.length_penalty, self.alpha),
            tokenizer=tokenizer,
            cut=True,
        )
        return dataclasses.replace(search, rules=(*search.rules, *self._own_rules(eos_id)))

    def _own_rules(self, eos_id: int) -> Iterator[Rule]:
        if self.first_suppressed_ids:
            yield BannedFirstTokens(ids=self.first_suppressed_ids)
        if self.timestamps and self.no_timestamps_id is not None:
            yield TimestampRule(
                first_id=self.no_timestamps_id + 1, eos_id=eos_id, latest_first=self.latest_first_timestamp
            )


def _refuse_unknown(name: str, value: str | None, known: Collection[str] | None) -> None:
    """Raise a ConfigError for a language or task that the model does not have."""
    if value is None:
        return
    if known is None:
        raise ConfigError(f"{name} = {value!r}, but this model has one {name} only", f"leave out {name}")
    if value not in known:
        raise ConfigError(f"the model has no {name} {value!r}", did_you_mean(value, known))
