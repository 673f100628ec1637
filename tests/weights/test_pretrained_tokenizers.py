"""Converted Hugging Face tokenisers give the ids of the original libraries."""

import json
import shutil
from pathlib import Path

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from regard.errors import FolderError
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.image_text import ImageTextConfig
from regard.weights.families.bert import BERT
from regard.weights.families.clip import CLIPText
from regard.weights.families.family import ConvertedConfig
from regard.weights.families.gpt2 import GPT2
from regard.weights.families.marian import BART, Marian
from regard.weights.families.t5 import T5
from regard.weights.huggingface_tokenizer import read_tokenizers
from tests.clip_folder import END, START, VOCAB, write_tokenizer

TEXTS = [
    "the cat sat on the mat",
    "The  cats, sitting; don't!",
    " näive Über-cat\n\tnew line  ",
    "",
    "ßß 12345 語 [MASK] <b>",
]
CORPUS = [
    "the cat sat on the mat",
    "the dog sat on the log",
    "cats and dogs sit, don't they?",
    "new über line",
] * 20


def decoder(size: int) -> ConvertedConfig:
    config = DecoderOnlyConfig(vocab_size=size, d_model=8, num_heads=2, num_layers=1, d_ff=8)
    return ConvertedConfig(config=config)


def translator(source: int, **ids) -> ConvertedConfig:
    config = EncoderDecoderConfig(
        src_vocab_size=source, tgt_vocab_size=source, d_model=8, num_heads=2, d_ff=8
    )
    return ConvertedConfig(config=config, **ids)


def test_wordpiece_from_vocab_txt(tmp_path):
    reference = tokenizers.BertWordPieceTokenizer(lowercase=True)
    reference.train_from_iterator(CORPUS, vocab_size=80, show_progress=False)
    reference.save_model(str(tmp_path))
    size = reference.get_vocab_size()
    text = read_tokenizers(tmp_path, BERT(), decoder(size))
    ours = text.source
    for each in [text for text in TEXTS if "[" not in text]:
        assert ours.encode(each) == reference.encode(each, add_special_tokens=False).ids
    assert (ours.pad_id, ours.unk_id, ours.bos_id, ours.eos_id, ours.mask_id) == (0, 1, 2, 3, 4)
    assert ours.decode(ours.encode("the cat")) == "the cat"
    assert ours.mask_id not in ours.encode("[MASK]")


PHOTOS = [
    "a photo of a cat",
    "  A  PHOTO\tof\n a Dog!!  ",
    "dog's 1234 don't we'll",
    "näive Über-cat ﬁ 語",
    "cats123dog of12",
    "e\u0301 İ ß",
    "",
    " ",
    "...?!",
]


@pytest.mark.parametrize("old", [False, True])
def test_words_of_clip_end_with_their_own_pieces(tmp_path, old):
    transformers = pytest.importorskip("transformers")
    write_tokenizer(tmp_path, old=old)
    theirs = transformers.CLIPTokenizer.from_pretrained(tmp_path)
    config = ImageTextConfig(vocab_size=VOCAB, end_id=END)
    ours = read_tokenizers(tmp_path, CLIPText(), ConvertedConfig(config=config)).source
    assert (ours.bos_id, ours.eos_id, ours.pad_id, ours.unk_id) == (START, END, END, END)
    for text in PHOTOS:
        assert [START, *ours.encode(text), END] == theirs(text).input_ids, text
    assert len(ours.encode("photo of cat")) == 3
    assert ours.encode("PHOTO") == ours.encode("photo")


def test_a_text_that_spells_a_special_token_of_clip_has_none(tmp_path):
    write_tokenizer(tmp_path, old=True)
    config = ImageTextConfig(vocab_size=VOCAB, end_id=END)
    ours = read_tokenizers(tmp_path, CLIPText(), ConvertedConfig(config=config)).source
    found = ours.encode("a cat <|endoftext|> <|startoftext|>")
    assert len(found) > 4
    assert not {START, END} & {*found}


