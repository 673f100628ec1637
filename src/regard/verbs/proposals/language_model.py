"""`regard new` for running text."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from regard.data.documents import Documents, DocumentSettings
from regard.data.tables import format_of
from regard.errors import DataError
from regard.verbs.proposals.columns import roles_of
from regard.verbs.proposals.input_files import InputFiles, path_of, text_files
from regard.verbs.proposals.labelled import table_of
from regard.verbs.proposals.published import (
    PART_COMMENTS,
    RELATIVE_PATHS,
    PublishedRecipe,
    RecipeChange,
    RecipeSection,
    adapted,
)
from regard.verbs.proposals.recipe_location import RecipeLocation
from regard.verbs.proposals.template import head
from regard.verbs.proposals.written_recipe import WrittenRecipe, held_out, split_digest

MIN_CHARACTERS = 2000
HELD_OUT_TEXT_SHARE = 0.1  # of the documents, or of the characters of a single one
MAX_HELD_OUT_CHARACTERS = 200_000
MAX_BYTES_BY_CHARACTER = 2_000_000  # a longer text is tokenised into subwords, not characters

# low and high: near the bytes of the training text of Tiny Shakespeare, and of War and Peace
CHARACTER_RECIPE = PublishedRecipe(recipe="shakespeare-char-cpu", low=1_000_000, high=1_120_000)
PIECE_RECIPE = PublishedRecipe(
    recipe="war-and-peace-bpe", low=2_850_000, high=3_250_000, updates=(200, 50_000), largest_batch=16_384
)


def new_language_model(
    files: InputFiles, columns: Sequence[str], location: RecipeLocation, folder: Path
) -> WrittenRecipe:
    """Write running text, with its end held out, and the recipe for it.

    In a table each text is a document; then documents are held out, chosen by their digest.

    Raises:
        DataError: there is too little text.
    """
    skipped = Counter[str]()
    texts = {part: _documents(part_files, columns, skipped) for part, part_files in files.parts()}
    several = len(texts["train"]) > 1
    path, size = files.path("train"), sum(map(len, texts["train"]))
    if size < MIN_CHARACTERS:
        raise DataError(
            f"{path}: {size:,} characters are too few to learn from",
            f"give {MIN_CHARACTERS:,} or more; 100,000 are better",
        )
    if "valid" not in texts:
        texts |= _split(texts["train"])
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
    published = CHARACTER_RECIPE if amount <= MAX_BYTES_BY_CHARACTER else PIECE_RECIPE
    changes = published.scaled(amount) | _context(published)
    steps = changes["training.max_steps"].value
    counts = {part: sum(map(len, documents)) for part, documents in texts.items()}
    about = f"{counts['train']:,} characters of {path.name}"
    return WrittenRecipe(
        text=adapted(
            published.text(), head(location.name, about), _data(tuple(texts), location, several), changes
        ),
        counts=counts,
        unit="characters",
        skipped=skipped,
        summary=f"the model of recipes/{published.recipe}, {steps:,} updates",
    )


def _context(published: PublishedRecipe) -> dict[str, RecipeChange]:
    """Half a block as the context of each validated token, as texts are generated.

    Some recipes validate without, to be compared with nanoGPT.
    """
    half = published.table()["task"]["block"] // 2
    comment = "minimum context of each predicted token: half a block"
    return {"validation.context": RecipeChange(value=half, comment=comment)}


def _documents(files: Sequence[str], columns: Sequence[str], skipped: Counter[str]) -> list[str]:
    """The texts of a file: one of plain text, one per record of a table; of a folder each .txt file.

    `skipped` counts empty records.
    """
    path = path_of(files[0])
    if path.is_dir():
        return list(Documents(DocumentSettings(file=text_files(path, within=True)), Path()))
    if format_of(path) not in ("jsonl", "csv", "tsv"):
        return list(Documents(DocumentSettings(file=str(path)), Path()))
    table = table_of(files[0])
    [name] = roles_of(table, "language_model", columns).columns
    [index] = table.columns([name])
    records = list(table.records())
    cells = [record.cells[index] or "" for record in records if not table.is_header(record)]
    texts = [re.sub("[\ud800-\udfff]", "\ufffd", cell) for cell in cells if cell.strip()]
    skipped["empty"] += len(cells) - len(texts)
    skipped["repeated header"] += len(records) - len(cells)
    return texts


def _split(documents: list[str]) -> dict[str, list[str]]:
    """The text to train on and to validate on: the end of a single document, or some of several."""
    if len(documents) > 1:
        chosen = held_out(documents, HELD_OUT_TEXT_SHARE)
        return {
            "train": [text for text in documents if split_digest(text) not in chosen],
            "valid": [text for text in documents if split_digest(text) in chosen],
        }
    [text] = documents
    end = len(text) - min(int(HELD_OUT_TEXT_SHARE * len(text)), MAX_HELD_OUT_CHARACTERS)
    next_line = text.find("\n", end) + 1
    end = next_line if end < next_line <= end + len(text) // 20 else end
    return {"train": [text[:end]], "valid": [text[end:]]}


def _data(parts: Sequence[str], location: RecipeLocation, several: bool) -> str:
    """The text of the recipe's sections [data.*]."""
    kind, ending = ("record", "jsonl") if several else ("file", "txt")
    return "\n".join(
        str(
            RecipeSection(
                title=f"data.{part}",
                about=PART_COMMENTS[part],
                settings={
                    "file": (location.file(f"{part}.{ending}"), RELATIVE_PATHS),
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
