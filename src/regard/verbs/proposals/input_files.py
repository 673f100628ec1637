"""The input files of `regard new`, by part; files that are not text are refused."""

import gzip
import itertools
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.files import locate
from regard.errors import DataError, RecipeError

HEAD_BYTES = 1 << 16  # bytes at the beginning of a file that must be text

Paths = str | Path | Sequence[str | Path]


@dataclass(frozen=True, kw_only=True)
class InputFiles:
    """One or two files to train on, to validate on and to test on, as the user named them."""

    train: tuple[str, ...]
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()

    def parts(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The parts that have files, and their files."""
        return ((part, files) for part in ("train", "valid", "test") if (files := getattr(self, part)))

    def path(self, part: str) -> Path:
        """The first file of a part."""
        return path_of(getattr(self, part)[0])


def input_files(train: Paths, valid: Paths = (), test: Paths = ()) -> InputFiles:
    """The files of each part, after checking that each exists and is text.

    Raises:
        DataError: a file is missing, empty, a folder or not text, or is named twice.
        RecipeError: a part has more than two files.
    """
    inputs = InputFiles(train=_names(train), valid=_names(valid), test=_names(test))
    for part, files in inputs.parts():
        if len(files) > 2:
            raise RecipeError(
                f"{len(files)} files for {part}, not one or two", "join them first: cat A B > C"
            )
        for file in files:
            _refuse_other_than_text(path_of(file))
    named = [file for _, files in inputs.parts() for file in files]
    for one, other in itertools.combinations(named, 2):
        if path_of(one).samefile(path_of(other)):
            raise DataError(f"{one} is named twice", "name each file once")
    return inputs


def path_of(file: str) -> Path:
    """The path of a file that the user named: a path, or NAME:FILE of the catalogue."""
    return locate(file, Path(), once=True)


def _names(files: Paths) -> tuple[str, ...]:
    return (str(files),) if isinstance(files, str | Path) else tuple(map(str, files))


def _refuse_other_than_text(path: Path) -> None:
    if path.is_dir():
        raise DataError(f"{path} is a folder", "name a file in it")
    if not path.is_file():
        raise DataError(f"{path} cannot be read twice, as a pipe", "write its text to a file first")
    try:
        with path.open("rb") as plain:
            head = plain.read(HEAD_BYTES)
        if head[:2] == b"\x1f\x8b":
            with gzip.open(path) as file:
                head = file.read(HEAD_BYTES)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return  # reading the file reports where it is damaged
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", "give a file that can be read") from error
    if not head.strip():
        raise DataError(f"{path} is empty", "give a file with text in it")
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(f"{path} is UTF-16, not UTF-8", "convert the file: iconv -f UTF-16 -t UTF-8")
    if b"\0" in head:
        raise DataError(f"{path} is not a text file", "save it as plain text, CSV, TSV or JSON Lines")
