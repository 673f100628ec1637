"""Makes a trained model the included model: its weights in float16, its other files unchanged.

.venv/bin/python tools/box.py runs/box-en-de --recipe tools/box_corpus/stage-3.toml
"""

import argparse
from pathlib import Path

from regard.verbs.shared.included_models import INCLUDED
from regard.verbs.shared.settings import load_recipe
from regard.weights.folder import write_folder
from regard.weights.model_folder import model_files_of, open_model_folder
from regard.weights.strict_json import json_bytes
from regard.weights.tensors import half
from regard.weights.verified_folder import VerifiedFolder

BOXES = Path(__file__).parents[1] / "src" / "regard" / "box"
LIMIT = 16 * 10**6  # bytes on disk


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="a run folder or a model folder")
    parser.add_argument(
        "--recipe", type=Path, help="stored instead of the run's own recipe, which has local paths"
    )
    parser.add_argument(
        "--box", type=Path, default=BOXES / INCLUDED, help="folder to write; default: the package's"
    )
    asked = parser.parse_args()
    size = pack(open_model_folder(asked.run), asked.box, asked.recipe)
    print(f"{asked.box}: {size / 10**6:.1f} MB")
    assert size <= LIMIT, "too large for the package"


def pack(folder: VerifiedFolder, box: Path, recipe: Path | None = None) -> int:
    """Write a model to `box` with half-size weights; returns its bytes there."""
    files = {
        **model_files_of(folder),
        "README.md": (folder.path / "README.md").read_bytes(),
        "model.safetensors": half(folder.read_tensors("model.safetensors")),
    }
    if recipe:
        files["recipe.toml"] = recipe.read_bytes()
        changes = load_recipe(recipe).table.get("decoding", {})
        files["generation.json"] = json_bytes({**folder.read_json("generation.json"), **changes})
    write_folder(box, files)
    return sum(file.stat().st_size for file in box.iterdir())


if __name__ == "__main__":
    main()
