"""A look as files: arrays as .npy bytes, all of it as JSON or as NPZ."""

import io
import json
import math
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import UserError
from regard.verbs.views.recorded_pass import Resource
from regard.verbs.views.resources import JSON
from regard.weights.folder import replace_file

IN_JSON = ("attention/", "alignment", "rollout/")  # arrays that JSON holds as lists; NPZ holds all
DIGITS = 5
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same look, the same bytes


def npy_bytes(array: np.ndarray) -> bytes:
    """An array as an .npy file has it: C order, little endian, nothing that names code."""
    held = io.BytesIO()
    np.lib.format.write_array(held, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return held.getvalue()


def in_json(paths: Iterable[str]) -> list[str]:
    """Those that JSON holds unless somebody asks for others."""
    return [path for path in paths if path in JSON or path.startswith(IN_JSON)]


def json_text(value: Any) -> str:
    """One line of JSON; arrays in a dict are lists of numbers of 5 digits, what is not finite is null."""
    return json.dumps(json_value(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def json_value(value: Any) -> Any:
    """The same as what JSON knows: the log-probability of an impossible token is no number there."""
    match value:
        case dict():
            return {key: json_value(each) for key, each in value.items()}
        case list() | tuple():
            return [json_value(each) for each in value]
        case np.ndarray() if value.dtype.kind == "f":
            return np.round(value.astype(np.float64), DIGITS).tolist()
        case np.ndarray():
            return value.tolist()
        case float() if not math.isfinite(value):
            return None
    return value


def write_npz(path: Path, found: dict[str, Resource]) -> None:
    """Arrays by their paths, as `numpy.load` reads them, and `look.json`, the rest."""
    arrays = {name: each for name, each in found.items() if isinstance(each, np.ndarray)}
    rest = {name: each for name, each in found.items() if name not in arrays}
    contents = {f"{name}.npy": npy_bytes(each) for name, each in arrays.items()}
    contents["look.json"] = json_text(rest).encode("utf-8", "surrogatepass")
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content, zipfile.ZIP_DEFLATED)
    write_file(path, held.getvalue())


def writable(file: str | Path) -> Path:
    """Where a file is to be written; asked before anything is computed for it.

    Raises:
        UserError: there is no such folder, or it is a folder itself.
    """
    path = Path(file).expanduser()
    if path.is_dir():
        raise UserError(f"{path} is a folder", f"name a file in it, such as {path / 'look'}")
    if not path.parent.is_dir():
        raise UserError(
            f"{path}: there is no folder {path.parent}",
            f"make it (mkdir -p {path.parent}), or name another place",
        )
    return path


def write_file(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all; a device or a pipe is written to as it is."""
    if path.exists() and not path.is_file():
        path.write_bytes(content)
    else:
        replace_file(path, content)
