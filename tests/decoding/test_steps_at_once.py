"""Several steps of a search by one call are those of the search in Python, to the bit."""

import itertools
from dataclasses import replace

import pytest
import torch

from regard.decoding import sampling, steps_at_once
from regard.decoding import search as searches
from regard.decoding.hypothesis import Power, Request, Wu
from regard.decoding.rules import BannedTokens, LengthLimits, MinimumLength, NoRepeatNGrams
from regard.decoding.sampling import MinP, Sampling, Temperature, TopK, TopP, Typical
from regard.decoding.search import BeamSearch, GreedySearch
from regard.decoding.step import ModelStepper
from regard.errors import RunError
from regard.fast.int8 import to_int8
from regard.fast.native import kernels
from tests.decoding import small_models
from tests.decoding.small_models import VOCAB
from tests.nightly import each_once, nightly_but

pytestmark = pytest.mark.skipif(not kernels.available(), reason="no C compiler")
EOS, OTHER_END = 3, 17
LIMITS = LengthLimits(ratio=0.0, offset=40)
SOURCES = [[4, 5, 9], [6, 14, 4, 30, 31], [5], [21, 22, 23, 24]]
SHAPES = [
    {},
    {"norm_position": "pre", "positions": "rotary", "num_kv_heads": 2, "norm": "rms", "activation": "swiglu"},
    {"positions": "learned", "max_positions": 41},
]
SEARCHES = {
    "greedy": GreedySearch(),
    "greedy, several ends": GreedySearch(ends=(OTHER_END, 9)),
    "greedy, banned tokens": GreedySearch(rules=(BannedTokens(ids=(0, 2, 5, 7)),)),
    "greedy, cut": GreedySearch(cut=True, limits=LengthLimits(ratio=0.0, offset=7)),
    "beam": BeamSearch(size=5),
    "beam of one": BeamSearch(size=1),
    "beam of two": BeamSearch(size=2, length_penalty=Power(alpha=1.0)),
    "long beam": BeamSearch(size=4, length_penalty=Wu(alpha=3.0)),
    "wide beam": BeamSearch(size=12, length_penalty=Power(alpha=0.5)),
    "wider than the vocabulary": BeamSearch(size=VOCAB + 5),
    "n best": BeamSearch(size=5, n_best=3, length_penalty=Power(alpha=1.0)),
    "early": BeamSearch(size=4, early_stopping=True, length_penalty=Power(alpha=1.0)),
    "heuristic": BeamSearch(size=4, heuristic_stopping=True, length_penalty=Power(alpha=1.0)),
    "several ends": BeamSearch(size=5, ends=(OTHER_END, 9, 11), length_penalty=Power(alpha=1.0)),
    "banned tokens": BeamSearch(size=5, rules=(BannedTokens(ids=(0, 2, 5, 7)),), n_best=1),
    "greedy, least length": GreedySearch(
        rules=(BannedTokens(ids=(0, 2)), MinimumLength(length=9, eos_id=EOS))
    ),
    "greedy, least length and several ends": GreedySearch(
        ends=(OTHER_END, 9), rules=(MinimumLength(length=21, eos_id=EOS, others=(OTHER_END, 9)),)
    ),
    "least length": BeamSearch(
        size=5,
        rules=(MinimumLength(length=9, eos_id=EOS), BannedTokens(ids=(0, 2))),
        length_penalty=Power(alpha=1.0),
    ),
    "least length of one token": BeamSearch(size=4, rules=(MinimumLength(length=1, eos_id=EOS),)),
    "cut": BeamSearch(size=3, cut=True, limits=LengthLimits(ratio=0.0, offset=6)),
    "sampled": Sampling(seed=3),
    "sampled, filters": Sampling(
        seed=4, filters=(Temperature(temperature=1.7), TopK(k=20), TopP(p=0.9), MinP(p=0.02)), n_best=3
    ),
    "sampled, banned tokens": Sampling(seed=5, ends=(OTHER_END,), rules=(BannedTokens(ids=(0, 2, 5, 7)),)),
    "sampled, least length": Sampling(
        seed=6, filters=(MinP(p=0.01),), rules=(MinimumLength(length=9, eos_id=EOS), BannedTokens(ids=(0, 2)))
    ),
    "a forced end": BeamSearch(size=3, limits=LengthLimits(ratio=0.0, offset=2)),
}


