"""A run measures its number of threads once and keeps it; measuring changes nothing."""

import json

import pytest
import torch

from regard.training.threads import threads
from regard.verbs.train import train
from regard.verbs.training_run import thread_choice
from regard.verbs.training_run.thread_choice import THREADS

SETS = [
    "data.train.size=200",
    "data.test.size=20",
    "data.valid.size=20",
    "training.max_steps=2",
    "training.validate_every=2",
    "training.save_every=1",
]


@pytest.fixture
def two_threads():
    with threads(2):
        yield


def losses(run):
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record["loss"] for record in records if record["kind"] == "validation"]


def test_a_run_keeps_its_number_and_the_process_has_its_own_again(tmp_path, two_threads, monkeypatch):
    monkeypatch.setattr(thread_choice, "choose_threads", lambda update, most: update() and 1)
    counts = []

    def noted(record):
        counts.append(torch.get_num_threads())

    def train_it(*more):
        sets = [*SETS, "training.report_every=1", *more]
        train("reverse", out=tmp_path / "run", overrides=sets, quiet=True, on_report=noted)

    train_it()
    assert json.loads((tmp_path / "run" / THREADS).read_text()) == {"threads": 1}
    monkeypatch.setattr(thread_choice, "choose_threads", lambda update, most: pytest.fail("measured again"))
    train_it("training.max_steps=4")
    assert {*counts} == {1}
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("more", [{}, {"threads": 1}, {"dry_run": True}])
def test_training_leaves_the_number_of_threads_as_it_was(tmp_path, two_threads, monkeypatch, more):
    monkeypatch.setattr(thread_choice, "choose_threads", lambda update, most: 1)
    train("reverse", out=tmp_path / "run", overrides=SETS, quiet=True, **more)
    assert torch.get_num_threads() == 2


def test_measuring_does_not_change_the_run(tmp_path, two_threads, monkeypatch):
    monkeypatch.setattr("regard.training.threads.SECONDS", 0.0)  # one round
    measure = thread_choice.choose_threads
    monkeypatch.setattr(thread_choice, "choose_threads", lambda update, most: measure(update, most) and 1)
    for name, more in (("measured", {}), ("set", {"threads": 1})):
        torch.set_num_threads(2)
        train("reverse", out=tmp_path / name, overrides=SETS, quiet=True, **more)
    assert losses(tmp_path / "measured") == losses(tmp_path / "set")


def test_a_number_that_the_user_sets_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(thread_choice, "choose_threads", lambda update, most: pytest.fail("measured"))
    train("reverse", out=tmp_path / "run", overrides=SETS, threads=1, quiet=True)
    assert not (tmp_path / "run" / THREADS).exists()


def test_a_run_with_more_threads_than_there_are_says_so(tmp_path, two_threads):
    said = []
    run = thread_choice.RunFolder(tmp_path)
    run.write_text(THREADS, '{"threads": 64}')
    thread_choice.set_threads(run, lambda: pytest.fail("measured"), said.append)
    assert torch.get_num_threads() == 2
    assert "cannot have 64" in said[0]
