"""The glossaries of a server: in memory and, if it has a folder for them, a file for each.

The names of the files are ids that the server makes; no part of a request becomes a path. The folder is read
when the server starts. All clients of a server have the same glossaries, whatever their keys.
"""

import re
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from regard.errors import DataError, FolderError
from regard.serving.http_error import HttpProblem
from regard.verbs.generation.glossary import Dictionary, read_entries
from regard.weights.folder import replace_file

MOST = 1000  # glossaries
MOST_ENTRIES = 200_000  # of all together: about 50 MB of memory
MOST_BYTES = 20_000_000  # of all terms together
MOST_DICTIONARIES = 100  # of a glossary
APART = timedelta(milliseconds=1)  # the times of two glossaries, at least
NAME_BYTES = 1024
FILE = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.json")

Languages = tuple[str, str]  # source and target, as "en", "de"


@dataclass(frozen=True, kw_only=True)
class Glossary:
    """A glossary: a dictionary for each of its pairs of languages."""

    id: str
    name: str
    created: str  # ISO 8601
    dictionaries: Mapping[Languages, Dictionary]

    @property
    def entries(self) -> int:
        return sum(len(each.entries) for each in self.dictionaries.values())

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.dictionaries.values())


class GlossaryStore:
    """Glossaries by their ids. Several threads may use it; who reads does not wait for who writes.

    Args:
        folder: where they are kept; None: in memory, until the server ends.

    Raises:
        FolderError: the folder cannot be read, or a file in it is not a glossary.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._glossaries: dict[str, Glossary] = {}
        self._latest = datetime.min.replace(tzinfo=UTC)
        if folder is not None:
            found = [_read(file) for file in _files(folder)]
            self._glossaries = {each.id: each for each in sorted(found, key=lambda each: each.created)}

    def all(self) -> list[Glossary]:
        """All glossaries, oldest first."""
        return list(self._glossaries.values())

    def get(self, identifier: str) -> Glossary:
        """The glossary of this id.

        Raises:
            HttpProblem: there is none.
        """
        found = self._glossaries.get(identifier)
        if found is None:
            raise HttpProblem(404, "there is no such glossary", "list the glossaries", code="not_found")
        return found

    def create(self, name: str, dictionaries: Mapping[Languages, Dictionary]) -> Glossary:
        """A new glossary.

        Raises:
            HttpProblem: there is no room, or the name is wrong. RunError: it cannot be written.
        """
        with self._lock:  # all times differ, so that their order is the same after a restart
            self._latest = max(datetime.now(UTC), self._latest + APART)
        created = self._latest.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        made = Glossary(
            id=str(uuid.uuid4()), name=_checked_name(name), created=created, dictionaries=dictionaries
        )
        with self._lock:
            self._put(made)
        return made

    def change(
        self,
        identifier: str,
        *,
        name: str | None = None,
        merged: Mapping[Languages, Dictionary] | None = None,
        replaced: Mapping[Languages, Dictionary] | None = None,
        removed: Languages | None = None,
    ) -> Glossary:
        """A glossary with another name, with more entries, other dictionaries, or without one.

        Raises:
            HttpProblem: as in `create`, or there is no such glossary or dictionary.
        """
        with self._lock:
            old = self.get(identifier)
            dictionaries = dict(old.dictionaries)
            if removed is not None:
                dictionary_of(old, removed)
                del dictionaries[removed]
            for languages, more in (merged or {}).items():
                known = dictionaries[languages].entries if languages in dictionaries else {}
                dictionaries[languages] = Dictionary({**known, **more.entries})
            dictionaries |= replaced or {}
            new = replace(
                old, name=old.name if name is None else _checked_name(name), dictionaries=dictionaries
            )
            self._put(new)
            return new

    def delete(self, identifier: str) -> None:
        """Remove a glossary, and its file.

        Raises:
            HttpProblem: there is none.
        """
        with self._lock:
            known = self.get(identifier)
            if self._folder is not None:
                (self._folder / f"{known.id}.json").unlink(missing_ok=True)
            self._glossaries = {key: each for key, each in self._glossaries.items() if key != known.id}

    def _put(self, glossary: Glossary) -> None:
        """Keep a glossary, if there is room for it beside the others."""
        others = [each for each in self._glossaries.values() if each.id != glossary.id]
        if len(glossary.dictionaries) > MOST_DICTIONARIES:
            raise _full(f"a glossary may have {MOST_DICTIONARIES} dictionaries")
        if len(others) >= MOST:
            raise _full(f"there are {MOST:,} glossaries, the most that this server keeps")
        if glossary.entries + sum(each.entries for each in others) > MOST_ENTRIES:
            raise _full(f"all glossaries together may have {MOST_ENTRIES:,} entries")
        if glossary.bytes + sum(each.bytes for each in others) > MOST_BYTES:
            raise _full(f"all glossaries together may have {MOST_BYTES:,} bytes")
        if self._folder is not None:
            replace_file(self._folder / f"{glossary.id}.json", _content(glossary))
        self._glossaries = {**self._glossaries, glossary.id: glossary}


def dictionary_of(glossary: Glossary, languages: Languages) -> Dictionary:
    """The dictionary of a pair of languages.

    Raises:
        HttpProblem: the glossary has none.
    """
    found = glossary.dictionaries.get(languages)
    if found is None:
        known = ", ".join(f"{source} to {target}" for source, target in glossary.dictionaries)
        raise HttpProblem(
            404,
            f"the glossary has no dictionary of {languages[0][:20]} to {languages[1][:20]}",
            f"it has {known or 'none'}",
            code="not_found",
        )
    return found


def _checked_name(name: str) -> str:
    if not name.strip() or not name.isprintable() or len(name.encode()) > NAME_BYTES:
        raise HttpProblem(
            400,
            f"the name of a glossary has from 1 to {NAME_BYTES:,} bytes, and no control characters",
            "send another name",
            parameter="name",
        )
    return name


def _full(message: str) -> HttpProblem:
    return HttpProblem(456, message, "delete a glossary", code="quota_exceeded")  # 456: DeepL's own


class _Entries(msgspec.Struct, forbid_unknown_fields=True):
    source_lang: str
    target_lang: str
    entries: str


class _File(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    created: str
    dictionaries: list[_Entries]


def _content(glossary: Glossary) -> bytes:
    dictionaries = [
        _Entries(source_lang=source, target_lang=target, entries=each.tsv())
        for (source, target), each in glossary.dictionaries.items()
    ]
    stored: Any = _File(name=glossary.name, created=glossary.created, dictionaries=dictionaries)
    return msgspec.json.format(msgspec.json.encode(stored)) + b"\n"


def _files(folder: Path) -> list[Path]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [file for file in sorted(folder.iterdir()) if FILE.fullmatch(file.name)]
    except OSError as error:
        raise FolderError(f"--glossaries {folder}: {error.strerror}", "name a folder") from None


def _read(file: Path) -> Glossary:
    try:
        stored = msgspec.json.decode(file.read_bytes(), type=_File)
        dictionaries = {
            (each.source_lang, each.target_lang): read_entries(
                each.entries, "tsv", (each.source_lang, each.target_lang)
            )
            for each in stored.dictionaries
        }
        name = _checked_name(stored.name)
    except OSError as error:
        raise FolderError(f"{file}: {error.strerror}", "make it readable, or remove it") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, DataError, HttpProblem) as error:
        raise FolderError(f"{file} is not a glossary of regard serve: {error}", "remove it") from None
    return Glossary(id=file.stem, name=name, created=stored.created, dictionaries=dictionaries)
