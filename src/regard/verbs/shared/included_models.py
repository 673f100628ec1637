"""The models that come with the package: en-de, an English-German translator."""

from importlib import resources
from pathlib import Path

from regard.errors import FolderError

INCLUDED = "en-de"


def included_model(name: str = INCLUDED) -> Path:
    """The folder of a model that comes with the package; the default one translates English to German.

    Raises:
        FolderError: this installation has no such model.
    """
    path = Path(str(resources.files("regard"))) / "box" / name
    if not path.is_dir():
        raise FolderError("this installation has no included model", "name a model folder with --model DIR")
    return path


def included_models() -> list[str]:
    """The names of the models that come with the package."""
    folder = Path(str(resources.files("regard"))) / "box"
    return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
