"""The recipe by which a pretrained language model, which no recipe trained, is scored on a text."""

from pathlib import Path
from typing import Any

from regard.data.tables import SUFFIXES
from regard.errors import UserError
from regard.models.decoder_only import DecoderOnly
from regard.recipe import read_toml
from regard.verbs.shared.run_recipe import RECIPE, run_of
from regard.verbs.shared.settings import recipe_from
from regard.verbs.tasks.recipe import RecipeFile
from regard.weights.model_folder import LoadedModel

LONGEST = 2048  # tokens of a window, of models that read more
USUAL = 1024  # of a model that does not tell how many it was trained on


def recipe_of_pretrained(loaded: LoadedModel, data: str | None) -> RecipeFile | None:
    """A recipe with the model's own length as the window, and `data` as its text; None for other models.

    Of a JSON Lines file the texts are the documents, else a file is one.

    Raises:
        UserError: there is no `data`.
    """
    recipe = loaded.path / RECIPE
    if not isinstance(loaded.model, DecoderOnly) or run_of(loaded.path) is not None:
        return None
    if recipe.is_file() and "task" in read_toml(recipe)[0]:
        return None
    if data is None:
        raise UserError(
            f"{loaded.path}: no recipe trained this model, so none names test data",
            "name a text: --data FILE",
        )
    suffix = Path(data.lower().removesuffix(".gz")).suffix
    document = "record" if SUFFIXES.get(suffix) == "jsonl" else "file"
    config = loaded.model.config
    limit = config.max_positions if config.positions == "learned" else config.trained_length
    table: dict[str, Any] = {
        "name": loaded.path.name,
        "task": {"kind": "language_model", "block": min(limit or USUAL, LONGEST)},
        "data": {"train": {"file": "", "document": document}, "valid": {"file": data, "document": document}},
    }
    return recipe_from(table, "", Path.cwd(), str(loaded.path))
