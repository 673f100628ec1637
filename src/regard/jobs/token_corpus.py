"""A tokenised corpus: the parts of a job, which training reads again and again, a few at a time."""

import hashlib
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Generic, TypeVar

from regard.data.checksums import dump_with_checksum, load_with_checksum
from regard.errors import DataError, RunError
from regard.jobs.part_record import output_name, read_record, recorded
from regard.jobs.plan import PLAN, TOKENS, Plan, read_plan
from regard.jobs.storage import Storage, at_once

Part = TypeVar("Part")
READERS = 4  # parts that are read at a time


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
    index = TokenIndex(plan=digest, parts=_parts_of(plan, storage))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dump_with_checksum(asdict(index)), "utf-8")
    return plan, index


def _parts_of(plan: Plan, storage: Storage) -> list[TokenPartFacts]:
    parts = [part.number for part in plan.parts()]
    if missing := sorted(set(parts) - recorded(storage)):
        raise DataError(
            f"{storage.url}: {len(missing)} of {len(parts)} parts are not tokenised, the first is part"
            f" {missing[0]}",
            "run the shards' commands again; `regard jobs status` lists what is missing",
        )

    def facts(part: int) -> TokenPartFacts:
        record = read_record(storage, part)  # which may name many lines that failed
        return TokenPartFacts(part=part, size=record.size, sha256=record.sha256, counts=record.counts)

    return at_once(facts, parts)


class PartReader(Generic[Part]):
    """Parts in memory: those that are read now, and those that come next, on their way in the background.

    Args:
        opened: makes a part of the bytes of a file and its name.
    """

    def __init__(self, storage: Storage, index: TokenIndex, opened: Callable[[bytes, str], Part]) -> None:
        self._storage, self._facts, self._opened = storage, index.parts, opened
        self._parts: dict[int, Future[Part]] = {}
        self._coming: deque[int] = deque()  # parts that are needed, and not being read yet
        self._lock = threading.Lock()

    def reads(self, now: Sequence[int], following: Sequence[int]) -> None:
        """Keep these parts and no others, and begin to read them; `now` is needed first."""
        wanted = [*now, *following]
        with self._lock:
            self._parts = {number: self._parts[number] for number in wanted if number in self._parts}
            self._coming = deque(number for number in wanted if number not in self._parts)
        self._read_ahead()

    def part(self, number: int) -> Part:
        """A part, which is waited for.

        Raises:
            DataError: it is missing or damaged. RunError: the store failed again and again.
        """
        with self._lock:
            future = self._parts.get(number)
            if future is None:
                with suppress(ValueError):
                    self._coming.remove(number)
                future = self._begin(number)
        try:
            return future.result()
        except RunError:  # perhaps long ago, in the background
            with self._lock:
                future = self._begin(number)
            return future.result()

    def _read_ahead(self) -> None:
        """Begin to read what is needed, READERS parts at a time, so that no more are under way at the end."""
        with self._lock:
            under_way = sum(not future.done() for future in self._parts.values())
            while self._coming and under_way < READERS:
                self._begin(self._coming.popleft())
                under_way += 1

    def _begin(self, number: int) -> Future[Part]:
        """Read a part in a thread; when it is there, the next one's turn has come."""
        future: Future[Part] = Future()
        self._parts[number] = future
        here = weakref.ref(self)

        def read() -> None:
            reader = here()
            if reader is None:
                return
            try:
                future.set_result(reader._read(number))
            except BaseException as error:  # noqa: BLE001 (raised where the part is needed)
                future.set_exception(error)
            del reader
            if (reader := here()) is not None:  # else nobody waits for the others
                reader._read_ahead()

        threading.Thread(target=read, name=f"part {number}", daemon=True).start()
        return future

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
