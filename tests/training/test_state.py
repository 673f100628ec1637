"""The training state survives JSON, random number generators included."""

import json

import pytest
import torch

from regard.errors import FolderError
from regard.training.state import TimedCount, TrainingState, random_state, restore_random_state

CPU = torch.device("cpu")


def test_state_goes_through_json_unchanged():
    state = TrainingState(
        step=3, cursor={"epoch": 1}, window_nll=0.1 + 0.2, best_value=1 / 3, random=[random_state(CPU)]
    )
    assert TrainingState.from_dict(json.loads(json.dumps(state.to_dict()))) == state


def test_a_restored_generator_gives_the_same_numbers():
    torch.manual_seed(5)
    torch.rand(7)
    saved = json.loads(json.dumps(random_state(CPU)))
    expected = torch.rand(9), torch.nn.functional.dropout(torch.ones(99))
    torch.manual_seed(6)
    restore_random_state(saved, CPU)
    assert torch.equal(torch.rand(9), expected[0])
    assert torch.equal(torch.nn.functional.dropout(torch.ones(99)), expected[1])


def test_a_new_run_has_done_nothing():
    values = TrainingState().to_dict()
    watch, validations = values.pop("watch"), values.pop("validations")
    for each in (values, watch, validations):
        assert {value for value in each.values() if not isinstance(value, str | list | dict)} <= {0, None}
    assert values["device"] == "cpu"


def test_the_mean_time_is_that_of_those_counted():
    assert TimedCount(count=4, seconds=10.0).mean == 2.5
    assert TimedCount(count=1, seconds=3.0).mean == 3.0
    assert TimedCount().mean == 0.0


@pytest.mark.parametrize("name", ["watch", "validations"])
def test_parts_of_a_state_are_read_whole_or_not_there(name):
    values = TrainingState(step=3).to_dict()
    part = values.pop(name)
    assert TrainingState.from_dict(values) == TrainingState(step=3)
    for wrong in ({**part, "more": 1}, dict(list(part.items())[1:]), [*part], None):
        with pytest.raises(FolderError, match=name):
            TrainingState.from_dict({**values, name: wrong})


def test_state_of_a_version_with_one_metric_is_read():
    values = TrainingState(step=3, best_value=0.5).to_dict()
    del values["second_value"]
    assert TrainingState.from_dict(values) == TrainingState(step=3, best_value=0.5)


def test_state_of_another_version_is_refused():
    values = TrainingState().to_dict()
    values["stepp"] = values.pop("step")
    with pytest.raises(FolderError, match="step, stepp"):
        TrainingState.from_dict(values)


def test_on_a_gpu_its_generator_is_saved_and_restored_too(monkeypatch):
    restored, gpu = [], torch.device("cuda")
    monkeypatch.setattr(
        torch.cuda, "get_rng_state", lambda device: torch.tensor([1, 2, 3], dtype=torch.uint8)
    )
    monkeypatch.setattr(
        torch.cuda, "set_rng_state", lambda state, device: restored.append((state.tolist(), device))
    )
    saved = random_state(gpu)
    assert sorted(saved) == ["cpu", "cuda"]
    assert sorted(random_state(CPU)) == ["cpu"]
    restore_random_state(saved, gpu)
    assert restored == [([1, 2, 3], gpu)]
    restore_random_state(saved, CPU)
    assert len(restored) == 1, "resumed on a CPU, its generator alone is"
