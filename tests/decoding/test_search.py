"""Greedy and beam search against the enumeration of all translations, and against the plain search."""

import dataclasses

import pytest
import torch

from regard.decoding.constrained import ConstrainedBeamSearch
from regard.decoding.diverse import DiverseBeamSearch
from regard.decoding.hypothesis import Hypothesis, Power, Request, Wu
from regard.decoding.request_constraints import RequestConstraints
from regard.decoding.rows import round_up
from regard.decoding.rules import BannedTokens, LengthLimits, MinimumLength
from regard.decoding.search import BeamSearch, GreedySearch
from regard.decoding.step import ROW_MULTIPLE
from regard.errors import ConfigError, RunError
from tests.nightly import each_once

EOS = 3
SOURCES = [[4, 5], [6, 4, 4], [5], []]
PENALTIES = [Power(alpha=0.0), Wu(alpha=0.6), Power(alpha=1.0), Power(alpha=2.5), Wu(alpha=3.0)]
LENGTHS = [range(5), range(2, 5), range(3, 4), range(1)]


def options(lengths: range) -> dict:
    rules = (BannedTokens(ids=(0, 2)), MinimumLength(length=lengths.start, eos_id=EOS))
    limits = LengthLimits(ratio=0.0, offset=lengths.stop - 1, least=lengths.start)
    return {"rules": rules, "limits": limits}


