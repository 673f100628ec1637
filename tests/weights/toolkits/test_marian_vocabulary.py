"""The vocabularies of Marian give the ids that Marian and SentencePiece give."""

import json

import pytest

from regard.errors import FolderError
from regard.weights.toolkits.load import load_toolkit, toolkit_of
from tests.weights.toolkits.marian_files import write_model, write_words

pytest.importorskip("yaml")
sentencepiece = pytest.importorskip("sentencepiece")
CORPUS = ["the cat sat on the mat", "das haus ist gross", "cats and dogs sit", "die katze sitzt"] * 20
TEXTS = ["the cat sat", "das haus katze", "", "Unbekannt x", "über  die", " cats  and "]
OF_MARIAN = {"pad_id": -1, "bos_id": -1, "eos_id": 0, "unk_id": 1}


def trained(path, **settings):
    with path.open("wb") as writer:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS), model_writer=writer, model_type="unigram", vocab_size=50,
            hard_vocab_limit=False, minloglevel=2, **settings,
        )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(str(path))


def tokenizers_of(folder):
    return load_toolkit(toolkit_of(folder), folder).loaded.tokenizers


def test_a_sentencepiece_vocabulary_gives_its_own_ids(tmp_path):
    reader = trained(tmp_path / "vocab.spm", **OF_MARIAN)
    size = reader.get_piece_size()
    write_model(tmp_path, {"dim-vocabs": [size, size]})
    found = tokenizers_of(tmp_path)
    assert found.joint
    for text in TEXTS:
        assert found.source.encode(text) == reader.encode(text), text
    assert found.target.decode([*reader.encode("das haus"), 0]) == "das haus"
    assert (found.target.eos_id, found.target.unk_id, found.target.bos_id) == (0, 1, size)


def test_a_sentencepiece_vocabulary_of_another_model_is_refused(tmp_path):
    trained(tmp_path / "vocab.spm", **OF_MARIAN)
    write_model(tmp_path)
    with pytest.raises(FolderError, match=r"vocab\.spm has"):
        tokenizers_of(tmp_path)


def opus_folder(tmp_path):
    """As OPUS-MT has them: pieces of both SentencePiece models in one YAML file, and languages."""
    readers = [trained(tmp_path / f"{side}.spm") for side in ("source", "target")]
    own = [readers[0].id_to_piece(number) for number in range(readers[0].get_piece_size())]
    pieces = ["</s>", "<unk>", *(piece for piece in own if not piece.startswith("<")), ">>de<<"]
    lines = (f"{json.dumps(piece, ensure_ascii=False)}: {number}\n" for number, piece in enumerate(pieces))
    (tmp_path / "opus.vocab.yml").write_text("".join(lines), "utf-8")
    (tmp_path / "decoder.yml").write_text("vocabs:\n  - opus.vocab.yml\n  - /data/opus.vocab.yml\n", "utf-8")
    return readers, pieces


def test_pieces_of_sentencepiece_have_the_ids_of_a_yaml_vocabulary(tmp_path):
    readers, pieces = opus_folder(tmp_path)
    write_model(tmp_path, {"dim-vocabs": [len(pieces)] * 2})
    numbers = {piece: number for number, piece in enumerate(pieces)}
    found = tokenizers_of(tmp_path)
    for text in TEXTS[:4]:
        expected = [numbers.get(piece, 1) for piece in readers[0].encode(text, out_type=str)]
        assert found.source.encode(text) == expected, text
    assert len(pieces) - 1 not in found.source.encode(">>de<< das")  # only --prefix gives a language token


def test_pieces_beyond_the_model_are_unknown(tmp_path):
    _, pieces = opus_folder(tmp_path)
    rows = len(pieces) - 9
    write_model(tmp_path, {"dim-vocabs": [rows, rows]})
    found = tokenizers_of(tmp_path).source
    assert all(max(found.encode(text), default=0) < rows for text in TEXTS)


def test_bpe_codes_beside_a_yaml_vocabulary_segment_a_text(tmp_path):
    pieces = ["</s>", "<unk>", "the", "lo@@", "w", "e@@", "r", "x", "y", "z", "a", "b"]
    (tmp_path / "vocab.yml").write_text(
        "".join(f'"{piece}": {number}\n' for number, piece in enumerate(pieces)), "utf-8"
    )
    codes = "#version: 0.2\nt h\nth e</w>\nl o\n"
    for side in ("source", "target"):
        (tmp_path / f"{side}.bpe").write_text(codes, "utf-8")
    write_model(tmp_path)
    found = tokenizers_of(tmp_path).source
    assert found.encode("the low lower q") == [2, 3, 4, 3, 1, 5, 6, 1]
    assert found.decode([2, 3, 4, 0]) == "the low"


def test_a_vocabulary_that_is_none_is_refused(tmp_path):
    write_model(tmp_path)
    for content in ("- a\n- b\n", "a: x\n", '"</s>": 0\n"<unk>": 2\n', '"a": 0\n"b": 1\n', "a: [\n"):
        (tmp_path / "vocab.yml").write_text(content, "utf-8")
        with pytest.raises(FolderError, match=r"vocab\.yml"):
            tokenizers_of(tmp_path)
    write_words(tmp_path)
    assert tokenizers_of(tmp_path).joint
