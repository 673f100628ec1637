"""Where rules name the tokens that they ban, the stepper ranks all others: with the same answers."""

from dataclasses import replace

import pytest

from regard.decoding import base_search
from regard.decoding.batches import decode_all
from regard.decoding.hypothesis import Power
from regard.decoding.rules import (
    BannedPhrases,
    BannedTokens,
    LengthLimits,
    MinimumLength,
    NoRepeatNGrams,
    NoRepeatSourceNGrams,
)
from regard.decoding.running_batch import RunningTranslations
from regard.decoding.search import BeamSearch, GreedySearch
from regard.decoding.step import ModelStepper
from regard.fast.native import kernels
from tests.decoding import small_models

pytestmark = pytest.mark.skipif(not kernels.available(), reason="no C compiler")
LIMITS = LengthLimits(ratio=0.0, offset=25)
SOURCES = [[4, 5, 9, 6], [6, 14, 4, 30, 31], [5], [21, 22, 23, 24, 4, 5, 9]]
RULES = {
    "2-grams": (NoRepeatNGrams(size=2),),
    "1-grams": (BannedTokens(ids=(0, 2)), NoRepeatNGrams(size=1)),
    "of the source": (NoRepeatSourceNGrams(size=1), BannedTokens(ids=(0,))),
    "phrases": (BannedPhrases(phrases=((7,), (8, 9), (10, 11, 12), (9, 8), (12, 12))),),
    "all": (
        BannedTokens(ids=(0, 2)),
        BannedPhrases(phrases=((7,), (8, 9))),
        MinimumLength(length=9, eos_id=3),
        NoRepeatNGrams(size=2),
        NoRepeatSourceNGrams(size=2),
    ),
    "nothing is left": (
        BannedTokens(ids=tuple({*range(small_models.VOCAB)} - {3, 9, 12})),
        NoRepeatNGrams(size=1),
        MinimumLength(length=9, eos_id=3),
    ),
}
PREFIXES = [(), (7, 8), (9,), ()]
SEARCHES = [
    GreedySearch(limits=LIMITS),
    BeamSearch(size=4, n_best=3, limits=LIMITS, length_penalty=Power(alpha=1.0)),
]


class Counting(ModelStepper):
    """A stepper that counts the steps for which it gives all logits."""

    given = 0

    def logits(self, ids):
        type(self).given += 1
        return super().logits(ids)


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("search", SEARCHES, ids=["greedy", "beam"])
def test_answers_are_those_from_all_logits(monkeypatch, search, rules):
    monkeypatch.setattr("regard.decoding.step.ModelStepper", Counting)
    search, model = replace(search, rules=rules), small_models.translator(output_bias=True)
    answers = []
    for ranks in (True, False):
        Counting.given = 0
        if not ranks:
            monkeypatch.setattr(base_search, "names_tokens", lambda rule: False)
        answers.append(decode_all(search, model, SOURCES, prefixes=PREFIXES, batch_tokens=1000))
        assert (Counting.given == 0) == ranks
    for found, expected in zip(*answers, strict=True):
        assert [each.ids for each in found] == [each.ids for each in expected]
        assert [each.log_prob for each in found] == pytest.approx([each.log_prob for each in expected])


def test_a_rule_that_does_more_than_it_names_gets_all_logits(monkeypatch):
    class Steady(NoRepeatNGrams):
        """Forbids token 9, too."""

        def __call__(self, log_probs, generated):
            super().__call__(log_probs, generated)
            log_probs[:, 9] = -float("inf")

    model = small_models.translator(output_bias=True)
    model.output.bias.data[9] = 50.0
    for rule, has_it in ((NoRepeatNGrams(size=3), True), (Steady(size=3), False)):
        search = GreedySearch(limits=LIMITS, rules=(rule,))
        [[found]] = decode_all(search, model, SOURCES[:1], batch_tokens=1000, pad_id=0, eos_id=3)
        assert (9 in found.ids) == has_it


def test_alternatives_that_are_recorded_change_no_answer():
    """Fewer than the tokens that are banned."""
    model, banned = small_models.translator(output_bias=True), tuple(range(4, 25))
    search = GreedySearch(limits=LIMITS, rules=(BannedTokens(ids=banned),))
    batch = RunningTranslations(search, model, alternatives=1)
    tickets, found = batch.add(SOURCES), {}
    while batch:
        found |= dict(batch.step())
    for ticket, [expected] in zip(tickets, decode_all(search, model, SOURCES), strict=True):
        [hypothesis] = found[ticket]
        assert hypothesis.ids == expected.ids
        assert {each[0][0] for each in hypothesis.alternatives} & {*banned}, "else it tests nothing"
