"""Puts a trained model into the box: its folder with weights of 16 bits.

.venv/bin/python -m tools.box_corpus.pack runs/box-en-de
"""

import argparse
from pathlib import Path

import torch

from regard.weights.checkpoint import Folder, RunFolder
from regard.weights.folder import write_folder

BOX = Path(__file__).parents[2] / "src/regard/box/en-de"
WEIGHTS = "model.safetensors"
CARD = "README.md"  # no part of what a folder is verified by


def pack(folder: Folder, box: Path) -> None:
    """Write a model to `box`, half as large."""
    weights = {
        name: tensor.to(torch.float16) if tensor.is_floating_point() else tensor
        for name, tensor in folder.read_tensors(WEIGHTS).items()
    }
    files = {name: folder.read_bytes(name) for name in folder.names if name != WEIGHTS}
    write_folder(box, {**files, CARD: (folder.path / CARD).read_bytes(), WEIGHTS: weights})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="a run folder, whose best model is taken")
    parser.add_argument("--box", type=Path, default=BOX)
    asked = parser.parse_args()
    best = RunFolder(asked.run).best()
    if best is None:
        parser.error(f"{asked.run} has no best model yet")
    pack(best, asked.box)


if __name__ == "__main__":
    main()
