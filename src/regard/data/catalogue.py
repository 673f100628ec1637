"""The catalogue of known data sets: finds, verifies and downloads their files.

A data set is a folder under `$REGARD_DATA` or in the user's cache; `NAME:FILE` names one of its files.
`datasets.toml` holds the SHA-256 of each file's content, which is checked whenever the file is opened:
a fraction of a second for the largest.
"""

import difflib
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
from regard.data.os_errors import os_errors
from regard.errors import DataError, did_you_mean
from regard.user_cache import user_cache

GITHUB = "https://raw.githubusercontent.com"


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """One file of a data set: its size, its checksum, and where to download it."""

    name: str
    size: int  # bytes
    sha256: str  # of the content, unpacked where the name ends in .gz
    path: str | None = None  # in the authors' repository; None: cannot be downloaded
    conversion: Literal["plain", "latin-1", "tatoeba"] = "plain"  # the conversion after the download


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """One data set: title, task, licence, files, and the repository that they come from."""

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
        """The size of all files in bytes."""
        return sum(file.size for file in self.files)

    @property
    def source(self) -> str:
        """The web page of the repository at this commit."""
        return f"https://github.com/{self.repository}/tree/{self.commit}"

    def file(self, name: str) -> DataFile:
        """The file called `name`; DataError if there is none."""
        known = {file.name: file for file in self.files}
        if name not in known:
            raise DataError(f"data set {self.name} has no file {name!r}", did_you_mean(name, known))
        return known[name]


@dataclass(frozen=True, kw_only=True)
class FileStatus:
    """The path and the state of one file."""

    file: DataFile
    path: Path | None
    state: Literal["ok", "missing", "damaged"]


@functools.cache
def data_sets() -> dict[str, DataSet]:
    """Every known data set, by name."""
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
    """The data set called `name`; DataError if there is none."""
    known = data_sets()
    if name not in known:
        raise DataError(f"no data set is called {name!r}", did_you_mean(name, known))
    return known[name]


def cache_folder() -> Path:
    """The folder of downloaded data sets: `regard/data` in the user's cache."""
    return user_cache("data")


def data_folders() -> list[Path]:
    """The folders in which data sets are searched, in order."""
    chosen = os.environ.get("REGARD_DATA")
    return [*([Path(chosen)] if chosen else []), cache_folder()]


def wrong_data_folder() -> str:
    """What is wrong with the folder that REGARD_DATA names; empty if it is a folder, or names none."""
    chosen = os.environ.get("REGARD_DATA")
    if not chosen or os.path.isdir(chosen):
        return ""
    return f"REGARD_DATA: {chosen} {'is a file' if os.path.lexists(chosen) else 'does not exist'}"


def how_to_get(name: str) -> str:
    """How the files of a data set come to this machine, as a hint."""
    record = data_set(name)
    wanted = [file for file in record.files if not file.path]
    return _how_to_get(record, wanted[0]) if wanted else f"regard data get {name}"


def is_spec(text: str) -> bool:
    """True if `text` is a NAME:FILE of the catalogue, not a path."""
    name, colon, file = text.partition(":")
    return bool(colon and file) and name in data_sets()


def near_specs(text: str) -> list[str]:
    """What NAME:FILE of the catalogue may have been meant by a text that begins with no data set's name."""
    name, colon, file = text.partition(":")
    if not (name and colon and file) or name in data_sets():
        return []
    begun = [each for each in data_sets() if each.startswith(name)]
    return [f"{each}:{file}" for each in begun or difflib.get_close_matches(name, data_sets(), cutoff=0.7)]


def is_available(spec: str) -> bool:
    """True if the file of `NAME:FILE` exists, intact or not."""
    name, _, file_name = spec.partition(":")
    file = data_set(name).file(file_name)
    return any((folder / name / file.name).is_file() for folder in data_folders())


