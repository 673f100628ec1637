"""What the benchmarks time is the trainer of `regard train`, an update at a time."""

from benchmarks.training.steps import Steps
from regard.distributed.group import SINGLE
from regard.verbs.recipes import recipe_path
from regard.verbs.shared.settings import load_recipe
from regard.verbs.tasks.translation import prepare


def test_updates_are_made_when_they_are_asked_for(tmp_path):
    small = [f"data.{part}.size=100" for part in ("train", "valid", "test")]
    task = prepare(load_recipe(recipe_path("reverse"), small), tmp_path, say=lambda text: None)
    steps = Steps(task, SINGLE)
    before = steps.trainer.state.step
    assert len(steps.run(3)) == 3
    assert steps.trainer.state.step == before + 3
    steps.end()
