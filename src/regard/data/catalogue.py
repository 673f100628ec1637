"""The data sets that regard knows: where they are, whether they are whole, where they come from.

A data set is a folder, under `$REGARD_DATA` or in the user's cache; `NAME:FILE` names one file of
it. What a file must hold is told by the SHA-256 of its content (`datasets.toml`), and a file is
looked through each time it is found: the largest takes a fraction of a second.
"""

import functools
import gzip
import hashlib
import io
import os
import tomllib
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from regard.data.download import download
from regard.errors import DataError, did_you_mean
from regard.user_cache import user_cache

GITHUB = "https://raw.githubusercontent.com"


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """One file: its size, what it must hold, and where its authors keep what it is made from."""

    name: str
    size: int  # bytes
    sha256: str  # of the content, unpacked where the name ends in .gz
    path: str | None = None  # in the authors' repository; None: cannot be had from there
    making: Literal["plain", "latin-1", "tatoeba"] = "plain"  # how theirs becomes ours


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """One data set: its title, task and licence, its files, and the repository they come from."""

    name: str
    title: str
    task: str
    licence: str
    repository: str  # owner/name on GitHub
    commit: str
    files: tuple[DataFile, ...]
    note: str = ""  # why some files have no path

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def source(self) -> str:
        """A page for people: the repository as it was."""
        return f"https://github.com/{self.repository}/tree/{self.commit}"

    def file(self, name: str) -> DataFile:
        known = {file.name: file for file in self.files}
        if name not in known:
            raise DataError(f"data set {self.name} has no file {name!r}", did_you_mean(name, known))
        return known[name]


@dataclass(frozen=True, kw_only=True)
class FileStatus:
    """What was found of one file."""

    file: DataFile
    path: Path | None
    state: Literal["ok", "missing", "damaged"]


@functools.cache
def data_sets() -> dict[str, DataSet]:
    """Every known data set by its name."""
    table = tomllib.loads(resources.files("regard.data").joinpath("datasets.toml").read_text("utf-8"))
    return {
        name: DataSet(
            name=name,
            files=tuple(DataFile(name=file, **facts) for file, facts in record.pop("files").items()),
            **record,
        )
        for name, record in table.items()
    }


def data_set(name: str) -> DataSet:
    """The data set called `name`."""
    known = data_sets()
    if name not in known:
        raise DataError(f"no data set is called {name!r}", did_you_mean(name, known))
    return known[name]


def cache_folder() -> Path:
    """Where downloaded data sets are kept: `regard/data` in the user's cache."""
    return user_cache("data")


def data_folders() -> list[Path]:
    """Where data sets are looked for, in this order."""
    chosen = os.environ.get("REGARD_DATA")
    return [*([Path(chosen)] if chosen else []), cache_folder()]


def is_spec(text: str) -> bool:
    """Whether `text` reads as NAME:FILE of the catalogue rather than as a path."""
    name, colon, file = text.partition(":")
    return bool(colon and file) and name in data_sets()


def is_here(spec: str) -> bool:
    """Whether there is a file for `NAME:FILE`, whatever it holds."""
    name, _, file_name = spec.partition(":")
    file = data_set(name).file(file_name)
    return any((folder / name / file.name).is_file() for folder in data_folders())


def find(spec: str) -> Path:
    """The file that `NAME:FILE` names, looked through; DataError where it is missing or damaged."""
    name, colon, file_name = spec.partition(":")
    if not colon:
        raise DataError(
            f"{spec!r} does not name a file of a data set", "write NAME:FILE, as in scan:simple.test.txt"
        )
    record = data_set(name)
    file = record.file(file_name)
    found = _look(record, file)
    if found.path is None:
        raise DataError(f"data set {name} is not here: no {name}/{file_name}", _how_to_get(record, file))
    if found.state == "damaged":
        raise DataError(
            f"{found.path} is not the {spec} of the catalogue: its SHA-256 differs",
            f"`regard data get {name}`" if file.path else "remove it and copy it again",
        )
    return found.path


def check(name: str) -> list[FileStatus]:
    """Each file of the data set called `name`: where it is and whether it is whole."""
    record = data_set(name)
    return [_look(record, file) for file in record.files]


