"""Registered rules and searches do what they would do if they were passed; nothing that is set is ignored."""

from dataclasses import dataclass

import jaxtyping
import pytest
import torch

from regard.decoding import registries
from regard.decoding.base_search import Search
from regard.decoding.batches import decode_all
from regard.decoding.constrained import ConstrainedBeamSearch
from regard.decoding.continuation import ContinuationSettings
from regard.decoding.controls import Controls
from regard.decoding.diverse import DiverseBeamSearch
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.registered import register_rule, register_search
from regard.decoding.rules import BannedTokens, ForbiddingRule
from regard.decoding.sampling import Sampling, TopK
from regard.decoding.search import BeamSearch, GreedySearch
from regard.decoding.settings import GenerationSettings
from regard.errors import ConfigError, RecipeError, UserError
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.recipe import read


class Letters:
    """A tokeniser of one token a letter."""

    vocab_size = 40

    def encode_words(self, text):
        return [[ord(letter) - 87 for letter in text]]

    def decode(self, ids):
        return "".join(chr(87 + each) for each in ids)


SOURCES = [[4, 5, 6], [7, 8, 9, 10, 11, 12], [5], [9, 9]]


@pytest.fixture(autouse=True)
def _own_registries(monkeypatch):
    for registry in (registries.RULES, registries.SEARCHES):
        monkeypatch.setattr(registry, "added", {})


@pytest.fixture
def odd():
    """A rule that forbids odd tokens but the end."""

    @register_rule("odd")
    class Odd(ForbiddingRule):
        def __init__(self, tokenizer, special):
            self.ids = [each for each in range(1, tokenizer.vocab_size, 2) if each != special.eos_id]

        def __call__(self, log_probs, generated):
            log_probs[:, self.ids] = -torch.inf

    return Odd


@pytest.fixture
def pruned():
    """A beam search with a field of its own."""

    @register_search("pruned")
    @dataclass(frozen=True, kw_only=True)
    class Pruned(BeamSearch):
        threshold: float = 2.5

    return Pruned


@pytest.fixture
def model():
    return build_model(
        EncoderDecoderConfig(
            src_vocab_size=40, tgt_vocab_size=40, pad_id=0, d_model=16, num_heads=2, d_ff=32,
            num_encoder_layers=1, num_decoder_layers=1,
        ),
        seed=3,
    ).eval()  # fmt: skip


def strategy(**settings):
    return GenerationSettings(max_new_tokens=9, **settings).strategy(tokenizer=Letters())


@pytest.mark.parametrize(
    "settings", [{"beam_size": 1}, {"beam_size": 3}, {"sample": True, "seed": 5}], ids=str
)
def test_a_rule_holds_in_each_search_and_in_each_batch(model, odd, settings):
    free = decode_all(strategy(**settings), model, SOURCES)
    found = decode_all(strategy(**settings, rules=("odd",)), model, SOURCES)
    assert any(token % 2 for [each] in free for token in each.ids)
    assert not any(token % 2 for [each] in found for token in each.ids)
    alone = [decode_all(strategy(**settings, rules=("odd",)), model, [source])[0] for source in SOURCES]
    assert [each.ids for [each] in alone] == [each.ids for [each] in found]


@pytest.mark.parametrize("settings", [{"beam_size": 1}, {"beam_size": 3}, {"sample": True}], ids=str)
@pytest.mark.parametrize("left", [[], [3]], ids=["nothing", "the end"])
def test_a_rule_that_forbids_all_first_tokens_is_warned_of_by_name(model, settings, left):
    """A mask the wrong way round gave empty translations without a word."""

    class Reversed(ForbiddingRule):
        def __call__(self, log_probs, generated):
            kept = log_probs[:, left].clone()
            log_probs[:] = -torch.inf
            log_probs[:, left] = kept

    register_rule("reversed")(lambda tokenizer, special: Reversed())
    search = strategy(**settings, rules=("reversed",))
    with pytest.warns(UserWarning, match="rules of Reversed forbid every first token"):
        found = decode_all(search, model, SOURCES)
    assert not any(each.ids for [each] in found)


