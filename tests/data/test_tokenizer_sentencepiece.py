"""Pieces of a vocabulary that the file of sentencepiece lacks, as those of Marian's other side."""

import json
from pathlib import Path

import pytest

from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_pretrained import SpecialTokens, with_special_tokens
from regard.data.tokenizer_sentencepiece import from_sentencepiece

sentencepiece = pytest.importorskip("sentencepiece")
ENGLISH = ["the cat sat on the mat", "the dog sat on the log", "cats and dogs sit. Mark, don't flee?"] * 20
GERMAN = ["die Straße ist groß, sagt Müller", "über die Brücke gehen", "Größe und Höhe >x<"] * 20
LANGUAGE = ">>fra<<"


def trained(folder: Path, side: str, lines: list[str], **flags):
    with (folder / f"{side}.spm").open("wb") as writer:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=writer,
            vocab_size=400 if flags.get("byte_fallback") else 80,
            hard_vocab_limit=False,
            minloglevel=2,
            **flags,
        )
    return sentencepiece.SentencePieceProcessor(str(folder / f"{side}.spm"))


def both(folder: Path, **flags):
    """The two libraries' processors, and the vocabulary that both sides have."""
    sides = {
        "source": trained(folder, "source", ENGLISH, **flags),
        "target": trained(folder, "target", GERMAN),
    }
    vocabulary = {"</s>": 0, "<unk>": 1}
    for side in sides.values():
        for number in range(3, side.get_piece_size()):
            vocabulary.setdefault(side.id_to_piece(number), len(vocabulary))
    for piece in (LANGUAGE, "ßü", "▁groß", "<pad>"):
        vocabulary.setdefault(piece, len(vocabulary))
    return sides, vocabulary


def ours(folder: Path, side: str, vocabulary: dict[str, int]) -> Tokenizer:
    size = len(vocabulary)
    special = SpecialTokens(pad=size - 1, unk=1, bos=size - 1, eos=0, vocab_size=size)
    content = from_sentencepiece(folder / f"{side}.spm", vocabulary)
    return Tokenizer.from_bytes(json.dumps(with_special_tokens(content, special)).encode())


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_pieces_of_the_other_side_are_decoded_as_they_are(side, kind, tmp_path):
    """Each piece is its text, with a space where it has one; no space is put before it."""
    _, vocabulary = both(tmp_path, model_type=kind)
    tokenizer = ours(tmp_path, side, vocabulary)
    pieces = [piece for piece in vocabulary if not piece.startswith(("<", ">"))]
    ids = [vocabulary[piece] for piece in pieces]
    assert tokenizer.decode(ids) == "".join(pieces).replace("▁", " ").removeprefix(" ")
    assert tokenizer.tokens(ids) == pieces


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_character_that_only_the_vocabulary_has_is_read_by_it(kind, tmp_path):
    sides, vocabulary = both(tmp_path, model_type=kind)
    tokenizer = ours(tmp_path, "source", vocabulary)
    for text in ("cats Müller", "die Straße ist groß", "ü", "the ü 語 cat", "語", "> <"):
        expected = [vocabulary.get(each, 1) for each in sides["source"].encode(text, out_type=str)]
        assert tokenizer.encode(text) == expected, text
    assert vocabulary["ü"] in tokenizer.encode("Müller")


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_run_that_the_vocabulary_lacks_is_read_by_its_parts(kind, tmp_path):
    """Where the library has one unknown piece."""
    sides, vocabulary = both(tmp_path, model_type=kind)
    run = "öß語ü"
    assert run in sides["source"].encode(f"cat {run} cat", out_type=str)
    found = ours(tmp_path, "source", vocabulary).encode(f"cat {run} cat")
    parts = [vocabulary.get(each, 1) for each in run]
    assert parts in [found[place : place + 4] for place in range(len(found))]


def test_a_run_of_characters_that_only_the_vocabulary_has_is_one_piece_there(tmp_path):
    sides, vocabulary = both(tmp_path)
    tokenizer = ours(tmp_path, "source", vocabulary)
    for text in ("ßü", "cat ßü.", "cßüt"):
        expected = [vocabulary[surface] for surface in sides["source"].encode(text, out_type=str)]
        assert tokenizer.encode(text) == expected, text
    # a piece of known and unknown characters is no run of unknown ones
    assert vocabulary["▁groß"] not in tokenizer.encode("groß")


def test_a_text_is_neither_a_special_token_nor_a_language(tmp_path):
    _, vocabulary = both(tmp_path)
    tokenizer = ours(tmp_path, "source", vocabulary)
    special = {vocabulary[piece] for piece in (LANGUAGE, "</s>", "<pad>")}
    assert special.isdisjoint(tokenizer.encode(f"{LANGUAGE} cat </s> <pad>{LANGUAGE}"))
    unlike = {piece: number for piece, number in vocabulary.items() if piece != LANGUAGE}
    strange = {**{piece: place for place, piece in enumerate(unlike)}, ">>語<<": len(unlike)}
    strange |= {"<pad>": len(unlike), ">>語<<": strange["<pad>"]}
    assert strange[">>語<<"] not in ours(tmp_path, "source", strange).encode(">>語<<")


def test_bytes_stand_for_a_character_that_only_the_vocabulary_has(tmp_path):
    sides, vocabulary = both(tmp_path, byte_fallback=True)
    tokenizer = ours(tmp_path, "source", vocabulary)
    for text in ("Müller", "groß ßü"):
        expected = [vocabulary[piece] for piece in sides["source"].encode(text, out_type=str)]
        assert tokenizer.encode(text) == expected


def test_a_file_of_which_all_pieces_match_has_no_more_parts(tmp_path):
    trained(tmp_path, "source", ENGLISH)
    assert from_sentencepiece(tmp_path / "source.spm")["decoder"]["decoders"][0]["content"] == " "
