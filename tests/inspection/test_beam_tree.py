"""The tree is that of the search itself: its best end is what the search answers."""

import pytest

from regard.decoding.batches import decode_all
from regard.decoding.continuation import continue_all, prompts_of
from regard.decoding.diverse import DiverseBeamSearch
from regard.decoding.hypothesis import Power, Wu
from regard.decoding.penalties import PresencePenalty
from regard.decoding.rules import LengthLimits
from regard.decoding.search import BeamSearch, GreedySearch
from regard.inspection.beam_tree import search_tree

SOURCE = [4, 5, 6, 7]
LIMITS = LengthLimits(ratio=0.0, offset=8)
MODELS = [("encoder_decoder", {}), ("recurrent", {})]


def grown(model, search, **more):
    """The tree, and the hypotheses of the same search unwatched."""
    tree = search_tree(search, lambda search: decode_all(search, model, [SOURCE], **more)[0])
    return tree, decode_all(search, model, [SOURCE], **more)[0]


def same(tree, hypothesis, ended=True):
    path = tree.path(tree.best)
    assert [node.token_id for node in path] == [*hypothesis.ids, *[3] * ended]
    assert [node.log_prob for node in path] == pytest.approx(hypothesis.token_log_probs)
    assert tree.best.total == pytest.approx(hypothesis.log_prob)
    assert tree.best.score == pytest.approx(hypothesis.score)
    assert [node.step for node in path] == list(range(len(path)))


@pytest.mark.parametrize(("kind", "changes"), MODELS)
@pytest.mark.parametrize("penalty", [Power(alpha=0.0), Wu(alpha=0.6), Power(alpha=1.0)])
@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_the_best_end_is_what_the_search_answers(forced_pass, kind, changes, penalty, beam_size):
    for seed in range(4):
        model = forced_pass(kind, seed=seed, **changes).model
        search = BeamSearch(size=beam_size, length_penalty=penalty, limits=LIMITS)
        tree, (hypothesis,) = grown(model, search)
        assert tree.size == beam_size
        same(tree, hypothesis)


@pytest.mark.parametrize(("kind", "changes"), MODELS)
def test_a_beam_of_one_is_the_greedy_path(forced_pass, kind, changes):
    model = forced_pass(kind, **changes).model
    tree, (hypothesis,) = grown(model, BeamSearch(size=1, limits=LIMITS))
    greedy, (same_hypothesis,) = grown(model, GreedySearch(limits=LIMITS))
    assert hypothesis.ids == same_hypothesis.ids
    assert [node.token_id for node in tree.path(tree.best)] == [
        node.token_id for node in greedy.path(greedy.best)
    ]
    same(greedy, same_hypothesis)
    assert [node.state for node in greedy.nodes] == ["live"] * (len(greedy.nodes) - 1) + ["best"]


def test_it_is_a_tree_of_the_searchs_own_numbers(forced_pass):
    model = forced_pass("encoder_decoder").model
    search = BeamSearch(size=3, length_penalty=Wu(alpha=0.6), limits=LIMITS)
    tree, _ = grown(model, search)
    for number, node in enumerate(tree.nodes):
        assert node.id == number
        before = 0.0
        if node.parent is None:
            assert node.step == 0
        else:
            parent = tree.nodes[node.parent]
            assert (parent.id < node.id, parent.step, parent.state) == (True, node.step - 1, "live")
            before = parent.total
        assert node.total == pytest.approx(before + node.log_prob)
        assert node.score == pytest.approx(node.total / search.length_penalty(node.step + 1))
    steps = {node.step for node in tree.nodes}
    for step in steps:
        live = [node for node in tree.nodes if node.step == step and node.state == "live"]
        assert len(live) <= 3
    assert {node.state for node in tree.nodes} == {"live", "dropped", "ended", "best"}
    assert sum(node.state == "best" for node in tree.nodes) == 1


def test_every_hypothesis_that_is_found_is_an_end(forced_pass):
    model = forced_pass("encoder_decoder").model
    search = BeamSearch(size=4, n_best=3, length_penalty=Power(alpha=1.0), limits=LIMITS)
    tree, found = grown(model, search)
    ends = {
        tuple(node.token_id for node in tree.path(end)): end.score
        for end in tree.nodes
        if end.state in ("ended", "best")
    }
    for hypothesis in found:
        assert ends[(*hypothesis.ids, 3)] == pytest.approx(hypothesis.score)
    same(tree, found[0])


def test_a_forced_beginning_is_the_only_way(forced_pass):
    model = forced_pass("encoder_decoder").model
    tree, (hypothesis,) = grown(model, BeamSearch(size=3, limits=LIMITS), prefixes=[[8, 11]])
    same(tree, hypothesis)
    assert [node.token_id for node in tree.nodes if node.step < 2] == [8, 11]


def test_rules_that_weigh_change_the_score_and_not_the_log_probability(forced_pass):
    model = forced_pass("encoder_decoder").model
    search = BeamSearch(size=3, limits=LIMITS, rules=(PresencePenalty(penalty=0.7),))
    tree, (hypothesis,) = grown(model, search)
    same(tree, hypothesis)


@pytest.mark.parametrize("changes", [{}, {"positions": "rotary"}])
def test_a_continuation_has_a_tree_without_its_prompt(forced_pass, changes):
    model = forced_pass("decoder_only", **changes).model
    search = BeamSearch(size=3, limits=LengthLimits(offset=99, most=99))
    prompt = prompts_of([[4, 5, 6]], begin_id=2)

    def decode(search):
        return continue_all(search, model, prompt, max_new_tokens=5)[0]

    same(search_tree(search, decode), decode(search)[0])


def test_of_other_searches_there_is_what_they_found(forced_pass):
    model = forced_pass("encoder_decoder").model
    diverse = DiverseBeamSearch(size=4, groups=2, n_best=3, limits=LIMITS)
    tree, found = grown(model, diverse)
    same(tree, found[0])
    assert sum(node.state in ("ended", "best") for node in tree.nodes) == len(found)


def test_a_stop_string_ends_a_hypothesis(forced_pass):
    model = forced_pass("encoder_decoder").model

    class AfterThree:
        def __call__(self, given, said):
            return len(said) == 3

    search = BeamSearch(size=2, limits=LIMITS, stop=AfterThree())
    tree, (hypothesis,) = grown(model, search)
    same(tree, hypothesis, ended=len(hypothesis.ids) < 3)
