"""The name of a model: that of its recipe, else that of its folder."""

import tomllib

from regard.weights.model_folder import LoadedModel


def model_name(loaded: LoadedModel) -> str:
    """The name in the model's recipe; the name of its folder if it has none."""
    if loaded.folder is not None and "recipe.toml" in loaded.folder.names:
        try:
            name = tomllib.loads(loaded.folder.read_bytes("recipe.toml").decode()).get("name")
        except ValueError:  # neither UTF-8 nor TOML
            name = None
        if isinstance(name, str) and name.strip():
            return " ".join(name.split())
    return loaded.path.resolve().name