def test_a_vocabulary_of_clip_without_its_special_tokens_is_refused(tmp_path):
    write_tokenizer(tmp_path, old=True)
    pieces = json.loads((tmp_path / "vocab.json").read_text("utf-8"))
    del pieces["<|endoftext|>"]
    (tmp_path / "vocab.json").write_text(json.dumps(pieces), "utf-8")
    config = ImageTextConfig(vocab_size=VOCAB, end_id=END)
    with pytest.raises(FolderError, match=r"has no <.endoftext.>"):
        read_tokenizers(tmp_path, CLIPText(), ConvertedConfig(config=config))


def test_cased_wordpiece(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nThe\nthe\n", "utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert read_tokenizers(tmp_path, BERT(), decoder(7)).source.encode("The the THE") == [5, 6, 1]


def test_byte_level_bpe_from_vocab_and_merges(tmp_path):
    reference = tokenizers.ByteLevelBPETokenizer()
    reference.train_from_iterator(
        CORPUS, vocab_size=300, special_tokens=["<|endoftext|>"], show_progress=False
    )
    reference.save_model(str(tmp_path))
    ours = read_tokenizers(tmp_path, GPT2(), decoder(300)).source
    for text in TEXTS:
        assert ours.encode(text) == reference.encode(text).ids
        assert ours.decode(ours.encode(text)) == text
    assert {ours.pad_id, ours.unk_id, ours.bos_id, ours.eos_id} == {0}


@pytest.fixture(scope="module")
def sentencepiece_folder(tmp_path_factory) -> Path:
    import sentencepiece

    folder = tmp_path_factory.mktemp("spm")
    (folder / "text").write_text("\n".join(CORPUS), "utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"),
        model_prefix=str(folder / "spiece"),
        vocab_size=60,
        hard_vocab_limit=False,
        model_type="unigram",
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    return folder


def test_sentencepiece_of_t5(sentencepiece_folder, tmp_path):
    import sentencepiece

    shutil.copy(sentencepiece_folder / "spiece.model", tmp_path)
    reference = sentencepiece.SentencePieceProcessor(str(tmp_path / "spiece.model"))
    text = read_tokenizers(
        tmp_path, T5(), translator(reference.get_piece_size() + 108, start_id=0, pad_id=0, eos_id=1)
    )
    ours = text.source
    for each in TEXTS:
        assert ours.encode(each) == reference.encode(each), each
    assert ours.decode(reference.encode("the cat sat")) == "the cat sat"
    assert (ours.pad_id, ours.bos_id, ours.eos_id, ours.unk_id) == (0, 0, 1, 2)
    assert ours.vocab_size == reference.get_piece_size() + 108  # the model's: more than there are pieces
    assert not {0, 1} & set(ours.encode("a </s> spelled, <pad> too"))
    assert ours.vocabulary()["<extra_id_0>"] == reference.get_piece_size() + 99


def test_sentencepiece_of_marian_with_numbers_of_its_own(sentencepiece_folder, tmp_path):
    import sentencepiece

    for side in ("source", "target"):
        shutil.copy(sentencepiece_folder / "spiece.model", tmp_path / f"{side}.spm")
    reference = sentencepiece.SentencePieceProcessor(str(tmp_path / "source.spm"))
    pieces = [reference.id_to_piece(number) for number in range(3, reference.get_piece_size())]
    gone = reference.encode("log", out_type=str)[-1]
    numbers = {"</s>": 0, "<unk>": 1, "▁xyz": 2}
    for piece in reversed([piece for piece in pieces if piece != gone]):
        numbers[piece] = len(numbers)
    numbers["<pad>"] = len(numbers)
    (tmp_path / "vocab.json").write_text(json.dumps(numbers), "utf-8")
    ids = {"start_id": len(numbers) - 1, "pad_id": len(numbers) - 1, "eos_id": 0}
    ours = read_tokenizers(tmp_path, Marian(), translator(len(numbers), **ids))
    for text in [*TEXTS, "the log", "xyz"]:
        expected = [numbers.get(piece, 1) for piece in reference.encode(text, out_type=str)]
        assert ours.source.encode(text) == expected, text
    assert ours.source.bos_id == ours.source.pad_id == len(numbers) - 1
    assert not ours.joint


def test_marian_s_target_may_have_a_vocabulary_of_its_own(sentencepiece_folder, tmp_path):
    import sentencepiece

    for side in ("source", "target"):
        shutil.copy(sentencepiece_folder / "spiece.model", tmp_path / f"{side}.spm")
    reference = sentencepiece.SentencePieceProcessor(str(tmp_path / "source.spm"))
    pieces = [reference.id_to_piece(number) for number in range(3, reference.get_piece_size())]
    source = ["</s>", "<unk>", *pieces, "<pad>"]
    target = ["</s>", "<unk>", *reversed(pieces), "▁xyz", "<pad>"]
    for name, known in (("vocab.json", source), ("target_vocab.json", target)):
        numbers = {piece: number for number, piece in enumerate(known)}
        (tmp_path / name).write_text(json.dumps(numbers), "utf-8")
    config = EncoderDecoderConfig(
        src_vocab_size=len(source), tgt_vocab_size=len(target), d_model=8, num_heads=2, d_ff=8, tied="none"
    )
    ids = {"start_id": 1, "pad_id": 1, "eos_id": 0}
    ours = read_tokenizers(tmp_path, Marian(), ConvertedConfig(config=config, **ids))
    for tokenizer, known in ((ours.source, source), (ours.target, target)):
        assert tokenizer.vocab_size == len(known)
        assert [known[number] for number in tokenizer.encode("the cat")] == reference.encode(
            "the cat", out_type=str
        )


def metaspace(tmp_path: Path) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.Unigram())
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=70, special_tokens=tokens, unk_token="<unk>", show_progress=False
    )
    backend.train_from_iterator(CORPUS, trainer)
    backend.save(str(tmp_path / "tokenizer.json"))
    return backend


