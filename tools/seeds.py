"""Trains a recipe with the seeds 1, 2, ... and prints the mean and the deviation of its test scores.

.venv/bin/python tools/seeds.py recipes/gat-cora.toml --runs 20 2> progress

Each seed has a run folder, OUT/seed-N. An existing run is resumed, or only scored if it is finished.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import regard
from benchmarks.common.checks import Record


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe", help="a TOML file, or the name of a recipe that comes with regard")
    parser.add_argument("--runs", type=int, default=20, help="how many seeds, from 1 (default: 20)")
    parser.add_argument("--out", type=Path, help="where the run folders are (default: runs/RECIPE-seeds)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change the recipe")
    parser.add_argument("--init", type=Path, help="the trained model that each starts from (default: none)")
    parser.add_argument("--threads", type=int, default=1, help="of each run (default: 1)")
    options = parser.parse_args()
    out = options.out or Path("runs") / f"{Path(options.recipe).stem}-seeds"
    found: dict[str, list[float]] = {}
    for seed in range(1, options.runs + 1):
        began = time.monotonic()
        result = regard.train(
            options.recipe,
            out=out / f"seed-{seed}",
            overrides=[*options.set, f"training.seed={seed}"],
            init=options.init,
            threads=options.threads,
        )
        scores = "  ".join(f"{name} {value:.2f}" for name, value in result.metrics.items())
        print(f"seed {seed}: {scores}; {result.steps} updates, {time.monotonic() - began:.0f} s", flush=True)
        for name, value in result.metrics.items():
            found.setdefault(name, []).append(value)
    row: dict[str, object] = {}
    for name, values in found.items():
        deviation = statistics.stdev(values) if len(values) > 1 else 0.0
        print(
            f"{name}: {statistics.mean(values):.2f} ± {deviation:.2f} over {len(values)} runs"
            f" ({min(values):.2f} to {max(values):.2f})"
        )
        row[name] = {
            "mean": statistics.mean(values),
            "deviation": deviation,
            "least": min(values),
            "most": max(values),
        }
    start = f" from {options.init.name}" if options.init else ""
    record = Record("recipes", full=not options.set)  # recipes/README.md has them
    record(f"{Path(options.recipe).stem}, {options.runs} seeds{start}", row)


if __name__ == "__main__":
    main()
