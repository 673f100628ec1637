"""Vocabularies of toolkits: the ids of their special tokens; damage is refused by the file's name."""

from pathlib import Path

import numpy as np
import pytest
import torch

from regard.errors import FolderError
from regard.weights.toolkits import (
    eole_vocabulary,
    fairseq,
    fairseq_dictionary,
    joeynmt_vocabulary,
    marian,
    marian_vocabulary,
)
from regard.weights.toolkits.joeynmt_vocabulary import SpecialSymbols
from regard.weights.toolkits.segmentation import segmentation
from regard.weights.toolkits.settings import Settings
from regard.weights.toolkits.torch_names import drop_equal, drop_sinusoids
from tests.weights.toolkits.marian_files import write_words


def refused(message, call, *given, **named):
    with pytest.raises(FolderError, match=message) as caught:
        call(*given, **named)
    assert caught.value.hint


EOLE = ["<unk>", "<blank>", "<s>", "</s>", "a", "b"]


def test_vocabularies_of_eole(tmp_path):
    def read(src=EOLE, tgt=EOLE, config=None, **more):
        return eole_vocabulary.read_tokenizers(tmp_path, config or {}, {"src": src, "tgt": tgt, **more})

    source, target = read()
    assert source is target
    assert (source.unk_id, source.pad_id, source.bos_id, source.eos_id, source.vocab_size) == (0, 1, 2, 3, 6)
    source, target = read(tgt=[*EOLE, "c"])
    assert source is not target
    assert (source.encode("a b"), target.encode("b c")) == ([4, 5], [5, 6])
    assert read(decoder_start_token="</s>")[1].bos_id == 3
    assert read(specials={"eos_token": "a"})[1].eos_id == 4
    for config in ({"transforms": []}, {"transforms": ["filtertoolong", "uppercase"]}, {"transforms": None}):
        assert read(config=config)[0].encode("a") == [4]
    for wrong in (None, "ab", [1], [*EOLE, 3]):
        refused(r"vocab\.json: src is not a list of pieces", read, src=wrong)
        refused(r"vocab\.json: tgt is not a list of pieces", read, tgt=wrong)
    refused(r"src has a piece twice, or lacks \[\]", read, src=[*EOLE, "a"])
    for place, name in ((0, "unk_token"), (1, "pad_token"), (3, "eos_token"), (2, "start")):
        without = [piece for number, piece in enumerate(EOLE) if number != place]
        refused(rf"tgt has a piece twice, or lacks \['{name}'\]", read, tgt=without)
    refused("transforms is not a list", read, config={"transforms": "bpe"})
    for names in (["bpe", "sentencepiece"], ["prefix"]):
        refused("transforms = .* is not supported", read, config={"transforms": names})
    other = {
        "transforms": ["sentencepiece"],
        "transforms_configs": {"sentencepiece": {"src_subword_model": "m"}},
    }
    pieces = ["<u>", *EOLE[1:]]
    refused("its unknown token is '<u>'", read, pieces, pieces, other, specials={"unk_token": "<u>"})


def test_dictionaries_of_fairseq(tmp_path):
    def read(source="xx", target="en", **files):
        for name, text in files.items():
            (tmp_path / f"dict.{name}.txt").write_text(text, "utf-8")
        return fairseq_dictionary.read_tokenizers(tmp_path, source, target)

    source, target = read(xx="a 9\nb 3\n\n", en="a 9\nb 3\n")
    assert source is target
    assert (source.pad_id, source.eos_id, source.unk_id, source.bos_id) == (1, 2, 3, 2)
    assert source.encode("a b c") == [4, 5, 3]
    source, target = read(en="b 9\na 3\n")
    assert (source.encode("a"), target.encode("a")) == ([4], [5])
    for languages in ((None, "en"), ("xx", None)):
        refused("no source_lang and target_lang", read, *languages)
    refused(r"dict\.xx\.txt: line 2 has #fairseq:overwrite", read, xx="a 9\n<s> 3 #fairseq:overwrite\n")
    for wrong in ("a 9\na 3", "a 9\nb x", "a 9\nb", "a 9\n<pad> 3"):
        refused(r"dict\.xx\.txt: line 2 is not a new token with its count", read, xx=wrong)