def translator(**table):
    return small_models.translator(output_bias=True, **table)


def ending(model, bias=1.5):
    """The model with ends that are likely enough to come."""
    with torch.no_grad():
        model.output.bias[EOS] += bias
    return model


class Counting(ModelStepper):
    """A stepper that counts the steps it took at once."""

    steps_at_once = True

    def __init__(self, model):
        super().__init__(model)
        self.taken, self.single = [], 0

    def top_candidates(self, *given):
        self.single += 1
        return super().top_candidates(*given)

    def logits(self, ids):
        self.single += 1
        return super().logits(ids)

    @property
    def at_once(self):
        return sum(each.tokens.size(1) + 1 for each in self.taken)

    def run_steps(self, state, steps):
        taken = super().run_steps(state, steps)
        self.taken += [] if taken is None else [taken]
        return taken


@torch.no_grad()
def answers(model, search, sources, prefixes=None, **request):
    stepper = Counting(model)
    lengths = torch.tensor([len(each) + 1 for each in sources])
    ids = torch.zeros(len(sources), int(lengths.max()), dtype=torch.int64)
    for row, each in enumerate(sources):
        ids[row, : len(each) + 1] = torch.tensor([*each, EOS])
    stepper.start(ids, lengths)
    requests = [Request(src_len=len(each), index=row, **request) for row, each in enumerate(sources)]
    if prefixes is not None:
        requests = [replace(each, prefix=prefix) for each, prefix in zip(requests, prefixes, strict=True)]
    return search(stepper, requests), stepper


def one_by_one(monkeypatch):
    """From now on searches take each step by itself."""
    for module in (searches, sampling):
        monkeypatch.setattr(module, "run_steps", lambda *given, **options: [])


def compared(monkeypatch, model, search, groups, **request):
    """The answers, which are the same one by one; the steps taken at once, of how many."""
    at_once = [answers(model, search, sources, **request) for sources in groups]
    with monkeypatch.context() as patch:
        one_by_one(patch)
        for sources, (found, other) in zip(groups, at_once, strict=True):
            expected, stepper = answers(model, search, sources, **request)
            assert found == expected
            assert stepper.at_once == 0
            assert stepper.single == other.at_once + other.single, "a beam ends as early"
    longest = (max(len(each.token_log_probs) for each in found[0]) for found, _ in at_once)
    return sum(stepper.at_once for _, stepper in at_once), sum(longest)


@pytest.mark.parametrize(("name", "shape"), each_once(list(SEARCHES), range(len(SHAPES))))
def test_a_sentence_is_the_same(monkeypatch, name, shape):
    model = ending(translator(**SHAPES[shape]))
    search = replace(SEARCHES[name], limits=LIMITS) if SEARCHES[name].limits == LengthLimits() else None
    at_once, _ = compared(monkeypatch, model, search or SEARCHES[name], [[each] for each in SOURCES])
    assert at_once > 0


@pytest.mark.parametrize("seed", nightly_but(range(6), 1, 5))
def test_sentences_of_other_models_are_the_same(monkeypatch, seed):
    """Their outputs end after few or many tokens, or never."""
    model = ending(translator(seed=seed), bias=0.6 * seed)
    for search in (GreedySearch(limits=LIMITS), BeamSearch(size=5, limits=LIMITS)):
        compared(monkeypatch, model, search, [[each] for each in SOURCES])