def ask(sources, **more) -> list[Request]:
    return [Request(src_len=len(source), index=index, **more) for index, source in enumerate(sources)]


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]):
    assert [each.ids for each in found] == [each.ids for each in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.score == pytest.approx(theirs.score, abs=1e-6)
        assert ours.log_prob == pytest.approx(theirs.log_prob, abs=1e-6)
        assert ours.token_log_probs == pytest.approx(theirs.token_log_probs, abs=1e-6)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_a_beam_wide_enough_finds_the_n_best_of_all_translations(
    make_table, exhaustive_search, penalty, lengths
):
    table = make_table(vocab=6)
    search = BeamSearch(size=3**4, n_best=7, length_penalty=penalty, **options(lengths))
    found = search(table.read(SOURCES), ask(SOURCES))
    for source, hypotheses in zip(SOURCES, found, strict=True):
        best = exhaustive_search(table, source, penalty=penalty, n_best=7, lengths=lengths)
        assert_same(hypotheses, best)


@pytest.mark.parametrize(("penalty", "beam_size"), each_once(list(PENALTIES), [1, 2, 3, 5]), ids=str)
def test_stopping_early_loses_nothing(make_table, plain_beam_search, penalty, beam_size):
    for seed in range(8):
        for lengths in (range(9), range(4, 7)):
            table = make_table(vocab=7, seed=seed)
            n_best = 1 + seed % beam_size
            search = BeamSearch(size=beam_size, n_best=n_best, length_penalty=penalty, **options(lengths))
            found = search(table.read(SOURCES), ask(SOURCES))
            for source, hypotheses in zip(SOURCES, found, strict=True):
                expected = plain_beam_search(
                    table, source, penalty=penalty, n_best=n_best, lengths=lengths, beam_size=beam_size
                )
                assert_same(hypotheses, expected)


def test_a_hypothesis_that_could_still_win_is_waited_for(make_table):
    table = make_table(vocab=6)
    short, word = torch.tensor([0, 0, 0, 0.6, 0.4, 0]).log(), torch.tensor([0, 0, 0, 0.05, 0.95, 0]).log()
    end = torch.tensor([0, 0, 0, 1.0, 0, 0]).log()
    table.known |= {((4,), (2, *[4] * length)): word for length in range(1, 6)}
    table.known |= {((4,), (2,)): short, ((4,), (2, *[4] * 6)): end}
    search = BeamSearch(size=2, length_penalty=Power(alpha=1.0), limits=LengthLimits(ratio=0.0, offset=6))
    best = search(table.read([[4]]), ask([[4]]))[0][0]
    assert best.ids == [4] * 6  # six words at a mean of -0.17; the end at once had -0.51


@pytest.mark.parametrize("likely", [[0.6, 0.2, 0.2], [0.5, 0.5, 0]], ids=["less", "as much"])
def test_and_what_cannot_win_is_not_waited_for(make_table, likely):
    table = make_table(vocab=6)
    table.known[(4,), (2,)] = torch.tensor([0, 0, 0, *likely]).log()
    search = BeamSearch(size=2, length_penalty=Power(alpha=0.0))
    assert search(table.read([[4]]), ask([[4]]))[0][0].ids == []
    assert len(table.sizes) == 1


def test_nor_is_it_for_a_prompt_that_does_not_count():
    """The bound of what can win is that of the longest text, with its end."""
    search, prompt = BeamSearch(length_penalty=Power(alpha=1.0)), (4, 5, 4)
    after = Request(src_len=1, prefix=prompt, uncounted=len(prompt))
    bounds = [
        search.greatest(RequestConstraints([request], LengthLimits(ratio=0.0, offset=room), EOS))
        for request, room in ((Request(src_len=1), 6), (after, 6 + len(prompt)))
    ]
    assert bounds[0].tolist() == bounds[1].tolist() == [search.length_penalty(6 + 1)]


def test_ends_do_not_starve_the_beam(make_table):
    table = make_table(vocab=5)
    ending = torch.tensor([0, 0, 0, 0.7, 0.3]).log()
    table.known |= {((4,), (2, *[4] * length)): ending for length in range(6)}
    limits = LengthLimits(ratio=0.0, offset=4)
    search = BeamSearch(size=3, n_best=3, length_penalty=Power(alpha=0.0), limits=limits)
    assert [each.ids for each in search(table.read([[4]]), ask([[4]]))[0]] == [[], [4], [4, 4]]


@pytest.mark.parametrize("search", [BeamSearch, DiverseBeamSearch, ConstrainedBeamSearch])
def test_neither_do_several_tokens_that_end_a_hypothesis(make_table, search):
    table = make_table(vocab=7)
    ending = torch.tensor([0, 0, 0, 0.4, 0.3, 0.2, 0.1]).log()
    table.known |= {((4,), (2, 5, *rest)): ending for rest in ((), (5,), (6,), (5, 5), (6, 5))}
    table.known[(4,), (2,)] = torch.tensor([0, 0, 0, 0, 0, 1.0, 0]).log()
    more = {
        DiverseBeamSearch: {"groups": 1, "diversity": 0.0},
        ConstrainedBeamSearch: {"constraints": (((5,),),)},
    }
    beam = search(
        size=2,
        n_best=2,
        ends=(4,),
        length_penalty=Power(alpha=9.0),
        limits=LengthLimits(ratio=0.0, offset=3),
        **more.get(search, {}),
    )
    assert beam.tokens_of_row == 4, "two of them go on"
    found = beam(table.read([[4]]), ask([[4]]))[0]
    assert [each.ids for each in found] == [[5, 5, 5], [5, 6, 5]]
    assert BeamSearch(size=5).tokens_of_row == 6


@pytest.mark.parametrize("search", [BeamSearch, ConstrainedBeamSearch])
def test_early_stopping_ends_with_as_many_hypotheses_as_the_size(make_table, search):
    """Though longer ones would have better scores."""
    table = make_table(vocab=6)
    table.known |= {
        ((4,), (2, *[4] * length)): torch.tensor([0, 0, 0, 0.3, 0.7, 0]).log() for length in range(7)
    }
    more = {} if search is BeamSearch else {"constraints": (((4,),),)}
    first = 0 if search is BeamSearch else 1
    common = {"length_penalty": Power(alpha=9.0), "limits": LengthLimits(ratio=0.0, offset=6), **more}
    for size in (2, 3):
        early = search(size=size, early_stopping=True, n_best=size, **common)
        found = early(table.read([[4]]), ask([[4]]))[0]
        assert sorted(len(each.ids) for each in found) == list(range(first, first + size))
    late = search(size=2, **common)(table.read([[4]]), ask([[4]]))[0]
    assert late[0].ids == [4] * 6


def test_heuristic_stopping_compares_the_others_at_their_present_length(make_table):
    """It ends where they are no better than the worst of `size` finished, though they could become better."""
    table = make_table(vocab=6)
    certain = torch.tensor([0, 0, 0, 0, 1.0, 0]).log()
    table.known |= {((4,), (2, *[4] * length)): certain for length in range(2, 6)}
    table.known[(4,), (2, *[4] * 6)] = torch.tensor([0, 0, 0, 1.0, 0, 0]).log()
    table.known[(4,), (2,)] = torch.tensor([0, 0, 0, 0.6, 0.3, 0.1]).log()
    table.known[(4,), (2, 4)] = torch.tensor([0, 0, 0, 0.5, 0.5, 0]).log()
    table.known[(4,), (2, 5)] = certain
    common = {"size": 2, "length_penalty": Power(alpha=1.0), "limits": LengthLimits(ratio=0.0, offset=6)}
    found = {}
    for heuristic in (True, False):
        table.sizes.clear()
        search = BeamSearch(heuristic_stopping=heuristic, **common)
        [best] = search(table.read([[4]]), ask([[4]]))[0]
        found[heuristic] = (best.ids, len(table.sizes))
    assert found == {True: ([], 2), False: ([4] * 6, 7)}


@pytest.mark.parametrize("prompt", [(), (4, 5, 4)], ids=len)
def test_heuristic_stopping_continues_while_the_others_are_better_at_their_present_length(make_table, prompt):
    """A prompt does not count for it."""
    table = make_table(vocab=6)
    steps = {(): [0.5, 0.45, 0.05], (4,): [0.4, 0.6, 0], (5,): [0.5, 0.5, 0], (4, 4): [1, 0, 0]}
    table.known |= {
        ((4,), (2, *prompt, *ids)): torch.tensor([0, 0, 0, *each]).log() for ids, each in steps.items()
    }
    common = {"length_penalty": Power(alpha=1.0), "heuristic_stopping": True}
    request = Request(src_len=1, prefix=prompt, uncounted=len(prompt))
    for size, expected in ((1, ()), (2, (4, 4))):
        [[best]] = BeamSearch(size=size, **common)(table.read([[4]]), [request])
        assert tuple(best.ids) == (*prompt, *expected)


def test_greedy_takes_the_most_probable_token_each_time(make_table, plain_beam_search):
    for seed in range(10):
        table = make_table(seed=seed)
        lengths = range(seed % 3, 8)
        found = GreedySearch(**options(lengths))(table.read(SOURCES), ask(SOURCES))
        for source, (hypothesis,) in zip(SOURCES, found, strict=True):
            expected = plain_beam_search(
                table, source, penalty=Power(alpha=0.0), n_best=1, lengths=lengths, beam_size=1
            )
            assert_same([hypothesis], expected)


@pytest.mark.parametrize("search", [GreedySearch, BeamSearch])
def test_ties_go_to_the_lower_id(make_table, search):
    table = make_table(vocab=600, sharpness=0.0)
    limits = LengthLimits(ratio=0.0, offset=2)
    found = search(limits=limits, rules=(MinimumLength(length=2, eos_id=EOS),))(
        table.read([[9]] * 3), ask([[9]] * 3)
    )
    assert [hypotheses[0].ids for hypotheses in found] == [[0, 0]] * 3


def test_equal_candidates_of_two_hypotheses_go_to_the_lower_id_too(make_table):
    table = make_table(vocab=600, sharpness=0.0)
    search = BeamSearch(
        size=4,
        n_best=4,
        limits=LengthLimits(ratio=0.0, offset=2),
        rules=(MinimumLength(length=2, eos_id=3),),
    )
    found = search(table.read([[9]]), ask([[9]]))[0]
    assert [each.ids for each in found] == [[0, 0], [1, 0], [2, 0], [4, 0]]


@pytest.mark.parametrize("search", [GreedySearch(), BeamSearch(size=3, length_penalty=Wu(alpha=1.0))])
def test_a_prefix_is_in_the_output_and_counts(make_table, search):
    table = make_table(vocab=7)
    prefixes = [(), (6, 5), (4,), (5, 5, 5, 6)]
    requests = [
        Request(src_len=len(source), prefix=prefix) for source, prefix in zip(SOURCES, prefixes, strict=True)
    ]
    search = type(search)(
        limits=LengthLimits(ratio=0.0, offset=3),
        rules=(BannedTokens(ids=(0, 2)),),
        length_penalty=search.length_penalty,
    )
    for source, prefix, hypotheses in zip(
        SOURCES, prefixes, search(table.read(SOURCES), requests), strict=True
    ):
        best = hypotheses[0]
        assert tuple(best.ids[: len(prefix)]) == prefix
        assert len(best.ids) <= max(3, len(prefix))
        assert_same([best], [table.hypothesis(source, best.ids, search.length_penalty)])


@pytest.mark.parametrize(
    "search", [GreedySearch(), BeamSearch(size=3, n_best=3, length_penalty=Power(alpha=9.0))]
)
def test_a_stop_ends_a_text_with_its_first_token_and_a_prefix_is_no_stop(make_table, search):
    """A beam does not continue it, though a longer text would have a better score."""
    prefixes = [(), (5, 4)]
    search = dataclasses.replace(search, stop=lambda prefix, generated: True, **options(range(3, 6)))
    requests = [Request(src_len=2, prefix=prefix) for prefix in prefixes]
    for prefix, found in zip(prefixes, search(make_table().read([[4, 5]] * 2), requests), strict=True):
        assert {tuple(each.ids[:-1]) for each in found} == {prefix}


def test_a_forced_token_overrides_the_rules(make_table):
    table = make_table()
    request = Request(src_len=1, prefix=(2, 5))
    search = BeamSearch(rules=(BannedTokens(ids=(0, 2, 5)),))
    ids = search(table.read([[4]]), [request])[0][0].ids
    assert ids[:2] == [2, 5]
    assert not {0, 2, 5} & set(ids[2:])


@pytest.mark.parametrize("search", [GreedySearch, BeamSearch])
def test_where_the_rules_leave_nothing_the_sentence_ends(make_table, search):
    table = make_table(vocab=6)
    rules = (BannedTokens(ids=(0, 1, 2, 4, 5)), MinimumLength(length=3, eos_id=EOS))
    best = search(rules=rules)(table.read([[4]]), ask([[4]]))[0][0]
    assert best.ids == []
    assert best.log_prob == pytest.approx(table.log_probs((4,), (2,))[EOS].item())


@pytest.mark.parametrize("search", [GreedySearch, BeamSearch])
def test_an_end_that_cannot_be_leaves_no_hypothesis(make_table, search):
    table = make_table(vocab=6)
    table.known[(4,), (2,)] = torch.tensor([0.2, 0.2, 0.2, 0, 0.2, 0.2]).log()
    assert search(limits=LengthLimits(ratio=0.0, offset=0))(table.read([[4]]), ask([[4]])) == [[]]


@pytest.mark.parametrize("search", [GreedySearch, BeamSearch])
def test_rows_are_a_multiple_and_become_fewer(make_table, search):
    table = make_table(vocab=9, sharpness=3.0)
    sources = [[4 + number % 5, number] for number in range(30)]
    search(length_penalty=Power(alpha=0.0))(table.read(sources), ask(sources))
    assert all(size % ROW_MULTIPLE == 0 for size in table.sizes)
    assert table.sizes[0] == round_up(30, ROW_MULTIPLE)
    assert table.sizes[-1] == ROW_MULTIPLE


def test_the_hypotheses_of_a_sentence_are_ranked_from_0_on(make_table):
    sources, ranks = [[4, 5], [6]], []

    class Watched(BeamSearch):
        def step(self, rows, constraints, greatest, finished):
            super().step(rows, constraints, greatest, finished)
            live = rows.live()
            ranks.extend(rows.rank[live][rows.sentence[live] == each].tolist() for each in (0, 1))

    Watched(size=3, **options(range(6)))(make_table().read(sources), ask(sources))
    assert any(len(each) == 3 for each in ranks)
    assert all(sorted(each) == list(range(len(each))) for each in ranks)


@pytest.mark.parametrize("search", [GreedySearch, BeamSearch])
def test_what_is_found_depends_on_no_neighbour(make_table, search):
    sources = [[4 + number % 5, number] for number in range(20)]
    strategy = search(**options(range(12)))
    together = strategy(make_table().read(sources), ask(sources))
    alone = [strategy(make_table().read([source]), ask([source]))[0] for source in sources]
    assert together == alone


@pytest.mark.parametrize("search", [GreedySearch, BeamSearch])
def test_nan_is_an_error_and_no_translation(make_table, search):
    table = make_table()
    table.known[(4,), (2,)] = torch.full((7,), torch.nan)
    with pytest.raises(RunError, match="NaN"):
        search()(table.read([[4]]), ask([[4]]))


def test_nonsense_is_refused():
    with pytest.raises(ConfigError, match="n_best"):
        GreedySearch(n_best=2)
    with pytest.raises(ConfigError, match="n_best is 0"):
        GreedySearch(n_best=0)
    with pytest.raises(ConfigError, match="the size of a beam is 0"):
        BeamSearch(size=0)
    with pytest.raises(ConfigError, match="more than the size of the beam") as error:
        BeamSearch(size=2, n_best=3)
    assert "size = 3" in error.value.hint
