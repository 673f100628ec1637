"""From decoding controls to a search: its kind, rules, filters and stopping."""

import dataclasses
from typing import Any, cast

from regard.decoding.banned_words import BannedWords
from regard.decoding.base_search import Search
from regard.decoding.constrained import ConstrainedBeamSearch
from regard.decoding.control_fields import SEARCH_CONTROLS
from regard.decoding.controls import Controls, banned_ids, boosted
from regard.decoding.decoding_loop import DecodingLoop
from regard.decoding.diverse import DiverseBeamSearch
from regard.decoding.hypothesis import LengthPenalty, Power, Wu
from regard.decoding.penalties import FrequencyPenalty, PhraseBoost, PresencePenalty, RepetitionPenalty
from regard.decoding.phrases import SentenceEnd, StopTexts, Words, phrases, usual_forms
from regard.decoding.registered import refuse_required_fields, registered_rules
from regard.decoding.registries import CONTROLS_OF_FIELD, SEARCHES
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
from regard.decoding.special_tokens import SpecialTokenIds
from regard.decoding.speculative import Drafter, PromptLookup, SpeculativeDecoding
from regard.errors import ConfigError
from regard.registry import refuse_other_arguments


def assembled(
    controls: Controls,
    *,
    special: SpecialTokenIds,
    never: tuple[int, ...],
    n_best: int,
    limits: LengthLimits,
    least: int,
    length_penalty: LengthPenalty,
    tokenizer: Words | None,
    drafter: Drafter | None = None,
    cut: bool = False,
) -> Search:
    """The search that the controls describe, without the ids in `never`, with at least `least` tokens.

    Raises:
        ConfigError: the controls hold texts, and there is no tokeniser or it has no tokens for them; or
            they hold a token that is not in its vocabulary.
    """
    named = [*(("end_ids", token) for token in special.ends), ("forced_bos_id", special.first)]
    for name, token in named:
        if tokenizer is not None and token is not None and token >= tokenizer.vocab_size:
            raise ConfigError(
                f"{name} = {token} is not a token: there are {tokenizer.vocab_size}, counted from 0",
                "use an id of the vocabulary, or leave it out",
            )
    common: dict[str, Any] = {
        "limits": limits,
        "rules": rules_of(controls, special, never, least, tokenizer),
        "length_penalty": length_penalty,
        "n_best": n_best,
        "bos_id": special.bos_id,
        "eos_id": special.eos_id,
        "ends": special.ends,
        "stop": _stop(controls, tokenizer),
        "cut": cut,
    }
    if controls.search is not None:
        return _registered(controls.search, controls, common, tokenizer)
    if controls.samples:
        search = Sampling(**common, filters=filters_of(controls), seed=controls.seed or 0)
    elif controls.width > 1:
        return _beam(controls, common, tokenizer)
    else:
        search = GreedySearch(**common)
    return _speculative(search, controls, drafter)


def _beam(controls: Controls, common: dict[str, Any], tokenizer: Words | None) -> Search:
    more = {"size": controls.width, "early_stopping": bool(controls.early_stopping)}
    if controls.is_set("beam_groups"):
        groups, diversity = cast(int, controls.beam_groups), cast(float, controls.diversity)  # both are set
        return DiverseBeamSearch(**common, **more, groups=groups, diversity=diversity)
    if controls.must_contain:
        wanted = tuple(phrases(tokenizer, text, "must_contain") for text in controls.must_contain)
        assert tokenizer is not None  # phrases has refused it
        return ConstrainedBeamSearch(
            **common, **more, constraints=wanted, sentence_end=SentenceEnd(tokenizer)
        )
    return BeamSearch(**common, **more, heuristic_stopping=bool(controls.heuristic_stopping))


def _registered(name: str, controls: Controls, common: dict[str, Any], tokenizer: Words | None) -> Search:
    """The registered search of this name, with the controls that it has fields for.

    A control that is not set leaves the default of the field.
    """
    wanted = (phrases(tokenizer, text, "must_contain") for text in controls.must_contain)
    values: dict[str, Any] = {name: getattr(controls, name) for name in SEARCH_CONTROLS}
    values |= dict.fromkeys(("size", *CONTROLS_OF_FIELD["size"]), controls.size)
    values |= {
        "groups": controls.beam_groups,
        "constraints": tuple(wanted) or None,
        "filters": filters_of(controls),
    }
    fields = {field.name for field in dataclasses.fields(SEARCHES[name])}
    given = {field: value for field, value in values.items() if field in fields and value is not None}
    refuse_required_fields(name, SEARCHES[name], [*common, *given])
    refuse_other_arguments(SEARCHES[name], f"the search {name!r}", (), [*common, *given], kind=ConfigError)
    return SEARCHES[name](**common, **given)


