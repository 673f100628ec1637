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

WITHOUT_EFFECT = (  # sampling is off; the others are of times of words, of the prompt, or of retries
    *("do_sample", "temperature", "top_k", "top_p", "min_p", "typical_p"),
    *("alignment_heads", "prev_sot_token_id", "prompt_condition_type", "logprob_threshold"),
    "compression_ratio_threshold",
)
OWN = (
    *("suppress_tokens", "begin_suppress_tokens", "forced_decoder_ids", "is_multilingual", "lang_to_id"),
    *("task_to_id", "language", "task", "return_timestamps", "no_timestamps_token_id"),
    *("max_initial_timestamp_index", "max_length", "max_new_tokens", "min_length"),
)
REFUSED = ("no_speech_threshold", "condition_on_prev_tokens", "min_length")  # those that change the text
DEFAULT_LENGTH = 20  # tokens after the prompt, if no setting says how many
MOST_NUMBER = 10**5


def read_speech_decoding(
    config: Mapping[str, Any],
    own: Mapping[str, Any] | None,
    where: tuple[str, str],
    described: SpeechToTextConfig,
    tokenizers: TokenizerPair | None,
) -> ConvertedDecoding:
    """Converts the decoding defaults of `own`, a generation_config.json, or if it is None, of config.json.

    `where` has the names of both files.

    Raises:
        FolderError: a value has the wrong type or is out of range, or a setting is not supported.
    """
    table = _Speech(config if own is None else own, where[own is not None], described.vocab_size)
    for name in REFUSED:
        if table.table.get(name):
            raise FolderError(
                f"{table.where}: {name} = {table.table[name]!r} is not supported",
                "remove it, or set it to null",
            )
    for name in ("decoder_start_token_id", "eos_token_id"):
        if table.table.get(name) not in (None, config.get(name)):
            raise FolderError(
                f"{table.where}: {name} = {table.table[name]!r}, but config.json has {config.get(name)!r}",
                "use the files of one model",
            )
    others = {name: value for name, value in table.table.items() if name not in (*WITHOUT_EFFECT, *OWN)}
    found = read_decoding(
        {} if own is not None else others,
        others if own is not None else None,
        where,
        has_source=True,
        tokenizers=tokenizers,
    )
    settings = {name: value for name, value in found.settings.items() if name != "prefixes"}
    settings |= table.settings(config)
    return ConvertedDecoding(settings=settings, unused=found.unused)


def write_speech_decoding(settings: Mapping[str, Any], tokenizers: TokenizerPair) -> HuggingFaceFiles:
    """Converts the settings of a generation.json for transformers."""
    others = {name: value for name, value in settings.items() if name not in (*OURS, "max_new_tokens")}
    written = write_decoding(others, has_source=True, tokenizers=tokenizers, forced_eos=False)
    table = {hf: settings[name] for name, hf in OURS.items() if settings.get(name) is not None}
    if (limit := settings.get("max_new_tokens")) is not None:
        table["max_length"] = limit
    if (languages := table.get("lang_to_id")) is not None:
        table["lang_to_id"] = {f"<|{code}|>": number for code, number in languages.items()}
    if (prompt := table.get("forced_decoder_ids")) is not None:
        pairs = enumerate(prompt, start=1)
        table["forced_decoder_ids"] = [[place, None if each == DETECTED else each] for place, each in pairs]
    table["is_multilingual"] = "lang_to_id" in table
    return HuggingFaceFiles(decoding={**written.decoding, **table}, tasks={}, unused=written.unused)


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


class _Speech:
    """The settings of a generation_config.json that only Whisper has, type-checked."""

    def __init__(self, table: Mapping[str, Any], where: str, vocab_size: int) -> None:
        self.table, self.where, self.vocab_size = table, where, vocab_size

    def settings(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The settings for generation.json that are set."""
        languages, no_times = self.tokens_by_name("lang_to_id"), self.token("no_timestamps_token_id")
        prompt = self._prompt("forced_decoder_ids")
        if prompt is None:
            prompt = _Speech(config, self.where, self.vocab_size)._prompt("forced_decoder_ids")
        language, task = self._text("language"), self._text("task")
        multilingual = self.table.get("is_multilingual") is not False
        if not multilingual and (language or task):
            raise FolderError(
                f"{self.where}: a language or a task, but is_multilingual = false", "remove one of them"
            )
        longest = self._number("max_new_tokens", MOST_NUMBER) or self._number("max_length", MOST_NUMBER)
        found = {
            "languages": languages and {language_code(name): number for name, number in languages.items()},
            "tasks": self.tokens_by_name("task_to_id"),
            "language": language and language_code(language),
            "task": task,
            "prompt": list(prompt or ()) or None,
            "timestamps": self.table.get("return_timestamps") is True or None,
            "no_timestamps_id": no_times,
            "latest_first_timestamp": self._number("max_initial_timestamp_index", MOST_NUMBER),
            "suppressed_ids": self.tokens("suppress_tokens") or None,
            "first_suppressed_ids": self.tokens("begin_suppress_tokens") or None,
            "max_length": DEFAULT_LENGTH if longest is None else longest,
        }
        return {name: value for name, value in found.items() if value is not None}

    def token(self, name: str) -> int | None:
        """The id of a token; None if it is not set."""
        return self._number(name, self.vocab_size - 1)

    def tokens(self, name: str) -> list[int]:
        """The ids of several tokens, without those that the model does not have."""
        value = self.table.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(type(each) is int and each >= 0 for each in value):
            raise FolderError(f"{self.where}: {name} is not a list of token ids", "copy the file again")
        return [each for each in value if each < self.vocab_size]

    def tokens_by_name(self, name: str) -> dict[str, int] | None:
        """The ids of tokens by their names; None if they are not set."""
        value = self.table.get(name)
        if value is None:
            return None
        if not isinstance(value, dict) or not all(self._is_token(each) for each in value.values()):
            raise FolderError(f"{self.where}: {name} is not an object of token ids", "copy the file again")
        return value or None

    def _prompt(self, name: str) -> tuple[int, ...] | None:
        """The tokens after the start token: pairs of a place and an id, or null for a language to detect."""
        value = self.table.get(name)
        if value is None:
            return None
        match value:
            case [*pairs] if all(self._is_pair(pair, place) for place, pair in enumerate(pairs, start=1)):
                return tuple(DETECTED if number is None else number for _, number in pairs)
        raise FolderError(
            f"{self.where}: {name} = {value!r} is not supported", "use [[1, null], [2, TASK]], or remove it"
        )

    def _is_pair(self, pair: object, place: int) -> bool:
        match pair:
            case [int(at), None] | [int(at), int()] if at == place:
                return (pair[1] is None and place == 1) or self._is_token(pair[1])  # type: ignore[index]
        return False

    def _is_token(self, value: object) -> bool:
        return type(value) is int and 0 <= value < self.vocab_size

    def _text(self, name: str) -> str | None:
        value = self.table.get(name)
        if value is not None and not isinstance(value, str):
            raise FolderError(f"{self.where}: {name} = {value!r} is not a text", "give one, or remove it")
        return value

    def _number(self, name: str, most: int) -> int | None:
        value = self.table.get(name)
        if value is None:
            return None
        if type(value) is not int or not 0 <= value <= most:
            raise FolderError(f"{self.where}: {name} = {value!r} is out of range", f"give 0 to {most}")
        return value
