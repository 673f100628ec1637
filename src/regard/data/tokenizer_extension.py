"""Extends a trained tokeniser: new tokens after the old ones, which keep their ids and their texts."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from regard.data.continued_merges import continued_merges
from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_file import SPECIALS, tokenizer_kind
from regard.data.unigram import LONGEST_PIECE, Vocabulary, extend_unigram
from regard.errors import RecipeError

CONTINUED = "##"  # what WordPiece puts before a piece within a word
KNOWN_WORDS_STAY = ("characters", "words", "wordpunct")  # kinds whose known texts no new token can change


@dataclass(frozen=True, kw_only=True)
class ExtensionSettings:
    """New tokens for the tokeniser of the pretrained model that a run starts from (`--init`).

    A text that it encodes without unknown tokens is split as before: each learned token has a letter that
    the tokeniser lacks (of `words` and `wordpunct`: is a word that it lacks). With `keep`, learned tokens may
    also have known letters alone; then the words of these files that have no unknown token are split as
    before, and others may be split into fewer pieces. A text that spells one of `tokens` has that token.
    """

    size: int = 0  # the most tokens that are learned from the training text
    tokens: tuple[str, ...] = ()  # texts that become a token each, such as ">>fr<<"
    # text files whose words are split as before; new tokens may then be made of known letters too
    keep: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.size < 0:
            raise RecipeError(f"size = {self.size} is below 0", "give the number of new tokens")
        if not self.size and not self.tokens:
            raise RecipeError("size = 0 and no tokens: nothing is new", "give size = 1000, or tokens")
        if self.keep and not self.size:
            raise RecipeError("keep has no effect without size", "leave it out")
        for token in self.tokens:
            if token.split() != [token] or token in SPECIALS or self.tokens.count(token) > 1:
                raise RecipeError(
                    f"tokens: {token!r} cannot be a new token",
                    "name each text once, without white space; <pad>, <unk>, <s> and </s> are there already",
                )
            if token[0].isalnum() or token[-1].isalnum():
                raise RecipeError(
                    f"tokens: {token!r} would also be a token within longer words",
                    f"begin and end it with other symbols, such as '>>{token}<<'; words are learned by size",
                )


def extend_tokenizer(
    tokenizer: Tokenizer, settings: ExtensionSettings, texts: Iterable[str], kept: Iterable[str] = ()
) -> Tokenizer:
    """`tokenizer` with new tokens: `settings.tokens`, and those that are learned from `texts`.

    `kept` are the texts of `settings.keep`. Fewer than `settings.size` are learned if `texts` have no more.

    Raises:
        RecipeError: this kind of tokeniser cannot be extended, or not in this way.
    """
    if not tokenizer.trained_by_regard:
        raise RecipeError(
            "tokenizer.extension: the pretrained model's tokeniser was not trained by regard",
            "leave the table out: only tokenisers that regard trained can be extended",
        )
    content = json.loads(tokenizer.to_bytes())
    kind = tokenizer_kind(content)
    _refuse_other_kinds(kind, settings)
    vocabulary = _Vocabulary(content)
    for token in settings.tokens:
        if token in tokenizer.vocabulary():
            raise RecipeError(f"tokenizer.extension.tokens: {token!r} is a token already", "leave it out")
        vocabulary.add_text(token)
    if settings.size:
        counts = _word_counts(vocabulary.tokenizer(), texts)
        learn = {
            "unigram": _learn_unigram,
            "words": _learn_words,
            "wordpunct": _learn_words,
            "characters": _learn_letters,
        }
        words_kept = set(_word_counts(vocabulary.tokenizer(), kept))
        learn.get(kind, _learn_merges)(vocabulary, counts, words_kept, settings)
    return vocabulary.tokenizer()


def old_pieces(old: Tokenizer, extended: Tokenizer) -> list[list[int]]:
    """The ids of the pieces of `old` that the text of each new token splits into, without unknown ones."""
    vocabulary = old.vocabulary()
    wordpiece = tokenizer_kind(json.loads(old.to_bytes())) == "wordpiece"
    found = []
    for piece in extended.tokens(range(old.vocab_size, extended.vocab_size)):
        if piece in extended.added_tokens:
            ids = old.encode(piece)
        elif wordpiece:  # it has one unknown token for a word with an unknown letter
            ids = list(_greedy(piece, vocabulary))
        else:
            ids = old.word_ids(piece)
        found.append([number for number in ids if number != old.unk_id])
    return found


class _Vocabulary:
    """The content of a tokenizer.json to which pieces are added."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content
        self.model = content["model"]

    def add(self, piece: str, score: float = 0.0) -> None:
        """Adds a piece; `score` is its log-probability, of Unigram alone."""
        if isinstance(self.model["vocab"], dict):
            self.model["vocab"][piece] = len(self.model["vocab"])
        else:
            self.model["vocab"].append([piece, score])

    def add_text(self, text: str) -> None:
        """Adds a token that a text has wherever it spells it; white space after it counts as one space."""
        scores = [] if isinstance(self.model["vocab"], dict) else [score for _, score in self.model["vocab"]]
        number = len(self.model["vocab"])
        self.add(text, min(scores, default=0.0))
        self.content["added_tokens"].append(
            {
                "id": number,
                "content": text,
                "single_word": False,
                "lstrip": False,
                "rstrip": "Prepend" in json.dumps(self.content["normalizer"]),
                "normalized": False,
                "special": False,
            }
        )

    @property
    def pieces(self) -> set[str]:
        """All pieces."""
        vocabulary = self.model["vocab"]
        return set(vocabulary) if isinstance(vocabulary, dict) else {piece for piece, _ in vocabulary}

    def tokenizer(self) -> Tokenizer:
        return Tokenizer.from_bytes(json.dumps(self.content).encode())


