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


def _score_list(scores: Sequence[Score]) -> str:
    """A line for each score. A table does not work, since signatures contain `|`."""
    if not scores:
        return ""
    lines = [f"- **{score.name}** {_value(score)}: `{score.signature}`" for score in scores]
    return "\n".join(["## Scores on the test data", "", *lines])


def _value(score: Score) -> str:
    if score.low is None or score.high is None:
        return f"{score.value:z.2f}"
    return f"{score.value:z.2f} (95 %: {score.low:z.2f} to {score.high:z.2f})"