def test_a_rule_that_forbids_all_later_tokens_ends_a_text_without_a_warning(model):
    class Short(ForbiddingRule):
        def __call__(self, log_probs, generated):
            if generated.length > generated.prefix_lengths.min():
                log_probs[:] = -torch.inf

    register_rule("short")(lambda tokenizer, special: Short())
    found = decode_all(strategy(rules=("short",)), model, SOURCES)
    assert all(len(each.ids) <= 1 for [each] in found)


def test_a_rule_that_only_looks_like_a_ban_is_called_by_the_fast_step(model):
    class Odd(BannedTokens):
        def __call__(self, log_probs, generated):
            log_probs[:, 5::2] = -torch.inf

    register_rule("odd")(lambda tokenizer, special: Odd(ids=()))
    [[found], *_] = decode_all(strategy(rules=("odd",)), model, SOURCES)
    assert found.ids
    assert not any(token % 2 for token in found.ids)


def test_a_first_token_is_forced_whatever_a_rule_forbids(odd):
    rules = strategy(rules=("odd",), forced_bos_id=5).rules
    assert [type(rule).__name__ for rule in rules][-2:] == ["Odd", "ForcedFirstToken"]


def test_a_rule_needs_a_tokenizer_and_must_be_one(odd):
    with pytest.raises(ConfigError, match="tokeniser"):
        GenerationSettings(rules=("odd",)).strategy()
    register_rule("none")(lambda tokenizer, special: None)
    with pytest.raises(ConfigError, match="'none' gives NoneType"):
        strategy(rules=("none",))


def test_a_search_with_a_field_that_nothing_sets_is_refused_by_the_name_of_the_field():
    with pytest.raises(ConfigError, match="'strict' has the field 'must' without a default") as caught:

        @register_search("strict")
        @dataclass(frozen=True, kw_only=True)
        class Strict(BeamSearch):
            must: int

    assert "give `must` a default" in caught.value.hint

    @dataclass(frozen=True, kw_only=True)
    @register_search("late")
    class Late(BeamSearch):
        must: int

    with pytest.raises(ConfigError, match="'late' has the field 'must' without a default"):
        strategy(search="late")


@pytest.mark.parametrize("settings", [GenerationSettings, ContinuationSettings])
def test_unknown_names_are_refused_with_the_nearest_one(settings, odd, pruned):
    for given, near in (({"rules": ("od",)}, "'odd'"), ({"search": "prund"}, "'pruned'")):
        with pytest.raises(ConfigError) as caught:
            settings(**given)
        assert near in caught.value.hint
    with pytest.raises(RecipeError, match="decoding: search: no search is registered as 'x'"):
        read(settings, {"search": "x"}, "decoding")


def test_files_keep_the_names(odd, pruned):
    settings = GenerationSettings(search="pruned", rules=("odd",))
    assert read(GenerationSettings, settings.to_dict(), "generation.json") == settings


def test_a_search_gets_the_controls_that_it_has_fields_for(pruned):
    found = strategy(search="pruned", beam_size=7, early_stopping=True, n_best=2, alpha=0.3)
    assert type(found) is pruned
    assert (found.size, found.early_stopping, found.n_best, found.threshold) == (7, True, 2, 2.5)
    assert found.length_penalty(7) == 2**0.3
    assert ContinuationSettings(search="pruned").strategy().size == BeamSearch.size

    register_search("containing")(ConstrainedBeamSearch)
    containing = strategy(search="containing", beam_size=4, must_contain=("ab", "c|d"))
    assert containing.constraints == (((10, 11),), ((12,), (13,)))
    register_search("grouped")(DiverseBeamSearch)
    grouped = strategy(search="grouped", beam_size=6, beam_groups=3, diversity=0.7)
    assert (grouped.size, grouped.groups, grouped.diversity) == (6, 3, 0.7)

    register_search("sampled")(Sampling)
    sampled = strategy(search="sampled", top_k=3, seed=4)
    assert (sampled.filters, sampled.seed) == ((TopK(k=3),), 4)


