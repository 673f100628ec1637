"""A tokenised corpus: the parts of a job, which training reads again and again, a few at a time."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from regard.data.checksums import dump_with_checksum, load_with_checksum
from regard.errors import DataError
from regard.jobs.part_record import PartRecord, output_name, read_record, recorded
from regard.jobs.plan import PLAN, TOKENS, Plan, read_plan
from regard.jobs.storage import Storage, at_once

Part = TypeVar("Part")
READERS = 4  # parts that are read at a time
PART_FACTS = ("part", "size", "sha256", "counts")  # of a record


@dataclass(frozen=True, kw_only=True)
class TokenPartFacts:
    """What is known of a part: the number of its bytes, and counts of its pairs and tokens."""

    part: int
    size: int
    sha256: str
    counts: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class TokenIndex:
    """The parts of a tokenised corpus that is complete; `plan`: the SHA-256 of its plan."""

    plan: str
    parts: Sequence[TokenPartFacts]

    def numbers(self, count: str) -> list[int]:
        """What is counted under this name, in each part."""
        return [each.counts[count] for each in self.parts]

    @property
    def totals(self) -> Counter[str]:
        """The counts of all parts, added up; of the longest sides the longest."""
        totals = Counter[str]()
        for each in self.parts:
            for name, value in each.counts.items():
                totals[name] = (
                    max(totals[name], value) if name.startswith("longest") else totals[name] + value
                )
        return totals

    def digest(self) -> str:
        """A SHA-256 that changes with any part."""
        return hashlib.sha256(
            "\n".join([self.plan, *(each.sha256 for each in self.parts)]).encode()
        ).hexdigest()


def token_index(storage: Storage, file: Path) -> tuple[Plan, TokenIndex]:
    """The plan of a tokenised corpus, and its index, which is kept in `file`: there may be many records.

    Raises:
        DataError: it is not complete, or no tokenised corpus.
    """
    plan = read_plan(storage)
    if plan.format != TOKENS:
        raise DataError(
            f"{storage.url} is the output of `regard {plan.command}`, no tokenised corpus",
            "`regard data tokenize` writes one",
        )
    digest = hashlib.sha256(storage.read(PLAN) or b"").hexdigest()
    if file.is_file():
        try:
            table = load_with_checksum(file.read_text("utf-8"))
            index = TokenIndex(plan=table["plan"], parts=[TokenPartFacts(**each) for each in table["parts"]])
        except (ValueError, KeyError, TypeError):
            file.unlink()  # it is made again
        else:
            if index.plan == digest:
                return plan, index
    index = TokenIndex(plan=digest, parts=[_facts(each) for each in _records(plan, storage)])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dump_with_checksum(asdict(index)), "utf-8")
    return plan, index


def _records(plan: Plan, storage: Storage) -> list[PartRecord]:
    parts = [part.number for part in plan.parts()]
    if missing := sorted(set(parts) - recorded(storage)):
        raise DataError(
            f"{storage.url}: {len(missing)} of {len(parts)} parts are not tokenised, the first is part"
            f" {missing[0]}",
            "run the shards' commands again; `regard jobs status` lists what is missing",
        )
    return at_once(lambda part: read_record(storage, part), parts)


def _facts(record: PartRecord) -> TokenPartFacts:
    table: dict[str, Any] = {name: getattr(record, name) for name in PART_FACTS}
    return TokenPartFacts(**table)


class PartReader(Generic[Part]):
    """Parts in memory: those that are read now, and those that come next, on their way in the background.

    Args:
        opened: makes a part of the bytes of a file and its name.
    """

    def __init__(self, storage: Storage, index: TokenIndex, opened: Callable[[bytes, str], Part]) -> None:
        self._storage, self._facts, self._opened = storage, index.parts, opened
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="parts")
        self._parts: dict[int, Future[Part]] = {}

    def reads(self, now: Sequence[int], following: Sequence[int]) -> None:
        """Begin to read what is needed, `now` first, and drop what is not."""
        wanted = [*now, *following]
        for number in self._parts.keys() - set(wanted):
            self._parts.pop(number).cancel()
        for number in wanted:
            if number not in self._parts:
                self._parts[number] = self._pool.submit(self._read, number)

    def part(self, number: int) -> Part:
        """A part, which is waited for.

        Raises:
            DataError: it is missing or damaged. RunError: the store failed again and again.
        """
        if number not in self._parts:
            self._parts[number] = self._pool.submit(self._read, number)
        return self._parts[number].result()

    def _read(self, number: int) -> Part:
        facts = self._facts[number]
        name = output_name(facts.part, "safetensors")
        try:
            content = b"".join(self._storage.pieces(name, facts.size))
        except FileNotFoundError:
            raise DataError(
                f"{self._storage.url}/{name} is missing", "`regard jobs verify` lists what is"
            ) from None
        if hashlib.sha256(content).hexdigest() != facts.sha256:
            raise DataError(
                f"{self._storage.url}/{name} was changed after it was written: its SHA-256 differs",
                "remove its record (.json), and run `regard data tokenize` again",
            )
        return self._opened(content, f"{self._storage.url}/{name}")
