"""From the corpora that a recipe names to tokenisers and shards on disk; once, then found again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from regard.data.corpus import Corpus, CorpusSettings, Pair, open_corpus
from regard.data.shards import write_shards
from regard.data.tokenizer import TokenizerPair, train_tokenizers
from regard.verbs.settings import RecipeFile

TOKENIZERS = "tokenizers"


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What training reads: tokenisers, the folder of training shards, validation pairs."""

    tokenizers: TokenizerPair
    shards: Path
    valid: list[Pair]


def prepare(
    source: RecipeFile, folder: Path, *, say: Callable[[str], None], limit: int | None = None
) -> Prepared:
    """Train the tokenisers and tokenise the training corpus into `folder`, unless that is done already.

    Of the training corpus only the first `limit` pairs are taken where that is given.

    Raises:
        DataError: a corpus cannot be read, or nothing is left of it.
    """
    recipe = source.recipe
    corpus = corpus_of(source, recipe.data.train)
    if limit is not None:
        corpus = corpus.first(limit)
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
    valid = corpus_of(source, recipe.data.valid)
    pairs = list(valid)
    say(f"validation: {len(pairs):,} pairs{_counts(valid.skipped)}")
    return Prepared(tokenizers=tokenizers, shards=folder / "train", valid=pairs)


def corpus_of(source: RecipeFile, settings: CorpusSettings) -> Corpus:
    return open_corpus(settings, source.recipe.data.lines, source.base)


def _counts(skipped: Mapping[str, int]) -> str:
    return "".join(f"; {count:,} left out: {reason}" for reason, count in sorted(skipped.items()))


def _tokenizers(
    source: RecipeFile, corpus: Corpus, folder: Path, say: Callable[[str], None]
) -> TokenizerPair:
    if folder.is_dir():
        return TokenizerPair.load(folder)
    tokenizers = train_tokenizers(corpus, source.recipe.tokenizer)
    partial = folder.with_name(folder.name + ".partial")
    partial.mkdir(parents=True, exist_ok=True)
    for name, content in tokenizers.files().items():
        (partial / name).write_bytes(content)
    partial.rename(folder)
    sizes = sorted({tokenizers.source.vocab_size, tokenizers.target.vocab_size})
    say(f"tokeniser: {source.recipe.tokenizer.kind}, {' and '.join(map(str, sizes))} tokens")
    return tokenizers
