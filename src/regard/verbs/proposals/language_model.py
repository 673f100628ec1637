"""A new recipe for running text."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from regard.data.documents import Documents, DocumentSettings
from regard.data.tables import format_of
from regard.errors import DataError
from regard.verbs.proposals.columns import roles_of
from regard.verbs.proposals.input_files import InputFiles, found
from regard.verbs.proposals.labelled import table_of
from regard.verbs.proposals.proposal import WrittenRecipe, digest, held_out
from regard.verbs.proposals.published import Published, RecipeSection, adapted
from regard.verbs.proposals.recipe_location import RecipeLocation
from regard.verbs.template import head

FEWEST = 2000  # characters
SHARE, MOST = 0.1, 200_000  # of the characters, held out
BY_CHARACTER = 2_000_000  # bytes: a longer text is cut into pieces of words

# bytes of the training text of Tiny Shakespeare, and of War and Peace
CHARACTERS = Published(recipe="shakespeare-char-cpu", low=1_000_000, high=1_120_000)
PIECES = Published(
    recipe="war-and-peace-bpe", low=2_850_000, high=3_250_000, updates=(200, 50_000), largest_batch=16_384
)


def new_language_model(
    given: InputFiles, columns: Sequence[str], place: RecipeLocation, folder: Path
) -> WrittenRecipe:
    """Write running text, its end held out, and the recipe for it.

    Of a table each text is a document, and documents are held out, told by their text alone.

    Raises:
        DataError: there is too little text.
    """
    skipped = Counter[str]()
    texts = {part: _documents(files, columns, skipped) for part, files in given.parts()}
    several = len(texts["train"]) > 1
    path, size = given.path("train"), sum(map(len, texts["train"]))
    if size < FEWEST:
        raise DataError(
            f"{path}: {size:,} characters are too few to learn from",
            f"give {FEWEST:,} or more; some 100,000 at best",
        )
    if "valid" not in texts:
        texts |= _divided(texts["train"])
    if not texts["valid"] or not texts["train"]:
        raise DataError(f"{path}: all its texts are the same", "give a file with different texts")
    for part, documents in texts.items():
        name = f"{part}.jsonl" if several else f"{part}.txt"
        with (folder / name).open("w", encoding="utf-8", newline="\n") as file:
            if several:
                file.writelines(f"{json.dumps({'text': text}, ensure_ascii=False)}\n" for text in documents)
            else:
                file.write("\n\n".join(documents))
    amount = sum(len(text.encode()) for text in texts["train"])
    published = CHARACTERS if amount <= BY_CHARACTER else PIECES
    changes = published.scaled(amount)
    steps = changes["training.max_steps"].value
    counts = {part: sum(map(len, documents)) for part, documents in texts.items()}
    about = f"{counts['train']:,} characters of {path.name}"
    return WrittenRecipe(
        text=adapted(published.text(), head(place.name, about), _data(tuple(texts), place, several), changes),
        counts=counts,
        unit="characters",
        skipped=skipped,
        summary=f"the model of recipes/{published.recipe}, {steps:,} updates",
    )


def _documents(files: Sequence[str], columns: Sequence[str], skipped: Counter[str]) -> list[str]:
    """The texts of a file: one of plain text, one for each record of a table; `skipped` counts empty ones."""
    path = found(files[0])
    if format_of(path) not in ("jsonl", "csv", "tsv"):
        return list(Documents(DocumentSettings(file=str(path)), Path()))
    table = table_of(files[0])
    [name] = roles_of(table, "language_model", columns).columns
    [place] = table.columns([name])
    cells = [record.cells[place] or "" for record in table.records()]
    found_texts = [re.sub("[\ud800-\udfff]", "\ufffd", cell) for cell in cells if cell.strip()]
    skipped["empty"] += len(cells) - len(found_texts)
    return found_texts


def _divided(documents: list[str]) -> dict[str, list[str]]:
    """What to train on and what to validate on: the end of a single text, or some of several."""
    if len(documents) > 1:
        taken = held_out(documents, SHARE)
        return {
            "train": [text for text in documents if digest(text) not in taken],
            "valid": [text for text in documents if digest(text) in taken],
        }
    [text] = documents
    place = len(text) - min(int(SHARE * len(text)), MOST)
    line = text.find("\n", place) + 1  # of the next line, if it is near
    place = line if place < line <= place + len(text) // 20 else place
    return {"train": [text[:place]], "valid": [text[place:]]}


def _data(parts: Sequence[str], place: RecipeLocation, several: bool) -> str:
    about = {"valid": "never trained on; chooses the best model", "test": "scored once, at the end"}
    kind, ending = ("record", "jsonl") if several else ("file", "txt")
    return "\n".join(
        str(
            RecipeSection(
                title=f"data.{part}",
                about=about.get(part, ""),
                settings={
                    "file": (place.file(f"{part}.{ending}"), "paths begin at this recipe"),
                    "document": (
                        kind,
                        "a document is a file, a paragraph, a line, or a record of JSON Lines",
                    ),
                },
            )
        )
        for part in ("train", "valid", "test")
        if part in parts
    )
