"""Every flag of a sentencepiece file gives the ids that the library gives, or the file is refused."""

import itertools
import random
from pathlib import Path

import pytest

from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_pretrained import SpecialTokens, with_special_tokens
from regard.data.tokenizer_sentencepiece import from_sentencepiece
from regard.errors import FolderError
from regard.weights.strict_json import json_bytes

sentencepiece = pytest.importorskip("sentencepiece")
CORPUS = [
    "the cat sat on the mat", "the dog sat on the log", "cats and dogs sit, don't they?",
    "new über line", "a  b   c", "naïve café in Paris", "x = 12345;", "<a> <b> 0x41",
] * 20  # fmt: skip
PLAIN = ["", " ", "  ", "the cat sat on the mat", " the cat ", "the  cats", "a\tb\nc", "▁a ▁b",
         "über-cat 語 ßß", "ﬁne ① Å", "new line  ", "\tthe cat", "don't!?", "😀 cat", "<0x41> <0xE2>",
         "cat<0x41>", "é́ e\u0301", "語語 語", "cat\u00a0dog", "\u3000cat", "a" * 60]  # fmt: skip
FLAGS = {
    "add_dummy_prefix": (True, False),
    "remove_extra_whitespaces": (True, False),
    "treat_whitespace_as_suffix": (False, True),
    "byte_fallback": (False, True),
}
OTHERS = {
    "identity": {"normalization_rule_name": "identity"},
    "lower case": {"normalization_rule_name": "nmt_nfkc_cf"},
    "pieces of several words": {"split_by_whitespace": False},
    "pieces of white space alone": {"allow_whitespace_only_pieces": True, "remove_extra_whitespaces": False},
    "user-defined": {"user_defined_symbols": ["the", "<sep>", "語"]},
    "control": {"control_symbols": ["<ctl>", "cat"]},
}


def texts():
    """Those above and 200 of their parts put together at random."""
    draw = random.Random(7)
    words = [*"abcdefg", "the", "cat", "dogs", "▁", " ", "  ", "\t", "ü", "語", "①", "1", "<sep>", "0x4", "."]
    return [*PLAIN, *("".join(draw.choices(words, k=draw.randint(1, 9))) for _ in range(200))]


def trained(folder: Path, **flags) -> Path:
    with (folder / "flags.model").open("wb") as writer:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS),
            model_writer=writer,
            model_type=flags.pop("model_type", "unigram"),
            vocab_size=420 if flags.get("byte_fallback") else 90,
            hard_vocab_limit=False,
            character_coverage=0.98,
            minloglevel=2,
            **flags,
        )
    return folder / "flags.model"


def ours_of(path: Path) -> Tokenizer:
    size = sentencepiece.SentencePieceProcessor(str(path)).get_piece_size()
    marks = SpecialTokens(pad=2, unk=0, bos=1, eos=2, vocab_size=size)
    return Tokenizer.from_bytes(json_bytes(with_special_tokens(from_sentencepiece(path), marks)))


def differing(path: Path) -> list[str]:
    theirs, ours = sentencepiece.SentencePieceProcessor(str(path)), ours_of(path)
    return [text for text in texts() if ours.encode(text) != theirs.encode(text)]


@pytest.mark.parametrize("values", list(itertools.product(*FLAGS.values())), ids=str)
def test_flags_give_their_ids(values, tmp_path):
    path = trained(tmp_path, **dict(zip(FLAGS, values, strict=True)))
    assert differing(path) == []


@pytest.mark.parametrize("values", list(itertools.product(*FLAGS.values())), ids=str)
def test_flags_of_bpe_give_their_ids(values, tmp_path):
    path = trained(tmp_path, model_type="bpe", **dict(zip(FLAGS, values, strict=True)))
    assert differing(path) == []


@pytest.mark.parametrize("name", ["identity", "lower case", "pieces of several words", "control"])
def test_other_settings_of_bpe_give_their_ids(name, tmp_path):
    assert differing(trained(tmp_path, model_type="bpe", **OTHERS[name])) == []


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_ids_may_be_those_of_another_vocabulary(kind, tmp_path):
    path = trained(tmp_path, model_type=kind)
    theirs = sentencepiece.SentencePieceProcessor(str(path))
    pieces = [theirs.id_to_piece(number) for number in range(theirs.get_piece_size())]
    vocabulary = {piece: number for number, piece in enumerate(["</s>", "<unk>", *sorted(pieces[3:])[::2]])}
    marks = SpecialTokens(pad=0, unk=1, bos=0, eos=0, vocab_size=len(vocabulary))
    ours = Tokenizer.from_bytes(json_bytes(with_special_tokens(from_sentencepiece(path, vocabulary), marks)))
    for text in texts():
        assert ours.encode(text) == [vocabulary.get(each, 1) for each in theirs.encode(text, out_type=str)]
    if kind == "bpe":
        with pytest.raises(FolderError, match="lacks pieces"):
            from_sentencepiece(path, vocabulary, restricted=True)


def test_bpe_with_user_defined_pieces_is_refused(tmp_path):
    with pytest.raises(FolderError, match="user-defined"):
        from_sentencepiece(trained(tmp_path, model_type="bpe", **OTHERS["user-defined"]))


@pytest.mark.parametrize("name", OTHERS)
def test_other_settings_of_training_give_their_ids(name, tmp_path):
    assert differing(trained(tmp_path, **OTHERS[name])) == []


@pytest.mark.parametrize("values", list(itertools.product(*FLAGS.values())), ids=str)
def test_what_is_encoded_is_decoded(values, tmp_path):
    """Their decoder leaves a space at the end where white space is a suffix."""
    path = trained(tmp_path, **dict(zip(FLAGS, values, strict=True)))
    theirs, ours = sentencepiece.SentencePieceProcessor(str(path)), ours_of(path)
    for text in ("the cat sat on the mat", "new line", "cats and dogs", *(["語 über"] if values[3] else [])):
        assert ours.decode(ours.encode(text)) == theirs.decode(theirs.encode(text)).strip() == text


def altered(path: Path, change) -> Path:
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(path.read_bytes())
    change(model)
    path.write_bytes(model.SerializeToString())
    return path


def test_what_cannot_be_honoured_is_refused_by_name(tmp_path):
    def no_escape(model):
        model.normalizer_spec.escape_whitespaces = False

    def denormalised(model):
        model.denormalizer_spec.precompiled_charsmap = b"x"

    def no_bytes(model):
        model.trainer_spec.byte_fallback = True

    for change, reported in (
        (no_escape, "escape_whitespaces = false"),
        (denormalised, "denormalizer_spec"),
        (no_bytes, "byte_fallback without a piece for each byte"),
    ):
        with pytest.raises(FolderError, match=reported):
            from_sentencepiece(altered(trained(tmp_path), change))
