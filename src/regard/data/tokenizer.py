"""Tokenisers on top of the tokenizers library: text to ids and back.

The kinds that regard trains (`tokenizer_training.py`) have the special tokens `<pad> <unk> <s> </s>` as ids
0 to 3, and no text encodes to them, not even text that spells them. A space belongs to the word after it, and
one is added before every text and removed after decoding: so a word is the same piece anywhere, and repeated
spaces are kept. `bytes` and `characters` do without that. `wordpunct` removes spaces: its tokens are words
and punctuation, and decoding puts a space between any two. A tokeniser that was extended
(`tokenizer_extension.py`) may have added tokens, such as `>>fr<<`: a text that spells one has it there.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tokenizers

from regard.data.cached_words import CachedWords
from regard.data.folder_file import read_file
from regard.data.tokenizer_file import SPECIALS, UNK, UNMATCHED, tokenizer_kind, validate
from regard.data.tokenizer_pretrained import SpecialTokens, with_special_tokens
from regard.errors import DataError, FolderError

MANY = 2000  # texts, from which on it pays to remember the ids of words


class Tokenizer:
    """Encodes text as ids and decodes ids.

    `encode` never yields a special token except <unk> and the prefix; `decode` drops all of them but <unk>.
    """

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        backend.encode_special_tokens = True  # the file does not keep it
        self._backend = backend
        self._encoded = 0  # texts
        self._words: tuple[CachedWords | None] | None = None
        self._spelling: tokenizers.Tokenizer | None = None  # the same; reads special tokens in a text
        special = _special_tokens(backend)
        self.pad_id, self.unk_id, self.bos_id, self.eos_id = (
            special.pad,
            special.unk,
            special.bos,
            special.eos,
        )
        self.mask_id = special.mask  # None: the tokeniser has no mask token
        self.vocab_size = special.vocab_size
        self._splits = special.splits
        self.prefix = special.prefix  # the ids that `encode` puts before every text
        self.languages = {  # code -> id of its token, one of which may be the prefix
            (backend.id_to_token(number) or "").strip("_"): number for number in special.languages
        }
        self.added_tokens: dict[str, int] = {}  # spelling -> id
        if self.trained_by_regard:
            added = backend.get_added_tokens_decoder()
            self.added_tokens = {each.content: id for id, each in added.items() if not each.special}
        self._added = _added_pattern(backend, self.added_tokens)
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
    def rare_words_unknown(self) -> bool:
        """True for the kind `wordpunct`, of which the rare words of the training text are unknown tokens."""
        if not (self.trained_by_regard and isinstance(self._backend.model, tokenizers.models.WordLevel)):
            return False
        return tokenizer_kind(json.loads(self._backend.to_str())) == "wordpunct"

    @property
    def splits_pieces(self) -> bool:
        """True if `encode` splits pieces that the model lacks, which the tokenizers library does not."""
        return bool(self._splits)

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
        known = self._of_known_words(texts)
        others = [text for text, ids in zip(texts, known, strict=True) if ids is None]
        with translated_panics("encode this text"):
            try:
                found = iter(self._backend.encode_batch_fast(others, add_special_tokens=False))
            except TypeError as error:
                raise _surrogate(texts) from error
        return [[*self.prefix, *(self._known(next(found).ids) if ids is None else ids)] for ids in known]

    def _of_known_words(self, texts: Sequence[str]) -> Sequence[list[int] | None]:
        """The ids of texts by words that were seen, once many texts are encoded; None: the library's turn."""
        self._encoded += len(texts)
        if self._encoded < MANY:
            return [None] * len(texts)
        if self._words is None:
            self._words = (CachedWords.of(self._backend),)
        [words] = self._words
        return [None] * len(texts) if words is None else [words.encode(text) for text in texts]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The characters of each id of `encode(text)`: begin, and end excluded; of a prefix none."""
        with translated_panics("encode this text"):
            encoding = self._backend.encode(text, add_special_tokens=False)
        spans = [(0, 0)] * len(self.prefix)
        for number, span in zip(encoding.ids, encoding.offsets, strict=True):
            spans += [span] * len(self._known([number]))
        return spans

    def encode_rendered(self, text: str) -> list[int]:
        """The ids of a text that a chat template wrote: special tokens that it spells are themselves."""
        if self._spelling is None:
            self._spelling = tokenizers.Tokenizer.from_str(self._backend.to_str())
            self._spelling.encode_special_tokens = False
        with translated_panics("encode this text"):
            ids = self._spelling.encode(text, add_special_tokens=False).ids
        return [number if number < self.vocab_size else self.unk_id for number in ids]

    def special_texts(self) -> list[str]:
        """The special tokens as a text spells them."""
        added = self._backend.get_added_tokens_decoder().values()
        return [token.content for token in added if token.special]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; special tokens except <unk> are dropped."""
        kept = [number for number in ids if number not in self._dropped]
        with translated_panics("decode these ids"):
            return self._backend.decode(kept, skip_special_tokens=False)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The pieces of `ids` for display."""
        names = self.names(ids)
        return names if self.trained_by_regard else [name.removeprefix(UNMATCHED) for name in names]

    def names(self, ids: Iterable[int]) -> list[str]:
        """The pieces of `ids` as tokenizer.json writes them, with a mark if no text matches one."""
        return [self._backend.id_to_token(number) or UNK for number in ids]

    def words(self, text: str) -> list[str]:
        """The words of a text: normalised and pre-tokenised, before they are split into pieces."""
        parts = [part for part in self._added.split(text) if part] if self._added else [text]
        with translated_panics("split this text"):
            return [
                word
                for part in parts
                for word in ([part] if part in self.added_tokens else split_words(self._backend, part))
            ]

    def word_ids(self, word: str) -> list[int]:
        """The ids of one of `words`."""
        if word in self.added_tokens:
            return [self.added_tokens[word]]
        with translated_panics("encode this text"):
            return self._known([token.id for token in self._backend.model.tokenize(word)])

    def _known(self, ids: list[int]) -> list[int]:
        """Replaces special tokens that a text spells, and pieces that the model lacks (by their split)."""
        if self._unmatchable.isdisjoint(ids):
            return ids
        if self._splits:
            ids = [part for number in ids for part in self._splits.get(number, (number,))]
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
            with translated_panics(f"read {name}"):
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
    def of(cls, files: Mapping[str, bytes]) -> "TokenizerPair":
        """Reads the tokenisers from what `files` returns, among other files."""
        names = [name for name in ("source_tokenizer.json", "target_tokenizer.json") if name in files]
        found = [Tokenizer.from_bytes(files[name], name) for name in names or ["tokenizer.json"]]
        return cls(found[0], found[-1])

    @classmethod
    def load(cls, folder: Path) -> "TokenizerPair":
        """Reads the tokenisers of a model folder."""
        if (folder / "source_tokenizer.json").exists():
            return cls(*(Tokenizer.load(folder / f"{side}_tokenizer.json") for side in ("source", "target")))
        both = Tokenizer.load(folder / "tokenizer.json")
        return cls(both, both)


def _special_tokens(backend: tokenizers.Tokenizer) -> SpecialTokens:
    """The ids of the special tokens: by name, or as the file of a pretrained tokeniser has them."""
    if (processor := backend.post_processor) is not None:
        special = SpecialTokens.of(json.loads(processor.__getstate__()))
        assert special is not None
        return special
    vocabulary = backend.get_vocab()
    pad, unk, bos, eos = (vocabulary[token] for token in SPECIALS)
    return SpecialTokens(pad=pad, unk=unk, bos=bos, eos=eos, vocab_size=backend.get_vocab_size())


def _added_pattern(backend: tokenizers.Tokenizer, added: Iterable[str]) -> re.Pattern[str] | None:
    """An expression that finds added tokens in a text, as the library does; None if there are none."""
    if not added:
        return None
    longest_first = sorted(added, key=lambda text: (-len(text), text))
    eats_space = any(each.rstrip for each in backend.get_added_tokens_decoder().values())
    space = r"[^\S\x1c-\x1f]*" if eats_space else ""  # what the library takes for white space
    return re.compile(f"({'|'.join(map(re.escape, longest_first))}){space}")


def split_words(backend: tokenizers.Tokenizer, text: str) -> list[str]:
    """Normalises `text` and splits it into words, which no piece crosses."""
    normalizer, splitter = backend.normalizer, backend.pre_tokenizer
    text = normalizer.normalize_str(text) if normalizer else text
    return [word for word, _ in splitter.pre_tokenize_str(text)] if splitter else [text]


def _loaded(text: str) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the library raises Exception itself, nothing narrower
        raise DataError(str(error)) from error


@contextmanager
def translated_panics(doing: str) -> Iterator[None]:
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
                if "\udc80" <= symbol <= "\udcff":  # how Python gives a byte of an argument that is not UTF-8
                    return DataError(
                        f"the text is not UTF-8: it has the byte 0x{ord(symbol) - 0xDC00:02x}",
                        "give it in UTF-8, or as a file (iconv converts it); is the locale one of UTF-8?",
                    )
                return DataError(
                    f"text {number + 1} has a lone surrogate at character {offset + 1}",
                    "it is not a character: remove it or replace it by U+FFFD",
                )
    return DataError("a text to encode is not a string", "give str")
