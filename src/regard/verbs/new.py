"""New: two aligned files become a commented recipe, with validation lines held out."""

import hashlib
import heapq
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.data.corpus import Corpus, CorpusSettings, LinePolicy, Pair, open_corpus
from regard.errors import DataError, RecipeError
from regard.verbs.plan import Plan, plan_for
from regard.verbs.survey import Survey, Surveyor
from regard.verbs.template import recipe_text

FEWEST = 20  # pairs: with fewer there is nothing to hold out and nothing to learn from
HELD_OUT = 2000  # pairs at the most, and one in twenty


@dataclass(frozen=True, kw_only=True)
class NewRecipe:
    """What was written: the recipe, the folder of its data, and how the corpus was found."""

    recipe: Path
    data: Path
    train_pairs: int
    valid_pairs: int
    skipped: dict[str, int]
    plan: Plan
    survey: Survey


def new(source: str | Path, target: str | Path, *, out: str | Path | None = None) -> NewRecipe:
    """Write a recipe for two aligned files, and beside it their lines, some 5 % of them held out.

    Which lines are held out is told by the SHA-256 of the source line alone: the same ones each time,
    and a sentence that stands twice in the corpus is never on both sides. Sizes are proposed from the
    number of pairs.

    Raises:
        DataError: a file cannot be read, or there are too few pairs; RecipeError: the recipe exists.
    """
    source, target = Path(source), Path(target)
    recipe = Path(out).with_suffix(".toml") if out else Path(f"{_name(source, target)}.toml")
    data = recipe.with_name(f"{recipe.stem}.data")
    for path in (recipe, data):
        if path.exists():
            raise RecipeError(f"{path} is there already", "name another with --out RECIPE, or remove it")
    corpus = open_corpus(CorpusSettings(source=str(source), target=str(target)), LinePolicy(), Path())
    survey, last = _survey(corpus)
    plan = plan_for(survey.pairs, survey.target_tokens, survey.shared_letters)
    partial = data.with_name(f".{data.name}.partial")
    try:
        partial.mkdir(parents=True, exist_ok=True)
        train_pairs = _split(corpus, partial, last)
        os.replace(partial, data)
    except OSError as error:
        raise DataError(f"{data}: {error.strerror}", "name a place that can be written with --out") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    about = f"{survey.pairs:,} pairs of {source.name} and {target.name}"
    text = recipe_text(recipe.stem, data.name, about, plan, survey.tokenize, survey.best_metric)
    recipe.write_text(text, "utf-8")
    return NewRecipe(
        recipe=recipe,
        data=data,
        train_pairs=train_pairs,
        valid_pairs=survey.pairs - train_pairs,
        skipped=dict(corpus.skipped),
        plan=plan,
        survey=survey,
    )


def _name(source: Path, target: Path) -> str:
    """`train.en.gz` and `train.de.gz` are train-en-de, `a.txt` and `b.txt` are a-b."""
    names = [path.name.removesuffix(".gz").split(".") for path in (source, target)]
    same_start = names[0][0] == names[1][0]
    parts = [*names[0], *names[1][1:]] if same_start else [names[0][0], names[1][0]]
    return re.sub(r"[^\w-]+", "-", "-".join(parts)).strip("-") or "recipe"


def _survey(corpus: Corpus) -> tuple[Survey, int]:
    """One reading: what there is, and the last digest that is held out."""
    surveyor = Surveyor(corpus)

    def digests() -> Iterator[int]:
        for pair in corpus:
            surveyor.see(pair)
            yield _digest(pair)

    smallest = heapq.nsmallest(HELD_OUT, digests())
    pairs = surveyor.pairs
    if pairs < FEWEST:
        left_out = sum(corpus.skipped.values())
        raise DataError(
            f"{corpus.name}: {pairs} pairs are too few to learn from ({left_out} lines were left out)",
            f"give {FEWEST} or more; a model that says anything needs some thousands",
        )
    return surveyor.survey(), smallest[min(HELD_OUT, pairs // 20) - 1]


def _digest(pair: Pair) -> int:
    return int.from_bytes(hashlib.sha256(pair.source.encode("utf-8")).digest()[:8])


def _split(corpus: Corpus, folder: Path, last: int) -> int:
    """Write the pairs, those with a digest up to `last` to `valid`, the others to `train`; their number."""
    train_pairs = 0
    names = [folder / f"{part}.{side}" for part in ("train", "valid") for side in ("source", "target")]
    files = [name.open("w", encoding="utf-8", newline="\n") for name in names]
    try:
        for pair in corpus:
            held_out = _digest(pair) <= last
            train_pairs += not held_out
            source, target = files[2:] if held_out else files[:2]
            source.write(pair.source + "\n")
            target.write(pair.target + "\n")
    finally:
        for file in files:
            file.close()
    if not train_pairs:
        raise DataError(
            f"{corpus.name}: all its source lines are the same", "give a corpus with different lines"
        )
    return train_pairs
