"""The outputs of all parts of a job as one file."""

import gzip
import json
from collections.abc import Callable, Iterator
from typing import Any

from regard.errors import DataError
from regard.jobs.part_record import output_name, read_record, recorded
from regard.jobs.plan import Plan
from regard.jobs.storage import Storage, naming, open_filesystem

NUMBERED: dict[str, Callable[[str, int], str]]


def merge(plan: Plan, storage: Storage, target: str) -> int:
    """Write the output of all parts, in order; compressed if `target` ends with .gz. Returns the lines.

    Line numbers, which begin at 1 in each part, become those of the whole.

    Raises:
        DataError: a part is missing or damaged, or the file exists.
    """
    parts = list(plan.parts())
    if missing := sorted({part.number for part in parts} - recorded(storage)):
        raise DataError(
            f"{len(missing)} of {len(parts)} parts are not done, the first is part {missing[0]}",
            "run the shards' commands again; `regard jobs status` lists what is missing",
        )
    files, path = open_filesystem(target)
    with naming(target):
        if files.exists(path):
            raise DataError(f"{target} exists", "choose another file, or remove it")
        parent = path.rpartition("/")[0]
        partial = f"{path}.partial"
        if parent:
            files.makedirs(parent, exist_ok=True)
        lines = 0
        with files.open(partial, "wb") as plain:
            # without a time, so that equal outputs are equal files
            file: Any = gzip.GzipFile("", "wb", fileobj=plain, mtime=0) if path.endswith(".gz") else plain
            for part in parts:
                count, content = _content(plan, storage, part.number, lines)
                file.write(content)
                lines += count
            if file is not plain:
                file.close()
        files.mv(partial, path)
    return lines


def _content(plan: Plan, storage: Storage, number: int, before: int) -> tuple[int, bytes]:
    record, content = read_record(storage, number), storage.read(output_name(number))
    if content is None or not record.is_of(content):
        raise DataError(
            f"{storage.url}/{output_name(number)} is not what was recorded",
            "remove its record (.json), and run the shard's command again",
        )
    if plan.format == "text" or not before:
        return record.lines, content
    renumbered = NUMBERED[plan.format]
    text = content.decode("utf-8")
    return record.lines, "".join(renumbered(line, before) for line in _lines(text)).encode("utf-8")


def _lines(text: str) -> Iterator[str]:
    """The lines, each with its line feed; other separators belong to them."""
    yield from (f"{line}\n" for line in text.removesuffix("\n").split("\n")) if text else ()


def _of_json(line: str, before: int) -> str:
    table = json.loads(line)
    return json.dumps({**table, "line": table["line"] + before}, ensure_ascii=False) + "\n"


def _of_ranked(line: str, before: int) -> str:
    number, _, rest = line.partition("\t")
    return f"{int(number) + before}\t{rest}"


NUMBERED = {"json": _of_json, "ranked": _of_ranked}
