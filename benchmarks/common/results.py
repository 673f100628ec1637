"""The results of a benchmark: a JSON file with machine, date and the data of its tables."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.common.machine import machine, now, versions

FOLDER = Path(__file__).parent.parent / "results"


@dataclass(kw_only=True)
class Table:
    """Rows of values under named columns. `columns`: key -> (heading, format of its numbers)."""

    title: str
    columns: Mapping[str, Sequence[str]]
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        lines = [
            f"**{self.title}**",
            "",
            _line(heading for heading, _ in self.columns.values()),
            _line("---" if key == next(iter(self.columns)) else "---:" for key in self.columns),
            *(
                _line(_shown(row.get(key), form) for key, (_, form) in self.columns.items())
                for row in self.rows
            ),
        ]
        return "\n".join([*lines, *([""] if self.notes else []), *(f"- {note}" for note in self.notes)])


@dataclass(kw_only=True)
class Result:
    """All results of a benchmark."""

    part: str
    settings: dict[str, Any]
    tables: list[Table] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)  # sentences that report whether the work was equal
    date: str = field(default_factory=now)
    machine: dict[str, Any] = field(default_factory=machine)
    versions: dict[str, str] = field(default_factory=versions)

    def write(self, *, quick: bool) -> Path:
        """Write the file; where there are results of another processor, into a folder of this one's name."""
        path = file_of(self.part, self.machine["cpu"], quick=quick)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", "utf-8")
        return path

    def markdown(self) -> str:
        checks = "\n".join(f"- {check}" for check in self.checks)
        parts = [self.heading(), *(table.markdown() for table in self.tables)]
        return "\n\n".join([*parts, *([f"Equal work:\n\n{checks}"] if checks else [])])

    def heading(self) -> str:
        units = f" ({', '.join(self.machine['units'])})" if self.machine["units"] else ""
        packages = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        settings = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        return (
            f"{self.date}; {self.machine['cpu']}, {self.machine['cores']} cores{units},"
            f" {self.machine['memory_gib']} GiB; load before {self.machine['load_before']}; {packages}."
            f" Settings: {settings}."
        )


def file_of(part: str, cpu: str, *, quick: bool) -> Path:
    """The file of a processor's results: in a folder of its name where there are another's."""
    name = f"{part}{'-quick' if quick else ''}.json"
    path = FOLDER / name
    if quick or not path.is_file() or read(path).machine["cpu"] == cpu:
        return path
    return FOLDER / re.sub(r"\W+", "-", cpu.lower()).strip("-") / name


def read(path: Path) -> Result:
    found = json.loads(path.read_text("utf-8"))
    tables = [Table(**table) for table in found.pop("tables")]
    return Result(tables=tables, **found)


def _line(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def _shown(value: Any, form: str) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else format(value, form)
