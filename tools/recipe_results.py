"""Scores finished runs of recipes again and records the figures of recipes/README.md.

.venv/bin/python tools/recipe_results.py runs/sst2 runs/trec

Each run is scored on the test data of its recipe, with intervals; the time is that of its training. They are
recorded in `benchmarks/results/checks/recipes.json`, and `tools/figures.py` writes them into the page.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import regard
from benchmarks.common.checks import Record
from regard.errors import RegardError
from regard.recipe import read_toml
from regard.weights.checkpoint import RunFolder


def figures(run: Path) -> dict[str, Any]:
    """The test scores of a run by name, each with its interval, and the minutes of training."""
    found: dict[str, Any] = {
        score.name: {"value": score.value, "low": score.low, "high": score.high}
        for score in regard.evaluate(model=run).scores
    }
    seconds = [record["seconds"] for record in RunFolder(run).metrics() if "seconds" in record]
    return found | {"minutes": max(seconds, default=0.0) / 60}


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
