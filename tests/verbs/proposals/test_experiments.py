"""Measured runs: the page lists those of the file, and expected scores come from them."""

import pytest

from regard.verbs.proposals import experiments as measured
from regard.verbs.proposals.experiments import Experiment, expected_bleu, experiments
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


def test_the_corpus_of_each_experiment_can_be_reproduced():
    assert {each.corpus for each in experiments()} <= set(CORPORA)


@pytest.mark.parametrize(("pairs", "tokens", "low", "high"), [(20_000, 2e6, 20, 40), (30_000, 3e6, 20, 40)])
def test_the_expected_score_spans_similar_runs(monkeypatch, pairs, tokens, low, high):
    rows = experiment(bleu=24.0), experiment(bleu=35.0), experiment(pairs=1000, bleu=1.0)
    monkeypatch.setattr(measured, "experiments", lambda: rows)
    found = expected_bleu(pairs, tokens)
    assert found is not None
    assert low <= found[0] <= 24 < 35 <= found[1] <= high + 1


def test_without_similar_runs_there_is_no_expected_score(monkeypatch):
    monkeypatch.setattr(measured, "experiments", lambda: (experiment(),))
    assert expected_bleu(10**6, 3e6) is None
    assert expected_bleu(30_000, 3e9) is None