def _refuse_other_kinds(kind: str, settings: ExtensionSettings) -> None:
    if settings.size and kind == "bytes":
        raise RecipeError(
            "tokenizer.extension.size: a tokeniser of bytes encodes all texts and has no tokens to learn",
            "leave size out",
        )
    if settings.size and kind == "bytebpe" and not settings.keep:
        raise RecipeError(
            "tokenizer.extension.size: a byte-level tokeniser lacks no letter",
            "name files of old text by tokenizer.extension.keep: their words are split as before",
        )
    if settings.keep and kind in KNOWN_WORDS_STAY:
        raise RecipeError(
            f"tokenizer.extension.keep is not needed: no new token of {kind} changes a known text",
            "leave it out",
        )


def _word_counts(tokenizer: Tokenizer, texts: Iterable[str]) -> Counter[str]:
    counts = Counter(word for text in texts for word in tokenizer.words(text))
    for token in tokenizer.added_tokens:
        counts.pop(token, None)
    return counts


def _new_letters(vocabulary: _Vocabulary, counts: Mapping[str, int], size: int) -> list[str]:
    """The most frequent characters that are not in the vocabulary."""
    pieces, begin = vocabulary.pieces, CONTINUED if vocabulary.model["type"] == "WordPiece" else ""
    found = Counter[str]()
    for word, count in counts.items():
        for letter in word:
            found[letter] += count
    new = [letter for letter in found if begin + letter not in pieces and letter not in pieces]
    return sorted(new, key=lambda letter: (-found[letter], letter))[:size]


def _learn_letters(
    vocabulary: _Vocabulary, counts: Mapping[str, int], _kept: set[str], settings: ExtensionSettings
) -> None:
    for letter in _new_letters(vocabulary, counts, settings.size):
        vocabulary.add(letter)


def _learn_words(
    vocabulary: _Vocabulary, counts: Mapping[str, int], _kept: set[str], settings: ExtensionSettings
) -> None:
    pieces = vocabulary.pieces
    unknown = sorted((word for word in counts if word not in pieces), key=lambda word: (-counts[word], word))
    for word in unknown[: settings.size]:
        vocabulary.add(word)


