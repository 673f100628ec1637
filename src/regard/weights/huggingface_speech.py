"""Converts Whisper's decoding defaults between generation_config.json and generation.json.

Whisper has a `generate` of its own in transformers: it never samples by default, begins each text with a
prompt, and limits lengths without that prompt.
"""

from collections.abc import Mapping
from typing import Any

from regard.data.speech_languages import language_code
from regard.data.tokenizer import TokenizerPair
from regard.errors import FolderError
from regard.models.speech_to_text import DETECTED, SpeechToTextConfig
from regard.weights.huggingface_decoding import (
    ConvertedDecoding,
    HuggingFaceFiles,
    read_decoding,
    write_decoding,
)

REFUSED = ("no_speech_threshold", "condition_on_prev_tokens", "min_length")  # they would change the text
WITHOUT_EFFECT = (
    *("do_sample", "temperature", "top_k", "top_p", "min_p", "typical_p"),  # of sampling, which is off
    *("alignment_heads", "prev_sot_token_id", "prompt_condition_type"),  # of times of words; of prompts
    *("logprob_threshold", "compression_ratio_threshold"),  # of second attempts
)
OURS = {  # our settings -> those of transformers
    "languages": "lang_to_id",
    "tasks": "task_to_id",
    "language": "language",
    "task": "task",
    "prompt": "forced_decoder_ids",
    "timestamps": "return_timestamps",
    "no_timestamps_id": "no_timestamps_token_id",
    "latest_first_timestamp": "max_initial_timestamp_index",
    "suppressed_ids": "suppress_tokens",
    "first_suppressed_ids": "begin_suppress_tokens",
    "max_length": "max_length",
}
OF_WHISPER = (*OURS.values(), "is_multilingual", "max_new_tokens", "min_length")
DEFAULT_LENGTH = 20  # tokens after the prompt, if no setting says how many
MAX_NUMBER = 10**5  # of lengths and timestamps


def read_speech_decoding(
    config: Mapping[str, Any],
    generation_config: Mapping[str, Any] | None,
    files: tuple[str, str],
    model: SpeechToTextConfig,
    tokenizers: TokenizerPair | None,
) -> ConvertedDecoding:
    """Converts the decoding defaults of a generation_config.json or, if it is None, of config.json.

    Args:
        files: the names of config.json and of generation_config.json, for messages.

    Raises:
        FolderError: a value has the wrong type or is out of range, or a setting is not supported.
    """
    of_config = _Settings(config, files[0], model.vocab_size)
    table = (
        of_config if generation_config is None else _Settings(generation_config, files[1], model.vocab_size)
    )
    for name in REFUSED:
        if table.values.get(name):
            raise FolderError(
                f"{table.file}: {name} = {table.values[name]!r} is not supported",
                "remove it, or set it to null",
            )
    for name in ("decoder_start_token_id", "eos_token_id"):
        if table.values.get(name) not in (None, config.get(name)):
            raise FolderError(
                f"{table.file}: {name} = {table.values[name]!r}, but config.json has {config.get(name)!r}",
                "use the files of one model",
            )
    others = {
        name: value for name, value in table.values.items() if name not in (*WITHOUT_EFFECT, *OF_WHISPER)
    }
    found = read_decoding(
        others if generation_config is None else {},
        None if generation_config is None else others,
        files,
        has_source=True,
        tokenizers=tokenizers,
    )
    settings = {name: value for name, value in found.settings.items() if name != "prefixes"}
    prompt = table.prompt()
    settings |= table.converted(of_config.prompt() if prompt is None else prompt)
    return ConvertedDecoding(settings=settings, unused=found.unused)


