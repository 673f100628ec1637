"""Random broken corpora are read completely, or with skipped lines counted, or refused in one line."""

import codecs
import gzip
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

from regard.data.conllu import ConlluSettings, Treebank
from regard.data.corpus import CorpusSettings, LinePolicy, open_corpus
from regard.data.documents import Documents, DocumentSettings
from regard.data.labelled import LabelledSettings, open_labelled
from regard.errors import RegardError

MOST = 200  # characters a line may have here
REASONS = tuple(field.name for field in fields(LinePolicy) if field.name != "max_characters")
TEXTS = (
    *("a dog runs", "ein Hund läuft", "e\u0301", "\U0001f468\u200d\U0001f469", "\u202etxet\u202c", "\ud7ff"),
    *("", " ", "\u00a0\u2003", "\0", "a\0b", "\ufeff", "\u2028", "a\u2028b\x85c\x0bd\x0c", "\r", "\r\r"),
    *("x" * MOST, "x" * (MOST + 1), "\t", "\t\t", "nan", "NaN", "1e999", '"', "</s>", "\\", "{}", "[" * 2000),
)
LINES: dict[str, tuple[str, ...]] = {
    "text": ("{0}",),
    "tsv": ("{0}\t{1}", "{0}\t{1}\t{0}", "{0}"),
    "jsonl": (
        '{{"source": {2}, "target": {3}}}', '{{"source": {2}}}', "{0}", "null", '"source"', '{{"source": 1}}',
    ),
    "scan": ("IN: {0} OUT: {1}", "IN: {0}", "{0} OUT:"),
    "cmudict": ("{0} AH0 B", "{0}", "word(2) {1} # {0}"),
    "labelled": ("LABEL {0}", "{0}", "DESC:def {0}"),
    "documents": ("{0}", ""),
    "conllu": (
        "1\t{0}\t_\tNOUN" + "\t_" * 6, "# {0}", "", "2\tb\t_\tVERB" + "\t_" * 6, "{0}\t{1}",
        "1-2\t{0}" + "\t_" * 8, "1.1\t{0}" + "\t_" * 8,
    ),
}  # fmt: skip
FORMATS = ("two files", *(form for form in LINES if form != "text"))


@dataclass(frozen=True, kw_only=True)
class BadCorpus:
    """A corpus to read: `read` gives the examples, `skipped` the counts of skipped lines."""

    name: str
    read: Callable[[], Iterator[Any]]
    skipped: Callable[[], Counter[str]]
    lines: int | None  # in its files, where every line is an example or counted; None where that is not a law
    files: tuple[Path, ...]


def bad_corpus(chance: random.Random, folder: Path) -> BadCorpus:
    """A corpus of a random format, with random defects and random policies."""
    form = chance.choice(FORMATS)
    policy = LinePolicy(
        max_characters=MOST, **{reason: chance.choice(("skip", "skip", "error")) for reason in REASONS}
    )
    lines = [_line(chance, form) for _ in range(chance.choice((0, 1, 2, 5, 30)))]
    files = [_written(chance, folder / "a", lines)]
    if form == "two files":
        surplus = chance.choice((0, 0, 0, 1, 5))
        other = [*(_line(chance, "text") for _ in lines), *["more"] * surplus]
        files.append(_written(chance, folder / "b", other))
    return _opened(chance, form, policy, folder, tuple(files))


def complaint(corpus: BadCorpus) -> str | None:
    """What is wrong with how this corpus is read; None if nothing is."""
    try:
        examples = list(corpus.read())
    except RegardError as error:
        return _malformed_message(error)
    except Exception as error:  # noqa: BLE001 - any other is what must not be
        return f"{type(error).__name__}: {error}"
    if corpus.lines is not None and len(examples) + sum(corpus.skipped().values()) != corpus.lines:
        return f"{len(examples)} read and {dict(corpus.skipped())} left out of {corpus.lines} lines"
    for example in examples:
        for text in (getattr(example, "source", None), getattr(example, "target", None)):
            if text is not None and (not text.strip() or len(text) > MOST or "\0" in text or "\n" in text):
                return f"{text[:40]!r} was let in"
    return None


