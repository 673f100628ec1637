"""A run that a signal has stopped says how to continue, and whether its last updates were validated."""

import pytest

from regard.training.state import TrainingState
from regard.training.stopped_run import stopped
from regard.weights.checkpoint import RunFolder


def message_and_hint(run, *, validates=True, **state):
    found = stopped(15, TrainingState(step=6, **state), RunFolder(run), validates=validates)
    return found.message, found.hint.replace(str(run.parent), "")


@pytest.mark.parametrize(("validates", "validated_step"), [(True, 6), (False, 4)])
def test_where_nothing_is_left_to_validate_it_is_saved(tmp_path, validates, validated_step):
    found = message_and_hint(
        tmp_path / "run", validates=validates, validated_step=validated_step, best_step=4
    )
    assert found == ("stopped at step 6, which is saved", "continue with `regard train /run`")


@pytest.mark.parametrize(
    ("best_step", "best"), [(4, "the best model is that of step 4"), (0, "there is no best model")]
)
def test_updates_since_the_last_validation_are_named_with_what_validates_them(tmp_path, best_step, best):
    message, hint = message_and_hint(tmp_path / "run", validated_step=4, best_step=best_step)
    assert message == f"stopped at step 6, which is saved but not validated: {best} so far"
    assert hint.startswith(
        "continue with `regard train /run`; `regard train /run --set training.max_steps=6`"
    )