def test_settings_of_fairseq_are_args_or_parts_of_cfg(tmp_path):
    def read(saved):
        return fairseq._arguments(saved, tmp_path)

    assert read({"args": {"arch": "transformer"}, "cfg": {}}) == {"arch": "transformer"}
    cfg = {
        "task": {"source_lang": "xx", "target_lang": "en", "data": "d"},
        "model": {
            "_name": "transformer", "encoder": {"layers": 3}, "decoder": {"layers": 2},
            "quant_noise": {"pq": 0.0}, "dropout": 0.1,
        },
    }  # fmt: skip
    assert read({"cfg": cfg}) == {
        "source_lang": "xx", "target_lang": "en", "_name": "transformer", "arch": "transformer",
        "encoder_layers": 3, "decoder_layers": 2, "quant_noise_pq": 0.0, "dropout": 0.1,
    }  # fmt: skip
    assert read({"cfg": {"model": {"arch": "a", "_name": "b"}, "task": None}}) == {"arch": "a", "_name": "b"}
    for wrong in ({}, {"args": None, "cfg": None}, {"cfg": {"model": None}}, {"cfg": {"task": {}}}):
        refused("has no args and no cfg", read, wrong)


def test_vocabularies_of_marian_are_found_by_their_names(tmp_path):
    def find(*files, **decoder):
        for path in tmp_path.iterdir():
            path.unlink()
        for name in files:
            (tmp_path / name).touch()
        return tuple(path.name for path in marian_vocabulary.find_vocabularies(tmp_path, decoder))

    assert find("a.yml", "b.yml", vocabs=["/x/a.yml", "b.yml"]) == ("a.yml", "b.yml")
    assert find("vocab.yml", "vocab.spm", "source.yml", "target.yml") == ("vocab.spm", "vocab.spm")
    assert find("source.yml", "target.yml", "decoder.yml") == ("source.yml", "target.yml")
    assert find("source.spm", "target.spm", "source.yml", "target.yml") == ("source.yml", "target.yml")
    assert find("source.spm", "target.spm") == ("source.spm", "target.spm")
    assert find("vocab.src.yml", "vocab.trg.yml") == ("vocab.src.yml", "vocab.trg.yml")
    assert find("opus.vocab.yml", "a.txt") == ("opus.vocab.yml", "opus.vocab.yml")
    refused(r"b\.yml is missing", find, "a.yml", vocabs=["a.yml", "b.yml"])
    refused(r"a\.yml is missing", find, "b.yml", vocabs=["a.yml", "b.yml"])
    refused("names 3 vocabularies", find, "a.yml", vocabs=["a.yml"] * 3)
    refused("names 1 vocabularies", find, "a.yml", vocabs=["a.yml"])
    for files in (
        (),
        ("source.yml",),
        ("a.vocab.yml", "b.vocab.yml"),
        ("source.yml", "a.source.yml", "target.yml"),
    ):
        refused("is not clear", find, *files)


def test_a_vocabulary_of_marian_has_as_many_pieces_as_the_model(tmp_path):
    def read(rows, name="vocab.yml"):
        return marian_vocabulary.read_tokenizer(tmp_path, tmp_path / name, "source", rows, rows + 1)

    write_words(tmp_path, 12)
    tokenizer = read(12)
    assert (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id) == (12, 12, 0, 1)
    assert tokenizer.vocab_size == 13
    assert read(9).vocab_size == 10, "pieces beyond the model are unknown"
    refused(r"vocab\.yml has 12 pieces, the model 13 embeddings", read, 13)
    (tmp_path / "vocab.yml").write_text('"</s>": 0\n"a": 1\n', "utf-8")
    refused("has no </s> or no <unk>", read, 2)
    (tmp_path / "vocab.yml").write_text('"eos": 0\n"UNK": 1\n"a": 2\n', "utf-8")
    assert read(3).encode("a b") == [2, 1]
    (tmp_path / "source.spm").touch()
    refused("has no <unk>", read, 3)


