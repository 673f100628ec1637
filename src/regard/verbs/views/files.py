"""A look as files: resources as JSON or NPZ, arrays as .npy bytes."""

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
from regard.verbs.views.resources import JSON_RESOURCES
from regard.weights.folder import replace_file

HTML = (".html", ".htm")
NPZ = (".npz",)

ARRAYS_IN_JSON = ("attention/", "alignment", "rollout/")  # prefixes of arrays that JSON includes by default
JSON_DIGITS = 5
ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # fixed, so that the same look gives the same bytes


def npy_bytes(array: np.ndarray) -> bytes:
    """The bytes of an .npy file: C order, little endian, without pickle."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def json_paths(paths: Iterable[str]) -> list[str]:
    """The paths that JSON includes by default."""
    return [path for path in paths if path in JSON_RESOURCES or path.startswith(ARRAYS_IN_JSON)]


def json_text(value: Any) -> str:
    """A value as one line of JSON; arrays become lists with 5 decimals, numbers that are not finite null."""
    return json.dumps(json_value(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def json_value(value: Any) -> Any:
    """The value with JSON types alone: -inf, the log-probability of an impossible token, becomes None."""
    match value:
        case dict():
            return {key: json_value(each) for key, each in value.items()}
        case list() | tuple():
            return [json_value(each) for each in value]
        case np.ndarray() if value.dtype.kind == "f":
            return np.round(value.astype(np.float64), JSON_DIGITS).tolist()
        case np.ndarray():
            return value.tolist()
        case float() if not math.isfinite(value):
            return None
    return value


def write_npz(path: Path, resources: dict[str, Resource]) -> None:
    """Write an NPZ file for `numpy.load`: arrays by their paths, and the other resources in `look.json`."""
    arrays = {name: each for name, each in resources.items() if isinstance(each, np.ndarray)}
    rest = {name: each for name, each in resources.items() if name not in arrays}
    contents = {f"{name}.npy": npy_bytes(each) for name, each in arrays.items()}
    contents["look.json"] = json_text(rest).encode("utf-8", "surrogatepass")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name, ZIP_DATE), content, zipfile.ZIP_DEFLATED)
    write_file(path, buffer.getvalue())


def writable(file: str | Path, *suffixes: str) -> Path:
    """The path of an output file; called before the work starts.

    Raises:
        UserError: the path is a folder, its folder does not exist, or it is a file without such a suffix.
    """
    path = Path(file).expanduser()
    if suffixes and path.is_file() and path.suffix.lower() not in suffixes:
        raise UserError(
            f"{path} exists, and does not end with {suffixes[0]}",
            f"name another file, such as {path.stem}{suffixes[0]}",
        )
    if path.is_dir():
        raise UserError(f"{path} is a folder", f"name a file in it, such as {path / 'look'}")
    if not path.parent.is_dir():
        raise UserError(
            f"{path}: there is no folder {path.parent}",
            f"make it (mkdir -p {path.parent}), or name another place",
        )
    return path


def write_file(path: Path, content: bytes) -> None:
    """Write a file atomically; devices and pipes are written directly."""
    if path.exists() and not path.is_file():
        path.write_bytes(content)
    else:
        replace_file(path, content)
