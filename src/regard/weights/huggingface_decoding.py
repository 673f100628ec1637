"""Defaults of decoding in config.json or generation_config.json as generation.json has them; and back.

Lengths are counted otherwise there: what a decoder begins with is a token of `max_length` and `min_length`,
and so is the end where `forced_eos_token_id` says it; here neither is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.errors import FolderError
from regard.weights.families.family import refuse_long
from regard.weights.families.ignored_settings import HARMLESS

Range = tuple[type, float, float]
RANGES: Mapping[str, Range] = {  # name there -> its type, the least, the greatest
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
NEUTRAL: Mapping[str, Any] = {  # what asks for nothing; of all others it is 0, False or nothing
    **dict.fromkeys(("num_beams", "num_beam_groups", "num_return_sequences"), 1),
    **dict.fromkeys(("length_penalty", "repetition_penalty", "temperature", "top_p", "typical_p"), 1.0),
    "encoder_repetition_penalty": 1.0,
    "top_k": 50,
    "forced_bos_token_id": None,  # 0 is a token
}
SAMPLING = {name: name for name in ("temperature", "top_k", "top_p", "min_p", "typical_p")}
RULES = {"repetition_penalty": "repetition_penalty", "no_repeat_ngram_size": "no_repeat_ngram_size"}
OF_SOURCE = {
    "encoder_no_repeat_ngram_size": "no_repeat_source_ngram_size",
    "forced_bos_token_id": "forced_bos_id",
}
OTHERS = (  # of a config.json: what is no number, or has no place here
    "bad_words_ids", "begin_suppress_tokens", "early_stopping", "exponential_decay_length_penalty",
    "suppress_tokens",
)  # fmt: skip
IDLE = HARMLESS.difference(RANGES, OTHERS) | {  # of a generation_config.json: changes no answer
    "_from_model_config", "assistant_confidence_threshold", "assistant_early_exit", "assistant_lookbehind",
    "cache_config", "cache_implementation", "compile_config", "disable_compile", "is_assistant",
    "max_cache_len", "max_matching_ngram_size", "num_assistant_tokens", "num_assistant_tokens_schedule",
    "output_logits", "prompt_lookup_num_tokens", "speculation_type", "target_lookbehind", "use_mtp",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ConvertedDecoding:
    """What generation.json is to hold, and what of theirs has no place there, as "name = value"."""

    settings: dict[str, Any] = field(default_factory=dict)
    left: tuple[str, ...] = ()


class HuggingFaceSettings:
    """Their settings, each of the right type; those that nobody takes are left."""

    def __init__(self, table: Mapping[str, Any], where: str, names: Iterable[str]) -> None:
        self.there = {
            name: _number(name, value, where) for name in names if (value := table.get(name)) is not None
        }
        self._left = {name for name in self.there if self.asks(name)}

    def asks(self, name: str) -> bool:
        """Whether it is there and changes something."""
        value = self.there.get(name)
        if name in NEUTRAL:
            return value not in (None, NEUTRAL[name])
        return bool(value) or (value == 0 and name.endswith("token_id"))

    def take(self, name: str, usual: Any = None) -> Any:
        self._left.discard(name)
        return self.there.get(name, usual)

    def taken(self, names: Mapping[str, str]) -> dict[str, Any]:
        """Those of `names` that ask for something, by our names."""
        return {ours: self.take(theirs) for theirs, ours in names.items() if self.asks(theirs)}

    def drop(self, *names: str) -> None:
        self._left.difference_update(names)

    def left(self) -> tuple[str, ...]:
        return tuple(shown(name, self.there[name]) for name in sorted(self._left))


def read_decoding(
    config: Mapping[str, Any],
    own: Mapping[str, Any] | None,
    where: tuple[str, str],
    *,
    sourced: bool,
    text: TokenizerPair | None,
) -> ConvertedDecoding:
    """Defaults of a config.json, or, where there is one, of the generation_config.json, `own`.

    `where` names both files. `sourced`: the model has a source, as a translator has.

    Raises:
        FolderError: a value is of the wrong type or out of range.
    """
    if own is None:
        table = config
        if config.get("force_bos_token_to_be_generated") is True:  # its name before forced_bos_token_id
            table = {"forced_bos_token_id": config.get("bos_token_id"), **config}
        asked = HuggingFaceSettings(table, where[0], (*RANGES, *OTHERS))
    else:
        table, asked = own, HuggingFaceSettings(own, where[1], own.keys() - IDLE)
    settings = _search(asked, sourced) | asked.taken(RULES)
    settings |= asked.taken(OF_SOURCE) if sourced else {}
    settings |= _lengths(asked, sourced, ends=table.get("forced_eos_token_id") is not None)
    settings |= _words(asked, text)
    prefixes, more = _tasks(config, where[0], sourced, table)
    settings |= {"prefixes": prefixes} if prefixes else {}
    return ConvertedDecoding(settings=settings, left=(*asked.left(), *more))


def _search(asked: HuggingFaceSettings, sourced: bool) -> dict[str, Any]:
    """Draws, a beam or the likeliest token."""
    beams = asked.there.get("num_beams", 0)
    if asked.there.get("do_sample") and beams <= 1:
        asked.drop("do_sample", "num_beams")
        return {"sample": True, "top_k": asked.take("top_k", NEUTRAL["top_k"]), **asked.taken(SAMPLING)}
    if beams > 1:
        asked.take("num_beams")
        return {"beam_size": beams, **_beam(asked)}
    if beams == 1:
        asked.drop("early_stopping", "length_penalty")  # which say nothing of one hypothesis
        return {"beam_size": 1}
    asked.drop("length_penalty", "early_stopping")
    if sourced or asked.there.get("do_sample") is False:
        return {"beam_size": 1}  # as there, where nothing else is said
    return {}


def _beam(asked: HuggingFaceSettings) -> dict[str, Any]:
    settings: dict[str, Any] = {"length_penalty": "power", "alpha": asked.take("length_penalty", 1.0)}
    if asked.there.get("early_stopping") is True:
        settings["early_stopping"] = asked.take("early_stopping")
    elif asked.there.get("early_stopping") == "never":  # as every other beam is here
        asked.drop("early_stopping")
    if asked.asks("num_beam_groups") and asked.asks("diversity_penalty"):
        settings |= asked.taken({"num_beam_groups": "beam_groups", "diversity_penalty": "diversity"})
    elif not asked.there.get("early_stopping"):  # false is a heuristic, and what is meant where it is absent
        settings["heuristic_stopping"] = True
    return settings


def _lengths(asked: HuggingFaceSettings, sourced: bool, *, ends: bool) -> dict[str, Any]:
    """The least and the most that is said. `ends`: the end is one of the tokens of the most."""
    if not sourced:  # max_length and min_length count a prompt, which nothing here does
        return asked.taken({name: name for name in ("max_new_tokens", "min_new_tokens")})
    settings: dict[str, Any] = {}
    most = asked.take("max_length", 0) - 1  # what a decoder begins with
    if asked.asks("max_new_tokens"):
        most = asked.take("max_new_tokens")
    if most > 0:
        settings["max_length"] = max(1, most - ends)
    least = max(asked.take("min_length", 0) - 1, asked.take("min_new_tokens", 0))
    if least > 0:
        settings["min_new_tokens"] = min(least, settings.get("max_length", least))
    return settings


def _words(asked: HuggingFaceSettings, text: TokenizerPair | None) -> dict[str, Any]:
    """Stop texts, and banned words as far as a text spells them."""
    settings: dict[str, Any] = {}
    match asked.there.get("stop_strings"):
        case str(stop) if stop:
            settings["stop"] = [asked.take("stop_strings", stop)]
        case [*stops] if stops and all(isinstance(each, str) and each for each in stops):
            settings["stop"] = asked.take("stop_strings")
    if asked.asks("bad_words_ids") and text is not None:
        target = text.target
        silent = {(target.pad_id,), (target.bos_id,)} - {(target.eos_id,)}  # never said in any case
        banned = {tuple(each) for each in asked.there["bad_words_ids"] if _are_ids(each)}
        texts = {each: target.decode(each).strip() for each in sorted(banned - silent)}
        spelt = {word for word in texts.values() if word and set(spellings(target, word)) <= banned}
        if {form for word in spelt for form in spellings(target, word)} >= banned - silent:
            asked.drop("bad_words_ids")
            settings |= {"ban": sorted(spelt)} if spelt else {}
    return settings


@dataclass(frozen=True, kw_only=True)
class HuggingFaceFiles:
    """Settings for a generation_config.json and for a config.json; what of ours has no place in them."""

    decoding: dict[str, Any]
    tasks: dict[str, Any]
    left: tuple[str, ...]


def write_decoding(
    settings: Mapping[str, Any], *, sourced: bool, text: TokenizerPair, ends: bool
) -> HuggingFaceFiles:
    """What a generation.json says, as transformers has it. `ends` as `_lengths` has it."""
    ours = {name: value for name, value in settings.items() if name not in ELSEWHERE}
    table = _search_there(ours, sourced)
    for theirs, name in {**RULES, **OF_SOURCE, "num_return_sequences": "n_best"}.items():
        if (value := ours.pop(name, None)) not in (None, NEUTRAL.get(theirs, 0)):
            table[theirs] = value
    table |= _lengths_there(ours, sourced, ends)
    if stops := ours.pop("stop", ()):
        table["stop_strings"] = list(stops)
    if banned := ours.pop("ban", ()):
        table["bad_words_ids"] = [list(form) for word in banned for form in spellings(text.target, word)]
    prefixes = dict(ours.pop("prefixes", None) or {})
    tasks = {"prefix": prefixes.pop("")} if "" in prefixes else {}
    if prefixes:
        tasks["task_specific_params"] = {name: {"prefix": each} for name, each in prefixes.items()}
    left = [shown(name, value) for name, value in ours.items() if value and value != NEUTRAL_HERE.get(name)]
    return HuggingFaceFiles(decoding=table, tasks=tasks, left=tuple(left))


NEUTRAL_HERE = {"temperature": 1.0, "top_p": 1.0, "typical_p": 1.0, "beam_groups": 1}
ELSEWHERE = ("begin", "may_end", "end_ids", "prompt_lookup", "draft_model", "draft_tokens")


def _search_there(ours: dict[str, Any], sourced: bool) -> dict[str, Any]:
    """As `_search`, the other way round; what it tells is taken out of `ours`."""
    sample, beams = ours.pop("sample", None), ours.pop("beam_size", 0)
    likeliest = ours.get("temperature") == 0
    unless_told = not sourced and not beams and any(name in ours for name in SAMPLING)
    if not likeliest and (sample or (sample is None and unless_told)):
        for name in ("length_penalty", "alpha", "early_stopping", "heuristic_stopping"):
            ours.pop(name, None)
        drawn = {name: ours.pop(name) for name in SAMPLING if ours.get(name) is not None}
        return {"do_sample": True, "top_k": 0, **drawn}  # none is 50 there
    if not beams and not likeliest:
        return {}
    kind, alpha = ours.pop("length_penalty", "wu" if sourced else "none"), ours.pop("alpha", None)
    if likeliest or beams == 1:
        return {"num_beams": 1}
    table: dict[str, Any] = {"num_beams": beams}
    if kind == "wu":
        ours["length_penalty"] = kind  # is left
    else:
        table["length_penalty"] = (1.0 if alpha is None else alpha) if kind == "power" else 0.0
    if ours.pop("early_stopping", False):
        table["early_stopping"] = True
    elif not ours.pop("heuristic_stopping", False):
        table["early_stopping"] = "never"
    if (groups := ours.pop("beam_groups", 1)) > 1:
        table |= {"num_beam_groups": groups, "diversity_penalty": ours.pop("diversity", 0.0)}
    return table


def _lengths_there(ours: dict[str, Any], sourced: bool, ends: bool) -> dict[str, Any]:
    least = max(ours.pop("min_length", 0), ours.pop("min_new_tokens", None) or 0)
    most = ours.pop("max_new_tokens", None)
    if not sourced:
        table = {"max_new_tokens": most, "min_new_tokens": least}
        return {name: value for name, value in table.items() if value}
    cap = ours.pop("max_length", None)
    if most is not None:
        cap = most
        ours.pop("max_length_ratio", None)
        ours.pop("max_length_offset", None)
    table = {"max_length": cap and cap + 1 + ends, "min_length": least and least + 1}
    return {name: value for name, value in table.items() if value}


def spellings(tokenizer: Tokenizer, text: str) -> list[tuple[int, ...]]:
    """The ids of a word at the beginning of a line, and after a space."""
    forms = (tokenizer.encode_words(each) for each in (text, f" {text}"))
    joined = [tuple(number for word in words for number in word) for words in forms]
    return [form for form in dict.fromkeys(joined) if form and tokenizer.unk_id not in form]


def _tasks(
    config: Mapping[str, Any], where: str, sourced: bool, table: Mapping[str, Any]
) -> tuple[dict[str, str], list[str]]:
    """What stands before a text, by the task or, under the name "", before any; what else tasks are told."""
    tasks = config.get("task_specific_params") or {}
    if not isinstance(tasks, dict) or not all(isinstance(each, dict) for each in tasks.values()):
        raise FolderError(f"{where}: task_specific_params is no table of tables", "take it out, or mend it")
    prefixes = {"": config.get("prefix"), **{name: each.get("prefix") for name, each in tasks.items()}}
    for name, text in prefixes.items():
        if text is not None and not isinstance(text, str):
            raise FolderError(f"{where}: the prefix {text!r} of {name or 'all'} is no text", "mend it")
    prefixes = {name: text for name, text in prefixes.items() if text}
    left = [
        shown(f"{task}.{name}", value)
        for task, each in tasks.items()
        for name, value in each.items()
        if name != "prefix" and value is not None and value != table.get(name)
    ]
    if sourced:
        return prefixes, left
    return {}, [*left, *(shown(f"prefix {name}".strip(), text) for name, text in prefixes.items())]


def shown(name: str, value: Any) -> str:
    """The two as they are told, shortened."""
    text = f"{value!r}" if isinstance(value, str) else str(value)
    return f"{name} = {text if len(text) <= 60 else text[:57] + '...'}"


def _number(name: str, value: Any, where: str) -> Any:
    """The value, if it is of the type and in the range of this setting."""
    if name not in RANGES:
        return value
    kind, least, most = RANGES[name]
    refuse_long(value, f"{where}: {name}")
    number = float(value) if kind is float and type(value) is int else value
    if type(number) is not kind or not least <= number <= most:
        wanted = "true or false" if kind is bool else f"a number from {least:g} to {most:g}"
        raise FolderError(
            f"{where}: {name} = {value!r} is not supported", f"{wanted}; or take it out: it is a default"
        )
    return number


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(each) is int and each >= 0 for each in value)
