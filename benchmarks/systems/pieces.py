"""The stored rows of the quality comparison: each training is stored when it is done.

A row of `results/quality.json`, or of the file of another processor, is one training: corpus, minutes,
system and seed; or, without a score, why there was none, which is tried again the next time.
"""

from collections.abc import Mapping
from typing import Any

from benchmarks.common import results
from benchmarks.common.machine import machine, now, versions
from benchmarks.common.results import Result, Table
from benchmarks.systems.significance import SIGNIFICANT

COLUMNS = {
    "minutes": ("CPU-minutes", "g"),
    "name": ("system", ""),
    "bleu": ("BLEU", ".1f"),
    "chrf": ("chrF", ".1f"),
    "against": ("regard is ahead by", ""),
    "cpu": ("CPU-minutes used", ".1f"),
    "wall": ("minutes", ".1f"),
    "others": ("cores of others", ".2f"),
    "updates": ("updates", ",d"),
    "seed": ("seed", "d"),
    "settings": ("", ""),
}
KEY = ("minutes", "name", "seed")


class Pieces:
    """The rows of all corpora; each change is written to disk at once."""

    def __init__(self, settings: Mapping[str, Any], *, quick: bool) -> None:
        self._quick = quick
        self.result = Result(part="quality", settings=dict(settings))
        self._reread()

    def done(self, corpus: str, minutes: float, name: str, seed: int) -> bool:
        row = self._found(corpus, {"minutes": minutes, "name": name, "seed": seed})
        return row is not None and "bleu" in row

    def store(self, corpus: str, row: Mapping[str, Any]) -> None:
        """Put the row into the corpus's table, in place of an earlier one of the same training."""
        self._reread()  # another process may have stored rows of its own
        table = self._table(corpus)
        old = self._found(corpus, row)
        if old is not None:
            table.rows.remove(old)
        table.rows.append(dict(row))
        table.rows.sort(key=_order)
        self.write()

    def rows(self, corpus: str, minutes: float, seed: int) -> list[dict[str, Any]]:
        """Those of one comparison that have a score."""
        wanted = {"minutes": minutes, "seed": seed}.items()
        return [row for row in self._table(corpus).rows if wanted <= row.items() and "bleu" in row]

    def write(self) -> None:
        result, own = self.result, versions()
        result.date, result.machine = now(), machine()
        result.versions = {name: own[name] for name in ("python", "sacrebleu")}
        for table in result.tables:
            for row in table.rows:
                result.versions |= row.get("versions", {})
        result.write(quick=self._quick)

    def note(self, notes: list[str]) -> None:
        """Set the notes below the last table."""
        for table in self.result.tables:
            table.notes = notes if table is self.result.tables[-1] else []
        self.write()

    def _reread(self) -> None:
        path = results.file_of("quality", machine()["cpu"], quick=self._quick)
        if path.exists():
            self.result = results.read(path)

    def _table(self, corpus: str) -> Table:
        for table in self.result.tables:
            if table.title == corpus:
                return table
        self.result.tables.append(Table(title=corpus, columns=COLUMNS))
        return self.result.tables[-1]

    def _found(self, corpus: str, row: Mapping[str, Any]) -> dict[str, Any] | None:
        wanted = [row[key] for key in KEY]
        rows = self._table(corpus).rows
        return next((one for one in rows if [one[key] for key in KEY] == wanted), None)


def difference(bleu: float, p: float) -> str:
    """The difference as the table shows it, with an asterisk if it is significant."""
    return f"{bleu:+.1f}{'*' if p < SIGNIFICANT else ''} (p = {p:.3f})"


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["minutes"], -row.get("bleu", -1.0), row["name"], row["seed"]
