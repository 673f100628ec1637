"""The measured proposals: their page is their file, and the score to expect is among theirs."""

import pytest

from regard.verbs import experiments as measured
from regard.verbs.experiments import Experiment, expected_bleu, experiments
from tools.proposals import CORPORA, PAGE, table


def experiment(**changes):
    values = {
        "corpus": "a",
        "pairs": 30_000,
        "command": "",
        "machine": "",
        "minutes": 10.0,
        "target_tokens": 3_000_000,
        "model": "192, 3 + 3",
        "parameters": 4_000_000,
        "steps": 1000,
        "test": "",
        "bleu": 30.0,
        "chrf": 50.0,
    }
    return Experiment(**values | changes)


def test_the_page_shows_each_experiment():
    assert table() in PAGE.read_text("utf-8")


def test_each_experiment_is_of_a_corpus_that_can_be_made_again():
    assert {each.corpus for each in experiments()} <= set(CORPORA)


@pytest.mark.parametrize(("pairs", "tokens", "low", "high"), [(20_000, 2e6, 20, 40), (30_000, 3e6, 20, 40)])
def test_the_score_to_expect_spans_the_runs_that_are_alike(monkeypatch, pairs, tokens, low, high):
    rows = experiment(bleu=24.0), experiment(bleu=35.0), experiment(pairs=1000, bleu=1.0)
    monkeypatch.setattr(measured, "experiments", lambda: rows)
    found = expected_bleu(pairs, tokens)
    assert found is not None
    assert low <= found[0] <= 24 < 35 <= found[1] <= high + 1


def test_nothing_is_expected_of_what_was_never_run(monkeypatch):
    monkeypatch.setattr(measured, "experiments", lambda: (experiment(),))
    assert expected_bleu(10**6, 3e6) is None
    assert expected_bleu(30_000, 3e9) is None
