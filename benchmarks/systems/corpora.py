"""The corpora: raw text, one sentence a line, written once under build/, the same files for every system."""

import gzip
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.program import BUILD
from regard.data.catalogue import find_file

PARTS = ("train", "valid", "test")
LANGUAGES = {"multi30k-en-fr": ("en", "fr"), "tatoeba-30k": ("en", "de")}
TATOEBA = {"train": 30_000, "valid": 1_000}  # pairs; the test split is whole

Pair = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Three pairs of files: `train`, `valid` and `test`, each with a suffix for its language."""

    name: str
    source: str  # language code and file suffix
    target: str
    folder: Path

    def file(self, part: str, language: str) -> Path:
        return self.folder / f"{part}.{language}"

    def prefix(self, part: str) -> Path:
        return self.folder / part

    def lines(self, part: str, language: str) -> list[str]:
        return read(self.file(part, language))


def corpus(name: str) -> Corpus:
    """The corpus called `name`; its files are written if they are not there.

    Raises:
        DataError: the data set that it is made from is not here.
    """
    source, target = LANGUAGES[name]
    found = Corpus(name=name, source=source, target=target, folder=BUILD / "quality" / "corpora" / name)
    found.folder.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        files = [found.file(part, language) for language in (source, target)]
        if not all(file.exists() for file in files):
            pairs = list(_multi30k(part, source, target) if name.startswith("multi30k") else _tatoeba(part))
            for file, side in zip(files, zip(*pairs, strict=True), strict=True):
                file.write_text("".join(f"{line}\n" for line in side), "utf-8")
    return found


def read(path: Path) -> list[str]:
    """Lines that end in a line feed only: some German lines of Tatoeba hold other spaces."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    return text.removesuffix("\n").split("\n")


def cut(pairs: list[Pair], size: int) -> list[Pair]:
    """`size` of the pairs, those of the smallest SHA-256, in the order of their digests."""
    return sorted(pairs, key=_digest)[:size]


def _multi30k(part: str, source: str, target: str) -> Iterator[Pair]:
    name = {"train": "train.{}.gz", "valid": "val.{}", "test": "test_2017_flickr.{}"}[part]
    sides = [read(find_file(f"multi30k:{name.format(language)}")) for language in (source, target)]
    return zip(*sides, strict=True)


def _tatoeba(part: str) -> list[Pair]:
    suffix = ".gz" if part == "train" else ""
    sides = [read(find_file(f"tatoeba_en_de:{part}.{language}{suffix}")) for language in ("en", "de")]
    pairs = list(zip(*sides, strict=True))
    return cut(pairs, TATOEBA[part]) if part in TATOEBA else pairs


def _digest(pair: Pair) -> bytes:
    return hashlib.sha256("\t".join(pair).encode("utf-8")).digest()