def _learn_merges(
    vocabulary: _Vocabulary, counts: Mapping[str, int], kept: set[str], settings: ExtensionSettings
) -> None:
    """New letters, then pieces by more merges: of BPE, and of WordPiece, which has no merges but pieces."""
    wordpiece = vocabulary.model["type"] == "WordPiece"
    begin = CONTINUED if wordpiece else ""
    is_bytes = tokenizer_kind(vocabulary.content) == "bytebpe"
    letters = [] if is_bytes else _new_letters(vocabulary, counts, settings.size)
    for letter in letters:
        vocabulary.add(begin + letter)
    split = _splitter(vocabulary.tokenizer(), begin)
    words = {parts: counts[word] for word in sorted(counts) if (parts := split(word))}
    own = frozenset(letters)
    old_words = [word for word in kept if own.isdisjoint(word)]
    known = {piece.removeprefix(begin) for piece in vocabulary.pieces}
    refused = {*SPECIALS, *settings.tokens}
    old, pairs = set[str](), set[tuple[str, str]]()
    if not settings.keep:
        words = {parts: count for parts, count in words.items() if not own.isdisjoint("".join(parts))}
    elif wordpiece:
        old = _substrings(old_words, max(map(len, old_words), default=0))
    else:
        pairs = {pair for word in old_words for pair in pairwise(split(word))}

    def may_merge(left: str, right: str) -> bool:
        piece = left + right
        is_new = bool(settings.keep) or not own.isdisjoint(piece)  # without `keep`: it has a new letter
        return is_new and piece not in old and piece not in refused and (left, right) not in pairs

    merges = continued_merges(words, settings.size - len(letters), known=known, may_merge=may_merge)
    for piece in dict.fromkeys(left + right for left, right in merges):
        if piece not in known:
            vocabulary.add(piece if piece.startswith(" ") else begin + piece)
    if not wordpiece:
        vocabulary.model["merges"] += [list(merge) for merge in merges]


def _splitter(tokenizer: Tokenizer, begin: str) -> Callable[[str], tuple[str, ...]]:
    """A function from a word to its pieces, without `begin`; () if it has an unknown one."""

    def split(word: str) -> tuple[str, ...]:
        ids = tokenizer.word_ids(word)
        if tokenizer.unk_id in ids:
            return ()
        return tuple(piece.removeprefix(begin) for piece in tokenizer.tokens(ids))

    return split


def _learn_unigram(
    vocabulary: _Vocabulary, counts: Mapping[str, int], kept: set[str], settings: ExtensionSettings
) -> None:
    entries = vocabulary.model["vocab"]
    letters = frozenset(_new_letters(vocabulary, counts, settings.size))
    spelled = letters | vocabulary.pieces
    words = {word: count for word, count in counts.items() if spelled.issuperset(word)}
    old = _substrings((word for word in kept if letters.isdisjoint(word)), LONGEST_PIECE)
    first = len(SPECIALS)

    def may_add(piece: str) -> bool:
        return piece not in old if settings.keep else not letters.isdisjoint(piece)

    def segment(pieces: Vocabulary, texts: Sequence[str]) -> list[list[int]]:
        model = {**vocabulary.model, "vocab": [*entries[:first], *pieces]}
        tokenizer = Tokenizer.from_bytes(json.dumps({**vocabulary.content, "model": model}).encode())
        return [[number - first for number in tokenizer.word_ids(text)] for text in texts]

    known = [(piece, score) for piece, score in entries[first:]]
    found = extend_unigram(words, settings.size, segment, known=known, symbols=set(letters), may_add=may_add)
    for piece, score in found:
        vocabulary.add(piece, score)


def _substrings(words: Iterable[str], longest: int) -> set[str]:
    """All substrings of words, of 2 to `longest` characters."""
    return {
        word[start:stop]
        for word in words
        for start in range(len(word))
        for stop in range(start + 2, min(len(word), start + longest) + 1)
    }


def _greedy(piece: str, vocabulary: Mapping[str, int]) -> Iterator[int]:
    """The longest pieces of a piece of WordPiece from left to right; letters that it lacks are left out."""
    text, place = piece.removeprefix(CONTINUED), 0
    while place < len(text):
        begin = CONTINUED if place or piece.startswith(CONTINUED) else ""
        ends = (end for end in range(len(text), place, -1) if begin + text[place:end] in vocabulary)
        end = next(ends, None)
        if end is None:
            place += 1
            continue
        yield vocabulary[begin + text[place:end]]
        place = end