def test_most_steps_are_taken_at_once(monkeypatch):
    model = ending(translator(), bias=-30.0)
    for search in (GreedySearch(limits=LIMITS), BeamSearch(size=5, limits=LIMITS)):
        at_once, steps = compared(monkeypatch, model, search, [SOURCES[:1]])
        assert at_once > 0.9 * steps


LOOPS = [name for name, search in SEARCHES.items() if not isinstance(search, BeamSearch)]


@pytest.mark.parametrize(("name", "shape"), each_once(LOOPS, range(len(SHAPES))))
def test_hypotheses_of_a_batch_are_the_same(monkeypatch, name, shape):
    """Each ends by itself, and what is left of the batch is continued within the call."""
    search, sources = SEARCHES[name], [*SOURCES, *SOURCES[::-1], [8, 9]]
    search = replace(search, limits=LIMITS) if search.limits == LengthLimits() else search
    model = ending(translator(seed=shape + 1, **SHAPES[shape]), bias=2.0)
    at_once, steps = compared(monkeypatch, model, search, [sources])
    assert at_once > steps / 3


def test_most_steps_of_a_batch_are_taken_at_once_although_hypotheses_end(monkeypatch):
    model = ending(translator(seed=1), bias=1.0)
    at_once, steps = compared(monkeypatch, model, Sampling(seed=1, limits=LIMITS), [[[5, 6, 7]] * 40])
    assert at_once > 0.8 * steps


def test_requests_that_have_begun_differently_are_the_same_in_a_batch(monkeypatch):
    """Rows of other lengths have other positions and windows."""
    model = ending(translator(**SHAPES[1]), bias=1.5)
    requests = [Request(src_len=3, index=row, prefix=(4, 5, 6, 7)[:row]) for row in range(4)]

    def found():
        stepper = Counting(model)
        stepper.start(torch.tensor([[4, 5, 9, EOS]] * 4), torch.tensor([4] * 4))
        with torch.no_grad():
            return Sampling(seed=2, limits=LIMITS, n_best=2)(stepper, requests), stepper

    at_once, stepper = found()
    one_by_one(monkeypatch)
    assert found()[0] == at_once
    assert any(each.ended for each in stepper.taken)


@pytest.mark.parametrize(
    "search",
    [
        BeamSearch(size=5, limits=LIMITS),
        BeamSearch(size=5, limits=LIMITS, n_best=3),
        BeamSearch(size=4, limits=LIMITS, early_stopping=True),
        BeamSearch(size=4, limits=LIMITS, heuristic_stopping=True, length_penalty=Power(alpha=1.0)),
    ],
    ids=["beam", "n best", "early", "heuristic"],
)
def test_a_beam_after_them_is_what_it_is_after_as_many_steps(monkeypatch, search):
    """It has the same hypotheses: none that the search has dropped, and none after it has stopped."""
    beams, step = [], BeamSearch.step

    def recorded(search, rows, *others):
        beams.append(sorted(map(rows.ids_of, rows.live().tolist())))
        return step(search, rows, *others)

    monkeypatch.setattr(BeamSearch, "step", recorded)
    monkeypatch.setattr(steps_at_once, "MOST_STEPS", 3)
    for source, bias in itertools.product(SOURCES[:2], (0.0, 0.7, 1.5, 3.0)):
        model = ending(translator(), bias)
        beams.clear()
        answers(model, search, [source])
        at_once = beams[:]
        with monkeypatch.context() as patch:
            one_by_one(patch)
            beams.clear()
            answers(model, search, [source])
        assert all(each in beams for each in at_once)


def test_beams_of_a_batch_step_alone_until_one_is_left(monkeypatch):
    model, search = ending(translator()), BeamSearch(size=3, limits=LIMITS)
    compared(monkeypatch, model, search, [SOURCES, SOURCES[:2]])


