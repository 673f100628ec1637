"""Records have the loss and the speed since the last one; only the first process writes them."""

from dataclasses import dataclass, field

import pytest
import torch

from regard.training.launch import LaunchedUpdate
from regard.training.numbers import Numbers
from regard.training.records import Records
from regard.training.state import TrainingState
from regard.weights.checkpoint import RunFolder


@dataclass
class Clock:
    now: float = 100.0
    reported: list = field(default_factory=list)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("time.perf_counter", lambda: clock.now)
    return clock


def update(records, clock, step, *, tokens, loss=2.0):
    state = TrainingState(target_tokens=tokens, window_nll=loss * 10, window_tokens=10)
    launched = LaunchedUpdate(step=step, epoch=0, rate=0.5, batches=[], numbers=Numbers(torch.zeros(1)))
    records.add_update(launched, 1.5, state)
    assert (state.window_nll, state.window_tokens) == (0.0, 0), "counted again from here on"
    return clock.reported[-1]


def test_speed_is_that_since_the_last_record_without_what_is_excluded(tmp_path, clock):
    RunFolder(tmp_path / "run").write_text("recipe.toml", "")
    records = Records(RunFolder(tmp_path / "run"), clock.reported.append, writes=True)
    clock.now += 4
    first = update(records, clock, 3, tokens=200)
    assert first == {
        "kind": "train",
        "step": 3,
        "epoch": 0,
        "loss": 2.0,
        "learning_rate": 0.5,
        "gradient_norm": 1.5,
        "target_tokens": 200,
        "tokens_per_second": 50.0,
    }
    clock.now += 7
    records.exclude(5.0)  # a validation
    assert update(records, clock, 4, tokens=300)["tokens_per_second"] == 50.0
    clock.now += 60
    records.restart(150)  # the run has gone back
    clock.now += 2
    assert update(records, clock, 5, tokens=450)["tokens_per_second"] == 150.0
    assert RunFolder(tmp_path / "run").metrics() == clock.reported


def test_a_process_that_is_not_the_first_writes_nothing(tmp_path, clock):
    records = Records(RunFolder(tmp_path / "run"), clock.reported.append, writes=False)
    records.add({"kind": "validation", "step": 1})
    records.cut(0, [{"kind": "collapse", "step": 0}])
    assert (clock.reported, RunFolder(tmp_path / "run").metrics()) == ([], [])


def test_what_is_cut_is_measured_again_and_collapses_are_recorded_once(tmp_path, clock):
    RunFolder(tmp_path / "run").write_text("recipe.toml", "")
    records = Records(RunFolder(tmp_path / "run"), clock.reported.append, writes=True)
    collapse, other = {"kind": "collapse", "step": 2}, {"kind": "collapse", "step": 3}
    for record in ({"kind": "validation", "step": 2}, collapse, {"kind": "average", "step": 4}):
        records.add(record)
    assert [records.has_average(step) for step in (2, 4)] == [False, True]
    records.cut(2, [collapse, other])
    assert RunFolder(tmp_path / "run").metrics() == [{"kind": "validation", "step": 2}, collapse, other]
    assert not records.has_average(4)
