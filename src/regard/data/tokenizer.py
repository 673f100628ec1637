"""Tokenisers (words, characters, bytes, BPE, WordPiece, Unigram) on top of the tokenizers library.

In all kinds the special tokens `<pad> <unk> <s> </s>` are ids 0 to 3, and no text encodes to them, not even
text that spells them. A space belongs to the word after it, and one is added before every text and removed
after decoding: so a word is the same piece anywhere, and repeated spaces are kept. `bytes` and `characters`
do without that. Training is deterministic.
"""

import dataclasses
import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from regard.data.corpus import Pair
from regard.data.folder_file import read_file
from regard.data.tokenizer_file import (
    CONTINUING,
    PIECE_PATTERN,
    PIECES_AND_DIGITS,
    SPECIALS,
    SPELLED_SPECIAL,
    UNK,
    UNKNOWN_WORD,
    validate,
)
from regard.data.tokenizer_pretrained import SpecialTokens, with_special_tokens
from regard.data.unigram import Vocabulary, train_unigram
from regard.errors import DataError, FolderError, RecipeError

TokenizerKind = Literal["bpe", "bytebpe", "bytes", "characters", "words", "wordpiece", "unigram"]
CUT_IN_PIECES: set[TokenizerKind] = {"bpe", "bytebpe", "unigram"}


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """Settings of the tokenisers.

    `vocab_size` includes the four special tokens and is an upper bound: a small corpus gives fewer.
    `joint`: one vocabulary for both sides. `target_kind`: the target's kind if it differs from the source's.
    `normalization`: "auto" is "none" for `bytes` and `bytebpe`, which are lossless, and "nfc" for the rest.
    `split_digits`: a piece has at most one digit, so that a model can copy any number. `dropout`: the
    probability that BPE-dropout skips a merge in training, over `copies` sampled segmentations.
    """

    kind: TokenizerKind = "bpe"
    target_kind: TokenizerKind | None = None
    vocab_size: int = 8000
    joint: bool = True
    lowercase: bool = False
    normalization: Literal["auto", "none", "nfc", "nfkc"] = "auto"
    split_digits: bool = False
    dropout: float = 0.0
    copies: int = 4

    def __post_init__(self) -> None:
        if self.vocab_size <= len(SPECIALS):
            raise RecipeError(
                f"vocab_size = {self.vocab_size} has room for special tokens only", "give a few thousand"
            )
        if self.joint and self.target_kind not in (None, self.kind):
            raise RecipeError(
                f"target_kind = {self.target_kind!r} differs from kind = {self.kind!r} in a joint vocabulary",
                "set joint = false",
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


class Tokenizer:
    """Encodes text as ids and decodes ids.

    `encode` never yields a special token except <unk> and the prefix; `decode` drops all of them but <unk>.
    """

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        backend.encode_special_tokens = True  # the file does not keep it
        self._backend = backend
        self._spelling: tokenizers.Tokenizer | None = (
            None  # the same; encodes special tokens that are spelled
        )
        special = _special_tokens(backend)
        self.pad_id, self.unk_id, self.bos_id, self.eos_id = (
            special.pad,
            special.unk,
            special.bos,
            special.eos,
        )
        self.mask_id = special.mask  # None: the tokeniser has no mask token
        self.vocab_size = special.vocab_size
        self.prefix = special.prefix  # the ids that `encode` puts before every text
        self.languages = {  # code -> id of its token, one of which may be the prefix
            (backend.id_to_token(number) or "").strip("_"): number for number in special.languages
        }
        self._dropped = {self.pad_id, self.bos_id, self.eos_id, *special.prefix, *special.languages}
        # pieces of a pretrained tokeniser that no text may encode to
        self._unmatchable: set[int | None] = set()
        if not self.trained_by_regard:
            beyond = range(special.vocab_size, max(backend.get_vocab().values(), default=0) + 1)
            self._unmatchable = {special.mask, *self._dropped, *beyond} - {special.unk}

    @property
    def trained_by_regard(self) -> bool:
        """True if the tokeniser was trained by regard; False for one of a pretrained model."""
        return self._backend.post_processor is None

    @property
    def dropped_ids(self) -> list[int]:
        """The ids that `decode` drops."""
        return sorted(self._dropped)

    @property
    def unmatchable_ids(self) -> list[int]:
        """The ids that `encode` replaces by <unk>; none if the tokeniser was trained by regard."""
        return sorted(number for number in self._unmatchable if number is not None)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without bos and eos."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of several texts, without bos and eos."""
        with _translated_panics("encode this text"):
            try:
                found = self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
            except TypeError as error:
                raise _surrogate(texts) from error
        return [[*self.prefix, *self._known(encoding.ids)] for encoding in found]

    def encode_rendered(self, text: str) -> list[int]:
        """The ids of a text that a chat template wrote: special tokens that it spells are themselves."""
        if self._spelling is None:
            self._spelling = tokenizers.Tokenizer.from_str(self._backend.to_str())
            self._spelling.encode_special_tokens = False
        with _translated_panics("encode this text"):
            ids = self._spelling.encode(text, add_special_tokens=False).ids
        return [number if number < self.vocab_size else self.unk_id for number in ids]

    def special_texts(self) -> list[str]:
        """The special tokens as a text spells them."""
        added = self._backend.get_added_tokens_decoder().values()
        return [token.content for token in added if token.special]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; special tokens except <unk> are dropped."""
        kept = [number for number in ids if number not in self._dropped]
        with _translated_panics("decode these ids"):
            return self._backend.decode(kept, skip_special_tokens=False)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The pieces of `ids` as the vocabulary writes them, for display."""
        return [self._backend.id_to_token(number) or UNK for number in ids]

    def words(self, text: str) -> list[str]:
        """The words of a text: normalised and pre-tokenised, before they are split into pieces."""
        with _translated_panics("split this text"):
            return _split(self._backend, text)

    def word_ids(self, word: str) -> list[int]:
        """The ids of one of `words`."""
        with _translated_panics("encode this text"):
            return self._known([token.id for token in self._backend.model.tokenize(word)])

    def _known(self, ids: list[int]) -> list[int]:
        """Replaces special tokens that a text spells, and pieces that the model lacks, by <unk>."""
        if self._unmatchable.isdisjoint(ids):
            return ids
        return [self.unk_id if number in self._unmatchable else number for number in ids]

    def encode_words(self, text: str) -> list[list[int]]:
        """The ids of each of `words`; joined they are `encode(text)` without the prefix."""
        return [self.word_ids(word) for word in self.words(text)]

    def with_prefix(self, prefix: tuple[int, ...]) -> "Tokenizer":
        """This tokeniser of a pretrained model with other ids before every text."""
        special = dataclasses.replace(_special_tokens(self._backend), prefix=prefix)
        content = with_special_tokens(json.loads(self._backend.to_str()), special)
        return Tokenizer.from_bytes(json.dumps(content).encode())

    def vocabulary(self) -> dict[str, int]:
        """Every piece and its id."""
        return self._backend.get_vocab()

    def merges(self) -> list[tuple[str, str]]:
        """The BPE merges in order; empty for other kinds."""
        model = json.loads(self._backend.to_str())["model"]
        return [(left, right) for left, right in model.get("merges", [])]

    def to_bytes(self) -> bytes:
        """The content of `tokenizer.json`, which the tokenizers library can read."""
        return self._backend.to_str(pretty=True).encode()

    @classmethod
    def from_bytes(cls, content: bytes, name: str = "tokenizer.json") -> "Tokenizer":
        """Reads a tokenizer.json; FolderError if it is damaged or not supported."""
        try:
            text = content.decode()
            validate(json.loads(text))
            with _translated_panics(f"read {name}"):
                tokenizer = cls(_loaded(text))
            if tokenizer.trained_by_regard and max(tokenizer.vocabulary().values()) >= tokenizer.vocab_size:
                raise ValueError("its ids have gaps")
            return tokenizer
        except (ValueError, RecursionError, LookupError, TypeError, DataError) as error:
            raise FolderError(
                f"{name} is not a tokeniser of regard ({str(error).splitlines()[0]})",
                "take tokenizer.json from the folder of a trained model",
            ) from error

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Reads a tokenizer.json; FolderError if it is missing, damaged or not supported."""
        return cls.from_bytes(read_file(path), str(path))


@dataclass(frozen=True)
class TokenizerPair:
    """The tokenisers of source and target, which are the same object if the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        """True if both sides share one vocabulary."""
        return self.source is self.target

    def files(self) -> dict[str, bytes]:
        """The tokeniser files of a model folder, name -> content."""
        if self.joint:
            return {"tokenizer.json": self.source.to_bytes()}
        return {
            "source_tokenizer.json": self.source.to_bytes(),
            "target_tokenizer.json": self.target.to_bytes(),
        }

    def digest(self) -> str:
        """The SHA-256 of both tokenisers."""
        return hashlib.sha256(b"\0".join(self.files().values())).hexdigest()

    @classmethod
    def load(cls, folder: Path) -> "TokenizerPair":
        """Reads the tokenisers of a model folder."""
        if (folder / "source_tokenizer.json").exists():
            return cls(*(Tokenizer.load(folder / f"{side}_tokenizer.json") for side in ("source", "target")))
        both = Tokenizer.load(folder / "tokenizer.json")
        return cls(both, both)


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
    with _translated_panics(f"train a tokeniser of {kind}"):
        backend.model = _trained_model(backend, texts, kind, settings.vocab_size - len(SPECIALS))
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
    backend: tokenizers.Tokenizer, texts: Iterable[str], kind: TokenizerKind, size: int
) -> models.Model:
    """Trains the model of `kind`, with at most `size` pieces besides the special tokens."""
    words = (word for text in texts for word in _split(backend, text))
    match kind:
        case "bytes":
            return _bpe(_bytes(), [])
        case "characters":
            symbols = Counter(itertools.chain.from_iterable(words))
            return _bpe(sorted(symbols, key=lambda symbol: (-symbols[symbol], symbol))[:size], [])
        case "unigram":
            return _unigram(train_unigram(Counter(words), size, _segment_by_unigram))
        case "words":
            backend.model = models.WordLevel(unk_token=UNK)
            backend.train_from_iterator(
                texts, trainers.WordLevelTrainer(vocab_size=size, show_progress=False)
            )
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