@pytest.mark.parametrize("run", [GreedySearch.run, lambda *given: GreedySearch.steps(*given, [{}])])
def test_who_asks_for_each_step_gets_each(run):
    """A stream, or other texts that are decoded in between."""
    stepper = Counting(ending(translator(), bias=-30.0))
    stepper.start(torch.tensor([[*SOURCES[0], EOS]]), torch.tensor([4]))
    search = GreedySearch(limits=LengthLimits(ratio=0.0, offset=9))
    lengths = [rows.length for rows in run(search, stepper, [Request(src_len=3)])]
    assert lengths[:8] == [*range(1, 9)]
    assert not stepper.taken


def test_int8_is_the_same(monkeypatch):
    model = ending(translator())
    to_int8(model, least=0)
    for search in (GreedySearch(limits=LIMITS), BeamSearch(size=5, limits=LIMITS)):
        at_once, _ = compared(monkeypatch, model, search, [[each] for each in SOURCES])
        assert (at_once > 0) == kernels.has_int8()


def test_the_stepper_of_a_translator_takes_several_steps(monkeypatch):
    taken, run = [], ModelStepper.run_steps
    monkeypatch.setattr(ModelStepper, "run_steps", lambda *given: taken.append(run(*given)) or taken[-1])
    stepper = ModelStepper(ending(translator(), bias=-30.0))
    stepper.start(torch.tensor([[4, 5, EOS]]), torch.tensor([3]))
    GreedySearch(limits=LIMITS)(stepper, [Request(src_len=2)])
    assert any(each is not None for each in taken)


@pytest.mark.parametrize(
    "search",
    [
        GreedySearch(limits=LIMITS),
        BeamSearch(size=4, limits=LIMITS),
        BeamSearch(size=4, limits=LIMITS, length_penalty=Power(alpha=1.0)),
    ],
)
@pytest.mark.parametrize("uncounted", [0, 2])
def test_prefixes_are_forced_one_by_one_and_what_follows_is_the_same(monkeypatch, search, uncounted):
    request = {"prefix": (7, EOS, 8) if uncounted else (7, 8, 9), "uncounted": uncounted}
    at_once, steps = compared(monkeypatch, ending(translator()), search, [SOURCES[:1]], **request)
    assert 0 < at_once <= steps - 3


class Twelve:
    """A stop condition: twelve tokens."""

    def __call__(self, prefix, generated):
        return len(generated) == 12


@pytest.mark.parametrize(
    "settings",
    [{"stop": Twelve()}, {"rules": (NoRepeatNGrams(size=2),)}],
    ids=["stop text", "rule"],
)
@pytest.mark.parametrize("kind", [GreedySearch, BeamSearch, Sampling])
def test_what_it_does_not_know_steps_alone(monkeypatch, kind, settings):
    at_once, _ = compared(monkeypatch, ending(translator()), kind(limits=LIMITS, **settings), [SOURCES[:1]])
    assert at_once == 0


@pytest.mark.parametrize("kind", [GreedySearch, BeamSearch, Sampling])
def test_a_least_length_is_that_after_the_prefix(monkeypatch, kind):
    """Of a request, and of requests whose prefixes differ in length."""
    model, least = ending(translator(), bias=9.0), MinimumLength(length=11, eos_id=EOS)
    search = kind(limits=LIMITS, rules=(least,))
    at_once, steps = compared(monkeypatch, model, search, [SOURCES[:1]], prefix=(7, 8))
    assert 8 <= at_once <= steps == 14
    found, _ = answers(model, search, SOURCES[:1], prefix=(7, 8))
    assert len(found[0][0].ids) == 13


@pytest.mark.parametrize(
    ("kind", "length"),
    [(GreedySearch, 1), (GreedySearch, 9), (BeamSearch, 1), (BeamSearch, 9), (Sampling, 9)],
)
def test_as_many_steps_are_taken_at_once_with_a_least_length_as_without(monkeypatch, kind, length):
    model, counts = ending(translator(), bias=-30.0), []
    for rules in ((), (MinimumLength(length=length, eos_id=EOS),)):
        counts.append(compared(monkeypatch, model, kind(limits=LIMITS, rules=rules), [SOURCES[:1]]))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("kind", [GreedySearch, Sampling])
