"""The files that `regard new` was given, by their use; what is no text is refused before it is read."""

import gzip
import itertools
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.corpus import locate
from regard.errors import DataError, RecipeError

HEAD = 1 << 16  # bytes that tell whether a file is text

Files = str | Path | Sequence[str | Path]


@dataclass(frozen=True, kw_only=True)
class InputFiles:
    """Files to train on, to validate on and to test on; one or two of each, as they were named."""

    train: tuple[str, ...]
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()

    def parts(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The uses that have files."""
        return ((part, files) for part in ("train", "valid", "test") if (files := getattr(self, part)))

    def path(self, part: str) -> Path:
        """The file of a use that has one."""
        return found(getattr(self, part)[0])


def given_files(train: Files, valid: Files = (), test: Files = ()) -> InputFiles:
    """The files, each of which is there and text.

    Raises:
        DataError: one is missing, empty, a folder or no text, or stands twice.
        RecipeError: there are more than two of one use.
    """
    given = InputFiles(train=_names(train), valid=_names(valid), test=_names(test))
    for part, files in given.parts():
        if len(files) > 2:
            raise RecipeError(
                f"{len(files)} files for {part}, not one or two", "join them first: cat A B > C"
            )
        for file in files:
            _refuse_other_than_text(found(file))
    named = [file for _, files in given.parts() for file in files]
    for one, other in itertools.combinations(named, 2):
        if found(one).samefile(found(other)):
            raise DataError(f"{one} is given twice", "give each file once: one file has one use")
    return given


def found(file: str) -> Path:
    """The file that was named: a path, or NAME:FILE of the catalogue."""
    return locate(file, Path(), once=True)


def _names(files: Files) -> tuple[str, ...]:
    return (str(files),) if isinstance(files, str | Path) else tuple(map(str, files))


def _refuse_other_than_text(path: Path) -> None:
    if path.is_dir():
        raise DataError(f"{path} is a folder", "name a file in it")
    if not path.is_file():
        raise DataError(f"{path} is no file that can be read again", "write it to a file first")
    try:
        with path.open("rb") as plain:
            head = plain.read(HEAD)
        if head[:2] == b"\x1f\x8b":
            with gzip.open(path) as file:
                head = file.read(HEAD)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return  # whoever reads it says where it is damaged
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", "give a file that can be read") from error
    if not head.strip():
        raise DataError(f"{path} is empty", "give a file with text in it")
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(f"{path} is UTF-16, not UTF-8", "convert the file: iconv -f UTF-16 -t UTF-8")
    if b"\0" in head:
        raise DataError(f"{path} is no text file", "save it as plain text, CSV, TSV or JSON Lines")
