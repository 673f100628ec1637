"""Training of tokenisers: words, characters, bytes, BPE, WordPiece, Unigram. It is deterministic."""

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from regard.data.corpus import Pair
from regard.data.tokenizer import Tokenizer, TokenizerPair, split_words, translated_panics
from regard.data.tokenizer_extension import ExtensionSettings
from regard.data.tokenizer_file import (
    CONTINUING,
    PIECE_PATTERN,
    PIECES_AND_DIGITS,
    SPECIALS,
    SPELLED_SPECIAL,
    UNK,
    UNKNOWN_WORD,
    WHITE_SPACE,
    WORD_OR_PUNCTUATION,
)
from regard.data.unigram import Vocabulary, train_unigram
from regard.errors import RecipeError
from regard.recipe import check_types

TokenizerKind = Literal["bpe", "bytebpe", "bytes", "characters", "words", "wordpiece", "unigram", "wordpunct"]
CUT_IN_PIECES: set[TokenizerKind] = {"bpe", "bytebpe", "unigram"}
WHOLE_WORDS: set[TokenizerKind] = {"words", "wordpunct"}
WITHOUT_WORDS: set[TokenizerKind] = {"characters", "bytes"}  # for these a text is one word


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """Settings of the tokenisers.

    `vocab_size` includes the four special tokens and is an upper bound: a small corpus gives fewer.
    `joint`: one vocabulary for both sides. `target_kind`: the target's kind if it differs from the source's.
    `normalization`: "auto" is "none" for `bytes` and `bytebpe`, which are lossless, and "nfc" for the rest.
    `split_digits`: a piece has at most one digit, so that a model can copy any number. `dropout`: the
    probability that BPE-dropout skips a merge in training, over `copies` sampled segmentations. `min_count`:
    of `words` and `wordpunct`, a word that occurs fewer times in the training text is unknown. It is 2 by
    default for `wordpunct`, so that a model learns what an unknown word means, and 1 for `words`.
    """

    kind: TokenizerKind = "bpe"  # how text is split into tokens
    target_kind: TokenizerKind | None = None
    vocab_size: int = 8000
    joint: bool = True
    lowercase: bool = False  # lowercase all text first; outputs are lowercase too
    normalization: Literal["auto", "none", "nfc", "nfkc"] = "auto"
    split_digits: bool = False
    dropout: float = 0.0
    copies: int = 4
    min_count: int | None = None  # 1 for words, 2 for wordpunct
    extension: ExtensionSettings | None = None  # new tokens for the tokeniser of a pretrained model

    def __post_init__(self) -> None:
        check_types(self)
        if self.vocab_size <= len(SPECIALS):
            raise RecipeError(
                f"vocab_size = {self.vocab_size} has room for special tokens only", "give a few thousand"
            )
        if self.joint and self.target_kind not in (None, self.kind):
            raise RecipeError(
                f"target_kind = {self.target_kind!r} differs from kind = {self.kind!r} in a joint vocabulary",
                "leave out target_kind, or set joint = false for two vocabularies",
            )
        if self.split_digits and not {self.kind, self.target_kind or self.kind} <= CUT_IN_PIECES:
            raise RecipeError(
                f"split_digits is not possible with kind = {self.kind!r}",
                f"choose among {', '.join(sorted(CUT_IN_PIECES))}, or set split_digits = false",
            )
        if not 0 <= self.dropout < 1:
            raise RecipeError(f"dropout = {self.dropout} is not between 0 and 1", "0.1 is usual")
        if self.dropout and {self.kind, self.target_kind or self.kind}.isdisjoint({"bpe", "bytebpe"}):
            raise RecipeError(
                f"kind = {self.kind!r} has no merges to drop", "set dropout = 0 or kind = 'bpe'"
            )
        if self.copies < 1:
            raise RecipeError(f"copies = {self.copies} is below 1", "give 1 or more")
        if self.min_count is not None and self.min_count < 1:
            raise RecipeError(f"min_count = {self.min_count} is below 1", "give 1 or more")
        if self.min_count not in (None, 1) and WHOLE_WORDS.isdisjoint(
            {self.kind, self.target_kind or self.kind}
        ):
            raise RecipeError(
                f"min_count is not possible with kind = {self.kind!r}",
                f"choose among {', '.join(sorted(WHOLE_WORDS))}, or set min_count = 1",
            )

    def refuse_unused(self) -> None:
        """Raise a RecipeError for a setting that has no effect beside the others."""
        if self.copies != TokenizerSettings.copies and not self.dropout:
            raise RecipeError(
                f"copies = {self.copies} has no effect: without dropout there is one segmentation of a text",
                f"set dropout = 0.1, or copies = {TokenizerSettings.copies}, the default",
            )

    def least_count(self, kind: TokenizerKind) -> int:
        """How often a word of a tokeniser of this kind must occur in the training text to be known."""
        return self.min_count or (2 if kind == "wordpunct" else 1)