def get(
    name: str,
    progress: Callable[[str, int, int | None], None] = lambda path, done, total: None,
    *,
    server: str = GITHUB,
) -> list[Path]:
    """The files of a data set, those that are not here downloaded into the user's cache.

    `progress(path, bytes done, bytes in all)` is told how far each download is. What comes is made
    into our file where it differs (unpacked, packed, re-coded, split) and kept only if its content
    has the SHA-256 of the catalogue. A download that was cut off is taken up where it ended.
    """
    record = data_set(name)
    missing = [found.file for found in check(name) if found.state != "ok"]
    refused = [file for file in missing if file.path is None]
    folder = cache_folder() / name
    for path in dict.fromkeys(file.path for file in missing if file.path):
        url = f"{server}/{record.repository}/{record.commit}/{path}"
        part = folder / f".{path.replace('/', '_')}.part"
        download(url, part, lambda done, total, path=path: progress(path, done, total))
        theirs = part.read_bytes()
        part.unlink()
        for file in missing:
            if file.path == path:
                _keep(folder / file.name, make(file, theirs), file, url)
    if refused:
        raise DataError(
            f"{', '.join(file.name for file in refused)} of {name} cannot be downloaded: {record.note}",
            _how_to_get(record, refused[0]),
        )
    return [found.path for found in check(name) if found.path]


def make(file: DataFile, theirs: bytes) -> bytes:
    """The content of our `file`, made from the bytes of its authors' file."""
    try:
        if file.making == "latin-1":
            return theirs.decode("latin-1").encode("utf-8")
        if file.making == "tatoeba":
            return _tatoeba(file.name, theirs)
        return gzip.decompress(theirs) if str(file.path).endswith(".gz") else theirs
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, KeyError, ValueError) as error:
        raise DataError(
            f"{file.path}: not what it was: {error}", "report this: the source has changed"
        ) from None


def is_whole(path: Path, file: DataFile) -> bool:
    """Whether the content of `path` is what the catalogue says of `file`."""
    digest = hashlib.sha256()
    try:
        with _content(path) as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return False
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", "check its permissions") from None
    return digest.hexdigest() == file.sha256


def _content(path: Path) -> gzip.GzipFile | io.BufferedReader:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _look(record: DataSet, file: DataFile) -> FileStatus:
    """The first whole copy of `file`, else the first damaged one."""
    places = [folder / record.name / file.name for folder in data_folders()]
    here = [place for place in places if place.is_file()]
    for place in here:
        if is_whole(place, file):
            return FileStatus(file=file, path=place, state="ok")
    return FileStatus(file=file, path=here[0] if here else None, state="damaged" if here else "missing")


def _how_to_get(record: DataSet, file: DataFile) -> str:
    if file.path:
        return f"`regard data get {record.name}`, or name the folder that holds it in REGARD_DATA"
    return f"copy the folder {record.name} into {cache_folder()}, or name its parent in REGARD_DATA"


def _keep(target: Path, content: bytes, file: DataFile, url: str) -> None:
    """Write `content` under its name, whole or not at all; refused where it is not what it must be."""
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise DataError(
            f"{url} does not give the {file.name} of the catalogue: its SHA-256 differs",
            "nothing was kept; try again, and report it if it stays so",
        )
    packed = gzip.compress(content, mtime=0) if target.suffix == ".gz" else content
    partial = target.with_name(f".{target.name}.partial")
    partial.write_bytes(packed)
    partial.replace(target)


def _tatoeba(name: str, archive: bytes) -> bytes:
    """One file of our split of manythings.org's archive: by the SHA-256 of the English sentence, mod 50."""
    with zipfile.ZipFile(io.BytesIO(archive)) as folder:
        if name == "ABOUT.upstream.txt":
            return folder.read("_about.txt")
        text = folder.read("deu.txt").decode("utf-8")
    split, language = name.removesuffix(".gz").split(".")
    buckets = {"test": [0], "valid": [1], "train": range(2, 50)}[split]
    kept = []
    for line in filter(None, text.split("\n")):
        english, german = line.rstrip("\r").split("\t")[:2]
        if int(hashlib.sha256(english.encode("utf-8")).hexdigest()[:8], 16) % 50 in buckets:
            kept.append(english if language == "en" else german)
    return "".join(f"{sentence}\n" for sentence in kept).encode("utf-8")
