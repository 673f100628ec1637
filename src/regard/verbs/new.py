"""New: files become a commented recipe for their task, with lines to validate on held out."""

import contextlib
import hashlib
import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from regard.data.corpus import Corpus, Pair
from regard.errors import DataError
from regard.verbs.plan import Plan, plan_for
from regard.verbs.proposals.given import Files, Given, given_files
from regard.verbs.proposals.labelled import new_labelled
from regard.verbs.proposals.language_model import new_language_model
from regard.verbs.proposals.pairs import pairs_of
from regard.verbs.proposals.place import Place, place_for
from regard.verbs.proposals.proposal import Written
from regard.verbs.proposals.published import Section
from regard.verbs.proposals.recognise import Recognised, TaskName, recognised
from regard.verbs.proposals.tagging import new_tagging
from regard.verbs.template import recipe_text

FEWEST = 20  # pairs: with fewer there is nothing to hold out and nothing to learn from
HELD_OUT = 2000  # pairs at the most, and one in twenty
SURVEYED = 20_000  # pairs whose letters are counted
SIDES = "source", "target"


@dataclass(frozen=True, kw_only=True)
class NewRecipe:
    """What was written.

    Attributes:
        recipe, data: the recipe, and the folder of its data.
        task, reading: what it is for, and in words how that was told from the files.
        train, valid, test: how many examples there are for each; `unit`: what they are.
        skipped: how many were left out, by the reason.
        summary: the model and how long it trains, in words.
        notes: what is odd about the data, a line each.
        plan: the proposal for a translation; None for other tasks.
    """

    recipe: Path
    data: Path
    task: TaskName
    reading: str
    train: int
    valid: int
    test: int
    unit: str
    skipped: dict[str, int]
    summary: str
    notes: tuple[str, ...] = ()
    plan: Plan | None = None


@dataclass
class Survey:
    """What a first reading tells about a corpus."""

    pairs: int = 0
    tokens: float = 0.0  # of the target side, guessed: 1.3 a word, and one for every six characters at least
    letters: tuple[Counter[str], Counter[str]] = field(default_factory=lambda: (Counter(), Counter()))

    def see(self, pair: Pair) -> None:
        self.pairs += 1
        self.tokens += max(1.3 * (pair.target.count(" ") + 1), len(pair.target) / 6) + 2
        if self.pairs <= SURVEYED:
            for side, text in zip(self.letters, (pair.source, pair.target), strict=True):
                side.update(character for character in text.lower() if character.isalnum())

    @property
    def shared_letters(self) -> float:
        """How much of the two sides' writing is the same, from 0 to 1."""
        left, right = self.letters
        size = max(left.total(), 1), max(right.total(), 1)
        return math.fsum(min(count / size[0], right[letter] / size[1]) for letter, count in left.items())


def new(
    source: str | Path,
    target: str | Path | None = None,
    *,
    task: str | None = None,
    valid: Files = (),
    test: Files = (),
    columns: Sequence[str] = (),
    out: str | Path | None = None,
) -> NewRecipe:
    """Write a recipe for a corpus, and beside it the lines to train on and those held out.

    The corpus is two aligned files, or one file: a table (CSV, TSV, JSON Lines, or lines that begin with a
    label), words in columns (CoNLL-U, or a word and its label a line), or running text. All may be gzipped.
    Which lines are held out is told by the SHA-256 of the source line alone: the same ones each time,
    and a sentence that stands twice in the corpus is never on both sides. Sizes are proposed from the
    amount of text.

    Args:
        task: "translation", "classification", "regression", "tagging" or "language_model"; as the files tell
            where it is not given.
        valid: files to validate on, one or two; then no line is held out.
        test: files to test on, one or two.
        columns: names or numbers (from 0) of the columns of a table: source and target, or text and label.
        out: the recipe to write, or the folder to write it in (one that is there, or that ends with a slash).

    Raises:
        DataError: a file cannot be read, is not of the task, or holds too little.
        RecipeError: the recipe is there already, or there is no such task.
    """
    given = given_files([source] if target is None else [source, target], valid, test)
    found = recognised(given, task, columns)
    place = place_for(out, given.train)
    written: list[Written] = []

    def fill(folder: Path) -> str:
        written.append(WRITERS[found.task](given, found, place, folder))
        return written[0].text

    place.write(fill)
    [made] = written
    return NewRecipe(
        recipe=place.recipe,
        data=place.data,
        task=found.task,
        reading=found.reading,
        train=made.counts["train"],
        valid=made.counts["valid"],
        test=made.counts.get("test", 0),
        unit=made.unit,
        skipped={reason: count for reason, count in made.skipped.items() if count},
        summary=made.summary,
        notes=tuple(made.notes),
        plan=made.plan,
    )


