"""The training state survives JSON, random number generators included."""

import json

import pytest
import torch

from regard.errors import FolderError
from regard.training.random_state import random_state
from regard.training.state import TimedCount, TrainingState

CPU = torch.device("cpu")


def test_state_goes_through_json_unchanged():
    state = TrainingState(
        step=3, cursor={"epoch": 1}, window_nll=0.1 + 0.2, best_value=1 / 3, random=[random_state(CPU)]
    )
    assert TrainingState.from_dict(json.loads(json.dumps(state.to_dict()))) == state


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