def test_each_text_of_a_batch_has_its_least_length_after_its_own_prefix(monkeypatch, kind):
    model, least = ending(translator(), bias=9.0), MinimumLength(length=5, eos_id=EOS)
    search, prefixes = kind(limits=LIMITS, rules=(least,)), [(7,), (7, 8)]
    compared(monkeypatch, model, search, [SOURCES[:2]], prefixes=prefixes)
    found, _ = answers(model, search, SOURCES[:2], prefixes)
    assert [len(each.ids) for [each] in found] == [6, 7]


def test_filters_that_the_kernel_does_not_know_step_alone(monkeypatch):
    for filters in ((Typical(p=0.9),), (TopP(p=0.9), TopK(k=5))):
        search = Sampling(filters=filters, limits=LIMITS)
        at_once, _ = compared(monkeypatch, ending(translator()), search, [SOURCES[:1]])
        assert at_once == 0


@pytest.mark.parametrize("kind", [GreedySearch, BeamSearch, Sampling])
def test_a_subclass_steps_alone(kind):
    class Other(kind):
        pass

    _, stepper = answers(ending(translator()), Other(limits=LIMITS), SOURCES[:1])
    assert stepper.at_once == 0


@pytest.mark.parametrize("most", [2, 3, 4])
def test_more_rows_than_that_step_alone(monkeypatch, most):
    """A beam of three has one row at first, and three texts that do not end have three all the time."""
    monkeypatch.setattr(steps_at_once, "MOST_ROWS", most)
    model, limits = ending(translator(), bias=-30.0), LengthLimits(ratio=0.0, offset=5)
    for search, sources in (
        (BeamSearch(size=3, limits=limits), SOURCES[:1]),
        (GreedySearch(limits=limits), SOURCES[:3]),
    ):
        at_once, _ = compared(monkeypatch, model, search, [sources])
        assert (at_once > 0) == (most >= 3)


def test_learned_positions_end_where_they_did(monkeypatch):
    """No position is looked up that no step needs."""
    model = ending(translator(positions="learned", max_positions=12), bias=-30.0)
    limits = LengthLimits(ratio=0.0, offset=11)
    for search in (GreedySearch(limits=limits), BeamSearch(size=3, limits=limits)):
        compared(monkeypatch, model, search, [SOURCES[:1]])
    too_long = GreedySearch(limits=LengthLimits(ratio=0.0, offset=12))
    with pytest.raises(ValueError, match="max_positions"):
        answers(model, too_long, SOURCES[:1])


@pytest.mark.parametrize(
    "search", [GreedySearch(limits=LIMITS), BeamSearch(size=4, limits=LIMITS), Sampling(limits=LIMITS)]
)
def test_a_damaged_model_is_named(search):
    model = ending(translator())
    with torch.no_grad():
        model.output.weight[7] = torch.nan
    with pytest.raises(RunError, match="the model's output is NaN"):
        answers(model, search, SOURCES[:1])


@pytest.mark.parametrize("search", [GreedySearch(limits=LIMITS), BeamSearch(size=4, limits=LIMITS)])
def test_equal_candidates_come_in_the_order_of_their_ids(monkeypatch, search):
    """All tokens are equally likely at each step."""
    model = ending(translator(), bias=0.0)
    with torch.no_grad():
        model.output.weight.zero_()
        model.output.bias.zero_()
    compared(monkeypatch, model, search, [SOURCES[:1]])
    model.output.bias.data[:] = torch.arange(VOCAB).div(8, rounding_mode="floor")
    compared(monkeypatch, model, search, [SOURCES[:1]])