def find_file(spec: str) -> Path:
    """The path of `NAME:FILE`, its checksum verified; DataError if it is missing or damaged."""
    name, colon, file_name = spec.partition(":")
    if not colon:
        raise DataError(
            f"{spec!r} does not name a file of a data set", "write NAME:FILE, as in scan:simple.test.txt"
        )
    record = data_set(name)
    file = record.file(file_name)
    found = _status(record, file)
    if found.path is None:
        raise DataError(f"data set {name} is not here: no {name}/{file_name}", _how_to_get(record, file))
    if found.state == "damaged":
        raise DataError(
            f"{found.path} is not the {spec} of the catalogue: its SHA-256 differs",
            f"`regard data get {name}`" if file.path else "remove it and copy it again",
        )
    return found.path


def check(name: str) -> list[FileStatus]:
    """The status of each file of the data set called `name`."""
    record = data_set(name)
    return [_status(record, file) for file in record.files]


def get(
    name: str,
    progress: Callable[[str, int, int | None], None] = lambda path, done, total: None,
    *,
    server: str = GITHUB,
) -> list[Path]:
    """Downloads the missing files of a data set into the user's cache; returns the paths of all files.

    `progress(path, bytes done, total bytes)` is called during each download. A downloaded file is converted
    where needed (unpacked, compressed, re-encoded, split) and kept only if its content has the SHA-256 of
    the catalogue. An interrupted download is resumed.
    """
    record = data_set(name)
    missing = [found.file for found in check(name) if found.state != "ok"]
    refused = [file for file in missing if file.path is None]
    folder = cache_folder() / name
    for path in dict.fromkeys(file.path for file in missing if file.path):
        url = f"{server}/{record.repository}/{record.commit}/{path}"
        part = folder / f".{path.replace('/', '_')}.part"
        download(url, part, lambda done, total, path=path: progress(path, done, total))
        original = part.read_bytes()
        part.unlink()
        for file in missing:
            if file.path == path:
                _write_verified(folder / file.name, convert_original(file, original), file, url)
    if refused:
        raise DataError(
            f"{', '.join(file.name for file in refused)} of {name} cannot be downloaded: {record.note}",
            _how_to_get(record, refused[0]),
        )
    return [found.path for found in check(name) if found.path]


def convert_original(file: DataFile, original: bytes) -> bytes:
    """The content of `file`, converted from the bytes of the downloaded original."""
    try:
        if file.conversion == "latin-1":
            return original.decode("latin-1").encode("utf-8")
        if file.conversion == "tatoeba":
            return _tatoeba(file.name, original)
        return gzip.decompress(original) if str(file.path).endswith(".gz") else original
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, KeyError, ValueError) as error:
        raise DataError(
            f"{file.path}: the source has changed: {error}", "report this as an issue of regard"
        ) from None


def is_intact(path: Path, file: DataFile) -> bool:
    """True if the content of `path` has the SHA-256 of `file`."""
    digest = hashlib.sha256()
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return False
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", "check its permissions") from None
    return digest.hexdigest() == file.sha256


def _status(record: DataSet, file: DataFile) -> FileStatus:
    """The status of `file`: its first intact copy, else its first damaged one."""
    places = [folder / record.name / file.name for folder in data_folders()]
    here = [place for place in places if place.is_file()]
    for place in here:
        if is_intact(place, file):
            return FileStatus(file=file, path=place, state="ok")
    return FileStatus(file=file, path=here[0] if here else None, state="damaged" if here else "missing")


def _how_to_get(record: DataSet, file: DataFile) -> str:
    if file.path:
        return f"`regard data get {record.name}`, or name the folder that holds it in REGARD_DATA"
    return f"copy the folder {record.name} into {cache_folder()}, or name its parent in REGARD_DATA"


def _write_verified(target: Path, content: bytes, file: DataFile, url: str) -> None:
    """Verifies `content` and writes it to `target` atomically."""
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise DataError(
            f"{url} does not give the {file.name} of the catalogue: its SHA-256 differs",
            "nothing was kept; try again, and report it if it stays so",
        )
    packed = gzip.compress(content, mtime=0) if target.suffix == ".gz" else content
    partial = target.with_name(f".{target.name}.partial")
    with os_errors("write", target):
        partial.write_bytes(packed)
        partial.replace(target)


def _tatoeba(name: str, archive: bytes) -> bytes:
    """One file of the Tatoeba archive's train/valid/test split: the English sentence's SHA-256 modulo 50."""
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
