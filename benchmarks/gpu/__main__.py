"""Runs the checks and benchmarks of a GPU; a piece that is done is not done again.

    python -m benchmarks.gpu [check|bench|recipe|table ...] [--device cuda] [--results FOLDER]
                              [--seconds S] [--tiny]

Results are written to FOLDER/CARD.json after each piece, and at the end as tables into docs/performance.md.
Without names it runs all groups. A piece is done again if it failed, or if PyTorch or the sources changed.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.common.machine import machine, now, versions
from benchmarks.gpu.card import card_name, file_name
from benchmarks.gpu.pieces import CHECK, GROUPS, Piece, pieces
from benchmarks.gpu.table import fill_page

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "gpu"
SHOWN = 15  # last lines of a failed piece
TABLE = "table"


def sources() -> str:
    """A digest of the program and of what runs here."""
    digest = hashlib.sha256(torch.__version__.encode())
    for folder in (
        "src/regard",
        "benchmarks/gpu",
        "tests/laws",
        "tests/layers",
        "tests/training",
        "tests/fast",
    ):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def run(piece: Piece, device: str) -> dict[str, Any]:
    """The record of a piece that ran: how it ended, and its rows."""
    paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "REGARD_DEVICE": device, "PYTHONPATH": os.pathsep.join(paths)}
    if piece.group == CHECK:  # many processes of tests, whose threads would wait for each other
        environment.setdefault("OMP_NUM_THREADS", "1")
    began = time.perf_counter()
    try:
        done = subprocess.run(
            piece.command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=60 * piece.minutes,
        )  # fmt: skip
        code, text = done.returncode, done.stdout
    except subprocess.TimeoutExpired as expired:
        said = expired.stdout or b""
        code, text = 124, said.decode(errors="replace") if isinstance(said, bytes) else said
    lines = text.strip().splitlines()
    record: dict[str, Any] = {
        "group": piece.group,
        "state": "done" if code == 0 else f"failed ({code})",
        "seconds": round(time.perf_counter() - began, 1),
        "sources": sources(),
        "last": lines[-1] if lines else "",
    }
    if code:
        record["output"] = lines[-SHOWN:]
    elif piece.measures:
        record |= {"last": "", **json.loads(lines[-1])}
    return record


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, TABLE, []], help="by default all")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--tiny", action="store_true", help="sizes for a CPU, to try the programs")
    parser.add_argument("--seconds", type=float, help="of training, for each contender")
    asked = parser.parse_args()
    device = torch.device(asked.device)
    if asked.groups == [TABLE]:
        fill_page(asked.results)
        return 0
    if device.type == "cuda" and not torch.cuda.is_available():
        print(f"error: PyTorch {torch.__version__} sees no GPU here", file=sys.stderr)
        print("hint: give a Python that has a CUDA build: make gpu PYTHON=/path/to/python", file=sys.stderr)
        return 2
    asked.results.mkdir(parents=True, exist_ok=True)
    path = asked.results / f"{file_name(card_name(device))}.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {"pieces": {}}
    here = sources()
    for piece in pieces(asked.device, tiny=asked.tiny, seconds=asked.seconds):
        if asked.groups and piece.group not in asked.groups:
            continue
        before = found["pieces"].get(piece.name, {})
        if before.get("state") == "done" and before.get("sources") == here:
            print(f"{piece.name}: done before", flush=True)
            continue
        print(f"{piece.name}: at most {piece.minutes:g} minutes", flush=True)
        record = run(piece, asked.device)
        print(
            "\n".join([f"{piece.name}: {record['state']}, {record['seconds']} s", *record.get("output", [])])
        )
        found |= {"card": card_name(device), "date": now(), "machine": machine(), "versions": versions()}
        found["pieces"][piece.name] = record
        path.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    if not asked.tiny:
        fill_page(asked.results)
    wanted = [each for each in pieces(asked.device) if not asked.groups or each.group in asked.groups]
    return int(any(found["pieces"].get(each.name, {}).get("state") != "done" for each in wanted))


if __name__ == "__main__":
    sys.exit(main())
