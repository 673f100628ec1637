"""A child process that reads pickled tensors (with `weights_only`) and writes them as safetensors.

The checkpoints of toolkits also have settings, which are written as JSON. `weights_only` builds tensors,
numbers, texts and tables; the classes of `ALLOWED` are all that a file may name besides.
"""

import argparse
import json
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.weights.tensors import write_tensors

SETTINGS = "settings.json"  # beside the tensors
ALLOWED = (argparse.Namespace,)  # a table of settings: fairseq, OpenNMT-py


@dataclass(frozen=True)
class Layout:
    """Where a toolkit's checkpoint has its tensors and its settings."""

    tensors: tuple[str, ...]  # tables of tensors; the names of those after the first get `NAME.` before them
    settings: tuple[str, ...] = ()


LAYOUTS = {
    "joeynmt": Layout(("model_state",)),
    "comet": Layout(("state_dict",), ("hyper_parameters",)),
    "fairseq": Layout(("model",), ("args", "cfg")),
    "opennmt": Layout(("model", "generator"), ("opt", "vocab")),
}


def main(source: str, target: str, layout: str = "") -> int:
    """Converts a file; returns exit code 0, or 1 after one line on stderr that says what is wrong."""
    try:
        with torch.serialization.safe_globals(list(ALLOWED) if layout else []):
            found = torch.load(source, map_location="cpu", weights_only=True)
        if layout:
            found, settings = _parts(found, LAYOUTS[layout])
            if settings:
                Path(target).with_name(SETTINGS).write_text(json.dumps(settings), "utf-8")
    except Exception as error:  # noqa: BLE001 (any error that a hostile file can cause)
        print(_why(error), file=sys.stderr)
        return 1
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        print("it has more than a dict of tensors", file=sys.stderr)
        return 1
    write_tensors(Path(target), {str(name): tensor.clone() for name, tensor in found.items()})
    return 0


def _why(error: Exception) -> str:
    """One line about an error; torch's text about a class is long, and the class stands late in it."""
    text = " ".join((str(error) or type(error).__name__).split())
    named = re.search(r"(?:GLOBAL|class) ([A-Za-z_][\w.]*)", text) if "Weights only" in text else None
    return f"it names {named[1]}, which is neither a tensor nor a setting" if named else text[:200]


def _parts(found: Any, layout: Layout) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tensors and the settings of a checkpoint; what else it has, such as an optimiser, is left out."""
    if not isinstance(found, Mapping) or layout.tensors[0] not in found:
        raise ValueError(f"it has no {layout.tensors[0]!r}, so it is not a checkpoint of this toolkit")
    tensors: dict[str, Any] = {}
    for number, name in enumerate(layout.tensors):
        table = found.get(name) or {}
        if not isinstance(table, Mapping):
            raise ValueError(f"its {name!r} is not a table")
        tensors |= {f"{name}.{key}" if number else str(key): value for key, value in table.items()}
    return tensors, {name: _plain(found[name]) for name in layout.settings if found.get(name) is not None}


def _plain(value: Any) -> Any:
    """A setting as JSON has it; a value of another type becomes the text of its type."""
    if isinstance(value, argparse.Namespace):
        value = vars(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else f"<{type(value).__name__}>"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
