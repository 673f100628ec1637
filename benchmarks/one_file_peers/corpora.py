"""The corpora of the one-file tasks, written under build/ as a user has them: CSV, CoNLL-U, plain text."""

import csv
import gzip
import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.common.program import BUILD
from regard.data.catalogue import find_file

Task = Literal["classification", "tagging", "language_model"]
Texts = list[tuple[str, str]]  # text and label
QUESTIONS = {
    "0": "description",
    "1": "entity",
    "2": "abbreviation",
    "3": "human",
    "4": "location",
    "5": "number",
}
SENTIMENTS = {"0": "negative", "1": "positive"}
PER_SOURCE, SOURCE_TEST = 1500, 3000  # texts of each of the six sources; texts to test on


@dataclass(frozen=True, kw_only=True)
class OneFile:
    """A file to train on and one to test on."""

    task: Task
    train: Path
    test: Path


def one_file(name: str) -> OneFile:
    """The corpus called `name`; its files are written each time."""
    task, suffix, make = CORPORA[name]
    folder = BUILD / "one-file" / name
    folder.mkdir(parents=True, exist_ok=True)
    made = OneFile(task=task, train=folder / f"train.{suffix}", test=folder / f"test.{suffix}")
    for path, content in zip((made.train, made.test), make(), strict=True):
        if isinstance(content, str):
            path.write_text(content, "utf-8", newline="\n")
            continue
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *content])
    return made


def read(name: str) -> str:
    path = find_file(name)
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="\n") as file:
        return file.read()


def labelled(files: Sequence[str], names: dict[str, str]) -> Callable[[], list[Texts]]:
    """Files with a number before each text, and the classes that the numbers stand for."""

    def make() -> list[Texts]:
        lines = [read(file).splitlines() for file in files]
        return [[(line[2:], names[line[0]]) for line in each] for each in lines]

    return make


def sources() -> list[Texts]:
    """Which of six sources an English sentence is from: 4 to 12 words, without capitals and punctuation."""
    random_order, texts = random.Random(1), Texts()
    for label, sentences in SOURCES.items():
        found = sorted({plain for each in sentences() if 4 <= len((plain := words_of(each)).split()) <= 12})
        random_order.shuffle(found)
        texts += [(text, label) for text in found[:PER_SOURCE]]
    random_order.shuffle(texts)
    return [texts[:-SOURCE_TEST], texts[-SOURCE_TEST:]]


def words_of(sentence: str) -> str:
    return " ".join(re.findall(r"[a-z']+", sentence.lower()))


def wikipedia() -> Iterable[str]:
    lines = "\n".join(read(f"wikitext2:{part}.txt.gz") for part in ("valid", "test")).splitlines()
    return (text for line in lines if not line.lstrip().startswith("=") for text in line.split(" . "))


def novel() -> Iterable[str]:
    return re.split(r"(?<=[.!?])\s+", re.sub(r"\s+", " ", war_and_peace()))


def war_and_peace() -> str:
    """The book without its licence."""
    text = read("war_and_peace:2600.txt.gz")
    begin = text.index("\n", text.index("*** START OF THIS")) + 1
    return text[begin : text.index("*** END OF THIS")]


def split_text(make: Callable[[], str], share: float) -> Callable[[], list[str]]:
    """The beginning of a text to train on, the rest to test on."""

    def parts() -> list[str]:
        text = make()
        end = int(share * len(text))
        return [text[:end], text[end:]]

    return parts


SOURCES: dict[str, Callable[[], Iterable[str]]] = {
    "captions": lambda: read("multi30k:train.en.gz").splitlines(),
    "news": lambda: [
        line for year in (2013, 2014, 2017) for line in read(f"newstest_en_de:newstest{year}.en").splitlines()
    ],
    "everyday": lambda: read("tatoeba_en_de:train.en.gz").splitlines(),
    "encyclopedia": wikipedia,
    "novel": novel,
    "play": lambda: [
        line for line in read("tiny_shakespeare:input.txt.gz").splitlines() if not line.endswith(":")
    ],
}
EWT = "ud_english_ewt:en_ewt-ud-{}.conllu.gz"
CORPORA: dict[str, tuple[Task, str, Callable[[], list[Texts] | list[str]]]] = {
    "trec": ("classification", "csv", labelled(["trec:train.txt", "trec:test.txt"], QUESTIONS)),
    "sst2": ("classification", "csv", labelled(["sst:sst2.train.txt", "sst:sst2.dev.txt"], SENTIMENTS)),
    "sources": ("classification", "csv", sources),
    "ewt": ("tagging", "conllu", lambda: [read(EWT.format(part)) for part in ("train", "dev")]),
    "shakespeare": (
        "language_model",
        "txt",
        split_text(lambda: read("tiny_shakespeare:input.txt.gz"), 0.9),
    ),
    "war-and-peace": ("language_model", "txt", split_text(war_and_peace, 0.95)),
}
