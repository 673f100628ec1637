"""The tokenised corpus of a recipe (`data.tokens`), which `regard data tokenize` has written."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.counted import counted
from regard.data.checksums import dump_with_checksum, load_with_checksum
from regard.data.streamed_texts import StreamedTexts
from regard.data.text_part import TextPart
from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.errors import DataError, FolderError, RecipeError
from regard.jobs.storage import Storage
from regard.jobs.token_corpus import PartReader, TokenIndex, token_index
from regard.verbs.shared.job_settings import settings_of
from regard.verbs.tasks.training_pairs import CorpusPairs
from regard.verbs.training_run.data_checks import counts_of_skipped
from regard.weights.folder import verify_folder, write_folder

TOKENIZERS = "tokenizers.json"  # in a tokenised corpus: the files of its tokenisers, as text
INDEX = "tokens.json"  # in a run's data folder: the size, hash and counts of each part
SKIPPED = "skipped_"  # prefix of the counts of skipped pairs; the reason follows


@dataclass(frozen=True, kw_only=True)
class TokenisedCorpus:
    """A complete tokenised corpus, for training."""

    storage: Storage
    index: TokenIndex
    settings: Mapping[str, Any]  # `token_settings` of the recipe

    def tokenizers(self, folder: Path) -> TokenizerPair:
        """The corpus's tokenisers; written to `folder`, the run's own, unless it is there.

        Raises:
            DataError: they are missing or damaged, or were made by other settings.
            FolderError: the run's are damaged, or are others: those of a pretrained model or of a teacher.
        """
        tokenizers = read_tokenizers(self.storage, self.settings)
        if tokenizers is None:
            raise DataError(f"{self.storage.url}/{TOKENIZERS} is missing", "run `regard data tokenize` again")
        if not folder.is_dir():
            write_folder(folder, tokenizers.files())
        verify_folder(folder)
        if TokenizerPair.load(folder).digest() != tokenizers.digest():
            raise FolderError(
                f"{self.storage.url} was tokenised by another tokeniser than that of the run, {folder}",
                "run `regard data tokenize` with this recipe, its model.init included, into a new folder",
            )
        return tokenizers

    def pairs(self) -> CorpusPairs:
        """The pairs, for training."""
        return CorpusPairs(self.storage, self.index)

    def texts(self, tokenizer: Tokenizer, block: int, seed: int) -> StreamedTexts:
        """The documents in windows of `block` predicted tokens, for training."""
        reader = PartReader(self.storage, self.index, TextPart.of)
        tokens = self.index.numbers("tokens")
        return StreamedTexts(tokens, reader, block, bos_id=tokenizer.bos_id, seed=seed)

    def summary(self) -> str:
        """The size of the corpus and the skipped pairs by reason, for a message."""
        totals = self.index.totals
        skipped = {name.removeprefix(SKIPPED): totals[name] for name in totals if name.startswith(SKIPPED)}
        if "pairs" in totals:
            size = f"{totals['source_tokens']:,} source and {totals['target_tokens']:,} target tokens"
        else:
            size = f"{totals['tokens']:,} tokens"
        unit = "pairs" if "pairs" in totals else "documents"
        parts = f"{totals[unit]:,} {unit} in {counted(len(self.index.parts), 'part')}"
        return f"training: {parts}, {size}{counts_of_skipped(skipped)}"


def open_tokens(recipe: Any, base: Path, folder: Path) -> TokenisedCorpus:
    """Open the tokenised corpus of a recipe, and write its index into `folder`.

    `base`: the folder of the recipe, to which a path in `data.tokens` is relative.

    Raises:
        DataError: it is incomplete, damaged or empty, or no tokenised corpus.
        RecipeError: it was made by other settings than the recipe's.
    """
    storage = Storage(place_of(recipe.data.tokens, base))
    plan, index = token_index(storage, folder / INDEX)
    there, here = plan.settings, token_settings(recipe)
    for name in sorted({*there, *here}, key=lambda name: (name != "task", name)):
        if there.get(name) != here.get(name):
            raise RecipeError(
                f"{storage.url} was tokenised with {name} = {_shown(there, name)}, and the recipe has"
                f" {_shown(here, name)}",
                "run `regard data tokenize` with this recipe into a new folder, or change the recipe",
            )
    if not index.totals["pairs"] and not index.totals["documents"]:
        hint = "`regard jobs status` names the lines that failed, and why"
        raise DataError(f"{storage.url} has no example", hint)
    return TokenisedCorpus(storage=storage, index=index, settings=here)


def _shown(settings: Mapping[str, Any], name: str) -> str:
    return repr(settings[name]) if name in settings else "its default"


def refuse_two_corpora(train: Any, tokens: str | None) -> None:
    """Raise a RecipeError unless a recipe has either training files or a tokenised corpus, not both."""
    if (train is None) == (tokens is None):
        given = "is missing" if train is None else "and data.tokens are both given"
        one = ", which is read as one corpus without weights" if isinstance(train, tuple) else ""
        raise RecipeError(
            f"data.train {given}",
            f"give files, or with data.tokens a corpus that `regard data tokenize` has written{one}",
        )


def token_settings(recipe: Any) -> dict[str, Any]:
    """The recipe's settings that change a tokenised corpus, without those that have their defaults.

    Raises:
        RecipeError: `tokenizer.extension` is set.
    """
    if recipe.tokenizer.extension is not None:
        raise RecipeError(
            "tokenizer.extension is not for a tokenised corpus", "train on files of pairs: [data.train]"
        )
    if recipe.task.kind != "translation":
        return {"task": recipe.task.kind, **settings_of([recipe.tokenizer])}
    settings = settings_of([recipe.tokenizer, recipe.data.lines])
    seed = {"seed": recipe.training.seed} if recipe.tokenizer.dropout else {}
    return {**settings, "max_tokens": recipe.batches.max_tokens, **seed}


def place_of(tokens: str, base: Path) -> str:
    """The path or address of `data.tokens`; a path is relative to `base`, the recipe's folder."""
    return tokens if "://" in tokens else str(base / tokens)


def read_tokenizers(storage: Storage, settings: Mapping[str, Any]) -> TokenizerPair | None:
    """The tokenisers of a tokenised corpus; None if no process has written them yet.

    Raises:
        DataError: they are damaged, or were made by other settings.
    """
    content = storage.read(TOKENIZERS)
    if content is None:
        return None
    try:
        table = load_with_checksum(content.decode("utf-8"))
        if table["settings"] != settings:
            raise DataError(
                f"{storage.url}/{TOKENIZERS} was made by other settings of the recipe",
                "write into a new folder",
            )
        files: Mapping[str, str] = table["files"]
        return TokenizerPair.of({name: text.encode("utf-8") for name, text in files.items()})
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{storage.url}/{TOKENIZERS} is damaged ({error})", "write into a new folder"
        ) from error


def create_tokenizers(storage: Storage, tokenizers: TokenizerPair, settings: Mapping[str, Any]) -> None:
    """Write the tokenisers of a tokenised corpus, unless another process has written them."""
    files = {name: content.decode("utf-8") for name, content in tokenizers.files().items()}
    storage.create(
        TOKENIZERS, dump_with_checksum({"settings": dict(settings), "files": files}).encode("utf-8")
    )