def refuse_target_settings(settings: TokenizerSettings) -> None:
    """Refuse what is for the target, of a task whose examples have one text."""
    if settings.target_kind is not None:
        raise RecipeError(
            "tokenizer.target_kind has no effect: this task has no target text",
            "leave it out; tokenizer.kind is the kind of the only tokeniser",
        )
    if not settings.joint:
        raise RecipeError(
            "tokenizer.joint = false has no effect: this task has one text and one vocabulary", "leave it out"
        )


def refuse_lost_spaces(settings: TokenizerSettings) -> None:
    """Refuse `wordpunct` for a model that writes text: it would write spaces around all punctuation."""
    if "wordpunct" in (settings.kind, settings.target_kind):
        key = "kind" if settings.kind == "wordpunct" else "target_kind"
        raise RecipeError(
            f"tokenizer.{key} = 'wordpunct' does not keep spaces, so this model could not write them",
            f"{key} = 'bpe' is usual; wordpunct is for models that classify, tag or fill in words",
        )


def train_tokenizers(pairs: Iterable[Pair], settings: TokenizerSettings) -> TokenizerPair:
    """Trains the tokenisers of a corpus, which is read once if they are joint, else twice."""
    if settings.joint:
        both = train_tokenizer(
            (text for pair in pairs for text in (pair.source, pair.target)), settings.kind, settings
        )
        return TokenizerPair(both, both)
    source = train_tokenizer((pair.source for pair in pairs), settings.kind, settings)
    target_kind = settings.target_kind or settings.kind
    return TokenizerPair(source, train_tokenizer((pair.target for pair in pairs), target_kind, settings))