def test_arrays_of_marian_are_of_floating_point():
    arrays = {"a": np.ones((1, 3), np.float16), "b": np.ones((2, 3), np.float32), "special:x": np.ones(1)}
    tensors = marian._tensors(arrays)
    assert {name: tuple(each.shape) for name, each in tensors.items()} == {"a": (3,), "b": (2, 3)}
    assert all(each.dtype == torch.float32 for each in tensors.values())
    refused("'a' is of type int8, not floating", marian._tensors, {"a": np.ones(3, np.int8)})
    for found in ({}, {"Wemb": torch.ones(3)}):
        refused("no matrix 'Wemb'", marian._refuse_missing, found, Path("model.npz"), "Wemb")
    marian._refuse_missing({"Wemb": torch.ones(3, 2)}, Path("model.npz"), "Wemb")


def test_special_symbols_of_joeynmt():
    def read(**symbols):
        return SpecialSymbols.of(Settings({"special_symbols": symbols}, "config.yaml", "data."))

    usual = SpecialSymbols(unk=0, pad=1, bos=2, eos=3, names=("<unk>", "<pad>", "<s>", "</s>"))
    assert read() == SpecialSymbols.of(Settings({}, "config.yaml", "data.")) == usual
    found = read(
        unk_id=3, pad_id=2, bos_id=1, eos_id=0, unk_token="u", pad_token="p", bos_token="b", eos_token="e"
    )
    assert found == SpecialSymbols(unk=3, pad=2, bos=1, eos=0, names=("u", "p", "b", "e"))
    for name in ("sep_token", "sep_id"):
        read(**{name: ""})
        refused(name, read, **{name: "x"})
    refused("lang_tags", read, lang_tags=["<de>"])
    refused("unknown to regard", read, other=1)


def test_a_vocabulary_of_joeynmt_begins_with_its_special_tokens(tmp_path):
    symbols = SpecialSymbols(unk=0, pad=1, bos=2, eos=3, names=("<unk>", "<pad>", "<s>", "</s>"))

    def read(*pieces, **table):
        (tmp_path / "src_vocab.txt").write_text("\n".join([*symbols.names, *pieces]) + "\n", "utf-8")
        settings = Settings(table, "config.yaml", "data.src.")
        return joeynmt_vocabulary.read_tokenizer(tmp_path, settings, "src", symbols)

    for table in ({}, {"tokenizer_cfg": {}}, {"tokenizer_cfg": None}, {"tokenizer_cfg": {"lang": "de"}}):
        assert read("a", "b", **table).encode("a b c") == [4, 5, 0]
    assert read("a", "B", lowercase=True).encode("A b") == [4, 0]
    assert read("a", "b", level="char").encode("ab") == [4, 5]
    refused("lacks the special tokens", read, "a", "a")
    refused("level = 'x' is not supported", read, level="x")
    refused("tokenizer_type = 'x' is not supported", read, level="bpe", tokenizer_type="x")
    refused("model_file is missing", read, level="bpe")
    refused("codes is missing", read, level="bpe", bpe_type="subword-nmt")
    refused("pretokenizer = 'moses'", read, tokenizer_cfg={"pretokenizer": "moses"})


def test_a_folder_has_codes_or_a_model(tmp_path):
    vocabulary = {"<unk>": 0, "a": 1, "b@@": 2}
    (tmp_path / "codes.de").write_text("#version: 0.2\n", "utf-8")
    assert "model" in segmentation(tmp_path, vocabulary, ["<unk>"], ("de",))
    (tmp_path / "spm.model").touch()
    refused(r"has codes\.de and spm\.model", segmentation, tmp_path, vocabulary, ["<unk>"], ("de",))


def test_tied_tensors_are_equal_and_positions_are_sinusoids(tmp_path):
    one = torch.ones(2, 3)
    tensors = {"a": one, "b": one.clone()}
    drop_equal(tensors, "b", "a", tmp_path)
    drop_equal(tensors, "b", "a", tmp_path)
    assert list(tensors) == ["a"]
    refused("'a' differs from 'c'", drop_equal, {"a": one}, "a", "c", tmp_path)
    refused("'a' differs from 'b'", drop_equal, {"a": one, "b": 2 * one}, "a", "b", tmp_path)
    refused("'pe' are not sinusoidal positions", drop_sinusoids, {"pe": torch.zeros(1, 4, 8)}, "pe", tmp_path)
