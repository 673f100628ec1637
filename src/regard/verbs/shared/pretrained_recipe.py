"""The recipe by which a model is scored: its own, or one made for a pretrained model and a file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from regard.data.tables import format_by_name
from regard.errors import UserError
from regard.models.decoder_only import DecoderOnly
from regard.recipe import read_toml
from regard.verbs.shared.run_recipe import RECIPE, run_of
from regard.verbs.shared.settings import recipe_from, recipe_of
from regard.verbs.tasks.recipe import RecipeFile
from regard.weights.model_folder import LoadedModel

# the task of a head
OF_HEADS = {"classification": "classification", "regression": "regression", "tokens": "tagging"}
MOST_TOKENS = 4096  # of a text, for an encoder without a limit of its own
LONGEST = 2048  # tokens of a window, of language models that read more
USUAL = 1024  # of a language model that does not tell how many it was trained on


def evaluated_recipe(loaded: LoadedModel, data: str | None) -> RecipeFile:
    """The recipe that a model was trained by; of a pretrained one, a recipe for the file `data`.

    Raises:
        UserError: the model is a pretrained one, and there are no data.
    """
    made = _table_of(loaded)
    if made is None or has_recipe(loaded):
        return recipe_of(loaded.path)
    if data is None:
        raise UserError(
            f"{loaded.path}: not trained by a recipe, which would name test data", "name a file: --data FILE"
        )
    table = {"name": loaded.path.name, **made(loaded, data)}
    return recipe_from(table, "", Path.cwd(), str(loaded.path))


def has_recipe(loaded: LoadedModel) -> bool:
    """True if a model was trained by a recipe that its folder has."""
    recipe = loaded.path / RECIPE
    return bool(run_of(loaded.path)) or (recipe.is_file() and "task" in read_toml(recipe)[0])


def _table_of(loaded: LoadedModel) -> Callable[[LoadedModel, str], dict[str, Any]] | None:
    if isinstance(loaded.model, DecoderOnly):
        return _language_model
    return _labelled if getattr(loaded.config, "head", "") in OF_HEADS else None


def _language_model(loaded: LoadedModel, data: str) -> dict[str, Any]:
    """Windows of the model's own length; of JSON Lines the texts are the documents, else a file is one."""
    document = "record" if format_by_name(Path(data)) == "jsonl" else "file"
    return {
        "task": {"kind": "language_model", "block": usual_window(loaded)},
        "data": {"train": {"file": "", "document": document}, "valid": {"file": data, "document": document}},
    }


def usual_window(loaded: LoadedModel) -> int:
    """The tokens of a window in which a language model that no recipe trained is scored."""
    return min(cast(DecoderOnly, loaded.model).trained_length or USUAL, LONGEST)


def _labelled(loaded: LoadedModel, _: str) -> dict[str, Any]:
    """The task of the head, with the model's labels."""
    kind = OF_HEADS[cast(Any, loaded.config).head]
    format = {} if kind == "tagging" else {"format": "labelled"}
    data: dict[str, Any] = {"train": {"file": "", **format}}
    numbered = {f"LABEL_{number}": str(number) for number in range(len(loaded.labels))}
    if kind == "classification" and loaded.labels == tuple(numbered):  # of transformers, for want of names
        data["label_names"] = {number: label for label, number in numbered.items()}
    limit = getattr(loaded.model, "max_length", None)
    batches = {"max_tokens": min(limit or MOST_TOKENS, MOST_TOKENS)}
    return {"task": {"kind": kind}, "data": data, "batches": batches}
