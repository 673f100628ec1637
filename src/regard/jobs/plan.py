"""The plan of a job: which lines of which files belong to which part.

A part is a range of bytes of one file; of a compressed file, some or all of its members. The output of a part
depends only on its lines, so any process may compute it, even twice, with the same result.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from regard.errors import DataError, did_you_mean
from regard.jobs.cuts import divided, refuse_odd_tables
from regard.jobs.inputs import InputFile
from regard.jobs.storage import Storage, at_once
from regard.jobs.tables import TableColumns, TableKind, table_kind

PLAN = "plan.json"
DIGEST = re.compile("[0-9a-f]{64}")  # SHA-256
FORMAT_VERSION = 1
TOKENS, TOKENS_SUFFIX = "tokens", "safetensors"
MIB = 1 << 20
# Of a part, unless its size is given: a 64th of the input, so that a process that is killed loses little of a
# small one. Lines are sorted by length within 1,024 of them or a part, so smaller parts decode more padding.
LARGEST_PART, SMALLEST_PART, PARTS_OF_SMALL = 4 * MIB, MIB // 64, 64
KEYS = (
    "format_version",
    "command",
    "version",
    "model",
    "model_path",
    "settings",
    "format",
    "columns",
    "part_bytes",
    "inputs",
)


@dataclass(frozen=True, kw_only=True)
class Part:
    """The lines of a file from byte `begin` to `end` (see `read_piece`); parts are numbered from 0."""

    number: int
    file: InputFile
    begin: int
    end: int

    @property
    def size(self) -> int:
        """The number of bytes as stored, which may be compressed."""
        return self.end - self.begin


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a job does: the same for all processes that work on it.

    `model`: a hash of the model folder. `model_path`: that of the process that wrote the plan, for messages.
    `settings`: what else the output depends on. `format`: that of an
    output line: "text", "ranked" (LINE, SCORE, TEXT) or "json"; or "tokens" for a tokenised corpus.
    """

    command: str
    version: str  # of regard
    model: str
    settings: Mapping[str, Any]
    format: str
    inputs: Sequence[InputFile]
    # of an input as it is stored; None: that of the plan in the folder, or by the size of the inputs
    part_bytes: int | None
    columns: TableColumns | None = None  # of tables
    model_path: str = ""

    @property
    def table(self) -> TableKind | None:
        """The kind of table that inputs and outputs are; None if they are lines."""
        return None if self.columns is None or not self.inputs else table_kind(self.inputs[0].url)

    @property
    def suffix(self) -> str:
        """The suffix of the names of output files."""
        return TOKENS_SUFFIX if self.format == TOKENS else self.table or "txt"

    def parts(self) -> Iterator[Part]:
        """All parts, in the order of their lines."""
        number, part_bytes = 0, self.part_bytes or _part_bytes(self.format, self.inputs)
        for file in self.inputs:
            for begin, end in file.ranges(part_bytes):
                yield Part(number=number, file=file, begin=begin, end=end)
                number += 1

    def parts_of(self, shard: int, shards: int) -> Iterator[Part]:
        """The parts of shard `shard` (from 1) of `shards`: every `shards`-th part."""
        return (part for part in self.parts() if part.number % shards == shard - 1)

    def to_dict(self) -> dict[str, Any]:
        """The content of `plan.json`."""
        return {
            "format_version": FORMAT_VERSION,
            "command": self.command,
            "version": self.version,
            "model": self.model,
            "model_path": self.model_path,
            "settings": dict(self.settings),
            "format": self.format,
            "columns": None if self.columns is None else asdict(self.columns),
            "part_bytes": self.part_bytes,
            "inputs": [file.to_dict() for file in self.inputs],
        }

    def agreed(self, storage: Storage) -> "Plan":
        """The plan in the output folder, which must agree with this one; it is written if there is none.

        The process that writes it decides at which bytes compressed files and Parquet files are cut.

        Raises:
            DataError: the folder belongs to another job, or a table lacks the columns.
        """
        if storage.read(PLAN) is None:
            if self.columns is not None:
                refuse_odd_tables(self.inputs, self.columns)
            part_bytes = self.part_bytes or _part_bytes(self.format, self.inputs)
            inputs = at_once(lambda file: divided(file, part_bytes), self.inputs)
            planned = replace(self, inputs=inputs, part_bytes=part_bytes)
            if storage.create(PLAN, json.dumps(planned.to_dict(), indent=1, ensure_ascii=False).encode()):
                return planned
        there = read_plan(storage)
        mine = replace(self, part_bytes=self.part_bytes or there.part_bytes)
        if found := _difference(there._uncut(), mine._uncut()):
            raise DataError(f"{storage.url} is the output of another job: {found}", "choose another --output")
        return there

    def _uncut(self) -> dict[str, Any]:
        return replace(self, inputs=[replace(file, cuts=()) for file in self.inputs]).to_dict()


