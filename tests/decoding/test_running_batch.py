"""Requests join and leave a running batch at any step, and each is answered as it is alone, to the bit."""

import gc
import random
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
import torch

from regard.decoding.base_search import Search
from regard.decoding.batches import decode_all
from regard.decoding.constrained import ConstrainedBeamSearch
from regard.decoding.continuation import ContinuationSettings, continue_all, prompt_stepper, prompts_of
from regard.decoding.diverse import DiverseBeamSearch
from regard.decoding.hypothesis import Hypothesis, Power, Request, Wu
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
from regard.decoding.running_group import Arrival
from regard.decoding.sampling import Sampling, Temperature, TopK
from regard.decoding.search import BeamSearch, GreedySearch
from regard.decoding.speculative import PromptLookup, SpeculativeDecoding
from regard.errors import ConfigError, DataError, RunError
from regard.fast.native import kernels
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig

VOCAB, BOS, EOS = 40, 2, 3
EXACT = kernels.available() or (
    torch.backends.mkl.is_available() and torch.backends.cpu.get_cpu_capability() == "AVX2"
)
SIZES = {"d_model": 32, "num_heads": 4, "d_ff": 48}
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


@torch.no_grad()
def perturbed(model):
    """A model with opinions."""
    generator = torch.Generator().manual_seed(2)
    for parameter in model.parameters():
        parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


def translator(seed=1, **table):
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 2}
    sizes = {"src_vocab_size": VOCAB, "tgt_vocab_size": VOCAB, **SIZES, **layers, **table}
    return perturbed(build_model(EncoderDecoderConfig(**sizes), seed=seed))


def writer(**table):
    config = DecoderOnlyConfig.from_table({**SIZES, "num_layers": 2, **table}, vocab_size=VOCAB)
    return perturbed(build_model(config, seed=1))


TRANSLATORS = {
    "sinusoidal": {},
    "learned": {"positions": "learned", "max_positions": 40},
    "rotary": {"positions": "rotary", "num_kv_heads": 2, "norm_position": "pre", "norm": "rms"},
    "plain": {"positions": "t5"},  # no fast step
}


def sentences(count, random_, most=30):
    return [[random_.randrange(4, VOCAB) for _ in range(random_.randrange(most))] for _ in range(count)]


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


@pytest.mark.parametrize("model", TRANSLATORS)
@pytest.mark.parametrize("name", ["greedy", "beam", "samples, rules"])
def test_so_it_is_by_models_with_and_without_a_fast_step(model, name):
    found, alone = translated(SEARCHES[name], translator(**TRANSLATORS[model]), seed=1)
    assert len(found) == 24
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


@pytest.mark.parametrize("model", WRITERS)
@pytest.mark.parametrize("name", CONTINUATIONS)
def test_a_prompt_of_any_length_is_continued_as_it_is_alone(model, name):
    """Also over the edge of rolling and sliding windows, which each row comes to at a step of its own."""
    model, random_ = writer(**WRITERS[model]), random.Random(4)
    strategy = CONTINUATIONS[name].strategy(num=2 if name == "samples" else 1)
    prompts = prompts_of(sentences(14, random_, 45), begin_id=BOS)
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


@pytest.mark.parametrize("positions", ["rotary", "t5"])
def test_rows_leave_at_the_step_after_they_were_cancelled(positions):
    batch = RunningTranslations(SEARCHES["samples"], translator(positions=positions))
    tickets = batch.add(sentences(4, random.Random(1)))
    batch.step()
    assert batch.rows == 4 * 3
    batch.cancel(tickets[2])
    batch.step()
    assert batch.rows == 3 * 3
    for ticket in tickets:
        batch.cancel(ticket)
    assert batch.step() == []
    assert not batch
    assert (batch.rows, batch.tokens, batch.running, batch.waiting) == (0, 0, 0, 0)


def test_a_request_is_cancelled_before_it_is_read():
    batch = RunningTranslations(SEARCHES["greedy"], translator())
    first, second = batch.add([[5, 6], [7]])
    batch.cancel(first)
    assert batch.waiting == 1
    found = []
    while batch:
        found += batch.step()
    assert [ticket for ticket, _ in found] == [second]
    batch.cancel(second)  # it is done
    assert not batch


