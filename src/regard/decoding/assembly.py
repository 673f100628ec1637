"""Controls become a search: which one, its rules, its filters, what ends it."""

from dataclasses import dataclass
from typing import Any

from regard.decoding.base_search import DecodingLoop, Search
from regard.decoding.constrained import ConstrainedBeamSearch
from regard.decoding.controls import Controls, boosted
from regard.decoding.diverse import DiverseBeamSearch
from regard.decoding.hypothesis import LengthPenalty, Power, Wu
from regard.decoding.penalties import FrequencyPenalty, PhraseBoost, PresencePenalty, RepetitionPenalty
from regard.decoding.phrases import StopTexts, Words, phrases
from regard.decoding.rules import (
    BannedPhrases,
    BannedTokens,
    ForcedFirstToken,
    LengthLimits,
    MinimumLength,
    NoRepeatNGrams,
    NoRepeatSourceNGrams,
    Rule,
)
from regard.decoding.sampling import Filter, MinP, Sampling, Temperature, TopK, TopP, Typical
from regard.decoding.search import BeamSearch, GreedySearch
from regard.decoding.speculative import Drafter, PromptLookup, SpeculativeDecoding
from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class SpecialTokenIds:
    """The ids that are no words."""

    pad_id: int
    bos_id: int
    eos_id: int
    ends: tuple[int, ...] = ()  # others that end a text
    first: int | None = None  # the token that every output begins with


def assembled(
    controls: Controls,
    *,
    marks: SpecialTokenIds,
    never: tuple[int, ...],
    n_best: int,
    limits: LengthLimits,
    least: int,
    length_penalty: LengthPenalty,
    tokenizer: Words | None,
    drafter: Drafter | None = None,
    cut: bool = False,
) -> Search:
    """The search that the controls describe; the ids in `never` are not said, `least` tokens are.

    Raises:
        ConfigError: the controls hold words that no tokeniser is there to spell, or that it cannot spell,
            or a token that it does not have.
    """
    named = {"end_ids": max(marks.ends, default=0), "forced_bos_id": marks.first or 0}
    for name, token in named.items():
        if tokenizer is not None and token >= tokenizer.vocab_size:
            raise ConfigError(
                f"{name} = {token} is no token: there are {tokenizer.vocab_size}, counted from 0",
                "use an id of the vocabulary, or leave it out",
            )
    common: dict[str, Any] = {
        "limits": limits,
        "rules": rules_of(controls, marks, never, least, tokenizer),
        "length_penalty": length_penalty,
        "n_best": n_best,
        "bos_id": marks.bos_id,
        "eos_id": marks.eos_id,
        "ends": marks.ends,
        "stop": _stop(controls, tokenizer),
        "cut": cut,
    }
    if controls.draws:
        search = Sampling(**common, filters=filters_of(controls), seed=controls.seed or 0)
    elif (controls.beam_size or 1) > 1:
        return _beam(controls, common, tokenizer)
    else:
        search = GreedySearch(**common)
    return _guessing(search, controls, drafter)


def _beam(controls: Controls, common: dict[str, Any], tokenizer: Words | None) -> Search:
    size = controls.beam_size or 1
    more = {"beam_size": size, "early_stopping": bool(controls.early_stopping)}
    if controls.asks("beam_groups"):
        groups = controls.beam_groups or 1
        return DiverseBeamSearch(**common, **more, groups=groups, diversity=controls.diversity or 0.0)
    if controls.must_contain:
        wanted = tuple(phrases(tokenizer, text, "must_contain") for text in controls.must_contain)
        return ConstrainedBeamSearch(**common, **more, constraints=wanted)
    return BeamSearch(**common, **more, heuristic_stopping=bool(controls.heuristic_stopping))


def _guessing(search: DecodingLoop, controls: Controls, drafter: Drafter | None) -> Search:
    """The same search, which reads several guessed tokens at once where that is asked for."""
    if controls.prompt_lookup:
        return SpeculativeDecoding.of(search, PromptLookup(), controls.prompt_lookup)
    if drafter is not None:
        return SpeculativeDecoding.of(search, drafter, controls.draft_tokens or 4)
    return search


def rules_of(
    controls: Controls, marks: SpecialTokenIds, never: tuple[int, ...], least: int, tokenizer: Words | None
) -> tuple[Rule, ...]:
    """First what weighs, then what forbids."""
    found: list[Rule] = []
    if controls.asks("repetition_penalty"):
        found.append(RepetitionPenalty(penalty=controls.repetition_penalty or 1.0))
    if controls.asks("presence_penalty"):
        found.append(PresencePenalty(penalty=controls.presence_penalty or 0.0))
    if controls.asks("frequency_penalty"):
        found.append(FrequencyPenalty(penalty=controls.frequency_penalty or 0.0))
    for text in controls.boost:
        word, strength = boosted(text)
        found.append(PhraseBoost(phrases=phrases(tokenizer, word, "boost"), strength=strength))
    found.append(BannedTokens(ids=never))
    if controls.ban:
        banned = tuple(form for text in controls.ban for form in phrases(tokenizer, text, "ban"))
        found.append(BannedPhrases(phrases=banned))
    if least:
        found.append(MinimumLength(length=least, eos_id=marks.eos_id, others=marks.ends))
    if controls.no_repeat_ngram_size:
        found.append(NoRepeatNGrams(size=controls.no_repeat_ngram_size))
    if controls.no_repeat_source_ngram_size:
        found.append(NoRepeatSourceNGrams(size=controls.no_repeat_source_ngram_size))
    if marks.first is not None:  # last: no rule forbids what is forced
        found.append(ForcedFirstToken(token=marks.first))
    return tuple(found)


def filters_of(controls: Controls) -> tuple[Filter, ...]:
    """In the order of transformers."""
    found: list[Filter] = []
    if controls.asks("temperature"):
        found.append(Temperature(temperature=controls.temperature or 1.0))
    if controls.top_k:
        found.append(TopK(k=controls.top_k))
    if controls.asks("top_p"):
        found.append(TopP(p=controls.top_p or 1.0))
    if controls.min_p:
        found.append(MinP(p=controls.min_p))
    if controls.asks("typical_p"):
        found.append(Typical(p=controls.typical_p or 1.0))
    return tuple(found)


def _stop(controls: Controls, tokenizer: Words | None) -> StopTexts | None:
    if not controls.stop:
        return None
    if tokenizer is None:
        raise ConfigError(f"stop = {controls.stop} needs a tokeniser", "give the tokeniser of the model")
    return StopTexts(controls.stop, tokenizer)


def score_by(kind: str | None, alpha: float | None) -> LengthPenalty:
    """The length penalty of that name; None, as "none": scores are log-probabilities."""
    if kind == "wu":
        return Wu(alpha=0.6 if alpha is None else alpha)
    return Power(alpha=(1.0 if alpha is None else alpha) if kind == "power" else 0.0)
