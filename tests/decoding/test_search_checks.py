"""Settings with which no search can run are refused when the search is made."""

import dataclasses
import math
from functools import partial

import jaxtyping
import numpy as np
import pytest

from regard.decoding.hypothesis import Power, Wu
from regard.decoding.rules import BannedTokens, ForbiddingRule, LengthLimits
from regard.decoding.sampling import MinP, Sampling, Temperature, TopK, TopP, Typical
from regard.decoding.search import BeamSearch, GreedySearch
from regard.decoding.search_checks import refuse_other_rule
from regard.decoding.special_tokens import refuse_other_id
from regard.errors import ConfigError

RULE = BannedTokens(ids=(0,))
GREEDY = GreedySearch()


def replaced(search=GREEDY, **settings):
    """A search with settings that the types refuse too, which are not checked outside of tests."""
    search = dataclasses.replace(search)
    for name, value in settings.items():
        object.__setattr__(search, name, value)
    search.__post_init__()
    return search


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_best": 0}, "n_best is 0, but must be at least 1"),
        ({"bos_id": -1}, "bos_id = -1 is not the id of a token"),
        ({"eos_id": None}, "eos_id = None is not the id of a token"),
        ({"rules": RULE}, "`rules` is a single rule"),
        ({"rules": (RULE, print)}, "print in `rules` is not a Rule"),
        ({"rules": (BannedTokens,)}, "BannedTokens in `rules` is not a Rule"),
        ({"rules": 7}, "int in `rules` is not a Rule"),
        ({"ends": 3}, "`ends` is a single end"),
        ({"ends": ("3",)}, "a token of `ends` = '3' is not the id of a token"),
        ({"cut": 1}, "cut is 1, but must be True or False"),
        ({"search": BeamSearch(), "early_stopping": None}, "early_stopping is None, but must be True"),
        ({"search": Sampling(), "seed": 1.5}, "seed is 1.5, but must be a whole number"),
        ({"search": Sampling(), "seed": True}, "seed is True, but must be a whole number"),
        ({"search": Sampling(), "filters": TopK(k=4)}, "`filters` is a single filter"),
        ({"search": Sampling(), "filters": (TopK,)}, "TopK in `filters` is not a filter"),
        ({"search": Sampling(), "filters": (4,)}, "4 in `filters` is not a filter"),
    ],
    ids=str,
)
def test_a_search_that_cannot_run_is_refused_by_name(settings, message):
    with pytest.raises(ConfigError, match=message):
        replaced(**settings)


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({"limits": 7}, "LengthLimits(most=7)"),
        ({"limits": None}, "LengthLimits(most=20)"),
        ({"length_penalty": 1.5}, "Power(alpha=1.5) divides by length^1.5;"),
        ({"length_penalty": Power}, "Power(alpha=0.6) divides by length^0.6;"),
    ],
    ids=str,
)
def test_a_hint_has_the_number_that_was_given_or_a_usual_one(settings, hint):
    with pytest.raises(ConfigError) as refused:
        replaced(**settings)
    assert refused.value.hint.startswith(hint)


def test_any_iterable_of_rules_and_the_first_id_do():
    replaced(n_best=1, bos_id=0, eos_id=0)
    assert replaced(rules=()).rules == ()
    found = replaced(Sampling(), rules=[RULE], ends=iter([3]), filters=[TopK(k=4)])
    assert (found.rules, found.ends, found.filters) == ((RULE,), (3,), (TopK(k=4),))
    assert hash(found) == hash(Sampling(rules=(RULE,), ends=(3,), filters=(TopK(k=4),)))


def test_a_rule_has_what_a_search_asks_of_it():
    class Odd(ForbiddingRule):
        def __call__(self, log_probs, generated): ...

    class Silent:
        changes_scores = False

        def __call__(self, log_probs, generated): ...

    refuse_other_rule(Odd())
    for other in (Silent(), Odd, None):
        with pytest.raises(ConfigError, match="is not a Rule"):
            refuse_other_rule(other)


def test_an_id_is_a_whole_number_from_0_on():
    for right in (0, 3, np.int64(3)):
        refuse_other_id("bos_id", right)
    for other in (-1, None, "2", 1.0, True):
        with pytest.raises(ConfigError, match="is not the id of a token"):
            refuse_other_id("bos_id", other)


def test_counts_are_whole_and_numbers_finite(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it would refuse some first
    for make, message in (
        (lambda: BeamSearch(size=2.5), "the size of a beam is 2.5, but must be a whole number"),
        (lambda: TopK(k=2.5), "top_k is 2.5, but must be a whole number"),
        (lambda: GreedySearch(n_best=1.5), "n_best is 1.5, but must be a whole number"),
        (lambda: LengthLimits(ratio=math.nan), "limits.ratio must be a finite number, not nan"),
        (lambda: Wu(alpha=math.nan), "length_penalty.alpha must be a finite number, not nan"),
        (lambda: Power(alpha=math.inf), "length_penalty.alpha must be a finite number, not inf"),
        (lambda: LengthLimits(most="16"), "limits.most must be an integer, not '16'"),
        (lambda: LengthLimits(most=0), "limits.most is 0, but must be at least 1"),
        *(
            (partial(kind, **{name: "0.9"}), f"{name} must be a number, not '0.9'")
            for kind, name in ((Temperature, "temperature"), (TopP, "p"), (MinP, "p"), (Typical, "p"))
        ),
    ):
        with pytest.raises(ConfigError, match=message):
            make()
    assert BeamSearch(size=np.int64(3)).size == 3
