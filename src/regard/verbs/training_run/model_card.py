"""The model card in the README of a model folder: description, size, training, scores."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import torch

from regard.evaluation.score import Score
from regard.verbs.tasks.recipe import Recipe
from regard.verbs.tasks.task import Task

_REFIT = (
    " The model was trained on the validation data too (`training.refit`); validation scores are those of a"
    " run without them."
)


def model_card(
    recipe: Recipe,
    task: Task,
    parameters: int,
    scores: Sequence[Score],
    metrics: Sequence[dict[str, Any]],
    origin: str = "",
) -> str:
    """The card as Markdown: the recipe's description, the model's size, its scores with signatures.

    `origin` is the name of the model whose weights training started from.
    """
    steps = max((record.get("step", 0) for record in metrics), default=0)
    start = f", from the weights of `{origin}`," if origin else ""
    if (adapter := recipe.training.adapter) is not None:
        start += f" with adapters of rank {adapter.rank} (LoRA), merged into the weights,"
    parts = [
        f"# {recipe.name}",
        recipe.description,
        f"```sh\n{task.use}\n```",
        f"{parameters:,} parameters; trained for {steps:,} updates{start} by"
        f" regard {version('regard')} on PyTorch {torch.__version__}. The recipe is in `recipe.toml`."
        + (_REFIT if recipe.training.refit else ""),
        _score_list(scores),
        recipe.card,
    ]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def average_card(
    name: str, recipe: Recipe | None, parameters: int, steps: Sequence[int], *, moving: bool
) -> str:
    """The card of a mean of checkpoints as Markdown. It has no scores: those of the run are of other weights.

    `name` is that of a run without a recipe.
    """
    of = "the moving averages of the weights" if moving else "the weights"
    updates = ", ".join(f"{step:,}" for step in steps)
    mean = f"the mean of {of} after {updates} updates" if len(steps) > 1 else f"{of} after {updates} updates"
    parts = [
        f"# {recipe.name if recipe else name}",
        recipe.description if recipe else "",
        f"{parameters:,} parameters: {mean} of a run, by `regard average` of regard {version('regard')}."
        " `regard evaluate --model .` scores this model.",
        recipe.card if recipe else "",
    ]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _score_list(scores: Sequence[Score]) -> str:
    """A line for each score. A table does not work, since signatures contain `|`."""
    if not scores:
        return ""
    lines = [f"- **{score.name}** {_value(score)}: `{score.signature}`" for score in scores]
    return "\n".join(["## Scores on the test data", "", *lines])


def _value(score: Score) -> str:
    form = f"z.{score.decimals}f"
    if score.low is None or score.high is None:
        return f"{score.value:{form}}"
    return f"{score.value:{form}} (95 %: {score.low:{form}} to {score.high:{form}})"
