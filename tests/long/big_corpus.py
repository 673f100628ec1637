"""`make big-corpus`: fifty million pairs are tokenised by two processes, and trained on for some minutes.

    python tests/long/big_corpus.py [--millions 50] [--minutes 4] [--folder DIR]

The pairs are made: words drawn by Zipf's law, and their translation word by word in another order. The
memory that each process has made its own (anonymous, resident) is read each second: in the last fifth of the
time it may be 10 % above the second fifth. A run of two processes is stopped and resumed by one. Exit code 1
where memory grew, or a part is wrong. `--folder` keeps the files, of which there are 9 GB, and leaves out
what is there.
"""

import argparse
import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from benchmarks.common.checks import Record, record_of
from tests.long.soak import anonymous_mib

SHARE, ROOM = 1.1, 8.0  # of the memory in the second fifth, and MiB
WORDS, PROCESSES = 50_000, 2
FILE_PAIRS = 1_000_000
RECIPE = """
name = "big"
[data]
tokens = "tokens"
[data.valid]
file = "valid.tsv"
format = "tsv"
[tokenizer]
vocab_size = 8000
[model]
preset = "tiny"
[batches]
batch_tokens = 2048
[training]
max_steps = 1000000
report_every = 10
validate_every = 1000000
save_every = 200
keep = 2
[validation]
metrics = []
sentences = 50
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--millions", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    record = record_of("big-corpus", parser, argparse.Namespace(**{**vars(options), "folder": None}))
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        make(folder, options.millions)
        kept = [tokenised(folder, options.millions, record), trained(folder, options.minutes * 60, record)]
    sys.exit(not all(kept))


def make(folder: Path, millions: int) -> None:
    """Files of a million pairs each."""
    (folder / "in").mkdir(exist_ok=True)
    (folder / "recipe.toml").write_text(RECIPE)
    write(folder / "valid.tsv", 200, seed=10**6)
    with multiprocessing.Pool(PROCESSES) as pool:
        missing = [number for number in range(millions) if not (folder / "in" / f"{number:04d}.tsv").exists()]
        pool.starmap(
            write, [(folder / "in" / f"{number:04d}.tsv", FILE_PAIRS, number) for number in missing], 1
        )


def write(path: Path, pairs: int, seed: int) -> None:
    """Pairs of 3 to 16 words."""
    random = np.random.default_rng(seed)
    names = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnoprstuvw"))
    words = ["".join(names.choice(letters, size)) for size in names.integers(2, 9, WORDS)]
    others = [word[::-1] + "en" for word in words]
    shares = 1 / np.arange(1, WORDS + 1)
    lengths = random.integers(3, 17, pairs)
    chosen = np.searchsorted(np.cumsum(shares / shares.sum()), random.random(int(lengths.sum())))
    chosen = np.minimum(chosen, WORDS - 1).tolist()
    lines, place = [], 0
    for length in lengths.tolist():
        own = chosen[place : place + length]
        place += length
        target = [*own[length // 2 :], *own[: length // 2]]
        lines.append(
            f"{' '.join([words[each] for each in own])}\t{' '.join([others[each] for each in target])}\n"
        )
    partial = path.with_suffix(".partial")
    partial.write_text("".join(lines))
    partial.rename(path)


def tokenised(folder: Path, millions: int, record: Record) -> bool:
    """By as many processes as there are shards."""
    began = time.monotonic()
    shards = range(1, PROCESSES + 1)
    where = ["--input", "in/*.tsv", "--output", "tokens"]
    command = [sys.executable, "-m", "regard", "data", "tokenize", "recipe.toml", *where]
    started = [
        subprocess.Popen([*command, "--shard", f"{shard}/{PROCESSES}"], cwd=folder, stderr=subprocess.DEVNULL)
        for shard in shards
    ]
    memory: list[list[float]] = [[] for _ in started]
    while any(process.poll() is None for process in started):
        for process, seen in zip(started, memory, strict=True):
            seen += memory_of(process.pid)
        time.sleep(1)
    seconds = time.monotonic() - began
    if any(process.returncode for process in started):
        print("big-corpus: FAILED: tokenising ended with", [process.returncode for process in started])
        return False
    # after the tokeniser, whose training needs a million pairs at once, which is the beginning
    flat, before, after = grown([seen[len(seen) // 4 :] for seen in memory])
    status = subprocess.run(
        [sys.executable, "-m", "regard", "jobs", "status", "tokens"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    rate = millions * 1e6 / seconds
    print(
        f"big-corpus: tokenised: {millions} M pairs by {PROCESSES} processes in {seconds:.0f} s,"
        f" {rate:,.0f} pairs a second; a process has {before:.0f} MiB, then {after:.0f},"
        f" at most {max(map(max, memory)):.0f} while the tokeniser is trained;"
        f" {status.stdout.splitlines()[0]}",
        flush=True,
    )
    record(
        "tokenised",
        {
            "millions": millions, "processes": PROCESSES, "seconds": seconds, "pairs_per_second": rate,
            "mib_before": before, "mib_after": after, "mib_most": max(map(max, memory)),
        },
    )  # fmt: skip
    return flat


def trained(folder: Path, seconds: float, record: Record) -> bool:
    """By two processes, then by one, from where these were."""
    flat = True
    steps: list[int] = []
    for processes in (PROCESSES, 1):
        begun = time.monotonic()
        command = [sys.executable, "-m", "regard", "train", "recipe.toml", "--out", "run"]
        said = (folder / "train.log").open("w")
        process = subprocess.Popen(
            [*command, "--workers", str(processes), "--threads", "1"], cwd=folder, stderr=said
        )
        metrics = folder / "run" / "metrics.jsonl"
        first = lines_of(metrics)
        while lines_of(metrics) <= first and process.poll() is None:
            time.sleep(0.2)
        ready = time.monotonic() - begun
        memory: dict[int, list[float]] = {}
        while time.monotonic() - begun < ready + seconds / 2 and process.poll() is None:
            for pid in [process.pid, *children(process.pid)]:
                memory.setdefault(pid, []).extend(memory_of(pid))
            time.sleep(1)
        process.send_signal(signal.SIGTERM)
        process.wait()
        said.close()
        whole, before, after = grown([seen for seen in memory.values() if len(seen) > 20])
        flat = flat and whole and bool(memory)
        steps.append(last_step(metrics))
        print(
            f"big-corpus: trained by {processes}: first update after {ready:.0f} s, to update {steps[-1]:,};"
            f" a process has {before:.0f} MiB, then {after:.0f}",
            flush=True,
        )
        record(
            f"trained_by_{processes}",
            {"seconds_to_first": ready, "updates": steps[-1], "mib_before": before, "mib_after": after},
        )
        if not memory:
            print((folder / "train.log").read_text())
    return flat and steps[1] > steps[0] > 0


def memory_of(pid: int) -> list[float]:
    """The MiB of a process; nothing if it has ended."""
    with suppress(OSError, StopIteration):
        return [anonymous_mib(pid)]
    return []


def grown(memory: Sequence[Sequence[float]]) -> tuple[bool, float, float]:
    """Whether the memory of each process stayed flat; the most in the second fifth, and in the last."""
    found = []
    for seen in memory:
        fifth = len(seen) // 5
        if not fifth:
            continue
        found.append((statistics.median(seen[fifth : 2 * fifth]), statistics.median(seen[-fifth:])))
    flat = all(after <= before * SHARE + ROOM for before, after in found)
    return flat and bool(found), *(max((each[place] for each in found), default=0.0) for place in (0, 1))


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(each) for each in path.read_text().split()] if path.exists() else []


def lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def last_step(metrics: Path) -> int:
    records = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
    return max((each.get("step", 0) for each in records), default=0)


if __name__ == "__main__":
    main()