def read_plan(storage: Storage) -> Plan:
    """The plan of an output folder.

    Raises:
        DataError: it has none, or one that this version cannot read.
    """
    content = storage.read(PLAN)
    if content is None:
        what = f"has no {PLAN}" if storage.exists else "does not exist"
        raise DataError(f"{storage.url} {what}", "give the --output of a command with --shard")
    where = f"{storage.url}/{PLAN}"
    try:
        table = json.loads(content)
        if not isinstance(table, dict):
            raise TypeError("not an object")
        if table.get("format_version") != FORMAT_VERSION:
            raise DataError(
                f"{where} has format {table.get('format_version')}, this version of regard reads"
                f" {FORMAT_VERSION}",
                "install the version that wrote it",
            )
        if "tasks" in table:
            raise DataError(
                f"{where} is that of `regard {table.get('command')}`, whose results are scores, not lines",
                f"`regard jobs status {storage.url}` prints them",
            )
        if unknown := sorted(table.keys() - set(KEYS)):
            raise DataError(f"{where}: unknown key {unknown[0]!r}", did_you_mean(unknown[0], KEYS))
        del table["format_version"]
        columns = table.get("columns")
        table["columns"] = (
            None if columns is None else TableColumns(**{**columns, "texts": tuple(columns["texts"])})
        )
        return Plan(**{**table, "inputs": list(map(InputFile.from_dict, table["inputs"]))})
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"{where} is damaged ({error})", "remove it and run the command again") from error


def part_bytes(megabytes: int | float | None) -> int | None:
    """The size of a part in bytes, from that in megabytes; None if none was given."""
    return None if megabytes is None else round(megabytes * MIB)


def _part_bytes(format: str, inputs: Sequence[InputFile]) -> int:
    """The size of a part where none was given; tokens are fast to compute, and read part by part."""
    if format == TOKENS:
        return LARGEST_PART
    share = sum(file.size for file in inputs) // PARTS_OF_SMALL
    return min(LARGEST_PART, max(SMALLEST_PART, share))


def _difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """The first difference of two plans; empty if there is none."""
    names = {table["model"]: table["model_path"] for table in (there, here) if table["model_path"]}
    for key in KEYS:
        old, new = there[key], here[key]
        if key == "model_path":
            continue
        if key in ("settings", "columns"):
            old, new = old or {}, new or {}
            changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
            if changed:
                return difference(changed[0], old.get(changed[0]), new.get(changed[0]), names)
        elif key == "inputs" and old != new:
            return _difference_of_inputs(old, new)
        elif key == "part_bytes" and old != new:
            return f"--part-megabytes was {old / MIB:g}, and is {new / MIB:g}"
        elif old != new:
            return difference(key, old, new, names)
    return ""


def difference(key: str, old: Any, new: Any, names: Mapping[str, str]) -> str:
    """The difference of two values in words; `names`: what digests among them are of."""
    before, after = _named(old, names), _named(new, names)
    if before == after or all(isinstance(each, str) and DIGEST.fullmatch(each) for each in (before, after)):
        return f"{key}{f' {after!r}' * (after != new)} has changed"
    return f"{key} was {before!r}, and is {after!r}"


def _named(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_named(each, names) for each in cast(list[Any], value)]
    return names.get(value, value) if isinstance(value, str) else value


def _difference_of_inputs(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> str:
    for before, now in zip(old, new, strict=False):
        if before["url"] != now["url"]:
            return f"its input was {before['url']}, and is {now['url']}"
        if before != now:
            return f"{now['url']} has changed"
    return f"it had {len(old)} inputs, and has {len(new)}"
