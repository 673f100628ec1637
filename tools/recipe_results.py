"""Scores finished runs of recipes again and records the figures of recipes/README.md.

.venv/bin/python tools/recipe_results.py runs/sst2 runs/trec

Each run is scored on the test data of its recipe, with intervals; the time is that of its training, without
validation. They are recorded in `benchmarks/results/checks/recipes.json`, and `tools/figures.py` writes them
into the page.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import regard
from benchmarks.common.checks import Record
from regard.errors import RegardError
from regard.recipe import read_toml
from regard.weights.checkpoint import REFIT, RunFolder


def figures(run: Path) -> dict[str, Any]:
    """The test scores of a run by name, each with its interval, and the minutes of training."""
    found: dict[str, Any] = {
        score.name: {"value": score.value, "low": score.low, "high": score.high}
        for score in regard.evaluate(model=run).scores
    }
    parts = (run, run / REFIT)  # a second run, if there is one
    return found | {"minutes": sum(training_seconds(RunFolder(part).metrics()) for part in parts) / 60}


def training_seconds(records: Sequence[Mapping[str, Any]]) -> float:
    """The time in which a run was trained, without validation and saving."""
    trained = [record for record in records if record["kind"] == "train"]
    tokens = [0, *(record["target_tokens"] for record in trained)]
    return sum(
        (now - before) / record["tokens_per_second"]
        for before, now, record in zip(tokens, tokens[1:], trained, strict=False)
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    record = Record("recipes", full=True)
    for run in parser.parse_args().runs:
        try:
            name = read_toml(run / "recipe.toml")[0]["name"]
            row = figures(run)
        except RegardError as error:
            print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
            return 2
        record(name, row)
        print(name, row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
