"""A process of its own that reads a pickle of tensors (`weights_only`) and writes them as safetensors."""

import sys
from pathlib import Path

import torch
from torch import Tensor

from regard.weights.tensors import write_tensors


def main(source: str, target: str) -> int:
    """Exit code 0, or 1 with one line on what is wrong."""
    try:
        found = torch.load(source, map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001 (whatever a hostile file brings about, told in one line)
        print(" ".join(str(error).split())[:200], file=sys.stderr)
        return 1
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        print("it holds more than a table of tensors", file=sys.stderr)
        return 1
    write_tensors(Path(target), {str(name): tensor.clone() for name, tensor in found.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
