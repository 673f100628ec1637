"""Converts decoding defaults between generation_config.json (Hugging Face) and generation.json.

Lengths differ: in transformers `max_length` and `min_length` include the decoder's start token, and with
`forced_eos_token_id` also the eos; in regard they include neither.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.errors import FolderError
from regard.weights.families.family import refuse_large_integer
from regard.weights.families.ignored_settings import HARMLESS

Range = tuple[type, float, float]
RANGES: Mapping[str, Range] = {  # name in transformers -> type, minimum, maximum
    "num_beams": (int, 1, 10**4),
    "num_beam_groups": (int, 1, 10**4),
    "num_return_sequences": (int, 1, 10**4),
    "max_length": (int, 0, 10**6),
    "max_new_tokens": (int, 0, 10**6),
    "min_length": (int, 0, 10**6),
    "min_new_tokens": (int, 0, 10**6),
    "no_repeat_ngram_size": (int, 0, 10**6),
    "encoder_no_repeat_ngram_size": (int, 0, 10**6),
    "top_k": (int, 0, 10**7),
    "length_penalty": (float, 0, 100),
    "diversity_penalty": (float, 0, 10**4),
    "repetition_penalty": (float, 1e-6, 10**4),
    "temperature": (float, 1e-6, 10**4),
    "top_p": (float, 1e-6, 1),
    "min_p": (float, 0, 1),
    "typical_p": (float, 1e-6, 1),
    "do_sample": (bool, 0, 1),
    "forced_bos_token_id": (int, 0, 10**7),
}
NEUTRAL: Mapping[str, Any] = {  # values without an effect; for other settings 0, False or None
    **dict.fromkeys(("num_beams", "num_beam_groups", "num_return_sequences"), 1),
    **dict.fromkeys(("length_penalty", "repetition_penalty", "temperature", "top_p", "typical_p"), 1.0),
    "encoder_repetition_penalty": 1.0,
    "top_k": 50,
    "forced_bos_token_id": None,  # 0 is a token id
}
SAMPLING = {name: name for name in ("temperature", "top_k", "top_p", "min_p", "typical_p")}
RULE_SETTINGS = {"repetition_penalty": "repetition_penalty", "no_repeat_ngram_size": "no_repeat_ngram_size"}
SOURCE_SETTINGS = {
    "encoder_no_repeat_ngram_size": "no_repeat_source_ngram_size",
    "forced_bos_token_id": "forced_bos_id",
}
OTHERS = (  # settings in config.json that are not numbers, or that regard does not have
    "bad_words_ids", "begin_suppress_tokens", "early_stopping", "exponential_decay_length_penalty",
    "suppress_tokens",
)  # fmt: skip
IDLE = HARMLESS.difference(RANGES, OTHERS) | {  # settings in generation_config.json that change no output
    "_from_model_config", "assistant_confidence_threshold", "assistant_early_exit", "assistant_lookbehind",
    "cache_config", "cache_implementation", "compile_config", "disable_compile", "is_assistant",
    "max_cache_len", "max_matching_ngram_size", "num_assistant_tokens", "num_assistant_tokens_schedule",
    "output_logits", "prompt_lookup_num_tokens", "speculation_type", "target_lookbehind", "use_mtp",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ConvertedDecoding:
    """Decoding defaults converted from Hugging Face."""

    settings: dict[str, Any] = field(default_factory=dict)  # for generation.json
    unused: tuple[str, ...] = ()  # settings that regard does not have, as "name = value"


class HuggingFaceSettings:
    """The decoding settings of a Hugging Face file, type-checked; settings that are not taken are unused."""

    def __init__(self, table: Mapping[str, Any], where: str, names: Iterable[str]) -> None:
        self.values = {
            name: _number(name, value, where) for name in names if (value := table.get(name)) is not None
        }
        self._unused = {name for name in self.values if self.has_effect(name)}

    def has_effect(self, name: str) -> bool:
        """True if the setting is present and has an effect."""
        value = self.values.get(name)
        if name in NEUTRAL:
            return value not in (None, NEUTRAL[name])
        return bool(value) or (value == 0 and name.endswith("token_id"))

    def take(self, name: str, default: Any = None) -> Any:
        """The value of a setting, which then counts as used."""
        self._unused.discard(name)
        return self.values.get(name, default)

    def taken(self, names: Mapping[str, str]) -> dict[str, Any]:
        """The settings of `names` (Hugging Face's -> ours) that have an effect, by our names."""
        return {ours: self.take(hf) for hf, ours in names.items() if self.has_effect(hf)}

    def drop(self, *names: str) -> None:
        """Ignores these settings, which then count as used."""
        self._unused.difference_update(names)

    def unused(self) -> tuple[str, ...]:
        """The settings that were not taken, as "name = value"."""
        return tuple(setting_text(name, self.values[name]) for name in sorted(self._unused))


def read_decoding(
    config: Mapping[str, Any],
    own: Mapping[str, Any] | None,
    where: tuple[str, str],
    *,
    has_source: bool,
    tokenizers: TokenizerPair | None,
) -> ConvertedDecoding:
    """Converts the decoding defaults of `own`, a generation_config.json, or if it is None, of config.json.

    `where` has the names of both files. `has_source`: True for an encoder-decoder model.

    Raises:
        FolderError: a value has the wrong type or is out of range.
    """
    if own is None:
        table = config
        if config.get("force_bos_token_to_be_generated") is True:  # its name before forced_bos_token_id
            table = {"forced_bos_token_id": config.get("bos_token_id"), **config}
        found = HuggingFaceSettings(table, where[0], (*RANGES, *OTHERS))
    else:
        table, found = own, HuggingFaceSettings(own, where[1], own.keys() - IDLE)
    settings = _search(found, has_source) | found.taken(RULE_SETTINGS)
    settings |= found.taken(SOURCE_SETTINGS) if has_source else {}
    settings |= _lengths(found, has_source, forced_eos=table.get("forced_eos_token_id") is not None)
    settings |= _stop_and_ban(found, tokenizers)
    prefixes, more = _tasks(config, where[0], has_source, table)
    settings |= {"prefixes": prefixes} if prefixes else {}
    return ConvertedDecoding(settings=settings, unused=(*found.unused(), *more))


def _search(found: HuggingFaceSettings, has_source: bool) -> dict[str, Any]:
    """The search method: sampling, beam search or greedy decoding."""
    beams = found.values.get("num_beams", 0)
    if found.values.get("do_sample") and beams <= 1:
        found.drop("do_sample", "num_beams")
        return {"sample": True, "top_k": found.take("top_k", NEUTRAL["top_k"]), **found.taken(SAMPLING)}
    if beams > 1:
        found.take("num_beams")
        return {"beam_size": beams, **_beam(found)}
    if beams == 1:
        found.drop("early_stopping", "length_penalty")  # without effect on a single hypothesis
        return {"beam_size": 1}
    found.drop("length_penalty", "early_stopping")
    if has_source or found.values.get("do_sample") is False:
        return {"beam_size": 1}  # the default of transformers
    return {}


def _beam(found: HuggingFaceSettings) -> dict[str, Any]:
    settings: dict[str, Any] = {"length_penalty": "power", "alpha": found.take("length_penalty", 1.0)}
    if found.values.get("early_stopping") is True:
        settings["early_stopping"] = found.take("early_stopping")
    elif found.values.get("early_stopping") == "never":  # the default of regard
        found.drop("early_stopping")
    if found.has_effect("num_beam_groups") and found.has_effect("diversity_penalty"):
        settings |= found.taken({"num_beam_groups": "beam_groups", "diversity_penalty": "diversity"})
    elif not found.values.get("early_stopping"):  # false, a heuristic, is the default of transformers
        settings["heuristic_stopping"] = True
    return settings


def _lengths(found: HuggingFaceSettings, has_source: bool, *, forced_eos: bool) -> dict[str, Any]:
    """The limits of the output length. `forced_eos`: the maximum includes a forced eos."""
    if not has_source:  # max_length and min_length count the prompt, which no limit of regard does
        return found.taken({name: name for name in ("max_new_tokens", "min_new_tokens")})
    settings: dict[str, Any] = {}
    maximum = found.take("max_length", 1) - 1  # without the start token
    if found.has_effect("max_new_tokens"):
        maximum = found.take("max_new_tokens")
    if maximum > 0:
        settings["max_length"] = max(1, maximum - forced_eos)
    minimum = max(found.take("min_length", 1) - 1, found.take("min_new_tokens", 0))
    if minimum > 0:
        settings["min_new_tokens"] = min(minimum, settings.get("max_length", minimum))
    return settings


def _stop_and_ban(found: HuggingFaceSettings, tokenizers: TokenizerPair | None) -> dict[str, Any]:
    """Stop strings, and banned token sequences, those of special tokens left out."""
    settings: dict[str, Any] = {}
    match found.values.get("stop_strings"):
        case str(stop) if stop:
            settings["stop"] = [found.take("stop_strings", stop)]
        case [*stops] if stops and all(isinstance(each, str) and each for each in stops):
            settings["stop"] = found.take("stop_strings")
    banned_ids: Any = found.values.get("bad_words_ids")
    if tokenizers is not None and _are_ids(banned_ids, tokenizers.target):
        target = tokenizers.target
        # as in transformers the end is not banned; the others are never generated in any case
        special = [target.pad_id], [target.bos_id], [target.eos_id]
        if banned := [" ".join(map(str, ids)) for ids in banned_ids if ids not in special]:
            settings["ban_ids"] = list(dict.fromkeys(banned))
        if [target.eos_id] not in banned_ids or banned:
            found.drop("bad_words_ids")
    return settings


@dataclass(frozen=True, kw_only=True)
class HuggingFaceFiles:
    """Decoding defaults converted to Hugging Face."""

    decoding: dict[str, Any]  # for generation_config.json
    tasks: dict[str, Any]  # for config.json
    unused: tuple[str, ...]  # settings that transformers does not have, as "name = value"


def write_decoding(
    settings: Mapping[str, Any], *, has_source: bool, tokenizers: TokenizerPair, forced_eos: bool
) -> HuggingFaceFiles:
    """Converts the settings of a generation.json for transformers. `forced_eos`: as in `_lengths`."""
    ours = {name: value for name, value in settings.items() if name not in NOT_CONVERTED}
    table = _hf_search(ours, has_source)
    for hf, name in {**RULE_SETTINGS, **SOURCE_SETTINGS, "num_return_sequences": "n_best"}.items():
        if (value := ours.pop(name, None)) not in (None, NEUTRAL.get(hf, 0)):
            table[hf] = value
    table |= _hf_lengths(ours, has_source, forced_eos)
    if stops := ours.pop("stop", ()):
        table["stop_strings"] = list(stops)
    banned = [[*form] for word in ours.pop("ban", ()) for form in spellings(tokenizers.target, word)]
    if banned := [*banned, *([*map(int, str(ids).split())] for ids in ours.pop("ban_ids", ()))]:
        table["bad_words_ids"] = banned
    prefixes = dict(ours.pop("prefixes", None) or {})
    tasks = {"prefix": prefixes.pop("")} if "" in prefixes else {}
    if prefixes:
        tasks["task_specific_params"] = {name: {"prefix": each} for name, each in prefixes.items()}
    unused = [
        setting_text(name, value) for name, value in ours.items() if value and value != OUR_NEUTRAL.get(name)
    ]
    return HuggingFaceFiles(decoding=table, tasks=tasks, unused=tuple(unused))


OUR_NEUTRAL = {"temperature": 1.0, "top_p": 1.0, "typical_p": 1.0, "beam_groups": 1}
NOT_CONVERTED = ("tags", "begin", "may_end", "end_ids", "prompt_lookup", "draft_model", "draft_tokens")


def _hf_search(ours: dict[str, Any], has_source: bool) -> dict[str, Any]:
    """The inverse of `_search`; the converted settings are removed from `ours`."""
    sample, beams = ours.pop("sample", None), ours.pop("beam_size", 0)
    greedy = ours.get("temperature") == 0
    implied = not has_source and not beams and any(name in ours for name in SAMPLING)
    if not greedy and (sample or (sample is None and implied)):
        for name in ("length_penalty", "alpha", "early_stopping", "heuristic_stopping"):
            ours.pop(name, None)
        sampling = {name: ours.pop(name) for name in SAMPLING if ours.get(name) is not None}
        return {"do_sample": True, "top_k": 0, **sampling}  # the default of transformers is 50
    if not beams and not greedy:
        return {}
    kind, alpha = ours.pop("length_penalty", "wu" if has_source else "none"), ours.pop("alpha", None)
    if greedy or beams == 1:
        return {"num_beams": 1}
    table: dict[str, Any] = {"num_beams": beams}
    if kind == "wu":
        ours["length_penalty"] = kind  # stays unused
    else:
        table["length_penalty"] = (1.0 if alpha is None else alpha) if kind == "power" else 0.0
    if ours.pop("early_stopping", False):
        table["early_stopping"] = True
    elif not ours.pop("heuristic_stopping", False):
        table["early_stopping"] = "never"
    if (groups := ours.pop("beam_groups", 1)) > 1:
        table |= {"num_beam_groups": groups, "diversity_penalty": ours.pop("diversity", 0.0)}
    return table


def _hf_lengths(ours: dict[str, Any], has_source: bool, forced_eos: bool) -> dict[str, Any]:
    minimum = max(ours.pop("min_length", 0), ours.pop("min_new_tokens", None) or 0)
    maximum = ours.pop("max_new_tokens", None)
    if not has_source:
        table = {"max_new_tokens": maximum, "min_new_tokens": minimum}
        return {name: value for name, value in table.items() if value}
    cap = ours.pop("max_length", None)
    if maximum is not None:
        cap = maximum
        ours.pop("max_length_ratio", None)
        ours.pop("max_length_offset", None)
    table = {"max_length": cap and cap + 1 + forced_eos, "min_length": minimum and minimum + 1}
    return {name: value for name, value in table.items() if value}


def spellings(tokenizer: Tokenizer, text: str) -> list[tuple[int, ...]]:
    """The ids of a word at the start of a text and after a space."""
    forms = (tokenizer.encode_words(each) for each in (text, f" {text}"))
    joined = [tuple(number for word in words for number in word) for words in forms]
    return [form for form in dict.fromkeys(joined) if form and tokenizer.unk_id not in form]


def _tasks(
    config: Mapping[str, Any], where: str, has_source: bool, table: Mapping[str, Any]
) -> tuple[dict[str, str], list[str]]:
    """The prefixes of source texts by task ("" for all tasks), and the unused settings of tasks."""
    tasks = config.get("task_specific_params") or {}
    if not isinstance(tasks, dict) or not all(isinstance(each, dict) for each in tasks.values()):
        raise FolderError(
            f"{where}: task_specific_params is not an object of objects", "remove or correct it"
        )
    prefixes = {"": config.get("prefix"), **{name: each.get("prefix") for name, each in tasks.items()}}
    for name, text in prefixes.items():
        if text is not None and not isinstance(text, str):
            raise FolderError(
                f"{where}: the prefix {text!r} of {name or 'all tasks'} is not text", "correct it"
            )
    prefixes = {name: text for name, text in prefixes.items() if text}
    unused = [
        setting_text(f"{task}.{name}", value)
        for task, each in tasks.items()
        for name, value in each.items()
        if name != "prefix" and value is not None and value != table.get(name)
    ]
    if has_source:
        return prefixes, unused
    return {}, [*unused, *(setting_text(f"prefix {name}".strip(), text) for name, text in prefixes.items())]


def setting_text(name: str, value: Any) -> str:
    """A setting as "name = value" for messages, shortened."""
    text = f"{value!r}" if isinstance(value, str) else str(value)
    return f"{name} = {text if len(text) <= 60 else text[:57] + '...'}"


def _number(name: str, value: Any, where: str) -> Any:
    """The value, checked against the type and range of its setting."""
    if name not in RANGES:
        return value
    kind, minimum, maximum = RANGES[name]
    refuse_large_integer(value, f"{where}: {name}")
    number = float(value) if kind is float and type(value) is int else value
    if type(number) is not kind or not minimum <= number <= maximum:
        wanted = "true or false" if kind is bool else f"a number from {minimum:g} to {maximum:g}"
        raise FolderError(
            f"{where}: {name} = {value!r} is not supported", f"give {wanted}, or remove it: it is a default"
        )
    return number


def _are_ids(value: Any, tokenizer: Tokenizer) -> bool:
    """True for a list of lists of token ids, none of them empty."""
    return isinstance(value, list) and all(
        isinstance(ids, list)
        and ids
        and all(type(each) is int and 0 <= each < tokenizer.vocab_size for each in ids)
        for ids in value
    )
