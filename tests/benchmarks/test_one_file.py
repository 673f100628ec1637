"""The proposals for one file and their peers: the n-gram model is one of probabilities, corpora are whole."""

import csv

import pytest

from benchmarks import one_file
from benchmarks.one_file_peers import corpora
from benchmarks.one_file_peers.ngrams import CharacterNgrams, best_order

TEXT = "the cat sat on the mat, the rat sat on the cat. " * 4


@pytest.mark.parametrize("order", [1, 2, 5])
@pytest.mark.parametrize("history", ["", "t", "the c", "zzz", "the cat sat on the "])
def test_the_probabilities_of_all_characters_sum_to_one(order, history):
    model = CharacterNgrams(TEXT, order)
    known = sorted(set(TEXT))
    assert sum(model.probability(each, history) for each in [*known, "?"]) == pytest.approx(1)
    assert all(model.probability(each, history) > 0 for each in known)


def test_witten_and_bell_s_shares_by_hand():
    model = CharacterNgrams("aab", 2)
    alone = (2 + 2 * (1 / 3)) / (3 + 2)  # 3 characters, 2 different; "a" twice; uniform over a, b and others
    assert model.probability("a", "") == pytest.approx(alone)
    assert model.probability("a", "a") == pytest.approx((1 + 2 * alone) / (2 + 2))  # after "a": a and b, once


def test_a_text_that_repeats_wants_a_longer_context():
    order, model = best_order(TEXT * 5)
    assert order == model.order > 4
    assert CharacterNgrams(TEXT, 5).bits(TEXT) < CharacterNgrams(TEXT, 1).bits(TEXT)


def test_each_corpus_of_texts_has_its_classes_in_both_parts_and_no_text_in_both(monkeypatch, tmp_path):
    monkeypatch.setattr(corpora, "BUILD", tmp_path)
    monkeypatch.setattr(corpora, "SOURCES", {name: lines(name) for name in ("one", "two")})
    monkeypatch.setattr(corpora, "SOURCE_TEST", 40)
    made = corpora.one_file("sources")
    rows = [list(csv.reader(path.read_text("utf-8").splitlines())) for path in (made.train, made.test)]
    assert [each[0] for each in rows] == [["text", "label"]] * 2
    assert len(rows[1]) == 41
    assert not {text for text, _ in rows[0][1:]} & {text for text, _ in rows[1][1:]}
    assert all({label for _, label in each[1:]} == {"one", "two"} for each in rows)


def lines(name):
    return lambda: [
        f"a line of {name} with the word {chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(90)
    ]


def test_each_system_has_a_corpus_and_each_task_a_peer_and_a_metric():
    tasks = {task for task, _, _ in corpora.CORPORA.values()}
    assert tasks == set(one_file.METRICS) == set(one_file.SYSTEMS.values()) - {None}