@pytest.mark.parametrize(
    "given",
    [
        {"temperature": 0.5}, {"top_k": 3}, {"sample": True}, {"mbr": "chrf"}, {"prompt_lookup": 3},
        {"beam_groups": 2, "diversity": 0.5}, {"must_contain": ("a",)}, {"draft_model": "x"},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("settings", [Controls, GenerationSettings, ContinuationSettings])
def test_a_control_that_a_search_does_not_take_is_refused(settings, given, pruned):
    with pytest.raises(ConfigError, match="'pruned' does not take it"):
        settings(search="pruned", **given)


def test_a_search_without_a_beam_refuses_its_size_and_is_not_widened():
    register_search("first")(GreedySearch)
    with pytest.raises(ConfigError, match="beam_size = 4 is set, but the search 'first'"):
        GenerationSettings(search="first", beam_size=4)
    assert not GenerationSettings(search="first").takes_beam_size
    assert type(GenerationSettings(beam_size=9).changed(Controls(search="first")).strategy()) is GreedySearch
    own = GenerationSettings(search="first")
    assert own.changed(Controls(beam_size=2)).search is None
    assert own.changed(Controls(ban=("a",))).search == "first"


def test_a_search_that_is_asked_for_replaces_the_model_s_own(pruned):
    sampled = ContinuationSettings(temperature=0.5, top_k=3, seed=2).changed(Controls(search="pruned"))
    assert (sampled.temperature, sampled.top_k, sampled.samples) == (1.0, 0, False)
    own = GenerationSettings(search="pruned", beam_size=4)
    assert own.changed(Controls(beam_size=8)).with_(beam_size=4) == own  # it takes a beam size
    for asked in ({"sample": True}, {"temperature": 0.0}, {"beam_size": 1}):
        assert own.changed(Controls(**asked)).search is None
    with pytest.raises(ConfigError, match="does not take it"):
        own.changed(Controls(top_k=3))


def test_a_class_that_is_no_search_is_refused_when_it_is_registered():
    for wrong in (int, lambda: None):
        with pytest.raises(ConfigError, match="not a subclass of Search"):
            register_search("wrong")(wrong)
    with pytest.raises(UserError, match="''"):
        register_search("")


def test_a_search_written_from_scratch_is_used_as_it_is(model):
    @register_search("nothing")
    @dataclass(frozen=True, kw_only=True)
    class Nothing(Search):
        def __call__(self, stepper, requests):
            return [
                [Hypothesis(ids=[4], log_prob=0.0, score=0.0, token_log_probs=[0.0, 0.0])] for _ in requests
            ]

    assert [each.ids for [each] in decode_all(strategy(search="nothing"), model, SOURCES)] == [[4]] * 4


@pytest.mark.parametrize("uneven", [False, True], ids=["even", "uneven"])
def test_a_rule_that_returns_scores_is_refused(model, uneven):
    class Copying(ForbiddingRule):
        def __call__(self, log_probs, generated):
            log_probs = log_probs.clone()
            log_probs[:, 5::2] = -torch.inf
            return log_probs

    register_rule("copying")(lambda tokenizer, special: Copying())
    prefixes = [[4], [4, 5, 6], *[[]] * (len(SOURCES) - 2)] if uneven else None
    with pytest.raises(ConfigError, match="the rule Copying returns a Tensor") as raised:
        decode_all(strategy(rules=("copying",)), model, SOURCES, prefixes=prefixes)
    assert "in place" in raised.value.hint


def test_a_rule_that_cannot_be_called_is_not_registered(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it would refuse it first
    with pytest.raises(UserError, match="the decoding rule 'three' is int"):
        register_rule("three")(3)


def test_a_rule_that_fails_when_it_is_made_or_called_is_named(model):
    register_rule("crash")(lambda tokenizer, special: tokenizer.no_such_method())
    with pytest.raises(ConfigError, match="the decoding rule 'crash' fails: AttributeError"):
        strategy(rules=("crash",))

    class Beyond(ForbiddingRule):
        def __call__(self, log_probs, generated):
            log_probs[:, 10**6] = -torch.inf

    register_rule("beyond")(lambda tokenizer, special: Beyond())
    with pytest.raises(ConfigError, match="the rule Beyond fails: IndexError"):
        decode_all(strategy(rules=("beyond",)), model, SOURCES)


def test_a_rule_that_cannot_be_called_with_scores_and_tokens_is_refused():
    class Alone(ForbiddingRule):
        def __call__(self, log_probs): ...

    register_rule("alone")(lambda tokenizer, special: Alone())
    with pytest.raises(ConfigError, match="the decoding rule 'alone': too many positional") as raised:
        strategy(rules=("alone",))
    assert "log_probs, generated" in raised.value.hint


def test_a_rule_that_cannot_be_made_from_a_tokeniser_and_special_tokens_is_refused():
    with pytest.raises(ConfigError, match="the decoding rule 'one': too many positional"):
        register_rule("one")(lambda tokenizer: BannedTokens(ids=()))


def test_a_search_without_a_call_or_with_a_step_of_other_arguments_is_refused():
    @dataclass(frozen=True, kw_only=True)
    class Abstract(Search):
        """One that does not search."""

    class Odd(BeamSearch):
        def continued(self, rows):
            return rows

    with pytest.raises(ConfigError, match="the search 'abstract' does not define __call__"):
        register_search("abstract")(Abstract)
    with pytest.raises(ConfigError, match="the search 'odd'"):
        register_search("odd")(Odd)


def test_a_search_that_cannot_be_made_is_refused():
    @register_search("unmade")
    class Unmade(BeamSearch):
        def __init__(self, size): ...

    with pytest.raises(ConfigError, match="the search 'unmade': "):
        strategy(search="unmade")


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("search", [{"beam_size": 1}, {"beam_size": 3}, {"sample": True}])
def test_a_rule_that_only_forbids_may_not_give_another_score(model, at, search):
    class Raising(ForbiddingRule):
        def __call__(self, log_probs, generated):
            if generated.length == at:
                log_probs[:, 5] = 3.0

    register_rule("raising")(lambda tokenizer, special: Raising())
    message = r"the rule Raising changes the log-probability of token 5 from -.* to 3, but"
    with pytest.raises(ConfigError, match=message) as raised:
        decode_all(strategy(rules=("raising",), min_length=4, **search), model, SOURCES)
    assert "changes_scores = True" in raised.value.hint


def test_the_scores_of_such_a_rule_are_checked_after_a_forced_prefix_too(model):
    class Raising(ForbiddingRule):
        def __call__(self, log_probs, generated):
            log_probs[:, 5] = 3.0

    register_rule("raising")(lambda tokenizer, special: Raising())
    search = strategy(rules=("raising",), min_length=6, max_length=8)
    with pytest.raises(ConfigError, match="changes the log-probability of token 5"):
        decode_all(search, model, SOURCES[:1], prefixes=[[4, 6, 4, 6, 4]])


def test_a_rule_that_says_that_it_changes_scores_may_raise_them(model):
    class Raising:
        changes_scores = True
        raises = True

        def __call__(self, log_probs, generated):
            log_probs[:, 5] = 3.0

    register_rule("raising")(lambda tokenizer, special: Raising())
    [[found], *_] = decode_all(strategy(rules=("raising",)), model, SOURCES)
    assert set(found.ids) == {5}
