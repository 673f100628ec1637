"""From the corpora that a recipe names to tokenisers and shards on disk; once, then found again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from regard.data.corpus import Corpus, CorpusSettings, Pair, open_corpus
from regard.data.shards import write_shards
from regard.data.tokenizer import TokenizerPair, train_tokenizers
from regard.errors import FolderError
from regard.verbs.settings import RecipeFile
from regard.weights.folder import replace_file, verify_folder, write_folder
from regard.weights.strict_json import json_bytes, read_json

TOKENIZERS = "tokenizers"
CORPORA = "corpora.json"


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What training reads: tokenisers, the folder of training shards, the pairs to validate and test on."""

    tokenizers: TokenizerPair
    shards: Path
    valid: list[Pair]
    test: list[Pair]


def prepare(
    source: RecipeFile, folder: Path, *, say: Callable[[str], None], limit: int | None = None
) -> Prepared:
    """Train the tokenisers and tokenise the training corpus into `folder`, unless that is done already.

    Of the training corpus only the first `limit` pairs are taken where that is given.

    Raises:
        DataError: a corpus cannot be read, or nothing is left of it.
        FolderError: a corpus is not what it was when `folder` was made.
    """
    recipe = source.recipe
    settings = {"train": recipe.data.train, "valid": recipe.data.valid, "test": recipe.data.test}
    corpora = {part: corpus_of(source, given) for part, given in settings.items() if given}
    _refuse_other_data(corpora, folder)
    corpus = corpora["train"] if limit is None else corpora["train"].first(limit)
    tokenizers = _tokenizers(source, corpus, folder / TOKENIZERS, say)
    report = write_shards(
        corpus,
        tokenizers,
        folder / "train",
        max_tokens=recipe.batches.max_tokens,
        dropout=recipe.tokenizer.dropout,
        copies=recipe.tokenizer.copies,
        seed=recipe.training.seed,
    )
    say(
        f"training: {report.pairs:,} pairs, {report.source_tokens:,} source and"
        f" {report.target_tokens:,} target tokens{_counts(report.skipped)}"
    )
    pairs = {part: list(corpora[part]) if part in corpora else [] for part in ("valid", "test")}
    for part, name in (("valid", "validation"), ("test", "test")):
        if part in corpora:
            say(f"{name}: {len(pairs[part]):,} pairs{_counts(corpora[part].skipped)}")
    return Prepared(tokenizers=tokenizers, shards=folder / "train", valid=pairs["valid"], test=pairs["test"])


def corpus_of(source: RecipeFile, settings: CorpusSettings) -> Corpus:
    return open_corpus(settings, source.recipe.data.lines, source.base)


def _refuse_other_data(corpora: Mapping[str, Corpus], folder: Path) -> None:
    """Write down what the corpora are; whoever comes again must bring the same."""
    now = {part: corpus.fingerprint() for part, corpus in corpora.items()}
    if not (folder / CORPORA).exists():
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / CORPORA, json_bytes(now))
        return
    then = read_json(folder / CORPORA)
    for part, corpus in corpora.items():
        if then.get(part) != now[part]:
            raise FolderError(
                f"data.{part} ({corpus.name}) is not what this run began with",
                "put the old files back, or train into another folder with --out",
            )


def _counts(skipped: Mapping[str, int]) -> str:
    return "".join(f"; {count:,} left out: {reason}" for reason, count in sorted(skipped.items()))


def _tokenizers(
    source: RecipeFile, corpus: Corpus, folder: Path, say: Callable[[str], None]
) -> TokenizerPair:
    if folder.is_dir():
        verify_folder(folder)
        return TokenizerPair.load(folder)
    tokenizers = train_tokenizers(corpus, source.recipe.tokenizer)
    write_folder(folder, tokenizers.files())
    sizes = sorted({tokenizers.source.vocab_size, tokenizers.target.vocab_size})
    say(f"tokeniser: {source.recipe.tokenizer.kind}, {' and '.join(map(str, sizes))} tokens")
    return tokenizers