def test_tokens_are_known_as_they_come():
    batch = RunningTranslations(SEARCHES["greedy"], translator())
    tickets, last, found = batch.add(sentences(5, random.Random(2)), prefixes=[[9, 8]] * 5), {}, {}
    while batch:
        found |= dict(batch.step())
        for ticket in tickets:
            now = batch.generated(ticket)
            if ticket in found:
                [answer] = found[ticket]
                assert now == []
                assert last[ticket] == answer.ids[2 : 2 + len(last[ticket])]
            else:
                [now] = now
                assert last.get(ticket, []) == now[: len(last.get(ticket, []))]
                last[ticket] = now
    assert max(map(len, last.values())) > 2


@pytest.mark.skipif(not kernels.available(), reason="no C compiler")
def test_few_arrivals_are_read_between_two_steps():
    """Others advance between two layers of a long one."""
    batch = RunningTranslations(SEARCHES["samples"], translator(num_encoder_layers=3), arrival_tokens=32)
    batch.add([[5] * 15, [6] * 15, [7] * 15, [8] * 20, [9] * 500, [4]])
    waiting, rows = [], []
    for _ in range(8):
        waiting.append(batch.waiting)
        batch.step()
        rows.append(batch.rows)
    assert waiting == [6, 4, 3, 2, 2, 2, 2, 1]
    assert rows[3] > 0


@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_a_request_is_cancelled_while_it_is_read(search):
    model = translator(num_encoder_layers=3)
    batch = RunningTranslations(SEARCHES[search], model, arrival_tokens=32)
    sources = [[7] * 25, [9] * 500]
    first, second = batch.add(sources)
    found = batch.step()
    found += batch.step()
    batch.cancel(second)
    while batch:
        found += batch.step()
    assert found == [(first, decode_all(SEARCHES[search], model, sources[:1])[0])]


@pytest.mark.parametrize("shape", ["learned", "rotary", "window"])
@pytest.mark.parametrize("lengths", [[33], [31, 31, 31], [70, 70]])
def test_a_prompt_is_prefilled_layer_by_layer_as_at_once(shape, lengths):
    model = writer(**{**WRITERS[shape], "max_positions": 80})
    steppers = [prompt_stepper(model) for _ in range(2)]
    random_ = random.Random(8)
    ids = torch.tensor([[random_.randrange(4, VOCAB) for _ in range(length)] for length in lengths])
    with torch.no_grad():
        steppers[0].start(ids, torch.tensor(lengths))
        assert len([*steppers[1].starts(ids, torch.tensor(lengths))]) == (2 if kernels.available() else 0)
        found = [stepper.logits(ids[:, 0]) for stepper in steppers]
    assert torch.equal(*found)


@dataclass(frozen=True, kw_only=True)
class Particular(GreedySearch):
    """Refuses sources of one token when it runs."""

    refused: ClassVar[str] = "one token is too short"
    seen: list[int] = field(default_factory=list, hash=False, compare=False)

    def __call__(self, stepper, requests):
        if any(request.src_len == 1 for request in requests):
            raise ConfigError(self.refused)
        return super().__call__(stepper, requests)


def test_a_request_that_fails_does_not_fail_its_neighbours():
    model, search = translator(), Particular(**COMMON)
    sources = [[5, 6], [7], [8, 9], [4]]
    batch, found, refused = RunningTranslations(search, model), {}, []
    batch.add(sources)
    while batch:
        found |= dict(batch.step())
        refused += batch.refused()
    assert found == {place: decode_all(search, model, [sources[place]])[0] for place in (0, 2)}
    assert [(ticket, str(error)) for ticket, error in refused] == [(1, search.refused), (3, search.refused)]


