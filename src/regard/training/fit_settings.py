"""Which settings of `TrainingSettings` `fit` applies; all others are refused by name."""

from dataclasses import fields
from typing import Any

from regard.data.loader import LoaderSettings
from regard.errors import RecipeError
from regard.training.objective import Objective
from regard.training.settings import TrainingSettings, measured_name

APPLIED = {
    "seed", "max_steps", "accumulate", "clip_norm", "loss", "loss_options", "r_drop", "moving_average",
    "average_last", "precision", "products", "recompute_activations", "report_every", "validate_every",
    "save_every", "keep", "patience", "best_metric", "second_metric", "nonfinite_skips", "collapse", "freeze",
    "schedule", "optimizer",
}  # fmt: skip
# setting -> what to do instead; these belong to a recipe
REFUSED = {
    "label_smoothing": "it is the objective's own: give one that smooths, e.g. CrossEntropy(smoothing=0.1)",
    "adapter": "add adapters to the model before: `add_lora` of regard.models",
    "refit": "call fit again with all examples, in another folder",
    "distillation": "it is the objective's own: give one with a teacher, e.g. Distillation of "
    "regard.training.distillation",
}


def refuse_unused_settings(
    settings: TrainingSettings, batches: LoaderSettings, objective: Objective, *, has_validate: bool
) -> None:
    """Refuses settings that `fit` would ignore, and metrics that nothing measures.

    A setting at its default counts as not given. `label_smoothing` may also be what the objective applies.

    Raises:
        RecipeError: a setting has no effect here; the message names it.
    """
    for given, kind in ((settings, TrainingSettings), (batches, LoaderSettings)):
        if not isinstance(given, kind):
            name = "settings" if kind is TrainingSettings else "batches"
            raise RecipeError(
                f"{name} is {type(given).__name__}, not {kind.__name__}", f"give {kind.__name__}(...)"
            )
    default = TrainingSettings()
    for each in fields(TrainingSettings):
        value = getattr(settings, each.name)
        if each.name in APPLIED or value == getattr(default, each.name):
            continue
        if each.name == "label_smoothing" and value == _smoothing(objective):
            continue
        raise RecipeError(f"fit does not apply training.{each.name} = {value!r}", REFUSED[each.name])
    if batches.max_tokens != LoaderSettings.max_tokens:
        raise RecipeError(
            f"fit does not apply max_tokens = {batches.max_tokens} of the batches",
            "leave long examples out of `examples`",
        )
    _refuse_unmeasured(settings, has_validate)


def _smoothing(objective: Any) -> float:
    """The label smoothing of an objective, or of the one that it is made from."""
    base = getattr(objective, "base", None)
    return getattr(objective, "smoothing", 0.0) if base is None else _smoothing(base)


def _refuse_unmeasured(settings: TrainingSettings, has_validate: bool) -> None:
    """Refuses metrics that the validation without `validate` does not measure."""
    for setting in ("best_metric", "second_metric"):
        metric = getattr(settings, setting)
        if metric not in (None, "loss") and not has_validate:
            raise RecipeError(
                f"training.{setting} = {metric!r}: without `validate`, fit measures only the loss",
                f"give a function `validate` that returns {measured_name(metric)!r}, or leave {setting} out",
            )