class Numbered(ModelStepper):
    """A stepper that does more in each step."""

    steps = 0

    def top_candidates(self, *arguments):
        self.steps += 1
        return super().top_candidates(*arguments)


class Reordered(ModelStepper):
    """A stepper that does more before each step."""

    steps = 0

    def stepped(self):
        self.steps += 1
        return super().stepped()


@pytest.mark.parametrize("kind", [Numbered, Reordered])
def test_a_stepper_with_steps_of_its_own_is_asked_for_each(kind):
    stepper = kind(ending(translator()))
    stepper.start(torch.tensor([[4, 5, EOS]]), torch.tensor([3]))
    found = GreedySearch(limits=LIMITS)(stepper, [Request(src_len=2)])
    assert stepper.steps >= len(found[0][0].token_log_probs)


def test_a_stepper_with_a_replaced_method_is_asked_for_each():
    stepper, asked = ModelStepper(ending(translator())), []
    ranked = stepper.top_candidates
    stepper.top_candidates = lambda *given: asked.append(given) or ranked(*given)
    stepper.start(torch.tensor([[4, 5, EOS]]), torch.tensor([3]))
    found = GreedySearch(limits=LIMITS)(stepper, [Request(src_len=2)])
    assert len(asked) == len(found[0][0].token_log_probs)


def test_hypotheses_end_and_are_dropped_within_a_call():
    model = ending(translator(), bias=2.0)
    _, stepper = answers(model, BeamSearch(size=5, limits=LIMITS), SOURCES[:1])
    assert any(each.ended for each in stepper.taken)
    assert any(len(each.origins) < 5 for each in stepper.taken)


def test_a_beam_that_is_asked_about_each_end_is_asked_less_often_for_steps(monkeypatch):
    """With several answers wanted an end is left to the search, and a call costs as much as a step."""
    steps, step = [], BeamSearch.step
    monkeypatch.setattr(BeamSearch, "step", lambda *given: steps.append(given) or step(*given))
    search = BeamSearch(size=5, n_best=5, limits=LIMITS, length_penalty=Power(alpha=1.0))
    _, stepper = answers(ending(translator(), bias=4.0), search, SOURCES[:1])
    none = [each for each in stepper.taken if not each.tokens.size(1)]
    assert len(steps) > 10
    assert len(none) < len(steps) / 2


@pytest.mark.parametrize("search", [GreedySearch(limits=LIMITS), BeamSearch(size=1, limits=LIMITS),
                                    BeamSearch(size=3, limits=LIMITS)])  # fmt: skip
@pytest.mark.parametrize("logit", [0.03, 0.17, 0.31, 0.55, 0.79])
def test_logits_that_differ_by_less_than_log_probabilities_can(monkeypatch, search, logit):
    """Their log-probabilities are equal in float32, so the lower id comes first."""
    model = ending(translator(), bias=0.0)
    with torch.no_grad():
        model.output.weight.zero_()
        model.output.bias[:] = 0.0
        model.output.bias[4] = logit
        model.output.bias[9] = torch.nextafter(model.output.bias[4], torch.tensor(9.0))
    compared(monkeypatch, model, search, [SOURCES[:1]])


@pytest.mark.parametrize(
    ("search", "needed"),
    [(GreedySearch(limits=LIMITS), 1 + 8), (BeamSearch(size=4, limits=LIMITS), 4 * (4 + 1 + 8))],
)
def test_many_banned_tokens_are_left_to_the_search(monkeypatch, search, needed):
    """More than the kernel has room for: it ranks so many beside those that a search asks for."""
    banned = replace(search, rules=(BannedTokens(ids=(0, 2, *range(5, 11))),))
    for room in (needed - 1, needed):
        monkeypatch.setattr(steps_at_once, "MOST_CANDIDATES", room)
        at_once, _ = compared(monkeypatch, ending(translator()), banned, [SOURCES[:1]])
        assert (at_once > 0) == (room == needed)