@pytest.mark.parametrize("positions", ["rotary", "t5"])
def test_nan_fails_the_request_that_it_comes_from(positions):
    model = translator(positions=positions, tied="target")
    with torch.no_grad():
        model.encoder.input.embedding.weight[39] = torch.nan
    random_ = random.Random(3)
    sources = [[token for token in source if token != 39] for source in sentences(12, random_)]
    sources[4] = [5, 39, 6]
    batch, refused = RunningTranslations(SEARCHES["beam"], model), []
    found = run(batch, lambda first, last: batch.add(sources[first:last]), 12, random_)
    refused = batch.refused()
    assert [ticket for ticket, _ in refused] == [4]
    assert isinstance(refused[0][1], RunError)
    assert_same(
        [found[place] for place in sorted(found)],
        [decode_all(SEARCHES["beam"], model, [sources[place]])[0] for place in range(12) if place != 4],
    )


def test_a_model_in_training_decodes_without_dropout():
    model = translator(dropout=0.3)
    expected = decode_all(SEARCHES["beam"], model, [[5, 6, 7]])
    batch = RunningTranslations(SEARCHES["beam"], model.train())
    assert batch.joins is kernels.available()
    [ticket], found = batch.add([[5, 6, 7]]), []
    while batch:
        found += batch.step()
    assert found == [(ticket, expected[0])]
    assert model.training


def test_a_source_that_is_too_long_is_refused_and_none_of_its_call_are_queued():
    batch = RunningTranslations(SEARCHES["greedy"], translator(positions="learned", max_positions=12))
    with pytest.raises(DataError, match="12 positions"):
        batch.add([[5], [6] * 30])
    assert not batch
    with pytest.raises(ConfigError, match="arrival_tokens is 0"):
        RunningTranslations(SEARCHES["greedy"], translator(), arrival_tokens=0)


def test_weights_that_change_are_used_for_what_arrives_after():
    """What runs is finished with the weights that it began with."""
    model, search = translator(), SEARCHES["greedy"]
    sources = sentences(6, random.Random(6))
    before = decode_all(search, model, sources[:3])
    batch, found = RunningTranslations(search, model), {}
    batch.add(sources[:3])
    batch.step()
    with torch.no_grad():
        model.decoder.blocks[0].feed_forward.outer.weight += 0.5
    batch.add(sources[3:])
    while batch:
        found |= dict(batch.step())
    after = decode_all(search, model, sources[3:])
    if kernels.available():
        assert [found[place] for place in range(6)] == before + after
    else:
        assert [found[place] for place in range(3, 6)] == after


@pytest.mark.parametrize("name", ["beam", "samples"])
def test_memory_does_not_grow_with_the_number_of_requests(name):
    """Over hundreds of joins and leaves, a few at a time, without a moment when none runs."""
    search, model, random_ = SEARCHES[name], translator(), random.Random(7)
    batch, done, alive = RunningTranslations(search, model), 0, []
    while done < 400:
        if batch.running + batch.waiting < 6:
            batch.add(sentences(3, random_, 12))
        done += len(batch.step())
        [group] = batch._groups
        assert len(group._running.requests) == batch.running <= 8
        assert group._running.rows._ids.shape[1] <= 32
        if kernels.available():
            cache = group._stepper.cache
            assert cache.size <= 8 * 4 * 64
            assert cache.table.size(1) <= 32
            assert len(cache.memory.layers[0][0]) <= 4 * 8 * 13
        if done // 100 >= len(alive):
            gc.collect()
            kinds = (Request, Arrival, Hypothesis, torch.Tensor)
            alive.append(sum(type(each) in kinds for each in gc.get_objects()))
    assert max(alive[1:]) <= max(alive[:2]) + 60


def test_every_search_is_one_or_the_other():
    """A search of regard's own is in these tests, so that nobody forgets it."""

    def below(kind):
        yield kind
        for each in kind.__subclasses__():
            yield from below(each)

    own = {kind for kind in below(Search) if kind.__module__.startswith("regard.decoding")}
    tested = {type(search) for search in (*SEARCHES.values(), *SEPARATE.values())}
    assert {kind.__name__ for kind in own - tested} == {"Search", "DecodingLoop"}
