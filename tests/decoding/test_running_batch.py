"""Requests join and leave a running batch at any step, and each is answered as it is alone, to the bit."""

import random
from dataclasses import dataclass

import pytest

from regard.decoding.base_search import Search
from regard.decoding.batches import decode_all
from regard.decoding.constrained import ConstrainedBeamSearch
from regard.decoding.continuation import ContinuationSettings, continue_all, prompts_of
from regard.decoding.diverse import DiverseBeamSearch
from regard.decoding.hypothesis import Hypothesis, Power, Wu
from regard.decoding.penalties import FrequencyPenalty, RepetitionPenalty
from regard.decoding.rules import (
    BannedPhrases,
    BannedTokens,
    LengthLimits,
    MinimumLength,
    NoRepeatNGrams,
    NoRepeatSourceNGrams,
)
from regard.decoding.running_batch import RunningBatch, RunningContinuations, RunningTranslations
from regard.decoding.sampling import Sampling, Temperature, TopK
from regard.decoding.search import BeamSearch, GreedySearch
from regard.decoding.speculative import PromptLookup, SpeculativeDecoding
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from tests.decoding.small_models import EXACT, SIZES, VOCAB, perturbed, sentences, translator
from tests.nightly import each_once

BOS, EOS = 2, 3
COMMON = {"limits": LengthLimits(ratio=0.5, offset=4, most=24), "rules": (BannedTokens(ids=(0, 2)),)}


@dataclass(frozen=True)
class Stop:
    """As a stop text: after three tokens, of which the last is even."""

    def __call__(self, prefix, generated):
        return len(generated) > 2 and generated[-1] % 4 == 0


RULES = (
    RepetitionPenalty(penalty=1.3),
    FrequencyPenalty(penalty=0.1),
    *COMMON["rules"],
    BannedPhrases(phrases=((5, 6), (9,))),
    MinimumLength(length=2, eos_id=EOS),
    NoRepeatNGrams(size=2),
    NoRepeatSourceNGrams(size=2),
)
SEARCHES = {
    "greedy": GreedySearch(**COMMON),
    "greedy, stop": GreedySearch(**{**COMMON, "stop": Stop(), "cut": True}),
    "greedy, rules": GreedySearch(**{**COMMON, "rules": RULES}),
    "beam": BeamSearch(size=4, n_best=3, length_penalty=Wu(alpha=0.6), **COMMON),
    "beam, early": BeamSearch(size=3, n_best=2, early_stopping=True, **COMMON),
    "beam, heuristic": BeamSearch(
        size=3, heuristic_stopping=True, length_penalty=Power(alpha=1.0), stop=Stop(), ends=(7,), **COMMON
    ),
    "beam, rules": BeamSearch(size=3, **{**COMMON, "rules": RULES}),
    "samples": Sampling(seed=3, n_best=3, **COMMON),
    "samples, rules": Sampling(
        seed=4, filters=(Temperature(temperature=0.7), TopK(k=9)), **{**COMMON, "rules": RULES}
    ),
}


@dataclass(frozen=True, kw_only=True)
class PrunedBeam(BeamSearch):
    """Of another package: it changes a part of the steps."""

    def continued(self, rows, constraints, found, greatest, finished):
        kept = super().continued(rows, constraints, found, greatest, finished)
        return kept & (found.total > found.total.max(axis=1, keepdims=True) - 1.5)


@dataclass(frozen=True, kw_only=True)
class Whole(GreedySearch):
    """Of another package, with a `__call__` of its own."""

    def __call__(self, stepper, requests):
        return [found[::-1] for found in super().__call__(stepper, requests)]


SEPARATE = {
    "diverse": DiverseBeamSearch(size=4, groups=2, n_best=2, **COMMON),
    "constrained": ConstrainedBeamSearch(size=3, constraints=(((5, 6),), ((7,), (8,))), **COMMON),
    "speculative": SpeculativeDecoding.of(SEARCHES["greedy"], PromptLookup(), 3),
    "pruned": PrunedBeam(size=3, **COMMON),
    "whole": Whole(**COMMON),
}


def writer(**table):
    config = DecoderOnlyConfig.from_table({**SIZES, "num_layers": 2, **table}, vocab_size=VOCAB)
    return perturbed(build_model(config, seed=1))


TRANSLATORS = {
    "sinusoidal": {},
    "learned": {"positions": "learned", "max_positions": 40},
    "rotary": {"positions": "rotary", "num_kv_heads": 2, "norm_position": "pre", "norm": "rms"},
    "plain": {"positions": "t5"},  # no fast step
}


def run(batch: RunningBatch, add, count: int, random_, cancelled=()) -> dict[int, list[Hypothesis]]:
    """Random arrivals, one to four at a time, until all are answered; some are cancelled on the way."""
    found, tickets = {}, 0
    while tickets < count or batch:
        if tickets < count and random_.random() < 0.5:
            new = min(count - tickets, random_.randrange(1, 5))
            assert add(tickets, tickets + new) == list(range(tickets, tickets + new))
            tickets += new
        for ticket in [each for each in cancelled if each < tickets and random_.random() < 0.3]:
            if ticket not in found:
                batch.cancel(ticket)
        for ticket, hypotheses in batch.step():
            assert ticket not in found
            found[ticket] = hypotheses
    assert not batch.rows
    assert not batch.tokens
    return found


def assert_same(found, expected):
    if EXACT:
        assert found == expected
    assert [len(each) for each in found] == [len(each) for each in expected]


