"""Codes of subword-nmt give the pieces that subword-nmt gives; words and characters are looked up."""

import itertools
import random
from collections import Counter

import pytest

from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_pretrained import SpecialTokens, with_special_tokens
from regard.data.tokenizer_toolkits import from_characters, from_subword_nmt, from_words
from regard.errors import DataError
from regard.weights.strict_json import json_bytes

SPECIAL = ["<unk>", "<pad>", "<s>", "</s>"]
CORPUS = "the lower the better newest lowest widest new low wide better best über übermut don't aaaa banana"


def learned(merges: int, text: str = CORPUS) -> list[str]:
    """BPE codes of a text, learned as in Sennrich et al. 2016, algorithm 1 (ties in sorted order)."""
    words = Counter((*word[:-1], f"{word[-1]}</w>") for word in text.split())
    codes = ["#version: 0.2"]
    for _ in range(merges):
        pairs = Counter()
        for word, count in words.items():
            for pair in itertools.pairwise(word):
                pairs[pair] += count
        if not pairs:
            break
        best = max(sorted(pairs), key=lambda pair: pairs[pair])
        codes.append(" ".join(best))
        words = Counter({applied(word, best): count for word, count in words.items()})
    return codes


def applied(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    found: list[str] = []
    for symbol in word:
        if found and (found[-1], symbol) == pair:
            found[-1] += symbol
        else:
            found.append(symbol)
    return tuple(found)


def plain(codes: list[str], word: str) -> list[str]:
    """The pieces of a word: merge after merge, in the order of the codes."""
    symbols = (*word[:-1], f"{word[-1]}</w>")
    for line in codes[1:]:
        left, right = line.split(" ")
        symbols = applied(symbols, (left, right))
    return [symbol.removesuffix("</w>") if symbol.endswith("</w>") else f"{symbol}@@" for symbol in symbols]


def tokenizer(codes: list[str], pieces: list[str], *, restricted: bool = False) -> Tokenizer:
    vocabulary = {piece: number for number, piece in enumerate([*SPECIAL, *pieces])}
    found = from_subword_nmt(codes, vocabulary, SPECIAL, restricted=restricted)
    special = SpecialTokens(unk=0, pad=1, bos=2, eos=3, vocab_size=len(vocabulary), splits=found.splits)
    return Tokenizer.from_bytes(json_bytes(with_special_tokens(found.content, special)))


def texts() -> list[str]:
    draw = random.Random(3)
    letters = "thelowrbsniduüamz"
    made = ("".join(draw.choices(letters, k=draw.randint(1, 9))) for _ in range(300))
    return [*CORPUS.split(), *made]


def test_pieces_are_those_of_the_merges_one_after_the_other():
    codes = learned(40)
    known = sorted({piece for word in CORPUS.split() for piece in plain(codes, word)})
    ours = tokenizer(codes, known)
    numbers = {piece: number for number, piece in enumerate([*SPECIAL, *known])}
    for word in texts():
        assert ours.encode(word) == [numbers.get(piece, 0) for piece in plain(codes, word)], word
    assert ours.decode(ours.encode("the lowest  banana")) == "the lowest banana"
    assert ours.decode([numbers["the"], 0, numbers["low"]]) == "the <unk> low"


@pytest.mark.parametrize("restricted", [False, True])
def test_ids_are_those_of_subword_nmt(tmp_path, restricted):
    apply_bpe = pytest.importorskip("subword_nmt.apply_bpe")
    codes = learned(40)
    (tmp_path / "codes").write_text("\n".join(codes) + "\n", "utf-8")
    known = sorted({piece for word in CORPUS.split() for piece in plain(codes, word)})[::2]
    ours = tokenizer(codes, known, restricted=restricted)
    with (tmp_path / "codes").open(encoding="utf-8") as file:
        theirs = apply_bpe.BPE(file, vocab=set(known) if restricted else None)
    numbers = {piece: number for number, piece in enumerate([*SPECIAL, *known])}
    for word in [*texts(), "the lowest banana", "new  best"]:
        pieces = theirs.process_line(word).split()
        assert ours.encode(word) == [numbers.get(piece, 0) for piece in pieces], word


def test_a_piece_that_the_vocabulary_lacks_is_split_until_it_has_the_parts():
    codes = ["#version: 0.2", "l o", "lo w</w>", "lo w", "low e"]
    ours = tokenizer(codes, ["lo@@", "w", "l@@", "o@@", "e@@"], restricted=True)
    assert ours.tokens(ours.encode("low")) == ["lo", "w</w>"]
    assert ours.tokens(ours.encode("lowex")) == ["lo", "<unk>", "e", "<unk>"]
    assert tokenizer(codes, ["lo@@", "w"]).encode("low") == [0]
    again = Tokenizer.from_bytes(ours.to_bytes())
    assert again.encode("lowex low") == ours.encode("lowex low")


@pytest.mark.parametrize("codes", [["l o"], ["#version: 0.1", "l o"], ["#version: 0.2", "l o w"], []])
def test_other_codes_are_refused(codes):
    with pytest.raises(DataError, match=r"BPE codes"):
        from_subword_nmt(codes, {"<unk>": 0}, ["<unk>"])


def test_words_and_characters_are_looked_up():
    special = SpecialTokens(unk=0, pad=1, bos=2, eos=3, vocab_size=8)
    vocabulary = {piece: number for number, piece in enumerate([*SPECIAL, "a", "b", "▁", "ab"])}
    words, characters = (
        Tokenizer.from_bytes(json_bytes(with_special_tokens(content, special)))
        for content in (from_words(vocabulary, "<unk>"), from_characters(vocabulary, "<unk>"))
    )
    assert words.encode("a ab  c <s>") == [4, 7, 0, 0]
    assert words.decode([4, 7, 0, 3]) == "a ab <unk>"
    assert characters.encode("ab c") == [4, 5, 6, 0]
    assert characters.decode([4, 5, 6, 4, 3]) == "ab a"