def write_speech_decoding(settings: Mapping[str, Any], tokenizers: TokenizerPair) -> HuggingFaceFiles:
    """Converts the settings of a generation.json for transformers."""
    others = {name: value for name, value in settings.items() if name not in (*OURS, "max_new_tokens")}
    written = write_decoding(others, has_source=True, tokenizers=tokenizers, forced_eos=False)
    table = {theirs: settings[ours] for ours, theirs in OURS.items() if settings.get(ours) is not None}
    if (limit := settings.get("max_new_tokens")) is not None:
        table["max_length"] = limit
    if (languages := table.get("lang_to_id")) is not None:
        table["lang_to_id"] = {f"<|{code}|>": number for code, number in languages.items()}
    if (prompt := table.get("forced_decoder_ids")) is not None:
        pairs = enumerate(prompt, start=1)
        table["forced_decoder_ids"] = [[place, None if each == DETECTED else each] for place, each in pairs]
    table["is_multilingual"] = "lang_to_id" in table
    return HuggingFaceFiles(decoding={**written.decoding, **table}, tasks={}, unused=written.unused)


class _Settings:
    """The settings of a file that only Whisper has, type-checked when they are read."""

    def __init__(self, values: Mapping[str, Any], file: str, vocab_size: int) -> None:
        self.values, self.file, self.vocab_size = values, file, vocab_size

    def converted(self, prompt: tuple[int, ...] | None) -> dict[str, Any]:
        """The settings for generation.json that are set."""
        languages = self._tokens_by_name("lang_to_id")
        language, task = self._text("language"), self._text("task")
        if self.values.get("is_multilingual") is False and (language or task):
            raise FolderError(
                f"{self.file}: a language or a task, but is_multilingual = false", "remove one of them"
            )
        longest = self._number("max_new_tokens") or self._number("max_length")
        found = {
            "languages": languages and {language_code(name): number for name, number in languages.items()},
            "tasks": self._tokens_by_name("task_to_id"),
            "language": language and language_code(language),
            "task": task,
            "prompt": list(prompt or ()) or None,
            "timestamps": self.values.get("return_timestamps") is True or None,
            "no_timestamps_id": self._number("no_timestamps_token_id", self.vocab_size - 1),
            "latest_first_timestamp": self._number("max_initial_timestamp_index"),
            "suppressed_ids": self._tokens("suppress_tokens") or None,
            "first_suppressed_ids": self._tokens("begin_suppress_tokens") or None,
            "max_length": DEFAULT_LENGTH if longest is None else longest,
        }
        return {name: value for name, value in found.items() if value is not None}

    def prompt(self) -> tuple[int, ...] | None:
        """The tokens after the start token: pairs of a place and an id, or null for a language to detect."""
        match value := self.values.get("forced_decoder_ids"):
            case None:
                return None
            case [*pairs] if all(self._is_pair(pair, place) for place, pair in enumerate(pairs, start=1)):
                return tuple(DETECTED if number is None else number for _, number in pairs)
        raise FolderError(
            f"{self.file}: forced_decoder_ids = {value!r} is not supported",
            "use [[1, null], [2, TASK]], or remove it",
        )

    def _is_pair(self, pair: object, place: int) -> bool:
        match pair:
            case [int(at), None]:
                return at == place == 1
            case [int(at), number]:
                return at == place and self._is_token(number)
        return False

    def _tokens(self, name: str) -> list[int]:
        """The ids of several tokens, without those that the model does not have."""
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(type(each) is int and each >= 0 for each in value):
            raise FolderError(f"{self.file}: {name} is not a list of token ids", "copy the file again")
        return [each for each in value if each < self.vocab_size]

    def _tokens_by_name(self, name: str) -> dict[str, int] | None:
        """The ids of tokens by their names; None if they are not set."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict) or not all(self._is_token(each) for each in value.values()):
            raise FolderError(f"{self.file}: {name} is not an object of token ids", "copy the file again")
        return value or None

    def _is_token(self, value: object) -> bool:
        return type(value) is int and 0 <= value < self.vocab_size

    def _text(self, name: str) -> str | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise FolderError(f"{self.file}: {name} = {value!r} is not a text", "give one, or remove it")
        return value

    def _number(self, name: str, most: int = MAX_NUMBER) -> int | None:
        value = self.values.get(name)
        if value is None:
            return None
        if type(value) is not int or not 0 <= value <= most:
            raise FolderError(f"{self.file}: {name} = {value!r} is out of range", f"give 0 to {most}")
        return value
