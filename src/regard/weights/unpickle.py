"""A child process that reads pickled tensors (with `weights_only`) and writes them as safetensors."""

import sys
from pathlib import Path

import torch
from torch import Tensor

from regard.weights.tensors import write_tensors


def main(source: str, target: str) -> int:
    """Converts a file; returns exit code 0, or 1 after one line on stderr that says what is wrong."""
    try:
        found = torch.load(source, map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001 (any error that a hostile file can cause)
        print(" ".join((str(error) or type(error).__name__).split())[:200], file=sys.stderr)
        return 1
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        print("it has more than a dict of tensors", file=sys.stderr)
        return 1
    write_tensors(Path(target), {str(name): tensor.clone() for name, tensor in found.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
