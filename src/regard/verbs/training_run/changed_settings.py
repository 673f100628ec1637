"""The settings of a run that may change when it resumes; all others are those of its beginning."""

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from regard.errors import FolderError
from regard.recipe import Change, changes
from regard.training.settings import CHANGEABLE
from regard.verbs.shared.settings import recipe_from
from regard.verbs.tasks.recipe import Recipe, RecipeFile
from regard.weights.checkpoint import RESOLVED, RunFolder

MAX_STEPS = "training.max_steps"  # `run_length.py` says what follows from another length
SCORES = "the scores so far, that of the best model among them, were measured without this change"
# a key or a section -> what follows from another value, for a message
MAY_CHANGE = {
    **{f"training.{name}": "" for name in CHANGEABLE},
    "training.validate_every": "patience counts validations, and checks for a collapse compare them",
    "training.save_every": "training.average_last takes checkpoints of this interval alone",
    "validation": SCORES,
    "decoding": SCORES,
    **dict.fromkeys(("distributed", "name", "description", "card"), ""),
}


def changed_settings(run: RunFolder, old: Mapping[str, Any], source: RecipeFile) -> list[Change]:
    """The settings in which `source` differs from the table `old` of a run, with the values of defaults."""
    before, after = recipe_from(old, "", source.base, str(run.path / RESOLVED)).recipe, source.recipe
    found = [
        Change(name, _value(each.before, before, name), _value(each.after, after, name))
        for each in changes(old, source.table)
        for name in [each.name]
    ]
    return [each for each in found if each.before != each.after]


def _value(value: Any, recipe: Recipe, name: str) -> Any:
    """A value as JSON data; if the recipe does not give it, its default."""
    if value is not None:
        return value
    found: Any = recipe
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else getattr(found, part, None)
    if dataclasses.is_dataclass(found) and not isinstance(found, type):
        return dataclasses.asdict(found)
    return list(found) if isinstance(found, tuple) else found


def refuse_another_recipe(run: RunFolder, changed: Sequence[Change]) -> None:
    """Refuse a recipe that differs from that of a run in more than MAY_CHANGE.

    Raises:
        FolderError: other settings differ; the message names them.
    """
    if refused := [str(each) for each in changed if _key(each.name) is None]:
        raise FolderError(
            f"{run.path} holds a run of another recipe: {'; '.join(refused)}",
            "undo these changes to resume the run, or choose another --out;"
            f" --init {shlex.quote(str(run.path))} starts from its model",
        )


def record_changes(run: RunFolder, changed: Sequence[Change]) -> str | None:
    """Add the changes of a run to its `metrics.jsonl`; returns a note, or None if only its length changes."""
    others = [each for each in changed if each.name != MAX_STEPS]
    if not others:
        return None
    checkpoint = run.latest()
    step = checkpoint.step if checkpoint else 0
    record = {
        "kind": "settings",
        "step": step,
        "changed": {each.name: [each.before, each.after] for each in others},
    }
    if record not in run.metrics():
        run.append_metrics(record)
    follows = dict.fromkeys(MAY_CHANGE[key] for each in others if (key := _key(each.name)) is not None)
    notes = [*map(str, others), *filter(None, follows)]
    return f"from step {step + 1:,} on the run has other settings: {'; '.join(notes)}"


def _key(name: str) -> str | None:
    """The key or the section in MAY_CHANGE that a setting is, or is in; None for one that may not change."""
    return next((key for key in MAY_CHANGE if name == key or name.startswith(f"{key}.")), None)