def _translation(given: Given, found: Recognised, place: Place, folder: Path) -> Written:
    """Write the pairs, some of them held out, and the recipe of a translator for them."""
    corpus = pairs_of(given.train, found.columns)
    survey, last = _survey(corpus)
    plan = plan_for(survey.pairs, survey.tokens, survey.shared_letters)
    train_pairs = _split(corpus, folder, None if given.valid else last)
    counts = {"train": train_pairs, "valid": survey.pairs - train_pairs}
    sections = {part: _written_section(part, place) for part in ("train", "valid")}
    for part, files in (("valid", given.valid), ("test", given.test)):
        if files:
            sections[part], counts[part] = _given_section(part, files, found.columns, place, folder)
    about = f"{survey.pairs:,} pairs of {' and '.join(Path(file).name for file in given.train)}"
    data = "\n".join(map(str, sections.values()))
    return Written(
        text=recipe_text(place.name, about, data, plan),
        counts=counts,
        unit="pairs",
        skipped=Counter(corpus.skipped),
        plan=plan,
        summary=f"a {plan.tier.preset} model, {plan.max_steps:,} updates",
    )


def _survey(corpus: Corpus) -> tuple[Survey, int]:
    """One reading: what there is, and the last digest that is held out."""
    survey = Survey()

    def digests() -> Iterator[int]:
        for pair in corpus:
            survey.see(pair)
            yield _digest(pair)

    smallest = heapq.nsmallest(HELD_OUT, digests())
    if survey.pairs < FEWEST:
        left_out = sum(corpus.skipped.values())
        raise DataError(
            f"{corpus.name}: {survey.pairs} pairs are too few to learn from ({left_out} lines were left out)",
            f"give {FEWEST} or more; a model that says anything needs some thousands",
        )
    return survey, smallest[min(HELD_OUT, survey.pairs // 20) - 1]


def _digest(pair: Pair) -> int:
    return int.from_bytes(hashlib.sha256(pair.source.encode("utf-8")).digest()[:8])


def _split(corpus: Corpus, folder: Path, last: int | None) -> int:
    """Write the pairs, those with a digest up to `last` to `valid`, the others to `train`; their number."""
    parts = ("train",) if last is None else ("train", "valid")
    with contextlib.ExitStack() as files:
        opened = {part: _open_pairs(folder, part, files) for part in parts}
        train_pairs = 0
        for pair in corpus:
            part = "train" if last is None or _digest(pair) > last else "valid"
            train_pairs += part == "train"
            for file, text in zip(opened[part], (pair.source, pair.target), strict=True):
                file.write(text + "\n")
    if not train_pairs:
        raise DataError(
            f"{corpus.name}: all its source lines are the same", "give a corpus with different lines"
        )
    return train_pairs


def _open_pairs(folder: Path, part: str, files: contextlib.ExitStack) -> list[TextIO]:
    names = [folder / f"{part}.{side}" for side in SIDES]
    return [files.enter_context(name.open("w", encoding="utf-8", newline="\n")) for name in names]


def _written_section(part: str, place: Place) -> Section:
    """The lines of this use that stand in the data folder."""
    return _section(part, *(place.file(f"{part}.{side}") for side in SIDES))


def _given_section(
    part: str, files: Sequence[str], columns: Sequence[str], place: Place, folder: Path
) -> tuple[Section, int]:
    """Lines to validate or to test on: two files are read where they are, a table is written as two files."""
    corpus = pairs_of(files, columns)
    pairs = 0
    with contextlib.ExitStack() as opened:
        sides = _open_pairs(folder, part, opened) if len(files) == 1 else []
        for pair in corpus:
            pairs += 1
            for file, text in zip(sides, (pair.source, pair.target), strict=False):
                file.write(text + "\n")
    if not pairs:
        raise DataError(f"{corpus.name}: no pair is left", "look at its lines: each side needs text")
    if len(files) == 1:
        return _written_section(part, place), pairs
    return _section(part, *map(place.path_of, files)), pairs


def _section(part: str, source: str, target: str) -> Section:
    about = {
        "train": "two aligned files, line by line, plain or gzipped; paths begin at this recipe",
        "valid": "never trained on; chooses the best model",
        "test": "scored once, at the end",
    }
    settings = {"source": (source, "one sentence a line"), "target": (target, "its translation")}
    return Section(title=f"data.{part}", about=about[part], settings=settings)


Writer = Callable[[Given, Recognised, Place, Path], Written]

WRITERS: dict[TaskName, Writer] = {
    "translation": _translation,
    "classification": lambda given, found, *where: new_labelled(
        "classification", given, found.columns, *where
    ),
    "regression": lambda given, found, *where: new_labelled("regression", given, found.columns, *where),
    "tagging": lambda given, found, *where: new_tagging(given, found.columns, *where),
    "language_model": lambda given, found, *where: new_language_model(given, found.columns, *where),
}