def test_tokenizer_json_with_a_special_token_before_every_text(tmp_path):
    reference = metaspace(tmp_path)
    size = reference.get_vocab_size()
    described = translator(size, start_id=2, pad_id=1, eos_id=2, prefix=(0,))
    ours = read_tokenizers(tmp_path, BART(), described)
    ids = reference.encode("the cat sat").ids
    assert ours.source.encode("the cat sat") == ours.target.encode("the cat sat") == [0, *ids]
    assert ours.source.decode([0, *ids, 2]) == "the cat sat"
    again = type(ours.source).from_bytes(ours.source.to_bytes())
    assert again.encode("the cat") == ours.source.encode("the cat")


def test_a_tokeniser_of_another_model_is_refused(tmp_path):
    size = metaspace(tmp_path).get_vocab_size()
    with pytest.raises(FolderError, match=f"the tokeniser has ids up to {size - 1}, the model {size - 1}"):
        read_tokenizers(tmp_path, GPT2(), decoder(size - 1))


def test_a_special_token_without_an_embedding_is_refused_by_its_name(tmp_path):
    size = metaspace(tmp_path).get_vocab_size()
    for name, ids in (("pad", {"pad_id": size}), ("bos", {"pad_id": 1, "start_id": size + 5})):
        with pytest.raises(FolderError, match=f"the special token {name} has no embedding"):
            read_tokenizers(tmp_path, BART(), translator(size, eos_id=2, **ids))


def test_a_regular_expression_of_its_own_is_refused(tmp_path):
    metaspace(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    content["normalizer"] = {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), "utf-8")
    with pytest.raises(FolderError, match="regular expression"):
        read_tokenizers(tmp_path, BART(), translator(100, start_id=2, pad_id=1, eos_id=2))


def test_a_folder_without_a_tokeniser_has_none(tmp_path):
    assert read_tokenizers(tmp_path, GPT2(), decoder(10)) is None


@pytest.mark.parametrize("count", [10**12, -1, "many", 1.5])
def test_a_number_of_special_tokens_that_fills_the_memory_is_refused(sentencepiece_folder, tmp_path, count):
    shutil.copy(sentencepiece_folder / "spiece.model", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"extra_ids": count}))
    with pytest.raises(FolderError, match="extra_ids is not a number from 0 to 100,000"):
        read_tokenizers(tmp_path, T5(), translator(100))


def test_no_sentinel_tokens_are_a_number_of_them_too(sentencepiece_folder, tmp_path):
    shutil.copy(sentencepiece_folder / "spiece.model", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"extra_ids": 0}))
    text = read_tokenizers(tmp_path, T5(), translator(100_000))
    assert not [piece for piece in text.source.vocabulary() if piece.startswith("<extra_id")]
