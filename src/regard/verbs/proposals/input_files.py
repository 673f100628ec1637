"""The input files of `regard new`, by part; files that are not text are refused."""

import codecs
import gzip
import itertools
import re
import shlex
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.files import locate, refuse_compressed
from regard.data.image_files import has_image_name
from regard.errors import DataError, RecipeError

HEAD_BYTES = 1 << 16  # bytes at the beginning of a file that must be text
SETS = (b"mteval", b"srcset", b"refset", b"tstset")  # of test sets until 2020
# the formats of translation memories, test sets and translators' files, by their first element
MARKUP = {b"tmx": "TMX", b"xliff": "XLIFF", b"dataset": "XML", **dict.fromkeys(SETS, "SGML")}
_FIRST_ELEMENT = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:(?:<\?.*?\?>|<!--.*?-->|<!doctype[^\[>]*(?:\[.*?\]\s*)?>)\s*)*"
    rb"<([a-z]+)(?:\s[^<>]*)?>[ \t\r]*(?:[<\n]|$)",
    re.DOTALL,
)

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

    def paths(self) -> list[Path]:
        """The files of all parts."""
        return [path_of(file) for _, files in self.parts() for file in files]

    def path(self, part: str) -> Path:
        """The first file of a part."""
        return path_of(getattr(self, part)[0])


def input_files(train: Paths, valid: Paths = (), test: Paths = ()) -> InputFiles:
    """The files of each part, after checking that each exists and is text, or a folder, as images are in.

    Raises:
        DataError: a file is missing, empty or not text, or is named twice.
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


PART_FOLDERS = {  # names of folders, as data sets of images have them
    "train": ("train", "training"),
    "valid": ("valid", "val", "validation", "dev"),
    "test": ("test", "testing"),
}


def by_part_folders(inputs: InputFiles) -> InputFiles:
    """The folders of the parts, if the only folder has nothing but a folder for each part; else `inputs`."""
    if len(inputs.train) != 1 or not (folder := inputs.path("train")).is_dir():
        return inputs
    entries = sorted(each.name for each in folder.iterdir() if not each.name.startswith("."))
    parts = {name: part for part, names in PART_FOLDERS.items() for name in names}
    found = {parts[name.lower()]: (str(folder / name),) for name in entries if name.lower() in parts}
    if "train" not in found or len(found) < len(entries):
        return inputs
    named = {part: files for part, files in inputs.parts() if part != "train"}
    if both := [part for part in named if part in found]:
        raise DataError(
            f"{folder} has a folder to {'validate' if both[0] == 'valid' else 'test'} on, and so has"
            f" --{both[0]}",
            f"leave --{both[0]} out, or name {found['train'][0]}",
        )
    return InputFiles(**{**found, **named})


def path_of(file: str) -> Path:
    """The path of a file that the user named: a path, or NAME:FILE of the catalogue."""
    return locate(file, Path(), once=True)


def text_files(folder: Path, *, within: bool) -> tuple[str, ...]:
    """The files called .txt in a folder, also those in folders `within` it, in order of their names."""
    found = folder.rglob("*.txt") if within else folder.glob("*.txt")
    inside = (path.relative_to(folder) for path in sorted(found) if path.is_file())
    return tuple(str(folder / path) for path in inside if not any(part[0] == "." for part in path.parts))


def has_images(folder: Path) -> bool:
    """True if a file in a folder, or in those within it, is named as an image; hidden ones do not count."""
    images = (path.relative_to(folder) for path in folder.rglob("*") if has_image_name(path))
    return any(all(part[0] != "." for part in path.parts) for path in images)


def _names(files: Paths) -> tuple[str, ...]:
    return (str(files),) if isinstance(files, str | Path) else tuple(map(str, files))


def _refuse_other_than_text(path: Path) -> None:
    if path.is_dir():
        return
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
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # the last character may be cut
    except UnicodeDecodeError:
        refuse_compressed(head, str(path))  # other bytes are named with their line when the file is read
    element = _FIRST_ELEMENT.match(head.lower())
    if element is not None and (name := MARKUP.get(element[1])):
        raise DataError(
            f"{path} is {name}, which is not read",
            "write its pairs into a file .tsv: on each line a source, a tab and its target",
        )
    if b"\r" in head and b"\n" not in head:
        raise DataError(
            f"{path} has lines that end with CR alone, so that it is read as one line",
            f"convert the file: tr '\\r' '\\n' < {shlex.quote(str(path))} > NEW",
        )
    if b"\0" in head:
        raise DataError(f"{path} is not a text file", "save it as plain text, CSV, TSV or JSON Lines")
