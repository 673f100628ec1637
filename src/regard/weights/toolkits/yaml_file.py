"""Reads the YAML of toolkits as plain texts, lists and tables: no value is guessed, no object is made."""

from pathlib import Path
from typing import Any

from regard.data.folder_file import read_file
from regard.errors import FolderError, MissingExtra


def read_yaml_table(path: Path) -> dict[str, Any]:
    """The content of a YAML file that is a table.

    Raises:
        MissingExtra: the YAML library is not installed.
        FolderError: the file is missing, damaged or too large, or no table.
    """
    return as_table(parse_yaml(read_file(path), str(path)), str(path))


def parse_yaml(content: bytes, where: str) -> Any:
    """The content of a YAML text; all scalars are text, so that a piece `no` or `12` stays one."""
    try:
        import yaml
    except ImportError as error:
        raise MissingExtra("PyYAML", "toolkits", f"reading {Path(where).name}") from error
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        return loader(content.decode("utf-8")).get_single_data()
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        why = " ".join(str(error).split())[:200]
        raise FolderError(f"{where} is not YAML: {why}", "copy the checkpoint again") from error


def as_table(found: Any, where: str) -> dict[str, Any]:
    """`found` if it is a table with texts as names."""
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise FolderError(f"{where} is not a table of settings", "copy the checkpoint again")
    return found
