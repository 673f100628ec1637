"""The proposals of `regard new` for one file, beside what else one would train on that file.

    python -m benchmarks.one_file [--data NAME ...] [--system NAME ...] [--seeds S ...]
                                  [--peers PYTHON] [--quick]

Each run of regard is `regard new FILE --test TEST` and `regard train RECIPE` on one thread; only the seed is
set. The cost is the processor time of all processes of a system, which other work on the machine changes
little. Each run is recorded in results/checks/one-file.json when it is done, and replaces an earlier one.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from benchmarks.common import program
from benchmarks.common.checks import Record
from benchmarks.common.unfit import Unfit
from benchmarks.one_file_peers.corpora import CORPORA, OneFile, Task, one_file
from benchmarks.systems.budget import Budget, one_thread

PEERS = program.BUILD / "peers/scikit-learn/bin/python"  # made by `make bench-one-file`
HERE = Path(__file__).parent / "one_file_peers"
SYSTEMS: dict[str, Task | None] = {  # name -> its task; None for all
    "regard": None,
    "majority": "classification",
    "words": "classification",
    "characters": "classification",
    "perceptron": "tagging",
    "n-grams": "language_model",
}
LIMIT = 3600.0  # seconds of processor time
METRICS = {"classification": "accuracy", "tagging": "accuracy", "language_model": "bits per character"}


def main() -> None:
    program.limit_threads()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", choices=list(CORPORA), default=list(CORPORA))
    parser.add_argument("--system", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="of regard's runs")
    parser.add_argument("--peers", type=Path, default=PEERS, help="Python with scikit-learn and nltk")
    parser.add_argument("--quick", action="store_true", help="few updates, records nothing")
    options = parser.parse_args()
    record = Record("one-file", full=not options.quick)
    for name in options.data:
        corpus = one_file(name)
        for system in options.system:
            if SYSTEMS[system] not in (None, corpus.task):
                continue
            for seed in options.seeds if system == "regard" else [0]:
                part = f"{name}, {system}" + (f", seed {seed}" if seed else "")
                program.say(part)
                try:
                    found = run(system, corpus, seed, options)
                except Unfit as unfit:
                    program.say(f"  {unfit}")
                    continue
                record(part, found)
                print(part, json.dumps(found), flush=True)


def run(system: str, corpus: OneFile, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """The figures of one run: the score on the test file, and processor and wall-clock time in seconds."""
    folder = corpus.train.parent / f"{system}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    budget = Budget(LIMIT)
    figures = (
        regard(corpus, folder, seed, budget, quick=options.quick)
        if system == "regard"
        else peer(system, corpus, folder, budget, options.peers)
    )
    return figures | {"seconds": budget.spent, "wall": budget.wall, "others": budget.others}


def regard(corpus: OneFile, folder: Path, seed: int, budget: Budget, *, quick: bool) -> dict[str, Any]:
    """`regard new` and `regard train`; `quick` makes few updates."""
    command, log, recipe = [sys.executable, "-m", "regard"], folder / "log.txt", folder / "recipe.toml"
    files = [corpus.train, "--test", corpus.test, "--task", corpus.task]
    budget.run([*command, "new", *files, "--out", recipe], log=log, env=one_thread())
    changes = [f"training.seed={seed}", *(["training.max_steps=20"] if quick else [])]
    options = ["--out", folder / "run", "--device", "cpu", "--threads", "1"]
    options += [word for change in changes for word in ("--set", change)]
    budget.run([*command, "train", recipe, *options], log=log, env=one_thread())
    records = list(map(json.loads, (folder / "run/metrics.jsonl").read_text().splitlines()))
    scores = next(record["scores"] for record in records if record["kind"] == "test")
    updates = max(record["step"] for record in records if "step" in record)
    return {"score": scores[METRICS[corpus.task]], "updates": updates}


def peer(system: str, corpus: OneFile, folder: Path, budget: Budget, python: Path) -> dict[str, Any]:
    """A peer's program, which prints its score."""
    files: list[str | Path] = [corpus.train, corpus.test]
    match system:
        case "n-grams":
            command = [sys.executable, "-m", "benchmarks.one_file_peers.ngrams", *files]
        case "perceptron":
            command = [python, HERE / "perceptron_tagger.py", *files]
        case _:
            command = [python, HERE / "linear_text.py", *files, system]
    if not Path(command[0]).exists():
        raise Unfit(f"there is no {command[0]}; make bench-one-file makes it")
    output = folder / "output.json"
    budget.run(command, log=folder / "log.txt", stdout=output, env=one_thread())
    return json.loads(output.read_text())


if __name__ == "__main__":
    main()