def _malformed_message(error: RegardError) -> str | None:
    """What is wrong with an error: message and hint must each be one printable line."""
    for part in (str(error.message), error.hint or "-"):
        if not part.strip() or "\n" in part or "\0" in part:
            return f"not one printable line: {part!r}"
    return None


def _line(chance: random.Random, form: str) -> str:
    one, other = chance.choice(TEXTS), chance.choice(TEXTS)
    shape = LINES.get(form, LINES["text"])
    chosen = shape[0] if chance.random() < 0.8 else chance.choice(shape)
    return chosen.format(one, other, json.dumps(one), json.dumps(chance.choice((other, "\ud800", "a\nb"))))


def _written(chance: random.Random, path: Path, lines: list[str]) -> Path:
    content = chance.choice(("\n", "\n", "\r\n")).join(lines).encode("utf-8", "surrogatepass")
    content += b"\n" if chance.random() < 0.7 else b""
    content = codecs.BOM_UTF8 + content if chance.random() < 0.2 else content
    misfortune = chance.randrange(12)
    if misfortune == 0 and content:
        place = chance.randrange(len(content))
        content = content[:place] + bytes([chance.randrange(128, 256)]) + content[place:]
    elif misfortune == 1:
        content = content + b"y" * 1_000_000 + b"\n"
    elif misfortune == 2:
        content = content.decode("utf-8", "replace").encode("utf-16")
    zipped = chance.random()
    if zipped < 0.2:
        content = gzip.compress(content, 1)
        if zipped < 0.05:
            content = content[: chance.randrange(len(content))]
        elif zipped < 0.08:
            content += b"\0garbage"
    path.write_bytes(content)
    return path


def _opened(
    chance: random.Random, form: str, policy: LinePolicy, folder: Path, files: tuple[Path, ...]
) -> BadCorpus:
    if form == "conllu":
        treebank = Treebank(ConlluSettings(file="a"), folder)
        return BadCorpus(name=form, read=lambda: iter(treebank), skipped=Counter, lines=None, files=files)
    if form == "documents":
        kind = chance.choice(("file", "paragraph", "line", "record"))
        documents = Documents(DocumentSettings(file="a", document=kind), folder)
        return BadCorpus(name=form, read=lambda: iter(documents), skipped=Counter, lines=None, files=files)
    if form == "labelled":
        corpus = open_labelled(LabelledSettings(file="a", format="labelled"), policy, folder, classes=True)
    elif form == "two files":
        corpus = open_corpus(CorpusSettings(source="a", target="b"), policy, folder)
    else:
        corpus = open_corpus(CorpusSettings(file="a", format=form), policy, folder)  # type: ignore[arg-type]
    return BadCorpus(
        name=form,
        read=lambda: iter(corpus),
        skipped=lambda: corpus.skipped,
        lines=max(map(_count, files)),
        files=files,
    )


def _count(path: Path) -> int:
    """The number of lines of a file; -1 if it cannot be determined."""
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError):
            return -1
    content = content.removeprefix(codecs.BOM_UTF8)
    return content.count(b"\n") + (bool(content) and not content.endswith(b"\n"))


CORPORA = 500


@pytest.mark.parametrize("part", range(5))
def test_what_a_corpus_has_is_read_counted_or_refused(tmp_path, part):
    formats, counted = set(), 0
    for seed in range(part * CORPORA // 5, (part + 1) * CORPORA // 5):
        corpus = bad_corpus(random.Random(seed), tmp_path)
        assert complaint(corpus) is None, f"seed {seed}, {corpus.name}"
        formats.add(corpus.name)
        counted += sum(corpus.skipped().values())
    assert formats == set(FORMATS)
    assert counted
