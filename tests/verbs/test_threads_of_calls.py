"""The number of threads that a call sets is PyTorch's during the call only."""

import inspect

import pytest
import torch

import regard
from regard.training.threads import threads

STAYS = {"load", "look"}  # what they give computes later
TRAINS = {"demo"}  # with nothing given that could be wrong
CALLS = [
    name
    for name in regard.__all__
    if name not in STAYS | TRAINS
    and inspect.isfunction(call := getattr(regard, name))
    and "threads" in inspect.signature(call).parameters
]


@pytest.mark.parametrize("name", CALLS)
def test_the_process_has_its_own_number_again(tmp_path, monkeypatch, name):
    """Each call fails, because there is no such model or file, and most do so with the new number set."""
    monkeypatch.chdir(tmp_path)
    call = getattr(regard, name)
    given = {
        each.name: str(tmp_path / "nowhere")
        for each in inspect.signature(call).parameters.values()
        if each.default is inspect.Parameter.empty or each.name == "model"
    }
    with threads(2):
        with pytest.raises(regard.RegardError):
            call(**given, threads=1)
        assert torch.get_num_threads() == 2


def test_it_is_set_meanwhile(untrained, monkeypatch):
    numbers, set_number = [], torch.set_num_threads
    with threads(2):
        monkeypatch.setattr(
            torch, "set_num_threads", lambda number: numbers.append(number) or set_number(number)
        )
        regard.translate("1 2 3", model=untrained, threads=1)
        monkeypatch.undo()
    assert numbers.index(2) == len(numbers) - 1 > 0
