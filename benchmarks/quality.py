"""Translation quality of regard and other systems after equal processor time on the same corpus.

    python -m benchmarks.quality [--data NAME ...] [--minutes M ...] [--contender NAME ...] [--seeds S ...]
                                 [--peers FOLDER] [--against NAME] [--quick]

A budget is the processor time of all processes and threads of a system, from raw text to its last update;
translating the test set is not counted. Each training is stored in results/quality.json when it is done,
and is not repeated if it is there. The translations stay under build/, so that any two systems can be
compared.
"""

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

from benchmarks.common import program
from benchmarks.common.machine import machine, now
from benchmarks.common.results import Result
from benchmarks.common.unfit import Unfit
from benchmarks.systems.budget import Budget
from benchmarks.systems.corpora import LANGUAGES, corpus, read
from benchmarks.systems.eole import Eole, SmallEole
from benchmarks.systems.fairseq import Fairseq
from benchmarks.systems.joeynmt import JoeyNmt, SmallJoeyNmt
from benchmarks.systems.marian import Marian
from benchmarks.systems.pieces import Pieces, difference
from benchmarks.systems.regard_recipe import RegardRecipe
from benchmarks.systems.regard_system import Regard
from benchmarks.systems.significance import ahead, scored
from benchmarks.systems.system import Job, System

PEERS = program.BUILD / "peers"  # an environment for each, made by `make bench-quality-install`
SYSTEMS: dict[str, tuple[type[System], str]] = {  # name on the command line -> class, environment
    "regard": (Regard, ""),
    "recipe": (RegardRecipe, ""),
    "marian": (Marian, "transformers"),
    "joeynmt": (JoeyNmt, "joeynmt"),
    "joeynmt-small": (SmallJoeyNmt, "joeynmt"),
    "fairseq": (Fairseq, "fairseq"),
    "eole": (Eole, "eole"),
    "eole-small": (SmallEole, "eole"),
}
MINUTES, QUICK = (10.0, 30.0, 60.0), 1.0


def main() -> None:
    program.limit_threads()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="run for a minute each only, to check that everything works"
    )
    parser.add_argument("--data", nargs="+", choices=list(LANGUAGES), default=list(LANGUAGES))
    parser.add_argument(
        "--minutes", nargs="+", type=float, help="CPU-minutes of a training [default: 10 30 60]"
    )
    parser.add_argument("--contender", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--peers", type=Path, default=PEERS, help="folder of the peers' environments")
    parser.add_argument(
        "--against",
        choices=list(SYSTEMS),
        default="regard",
        help="the system that the others are compared with [default: regard]",
    )
    program.run(quality, parser)


def quality(options: argparse.Namespace) -> Result:
    """Run the requested trainings that are not stored yet, then all comparisons."""
    pieces = Pieces({"vocabulary": 8000, "beam": 5, "threads": 1}, quick=options.quick)
    minutes = options.minutes or ([QUICK] if options.quick else MINUTES)
    data = options.data[:1] if options.quick else options.data
    for name in data:
        for budget in minutes:
            for seed in options.seeds:
                for key in options.contender:
                    one(pieces, system_of(key, options.peers), name, budget, seed)
                compare(pieces, name, budget, seed, SYSTEMS[options.against][0].name)
    pieces.note(notes())
    return pieces.result


def system_of(key: str, peers: Path) -> System:
    make, environment = SYSTEMS[key]
    return make(peers / environment / "bin" / "python" if environment else Path(sys.executable))


def one(pieces: Pieces, system: System, name: str, minutes: float, seed: int) -> None:
    """Train a system and score it, unless it is stored; its row has the scores or the error."""
    if pieces.done(name, minutes, system.name, seed):
        return
    program.say(f"{name}, {minutes:g} CPU-minutes, seed {seed}: {system.name}")
    row: dict[str, Any] = {"minutes": minutes, "name": system.name, "seed": seed}
    try:
        row |= trained_and_scored(system, name, minutes, seed)
    except Unfit as unfit:
        row["settings"] = str(unfit)
    pieces.store(name, row)
    program.say(f"  BLEU {row['bleu']}, chrF {row['chrf']}" if "bleu" in row else f"  {row['settings']}")


def trained_and_scored(system: System, name: str, minutes: float, seed: int) -> dict[str, Any]:
    """The row of one training; its model is removed, its log and its translations are kept."""
    versions = system.check()
    folder = folder_of(system.name, name, minutes, seed)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    job = Job(corpus=corpus(name), minutes=minutes, seed=seed, folder=folder)
    budget = Budget(60 * minutes)
    here = machine()
    trained = system.train(job, budget)
    system.translate(job)
    translations, references = read(job.output), job.corpus.lines("test", job.corpus.target)
    if len(translations) != len(references):
        raise Unfit(f"{len(translations):,} translations of {len(references):,} sentences")
    shutil.rmtree(folder / "model", ignore_errors=True)
    return {
        **scored(translations, references),
        "cpu": round(budget.spent / 60, 2),
        "wall": round(budget.wall / 60, 2),
        "others": round(budget.others, 2),
        "updates": trained.updates,
        "settings": trained.settings,
        "versions": versions,
        "cpu_name": here["cpu"],
        "load_before": here["load_before"],
        "date": now(),
    }


def folder_of(system: str, name: str, minutes: float, seed: int) -> Path:
    words = system.lower().replace(",", "").replace(" ", "-")
    return program.BUILD / "quality" / name / f"{minutes:g}-minutes" / f"{words}-{seed}"


def compare(pieces: Pieces, name: str, minutes: float, seed: int, baseline: str) -> None:
    """Compare the baseline with each other system whose translations are present."""
    found = {
        row["name"]: folder_of(row["name"], name, minutes, seed) / "translations.txt"
        for row in pieces.rows(name, minutes, seed)
    }
    lines = {system: read(path) for system, path in found.items() if path.exists()}
    if baseline not in lines:
        return
    own, test = lines.pop(baseline), corpus(name)
    for system, against in ahead(own, lines, test.lines("test", test.target)).items():
        program.say(f"  {baseline} to {system}: {difference(against.bleu, against.p)}")
        if baseline == Regard.name:
            row = next(row for row in pieces.rows(name, minutes, seed) if row["name"] == system)
            pieces.store(name, row | {"against": difference(against.bleu, against.p)})


def notes() -> list[str]:
    """Notes for the page: the configuration of each system, the meaning of the columns."""
    systems = [f"{make.name}: {make.about}" for make, _ in SYSTEMS.values()]
    return [
        *systems,
        "regard is ahead by: BLEU, p of sacreBLEU's paired bootstrap with 1,000 samples, an asterisk where p"
        " is below 0.05",
        "CPU-minutes used: of all processes and threads, from raw text to the last update; the trial runs"
        " that find out how many updates a peer can make are not counted, regard's own are",
        "cores of others: what other processes used meanwhile; with two hardware threads on a core, a second"
        " of a processor does the less the more there is of it, so compare rows of about the same",
        "test sets: test_2017_flickr (1,000) and Tatoeba's test split (3,387), raw text, beam 5 for everyone",
    ]


if __name__ == "__main__":
    main()