def _speculative(search: DecodingLoop, controls: Controls, drafter: Drafter | None) -> Search:
    """The search itself, or speculative decoding with it if the controls ask for that."""
    if controls.prompt_lookup:
        return SpeculativeDecoding.of(search, PromptLookup(), controls.prompt_lookup)
    if drafter is not None:
        return SpeculativeDecoding.of(search, drafter, controls.draft_tokens or 4)
    return search


def rules_of(
    controls: Controls, special: SpecialTokenIds, never: tuple[int, ...], least: int, tokenizer: Words | None
) -> tuple[Rule, ...]:
    """The rules that the controls describe: first penalties, then bans, then registered rules."""
    found: list[Rule] = []
    if penalty := controls.number("repetition_penalty"):
        found.append(RepetitionPenalty(penalty=penalty))
    if penalty := controls.number("presence_penalty"):
        found.append(PresencePenalty(penalty=penalty))
    if penalty := controls.number("frequency_penalty"):
        found.append(FrequencyPenalty(penalty=penalty))
    for text in controls.boost:
        word, strength = boosted(text)
        found.append(PhraseBoost(phrases=phrases(tokenizer, word, "boost"), strength=strength))
    found.append(BannedTokens(ids=never))
    if controls.ban:
        found += _bans(controls.ban, tokenizer)
    if controls.ban_ids:
        found.append(BannedPhrases(phrases=_known_ids(tuple(map(str, controls.ban_ids)), tokenizer)))
    if least:
        found.append(MinimumLength(length=least, eos_id=special.eos_id, others=special.ends))
    if controls.no_repeat_ngram_size:
        found.append(NoRepeatNGrams(size=controls.no_repeat_ngram_size))
    if controls.no_repeat_source_ngram_size:
        found.append(NoRepeatSourceNGrams(size=controls.no_repeat_source_ngram_size))
    found += registered_rules(controls.rules, tokenizer, special)
    if special.first is not None:  # last: no rule forbids the forced token
        found.append(ForcedFirstToken(token=special.first))
    return tuple(found)


def _bans(texts: tuple[str, ...], tokenizer: Words | None) -> list[Rule]:
    """The rules that forbid these texts; the usual tokens of one are forbidden in longer words, too."""
    if tokenizer is None:
        raise ConfigError(f"ban = {texts} needs a tokeniser", "pass the model's tokeniser")
    if blank := [text for text in texts if not text.strip() and not usual_forms(tokenizer, text)]:
        raise ConfigError(f"ban = {blank[0]!r}: this model has no tokens for it", "leave it out of ban")
    forms = tuple(form for text in texts for form in usual_forms(tokenizer, text))
    return [BannedPhrases(phrases=forms), BannedWords(texts, tokenizer)]


def _known_ids(texts: tuple[str, ...], tokenizer: Words | None) -> tuple[tuple[int, ...], ...]:
    """The token sequences of `ban_ids`."""
    found = tuple(map(banned_ids, texts))
    most = max(token for ids in found for token in ids)
    if tokenizer is not None and most >= tokenizer.vocab_size:
        raise ConfigError(
            f"ban_ids: {most} is not a token: there are {tokenizer.vocab_size}, counted from 0",
            "use ids of the vocabulary",
        )
    return found


def filters_of(controls: Controls) -> tuple[Filter, ...]:
    """The filters that the controls describe, in the order of Transformers."""
    found: list[Filter] = []
    if temperature := controls.number("temperature"):
        found.append(Temperature(temperature=temperature))
    if controls.top_k:
        found.append(TopK(k=controls.top_k))
    if p := controls.number("top_p"):
        found.append(TopP(p=p))
    if controls.min_p:
        found.append(MinP(p=controls.min_p))
    if p := controls.number("typical_p"):
        found.append(Typical(p=p))
    return tuple(found)


def _stop(controls: Controls, tokenizer: Words | None) -> StopTexts | None:
    if not controls.stop:
        return None
    if tokenizer is None:
        raise ConfigError(f"stop = {controls.stop} needs a tokeniser", "pass the model's tokeniser")
    return StopTexts(controls.stop, tokenizer)


def score_by(kind: str | None, alpha: float | None) -> LengthPenalty:
    """The length penalty of that name. With None or "none" a score is the log-probability."""
    if kind == "wu":
        return Wu(alpha=0.6 if alpha is None else alpha)
    return Power(alpha=(1.0 if alpha is None else alpha) if kind == "power" else 0.0)
