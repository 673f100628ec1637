"""Translated files that wait to be fetched: in memory, for a while, under names that nobody can guess."""

import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass

SECONDS = 600  # that a file is kept
MOST_BYTES = 20_000_000  # of all files together; the oldest leave first


@dataclass(frozen=True, kw_only=True)
class KeptFile:
    """A file; `characters`: of the source."""

    name: str
    content: bytes
    characters: int
    made: float


class KeptFiles:
    """Files by their ids."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, KeptFile] = OrderedDict()

    def keep(self, name: str, text: str, characters: int) -> str:
        """Keep a text file; returns its id."""
        self._drop_old()
        content = text.encode("utf-8", "surrogatepass")
        while self._files and self._bytes() + len(content) > MOST_BYTES:
            self._files.popitem(last=False)
        identifier = secrets.token_hex(20)
        self._files[identifier] = KeptFile(
            name=name, content=content, characters=characters, made=time.monotonic()
        )
        return identifier

    def get(self, identifier: str) -> KeptFile | None:
        """The file of this id, if it is kept."""
        self._drop_old()
        return self._files.get(identifier)

    def _bytes(self) -> int:
        return sum(len(each.content) for each in self._files.values())

    def _drop_old(self) -> None:
        old = time.monotonic() - SECONDS
        for identifier in [name for name, file in self._files.items() if file.made < old]:
            del self._files[identifier]