def _special_tokens(backend: tokenizers.Tokenizer) -> SpecialTokens:
    """The ids of the special tokens: by name, or as the file of a pretrained tokeniser has them."""
    if (processor := backend.post_processor) is not None:
        special = SpecialTokens.of(json.loads(processor.__getstate__()))
        assert special is not None
        return special
    vocabulary = backend.get_vocab()
    pad, unk, bos, eos = (vocabulary[token] for token in SPECIALS)
    return SpecialTokens(pad=pad, unk=unk, bos=bos, eos=eos, vocab_size=backend.get_vocab_size())


def _split(backend: tokenizers.Tokenizer, text: str) -> list[str]:
    """Normalises `text` and splits it into words, which no piece crosses."""
    normalizer, splitter = backend.normalizer, backend.pre_tokenizer
    text = normalizer.normalize_str(text) if normalizer else text
    return [word for word, _ in splitter.pre_tokenize_str(text)] if splitter else [text]


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
    if kind not in ("bytes", "characters"):
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
        case "bytebpe":
            return pre_tokenizers.Sequence([pieces, to_bytes])
        case "unigram":  # it would match the spelling of a special token as a whole
            return pre_tokenizers.Sequence(
                [pieces, pre_tokenizers.Split(tokenizers.Regex(SPELLED_SPECIAL), "isolated")]
            )
        case _:
            return pieces


def _decoder(kind: TokenizerKind) -> decoders.Decoder:
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


def _loaded(text: str) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the library raises Exception itself, nothing narrower
        raise DataError(str(error)) from error


@contextmanager
def _translated_panics(doing: str) -> Iterator[None]:
    """Turns a panic of the Rust code, a BaseException that cannot be imported, into a DataError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise DataError(
            f"the tokenizers library could not {doing}: {error}", "is the file damaged?"
        ) from error


def _surrogate(texts: Sequence[str]) -> DataError:
    for number, text in enumerate(texts):
        for offset, symbol in enumerate(text):
            if "\ud800" <= symbol <= "\udfff":
                return DataError(
                    f"text {number + 1} has a lone surrogate at character {offset + 1}",
                    "it is not a character: remove it or replace it by U+FFFD",
                )
    return DataError("a text to encode is not a string", "give str")
