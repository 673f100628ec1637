"""The settings of a search, a request or a call where no others are given; callers rely on them."""

import dataclasses
import inspect

import pytest

from regard.decoding import batches, scoring
from regard.decoding.constrained import ConstrainedBeamSearch
from regard.decoding.continuation import ContinuationSettings, prompt_of, prompts_of
from regard.decoding.ctc import BestAlignment, PrefixBeamSearch
from regard.decoding.diverse import DiverseBeamSearch
from regard.decoding.hypothesis import Power, Request
from regard.decoding.penalties import FrequencyPenalty, PhraseBoost, PresencePenalty, RepetitionPenalty
from regard.decoding.rules import BannedTokens, ForcedFirstToken, LengthLimits, MinimumLength
from regard.decoding.running_batch import RunningTranslations
from regard.decoding.running_group import Arrival
from regard.decoding.sampling import Sampling
from regard.decoding.search import BeamSearch, GreedySearch
from regard.decoding.settings import GenerationSettings
from regard.decoding.special_tokens import SpecialTokenIds
from regard.decoding.speculative import SpeculativeDecoding

SEARCH = {
    "limits": LengthLimits(ratio=1.0, offset=50, least=0, most=1024), "rules": (), "n_best": 1, "bos_id": 2,
    "eos_id": 3, "ends": (), "stop": None, "cut": False, "length_penalty": Power(alpha=0.0),
}  # fmt: skip
BEAM = {**SEARCH, "size": 5, "early_stopping": False, "heuristic_stopping": False}
DEFAULTS = {
    GreedySearch: SEARCH,
    BeamSearch: BEAM,
    DiverseBeamSearch: {**BEAM, "groups": 2, "diversity": 0.5},
    ConstrainedBeamSearch: {**BEAM, "sentence_end": None},
    Sampling: {**SEARCH, "filters": (), "seed": 0},
    SpeculativeDecoding: {**SEARCH, "tokens": 5},
    PrefixBeamSearch: {"size": 8},
    SpecialTokenIds: {"ends": (), "first": None},
    Request: {"prefix": (), "begun": 0, "uncounted": 0, "index": 0, "source": None, "required": ()},
    Arrival: {"alone": False},
}
OF_CALLS = {  # a tokeniser that regard has trained has these ids
    batches.decode_all: {"pad_id": 0, "eos_id": 3, "first_index": 0},
    batches.decode_stream: {"pad_id": 0, "eos_id": 3},
    batches.padded: {"least": 1},
    scoring.forced_scores: {"pad_id": 0, "bos_id": 2, "eos_id": 3},
    RunningTranslations.__init__: {"pad_id": 0, "eos_id": 3},
    RunningTranslations.add: {"first_index": 0},
    GenerationSettings.strategy: {"pad_id": 0, "bos_id": 2, "eos_id": 3},
    ContinuationSettings.strategy: {"num": 1, "pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3},
    prompt_of: {"number": 0},
    prompts_of: {"first_number": 0},
}


@pytest.mark.parametrize("kind", DEFAULTS, ids=lambda kind: kind.__name__)
def test_a_search_has_these_settings_unless_others_are_given(kind):
    found = {}
    for field in dataclasses.fields(kind):
        if field.default_factory is not dataclasses.MISSING:
            found[field.name] = field.default_factory()
        elif field.default is not dataclasses.MISSING:
            found[field.name] = field.default
    found.pop("most", None)  # of a request: no limit
    assert found == DEFAULTS[kind]


@pytest.mark.parametrize("call", OF_CALLS, ids=lambda call: call.__qualname__)
def test_a_call_has_these_settings_unless_others_are_given(call):
    parameters = inspect.signature(call).parameters
    assert {name: parameters[name].default for name in OF_CALLS[call]} == OF_CALLS[call]


def test_a_rule_says_whether_it_changes_or_raises_scores():
    """A search that drops hypotheses early asks for it."""
    for rule, changes, raises in (
        (BannedTokens(ids=(1,)), False, False),
        (MinimumLength(length=2, eos_id=3), False, False),
        (ForcedFirstToken(token=4), True, False),
        (RepetitionPenalty(penalty=2.0), True, False),
        (RepetitionPenalty(penalty=0.5), True, True),
        (PresencePenalty(penalty=1.0), True, False),
        (PresencePenalty(penalty=-1.0), True, True),
        (FrequencyPenalty(penalty=1.0), True, False),
        (FrequencyPenalty(penalty=-1.0), True, True),
        (PhraseBoost(phrases=((4,),), strength=1.0), True, True),
        (PhraseBoost(phrases=((4,),), strength=-1.0), True, False),
    ):
        assert (rule.changes_scores, rule.raises) == (changes, raises), rule


def test_a_request_is_decoded_alone_only_where_it_must_be():
    assert [kind.alone for kind in (GreedySearch, BeamSearch, Sampling, SpeculativeDecoding)] == [
        False, False, False, True,
    ]  # fmt: skip
    assert BestAlignment.size == 1


def test_penalties_change_logits_where_one_token_follows_and_log_probabilities_in_a_beam():
    assert [kind.on_logits for kind in (GreedySearch, BeamSearch, Sampling)] == [True, False, True]
