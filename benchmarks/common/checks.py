"""The figures of the long checks: a JSON file for each check, with date and machine of each of its parts."""

import argparse
import json
from dataclasses import dataclass
from typing import Any

from benchmarks.common.machine import machine, now
from benchmarks.common.results import FOLDER

Found = tuple[str, dict[str, Any]]  # what a part of a check says, and its figures by name


@dataclass(frozen=True)
class Record:
    """Writes the figures of a part of a check into `benchmarks/results/checks/`, if the check runs in full.

    `docs/figures/` says which pages show them; `tools/figures.py` writes them there.
    """

    check: str
    full: bool

    def __call__(self, part: str, figures: dict[str, Any]) -> None:
        if not self.full:
            return
        path = FOLDER / "checks" / f"{self.check}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        found = json.loads(path.read_text("utf-8")) if path.exists() else {}
        own = machine()
        found[part] = {
            "source": "measured",
            "date": now(),
            "machine": f"{own['cpu']}, {own['cores']} cores, load before {own['load_before']}",
            **figures,
        }
        path.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


def record_of(check: str, parser: argparse.ArgumentParser, options: argparse.Namespace) -> Record:
    """Records in full only a check whose options are the defaults; `--only` may choose a part."""
    chosen = {name: value for name, value in vars(options).items() if name != "only"}
    return Record(check, all(value == parser.get_default(name) for name, value in chosen.items()))
