"""A banned text is no word of an output, whatever tokens spell it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.banned_words import BannedWords, TokenTexts, can_write
from regard.decoding.rules import NO_TOKEN, GeneratedTokens

PIECES = ("", "a", "b", "ab", " a", " ab", "ba", ".", " ", "ab.", " aba", "b a", "猫", " 猫", "d.", "\u0301")


class Pieces:
    """A tokeniser whose tokens add these texts, of which white space at the beginning is dropped."""

    vocab_size = len(PIECES)

    def encode_words(self, text):
        return [[PIECES.index(letter)] for letter in text]

    def decode(self, ids):
        return "".join(PIECES[token] for token in ids).lstrip(" ")


def words(text):
    """The runs of letters with all that may stand between others."""
    return text.replace(".", " . ").replace("猫", " 猫 ").split(" ")


def banned(ids, texts, tokenizer=None):
    rule = BannedWords(texts, tokenizer or Pieces())
    found = rule.banned(GeneratedTokens(torch.tensor([ids], dtype=torch.int64)))
    return {token for token in found[0].tolist() if token != NO_TOKEN}


@given(st.lists(st.integers(1, len(PIECES) - 2), max_size=5), st.sampled_from(["a", "ab", "ba", "aba", "猫"]))
def test_each_token_that_completes_the_word_is_banned_and_no_other(ids, text):
    before = words(Pieces().decode(ids)).count(text)
    completing = {
        token
        for token in range(len(PIECES) - 1)
        if text in words(Pieces().decode([*ids, token]))
        and words(Pieces().decode([*ids, token])).count(text) > before
    }
    found = banned(ids, (text,))
    assert completing <= found
    assert all(text in words(Pieces().decode([*ids, token])) for token in found)


def test_every_spelling_of_a_word_is_banned_and_longer_words_are_not():
    assert {PIECES.index("b"), PIECES.index("b a")} <= banned([1], ("ab",))
    assert PIECES.index("ba") not in banned([1], ("ab",))
    assert {PIECES.index("ab"), PIECES.index(" ab"), PIECES.index("ab.")} <= banned([7], ("ab",))
    assert PIECES.index(" aba") not in banned([7], ("ab",))
    assert PIECES.index("b") not in banned([2, 1], ("ab",))  # of the word bab


def test_texts_of_several_words_and_of_scripts_without_spaces():
    assert PIECES.index("b a") in banned([1], ("ab a",))
    assert PIECES.index("猫") in banned([12], ("猫",))
    assert banned([1, 8], ("a.",)) == set()
    assert banned([1], ("a.",)) == {PIECES.index(".")}


@pytest.mark.parametrize("text", ["a", "aba", "ab ab.", "猫", "bb", "d"])
def test_a_text_of_pieces_can_be_written_in_whatever_spelling(text):
    assert can_write(NoUsual(), text)


@pytest.mark.parametrize("text", ["c", "abc", "acb", "c a", "犬", "a,"])
def test_a_text_with_other_characters_cannot_be_written(text):
    assert not can_write(NoUsual(), text)


class NoUsual(Pieces):
    """One that finds no tokens for any text."""

    def encode_words(self, text):
        return []


class Bytes:
    """Each byte is a token; one alone may be a part of a character."""

    vocab_size = 256

    def encode_words(self, text):
        return [[*text.encode()]]

    def decode(self, ids):
        return bytes(ids).decode("utf-8", "replace")


class BytesOnly(Bytes):
    """One that finds no tokens for any text."""

    def encode_words(self, text):
        return []


def test_a_text_of_usual_tokens_can_be_written_and_by_bytes_perhaps_any():
    assert can_write(Pieces(), "a")
    assert can_write(BytesOnly(), "猫")


def test_only_parts_of_characters_and_tokens_without_a_text_depend_on_the_tokens_before():
    assert TokenTexts(Bytes()).others == [*range(128, 256)]
    found = TokenTexts(Pieces())
    assert (found.others, tuple(found.texts)) == ([0], PIECES)


def test_after_a_prompt_with_the_text_other_characters_can_be_written():
    *begun, last = "猫".encode()
    assert banned([*begun, last], ("猫",), Bytes()) == set()
    assert banned([*begun, last, *begun], ("猫",), Bytes()) == {last}


@pytest.mark.parametrize("first", ["猫", "é", "cat"])
def test_parts_of_characters_are_banned_whatever_was_banned_before(first):
    """The texts of a tokeniser's tokens are computed once, at the first ban."""
    tokenizer = Bytes()
    for text in (first, "猫"):
        *ids, last = text.encode()
        rule = BannedWords((text,), tokenizer)
        assert last in rule.banned(GeneratedTokens(torch.tensor([ids], dtype=torch.int64)))