def train_tokenizer(texts: Iterable[str], kind: TokenizerKind, settings: TokenizerSettings) -> Tokenizer:
    """Trains one tokeniser on texts."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.normalizer = _normalizer(kind, settings)
    backend.pre_tokenizer = _pre_tokenizer(kind, settings.split_digits)
    with translated_panics(f"train a tokeniser of {kind}"):
        backend.model = _trained_model(backend, texts, kind, settings)
    if kind != "wordpunct":
        backend.decoder = _decoder(kind)
    backend.add_special_tokens(list(SPECIALS))
    if backend.get_vocab_size() > settings.vocab_size:
        raise RecipeError(
            f"vocab_size = {settings.vocab_size} is less than the {backend.get_vocab_size()} characters "
            "and special tokens of the corpus",
            f"give {backend.get_vocab_size()} or more; kind = 'bytebpe' needs only 260",
        )
    return Tokenizer(backend)


def _trained_model(
    backend: tokenizers.Tokenizer, texts: Iterable[str], kind: TokenizerKind, settings: TokenizerSettings
) -> models.Model:
    """Trains the model of `kind`, with at most `vocab_size` pieces, the special tokens among them."""
    size = settings.vocab_size - len(SPECIALS)
    words = (word for text in texts for word in split_words(backend, text))
    match kind:
        case "bytes":
            return _bpe(_bytes(), [])
        case "characters":
            symbols = Counter(itertools.chain.from_iterable(words))
            return _bpe(sorted(symbols, key=lambda symbol: (-symbols[symbol], symbol))[:size], [])
        case "unigram":
            return _unigram(train_unigram(Counter(words), size, _segment_by_unigram))
        case "words" | "wordpunct":
            backend.model = models.WordLevel(unk_token=UNK)
            trainer = trainers.WordLevelTrainer(
                vocab_size=size, min_frequency=settings.least_count(kind), show_progress=False
            )
            backend.train_from_iterator(texts, trainer)
            return models.WordLevel(_numbered(_pieces(backend)), unk_token=UNK)
        case _:
            alphabet = _bytes() if kind == "bytebpe" else []
            trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
            backend.train_from_iterator(texts, trainer)
            merges = json.loads(backend.to_str())["model"]["merges"]
            if kind == "wordpiece":
                pieces = [piece if piece[0] == " " else f"##{piece}" for piece in _pieces(backend)]
                return models.WordPiece(_numbered(pieces), unk_token=UNK, max_input_chars_per_word=200)
            return _bpe(_pieces(backend), merges)


def _bpe(pieces: Iterable[str], merges: Iterable[Sequence[str]]) -> models.BPE:
    """A BPE model without the merges that would spell a special token."""
    refused: set[str] = set(SPECIALS)
    kept = []
    for left, right in merges:
        if left in refused or right in refused or left + right in refused:
            refused.add(left + right)
        else:
            kept.append((left, right))
    made = {left + right for left, right in kept}
    pieces = [piece for piece in pieces if piece not in refused or piece in made]
    return models.BPE(_numbered(pieces), kept, unk_token=UNK)


def _unigram(vocabulary: Vocabulary) -> models.Unigram:
    lowest = min((score for _, score in vocabulary), default=0.0)
    return models.Unigram([*((token, lowest) for token in SPECIALS), *vocabulary], SPECIALS.index(UNK))


def _segment_by_unigram(vocabulary: Vocabulary, words: Sequence[str]) -> list[list[int]]:
    backend = tokenizers.Tokenizer(models.Unigram(vocabulary, 0))
    return [found.ids for found in backend.encode_batch_fast(list(words), add_special_tokens=False)]


def _bytes() -> list[str]:
    """The 256 characters with which byte-level tokenisers write bytes."""
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def _pieces(backend: tokenizers.Tokenizer) -> list[str]:
    vocabulary = backend.get_vocab()
    return sorted(vocabulary, key=lambda piece: vocabulary[piece])


def _numbered(pieces: Iterable[str]) -> dict[str, int]:
    return {piece: number for number, piece in enumerate((*SPECIALS, *pieces))}


def _normalizer(kind: TokenizerKind, settings: TokenizerSettings) -> normalizers.Normalizer | None:
    form = settings.normalization
    if form == "auto":
        form = "none" if kind in ("bytes", "bytebpe") else "nfc"
    steps: list[normalizers.Normalizer] = []
    if form != "none":
        steps.append(normalizers.NFC() if form == "nfc" else normalizers.NFKC())
    if settings.lowercase:
        steps.append(normalizers.Lowercase())
    if kind not in ("bytes", "characters", "wordpunct"):
        steps.append(normalizers.Prepend(" "))
    return normalizers.Sequence(steps) if steps else None


def _pre_tokenizer(kind: TokenizerKind, split_digits: bool) -> pre_tokenizers.PreTokenizer | None:
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    pattern = PIECES_AND_DIGITS if split_digits else PIECE_PATTERN
    pieces = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    match kind:
        case "characters":
            return None
        case "bytes":
            return to_bytes
        case "words" | "wordpiece":
            return pre_tokenizers.Split(" ", "merged_with_next")
        case "wordpunct":
            return pre_tokenizers.Sequence(
                [
                    pre_tokenizers.Split(tokenizers.Regex(WHITE_SPACE), "removed"),
                    pre_tokenizers.Split(tokenizers.Regex(WORD_OR_PUNCTUATION), "isolated"),
                ]
            )
        case "bytebpe":
            return pre_tokenizers.Sequence([pieces, to_bytes])
        case "unigram":  # it would match the spelling of a special token as a whole
            return pre_tokenizers.Sequence(
                [pieces, pre_tokenizers.Split(tokenizers.Regex(SPELLED_SPECIAL), "isolated")]
            )
        case _:
            return pieces


def _decoder(kind: TokenizerKind) -> decoders.Decoder:
    """The decoder of all kinds but `wordpunct`, which has none: its tokens are joined by spaces."""
    without_space = decoders.Strip(" ", 1, 0)
    match kind:
        case "characters":
            return decoders.Fuse()
        case "bytes":
            return decoders.ByteLevel()
        case "bytebpe":
            return decoders.Sequence([decoders.ByteLevel(), without_space])
        case "words" | "wordpiece":
            unknown = decoders.Replace(tokenizers.Regex(UNKNOWN_WORD), f" {UNK}")
            joined = decoders.Replace(tokenizers.Regex(CONTINUING), "")
            steps = [unknown, joined] if kind == "wordpiece" else [unknown]
            return decoders.Sequence([*steps, decoders.Fuse(), without_space])
        case _:
            return decoders.Sequence([decoders.Fuse(), without_space])