def translated(search, models, *, count=24, seed=0, cancelled=()):
    """The answers of a running batch, and those to each source alone."""
    random_ = random.Random(seed)
    sources = sentences(count, random_)
    prefixes = [sentences(1, random_, 4)[0] if number % 3 == 0 else [] for number in range(count)]
    batch = RunningTranslations(search, models, arrival_tokens=random_.choice([1, 40, 1024]))

    def add(first, last):
        return batch.add(sources[first:last], prefixes=prefixes[first:last])

    found = run(batch, add, count, random_, cancelled)
    alone = {
        number: decode_all(search, models, [sources[number]], prefixes=[prefixes[number]])[0]
        for number in found
    }
    assert batch.refused() == []
    return found, alone


@pytest.mark.parametrize("name", SEARCHES)
def test_a_source_is_translated_as_it_is_alone(name):
    found, alone = translated(SEARCHES[name], translator())
    assert len(found) == 24
    assert_same([*found.values()], [*alone.values()])
    assert len({str(each) for each in found.values()}) > 12


@pytest.mark.parametrize(
    ("model", "name"), each_once(list(TRANSLATORS), ["greedy", "beam", "samples, rules"])
)
def test_so_it_is_by_models_with_and_without_a_fast_step(model, name):
    found, alone = translated(SEARCHES[name], translator(**TRANSLATORS[model]), count=12, seed=1)
    assert len(found) == 12
    assert_same([*found.values()], [*alone.values()])


@pytest.mark.parametrize("name", SEPARATE)
def test_so_it_is_by_searches_that_nothing_joins(name):
    model = translator()
    found, alone = translated(SEPARATE[name], model, count=12, seed=2)
    assert len(found) == 12
    assert_same([*found.values()], [*alone.values()])
    assert not RunningTranslations(SEPARATE[name], model).joins


@pytest.mark.parametrize("name", ["beam", "samples"])
def test_so_it_is_by_an_ensemble(name):
    models = [translator(), translator(3)]
    found, alone = translated(SEARCHES[name], models, count=12, seed=3)
    assert_same([*found.values()], [*alone.values()])
    assert not RunningTranslations(SEARCHES[name], models).joins


WRITERS = {
    "learned": {"max_positions": 60},
    "rotary": {"positions": "rotary", "num_kv_heads": 2, "trained_length": 24},
    "window": {"positions": "rotary", "window": 6},
    "plain": {"positions": "alibi", "trained_length": 30},
}
CONTINUATIONS = {
    "greedy": ContinuationSettings(temperature=0.0),
    "beam": ContinuationSettings(beam_size=3, length_penalty="power", no_repeat_ngram_size=2),
    "samples": ContinuationSettings(seed=5, top_k=20, repetition_penalty=1.2),
}


@pytest.mark.parametrize(("model", "name"), each_once(list(WRITERS), list(CONTINUATIONS)))
def test_a_prompt_of_any_length_is_continued_as_it_is_alone(model, name):
    """Also over the edge of rolling and sliding windows, which each row comes to at a step of its own."""
    model, random_ = writer(**WRITERS[model]), random.Random(4)
    strategy = CONTINUATIONS[name].strategy(num=2 if name == "samples" else 1)
    prompts = prompts_of(sentences(10, random_, 45), begin_id=BOS)
    news = [random_.randrange(1, 14) for _ in prompts]
    batch = RunningContinuations(strategy, model)

    def add(first, last):
        return [
            batch.add([prompt], max_new_tokens=new)[0]
            for prompt, new in zip(prompts[first:last], news[first:last], strict=True)
        ]

    found = run(batch, add, len(prompts), random_)
    alone = [
        continue_all(strategy, model, [prompt], max_new_tokens=new)[0]
        for prompt, new in zip(prompts, news, strict=True)
    ]
    assert_same([found[number] for number in range(len(prompts))], alone)


@pytest.mark.parametrize(
    ("name", "positions"), [("beam", "rotary"), ("samples", "sinusoidal"), ("beam", "t5")]
)
def test_cancelled_requests_are_not_answered_and_change_nothing(name, positions):
    cancelled = range(0, 30, 2)
    found, alone = translated(
        SEARCHES[name], translator(positions=positions), count=30, seed=5, cancelled=cancelled
    )
    assert set(range(1, 30, 2)) <= set(found)
    assert len(found) < 30
    assert_same([*found.values()], [*alone.values()])


def test_every_search_is_one_or_the_other():
    """A search of regard's own is in these tests, so that nobody forgets it."""

    def below(kind):
        yield kind
        for each in kind.__subclasses__():
            yield from below(each)

    own = {kind for kind in below(Search) if kind.__module__.startswith("regard.decoding")}
    tested = {type(search) for search in (*SEARCHES.values(), *SEPARATE.values())}
    assert {kind.__name__ for kind in own - tested} == {"Search", "DecodingLoop"}


@pytest.mark.parametrize("given", [[], [[9]], [[9]] * 3], ids=len)
def test_prefixes_for_other_sources_are_refused_and_none_is_queued(given):
    batch = RunningTranslations(SEARCHES["greedy"], translator())
    with pytest.raises(ValueError, match=r"shorter|longer"):
        batch.add([[5, 6], [7]], prefixes=given)
    assert not batch
    assert batch.add([[5, 6]], prefixes=[[9]]) == [0]


def test_a_translation_ends_at_the_last_position_of_the_model():
    """As it does alone, whatever the limits of the search."""
    endless = GreedySearch(limits=LengthLimits(offset=99), rules=(BannedTokens(ids=(0, 2, EOS)),))
    model, found = translator(positions="learned", max_positions=9), []
    batch = RunningTranslations(endless, model)
    batch.add([[5, 6]])
    while batch:
        found += [each.ids for _, [each] in batch.step()]
    [[alone]] = decode_all(endless, model, [[5, 6]])
    assert found == [alone.ids]
    assert len(alone.ids) == 8
