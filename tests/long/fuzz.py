"""`make fuzz`: mutated files of every kind; a line of figures for each.

    python tests/long/fuzz.py [--share 1.0] [--only KIND]

100,000 weight files and 20,000 each of config, tokeniser, manifest, recipe and training state. Each is read
as a user would meet it: in a folder whose manifest does not fit (it must be refused), or, where somebody has
made the manifest fit, as it is (it is read, or refused in one line). What may not be: another exception, a
crash of the process, more than two seconds, memory without bound. Exit code 1 where it was.
"""

import argparse
import hashlib
import json
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from benchmarks.common.checks import Record, record_of

TESTS = Path(__file__).parent.parent
sys.path += [str(TESTS / "weights"), str(TESTS / "crash")]

COUNTS = {
    "weights": 100_000,
    "config": 20_000,
    "tokenizer": 20_000,
    "manifest": 20_000,
    "recipe": 20_000,
    "state": 20_000,
}
FILES = {
    "weights": "model.safetensors",
    "config": "config.json",
    "tokenizer": "tokenizer.json",
    "manifest": "MANIFEST.json",
    "state": "state.json",
}
LONGEST = 2.0  # seconds
MOST_MIB = 512  # that reading damaged files may take beyond what the process had


class TooLong(BaseException):
    """Two seconds are over."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--share", type=float, default=1.0, help="of the counts (1.0)")
    parser.add_argument("--only", choices=list(COUNTS))
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    kinds = [options.only] if options.only else list(COUNTS)
    if options.child:
        print(json.dumps(fuzz(options.only, max(1, int(COUNTS[options.only] * options.share)))))
        return
    record = record_of("fuzz", parser, options)
    kept = [passes(kind, options.share, record) for kind in kinds]
    sys.exit(not all(kept))


def passes(kind: str, share: float, record: Record) -> bool:
    """Fuzz one kind in a process of its own, so that a crash is seen; print its line."""
    began = time.monotonic()
    command = [sys.executable, __file__, "--child", "--only", kind, "--share", str(share)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"fuzz: {kind}: the process died with {done.returncode}\n{done.stderr}", flush=True)
        return False
    found = json.loads(done.stdout)
    bad = found["bad"]
    print(
        f"fuzz: {kind}: {found['tried']:,} mutated files: {found['refused']:,} refused,"
        f" {found['read']:,} read ({found['unnoticed']} of them against their manifest), {len(bad)} bad,"
        f" slowest {found['slowest']:.2f} s, {found['mib']:.0f} MiB ({time.monotonic() - began:.0f} s)",
        flush=True,
    )
    for each in bad[:10]:
        print(f"  {each}", file=sys.stderr)
    figures = {name: found[name] for name in ("tried", "refused", "read", "unnoticed", "slowest", "mib")}
    record(kind, figures | {"bad": len(bad)})
    return not bad and not found["unnoticed"] and found["mib"] < MOST_MIB


def fuzz(kind: str, count: int) -> dict:
    """Mutate and read `count` times."""
    from test_damaged import damaged, harmless, mutilated

    from regard.errors import RegardError

    chance, tally, bad, slowest = random.Random(f"{kind} 1"), Counter(), [], 0.0
    signal.signal(signal.SIGALRM, _too_long)
    with tempfile.TemporaryDirectory() as folder:
        target, read, refit = subject(kind, Path(folder))
        whole = target.read_bytes()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in range(count):
            as_json = target.suffix == ".json" and chance.random() < 0.5
            content = (mutilated if as_json else damaged)(whole, chance)
            if content == whole:
                continue
            target.write_bytes(content)
            fits = refit is not None and chance.random() < 0.5
            if fits:
                refit(content)
            began = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, LONGEST)
            try:
                read()
                tally["read"] += 1
                guarded = kind not in ("recipe", "manifest") and not fits
                tally["unnoticed"] += guarded or (kind == "manifest" and not harmless(content, whole))
            except RegardError as error:
                tally["refused"] += 1
                if not error.message or "\n" in error.message:
                    bad.append(f"{number}: no message of one line: {error.message!r}")
            except TooLong:
                bad.append(f"{number}: more than {LONGEST} s")
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is what must not be
                bad.append(f"{number}: {type(error).__name__}: {str(error)[:200]}")
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            slowest = max(slowest, time.monotonic() - began)
            if fits:
                refit(whole)
        mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    numbers = {name: tally[name] for name in ("refused", "read", "unnoticed")}
    return {**numbers, "tried": count, "bad": bad, "slowest": slowest, "mib": mib}


def _too_long(number: int, frame: object) -> None:
    raise TooLong


def subject(kind: str, folder: Path) -> tuple[Path, Callable[[], object], Callable[[bytes], None] | None]:
    """The file to mutate, how it is read, and how its manifest is made to fit other contents."""
    from test_run_killed import RECIPE

    from regard.verbs.shared.settings import load_recipe
    from regard.verbs.train import train

    recipe = folder / "recipe.toml"
    recipe.write_text(RECIPE, "utf-8")
    if kind == "recipe":
        return recipe, lambda: load_recipe(recipe), None
    run = folder / "run"
    short = ["training.max_steps=6", "training.validate_every=6"]
    train(recipe, out=run, overrides=short, threads=1)
    place = next((run / "checkpoints").iterdir()) if kind == "state" else run / "best"
    target, manifest = place / FILES[kind], place / "MANIFEST.json"

    def refit(content: bytes) -> None:
        table = json.loads(manifest.read_text("utf-8"))
        entry = table["files"][target.name]
        table["files"][target.name] = {
            name: {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}.get(name, value)
            for name, value in entry.items()
        }
        manifest.write_text(json.dumps(table), "utf-8")

    return target, reader(kind, place), None if kind == "manifest" else refit


def reader(kind: str, place: Path) -> Callable[[], object]:
    from regard.training.state import TrainingState
    from regard.weights.checkpoint import Checkpoint
    from regard.weights.model_folder import load_model

    if kind == "state":
        return lambda: TrainingState.from_dict(Checkpoint.open(place).read_json("state.json"))
    return lambda: load_model(place)


if __name__ == "__main__":
    main()
