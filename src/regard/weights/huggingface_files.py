"""Reads and writes the files of a Hugging Face folder: config.json, weights in one or several files."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.data.folder_file import checked_inside, refuse_large_file
from regard.data.os_errors import os_errors
from regard.errors import FolderError
from regard.weights.folder import MANIFEST, Files
from regard.weights.new_folder import refuse_taken
from regard.weights.other_engines import is_ctranslate2
from regard.weights.pickled import read_pickle, refuse_untrusted
from regard.weights.strict_json import read_json
from regard.weights.tensors import read_tensors, refuse_non_finite, write_tensors

CONFIG = "config.json"
SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"
OURS = b'"format_version"'  # occurs in a config.json of regard


def is_huggingface(path: Path) -> bool:
    """True if `path` is a Hugging Face folder, not one of regard."""
    if os.path.isfile(path / MANIFEST) or not os.path.isfile(path / CONFIG) or is_ctranslate2(path):
        return False
    with open(path / CONFIG, "rb") as file:
        return OURS not in file.read(2**16)


def read_table(path: Path, folder: Path | None = None) -> dict[str, Any]:
    """Reads a JSON file of `folder`, by default the file's parent.

    Raises:
        FolderError: the file is missing, damaged, too large, or a link out of the folder.
    """
    if not os.path.isfile(path):
        raise FolderError(f"{path} is missing", "copy the folder again, with all of its files")
    return read_json(path, folder)


def read_weights(folder: Path, *, trust_pickle: bool = False) -> dict[str, Tensor]:
    """Reads all tensors of the folder, by their names in its files.

    Raises:
        FolderError: a file is missing, damaged, does not match the index, or is a pickle.
    """
    if os.path.isfile(folder / SAFE):
        return _read_tensors(folder / SAFE)
    if os.path.isfile(folder / f"{SAFE}.index.json"):
        return _read_shards(folder, f"{SAFE}.index.json", trust_pickle=False)
    pickled = [name for name in (PICKLED, f"{PICKLED}.index.json") if os.path.isfile(folder / name)]
    if not pickled:
        raise FolderError(f"{folder} has no {SAFE}", "copy the folder again, with its weights")
    refuse_untrusted(folder / pickled[0], trust_pickle=trust_pickle)
    if pickled[0] == PICKLED:
        return read_pickle(folder / PICKLED)[0]
    return _read_shards(folder, pickled[0], trust_pickle=True)


def write_plain_folder(target: Path, files: Files) -> None:
    """Writes `files`, whose names may have subfolders, atomically and without a manifest.

    Raises:
        FolderError: `target` exists already, or is a part of a run.
    """
    target = Path(os.path.realpath(target.expanduser()))
    refuse_taken(target)
    for name, content in files.items():
        if not isinstance(content, bytes):
            refuse_non_finite(name, content)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    with os_errors("save", target):
        os.makedirs(partial)
        try:
            for name, content in files.items():
                (partial / name).parent.mkdir(exist_ok=True)
                if isinstance(content, bytes):
                    (partial / name).write_bytes(content)
                else:
                    write_tensors(partial / name, content)
            os.replace(partial, target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def _read_shards(folder: Path, index: str, *, trust_pickle: bool) -> dict[str, Tensor]:
    """Reads the tensors of several files; each must be in the file that the index names."""
    path = folder / index
    places = read_table(path).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise FolderError(f"{path}: weight_map is not an object of names", "copy the folder again")
    found: dict[str, Tensor] = {}
    for file in sorted({str(file) for file in places.values()}):
        if Path(file).name != file or not file.endswith((".safetensors", ".bin")):
            raise FolderError(
                f"{path}: {file!r} is not the name of a file in the folder", "copy the folder again"
            )
        if not os.path.isfile(folder / file):
            raise FolderError(f"{folder / file} is missing", "copy the folder again, with all of its files")
        if file.endswith(".bin"):
            refuse_untrusted(folder / file, trust_pickle=trust_pickle)
        tensors = read_pickle(folder / file)[0] if file.endswith(".bin") else _read_tensors(folder / file)
        _refuse_other_names(path, file, places, tensors)
        found |= tensors
    return found


def _refuse_other_names(
    path: Path, file: str, places: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    named = {name for name, place in places.items() if place == file}
    if wrong := sorted(named ^ set(tensors)):
        problem = "is not in" if wrong[0] in named else "is in"
        raise FolderError(
            f"{path}: {wrong[0]!r} {problem} {file}, unlike in the index", "copy the folder again"
        )


def _read_tensors(path: Path) -> dict[str, Tensor]:
    refuse_large_file(checked_inside(path))
    return read_tensors(path)
