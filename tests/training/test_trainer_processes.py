"""A run of several processes: the first writes for all, and all do the same.

A second process is imitated: what the first sends is in a list, from which the second reads.
"""

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from regard.distributed.group import Group
from regard.errors import RunError
from regard.weights.checkpoint import RunFolder
from tests.training.test_trainer_state import SETTINGS, SometimesNaN, trainer

__all__ = ["trainer"]


@dataclass(frozen=True, kw_only=True)
class One(Group):
    """One of two processes that have the same batches."""

    size: int = 2
    sent: list[Any] = field(default_factory=list)  # by the first
    calls: list[str] = field(default_factory=list)

    def sum_(self, tensors):
        for each in tensors:
            each *= 2

    def maximum(self, number):
        return number

    def all_gather(self, value):
        if self.is_first:
            self.sent.append(value)
        return [value if self.is_first else self.sent.pop(0), value]

    def barrier(self):
        self.calls.append("waits")


@pytest.fixture
def both(trainer):
    """Makes trainers of two processes, to be run one after the other, each with a folder of its own."""

    def made(settings=SETTINGS, objective=lambda: None):
        sent = []
        for rank in (0, 1):
            group = One(rank=rank, sent=sent)
            current = trainer(settings, group=group, folder=str(rank), objective=objective())
            current.model[0].p = 0.0  # both have the same masks
            yield current

    return made


def test_both_come_to_the_same_state_and_only_the_first_writes(both):
    first, second = both()
    states = [dataclasses.replace(each.train(), random=[], seconds=0.0) for each in (first, second)]
    states[1].validations.seconds = states[0].validations.seconds
    assert states[0] == states[1]
    assert states[0].target_tokens == 2 * 5 * SETTINGS.max_steps
    assert {record["kind"] for record in first.run.metrics()} == {"train", "validation"}
    assert first.run.latest().step == SETTINGS.max_steps
    assert not [*second.run.path.glob("*")]


def test_the_lines_of_a_run_that_stays_bad_are_those_of_both_and_the_first_writes_them(both):
    settings, lines = dataclasses.replace(SETTINGS, nonfinite_skips=0), []
    for current in both(settings, objective=lambda: SometimesNaN(*range(1, 99))):
        current.state.rollbacks = 1
        with pytest.raises(RunError, match="not finite at step 1, 1 times in a row"):
            current.train()
        file = current.run.path / "nonfinite.json"
        lines.append(json.loads(file.read_text())["lines"] if file.exists() else None)
    assert lines[1] is None
    assert len(lines[0]) == 2 * 5
    assert lines[0] == sorted(lines[0])


def test_no_process_continues_before_a_checkpoint_is_written(trainer, monkeypatch):
    group = One()
    current, usual = trainer(group=group), RunFolder.save

    def save(*given, **more):
        group.calls.append("saves")
        return usual(*given, **more)

    monkeypatch.setattr(RunFolder, "save", save)
    current.train()
    assert group.calls == ["saves", "waits"] * (len(group.calls) // 2) != []


def test_no_process_goes_back_before_later_checkpoints_are_gone(trainer, monkeypatch):
    group = One()
    current = trainer(group=group)
    current.train()
    monkeypatch.setattr(RunFolder, "remove_after", lambda self, step: group.calls.append("removed"))
    current._go_back(current.run.checkpoints()[-1], {"kind": "collapse", "step": 2, "to": 2})
    assert group.calls[-2:] == ["removed", "waits"]
