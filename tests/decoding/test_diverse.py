"""Diverse beams against the plain telling of their definition."""

from collections import Counter

import pytest

from regard.decoding.diverse import DiverseBeamSearch
from regard.decoding.hypothesis import Power, Request, Wu, best_first
from regard.decoding.penalties import PresencePenalty
from regard.decoding.rules import BannedTokens, LengthLimits
from regard.decoding.search import BeamSearch
from regard.errors import ConfigError

EOS = 3
SOURCES = [[4, 5], [6, 4, 4], [5], []]
LIMITS = LengthLimits(ratio=0.0, offset=5)
RULES = (BannedTokens(ids=(0, 2)),)


def ask(sources) -> list[Request]:
    return [Request(src_len=len(source), index=index) for index, source in enumerate(sources)]


def plain_diverse(table, source, *, penalty, beam_size, groups, diversity, longest=5):
    """One sentence, nothing kept, nothing dropped early; the hypotheses of each group."""
    words = [token for token in range(table.vocab) if token not in (0, 2, EOS)]
    size = beam_size // groups
    beams, finished = [[()] for _ in range(groups)], [[] for _ in range(groups)]
    for length in range(longest + 1):
        taken = Counter()
        for group in range(groups):
            candidates = []
            for rank, ids in enumerate(beams[group]):
                before = sum(table.hypothesis(source, ids, penalty).token_log_probs[:-1])
                log_probs = table.log_probs(tuple(source), (2, *ids)).tolist()
                candidates += [
                    (-(before + log_probs[token]) + diversity * taken[token], token, rank, ids)
                    for token in [*(words if length < longest else []), EOS]
                ]
            candidates.sort()
            finished[group] += [ids for _, token, _, ids in candidates[:size] if token == EOS]
            going = [(*ids, token) for _, token, _, ids in candidates if token != EOS][:size]
            taken.update(ids[-1] for ids in going)
            beams[group] = going
    return [best_first([table.hypothesis(source, ids, penalty) for ids in each], size) for each in finished]


@pytest.mark.parametrize("penalty", [Power(alpha=0.0), Wu(alpha=0.6), Power(alpha=1.5)], ids=str)
@pytest.mark.parametrize(("beam_size", "groups"), [(4, 2), (6, 3), (3, 3)])
def test_each_group_is_what_the_definition_says(make_table, penalty, beam_size, groups):
    for seed, diversity in ((0, 0.5), (1, 2.0), (2, 0.1)):
        table = make_table(vocab=7, seed=seed)
        search = DiverseBeamSearch(
            size=beam_size, n_best=beam_size, groups=groups, diversity=diversity,
            length_penalty=penalty, limits=LIMITS, rules=RULES,
        )  # fmt: skip
        found = search(table.read(SOURCES), ask(SOURCES))
        for source, hypotheses in zip(SOURCES, found, strict=True):
            expected = plain_diverse(
                table, source, penalty=penalty, beam_size=beam_size, groups=groups, diversity=diversity
            )
            every = {tuple(each.ids): each.score for group in expected for each in group}
            assert {tuple(each.ids) for each in hypotheses} == set(every)
            for each in hypotheses:
                assert each.score == pytest.approx(every[tuple(each.ids)], abs=1e-6)
            scores = [each.score for each in hypotheses]
            assert scores == sorted(scores, reverse=True)


def test_as_many_as_groups_are_the_best_of_each(make_table):
    table = make_table(vocab=7)
    penalty = Power(alpha=0.0)
    search = DiverseBeamSearch(size=6, n_best=3, groups=3, diversity=3.0, limits=LIMITS, rules=RULES)
    apart = 0
    for source, found in zip(SOURCES, search(table.read(SOURCES), ask(SOURCES)), strict=True):
        groups = plain_diverse(table, source, penalty=penalty, beam_size=6, groups=3, diversity=3.0)
        firsts = {tuple(group[0].ids) for group in groups}
        if len(firsts) == 3:
            apart += 1
            assert {tuple(each.ids) for each in found} == firsts
    assert apart, "else nothing was tested"


@pytest.mark.parametrize("rules", [(), (PresencePenalty(penalty=0.7),)], ids=["bans", "penalty"])
def test_one_group_is_a_plain_beam_and_without_diversity_all_groups_are_one(make_table, rules):
    common = {"limits": LIMITS, "rules": (*rules, *RULES)}
    table = make_table(vocab=8)
    plain = BeamSearch(size=4, n_best=4, **common)(table.read(SOURCES), ask(SOURCES))
    alone = DiverseBeamSearch(size=4, n_best=4, groups=1, **common)
    assert alone(table.read(SOURCES), ask(SOURCES)) == plain
    half = BeamSearch(size=2, n_best=2, **common)(table.read(SOURCES), ask(SOURCES))
    same = DiverseBeamSearch(size=4, n_best=4, groups=2, diversity=0.0, **common)
    assert same(table.read(SOURCES), ask(SOURCES)) == half


def test_groups_begin_with_different_words_when_that_is_worth_much(make_table):
    search = DiverseBeamSearch(size=3, n_best=3, groups=3, diversity=100.0, limits=LIMITS, rules=RULES)
    for found in search(make_table(vocab=9).read(SOURCES), ask(SOURCES)):
        firsts = [each.ids[0] for each in found if each.ids]
        assert len(firsts) == len(set(firsts))


def test_what_is_found_depends_on_no_neighbour(make_table):
    sources = [[4 + number % 5, number] for number in range(12)]
    search = DiverseBeamSearch(size=4, n_best=4, groups=2, diversity=0.7, limits=LIMITS, rules=RULES)
    together = search(make_table().read(sources), ask(sources))
    assert together == [search(make_table().read([each]), ask([each]))[0] for each in sources]


def test_unequal_groups_are_refused():
    with pytest.raises(ConfigError, match="equal groups"):
        DiverseBeamSearch(size=5, groups=2)
    with pytest.raises(ConfigError, match=r"n_best \(5\) is more than the size"):
        DiverseBeamSearch(size=4, groups=2, n_best=5)
