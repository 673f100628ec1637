"""regard convert: a converted model gives the same logits; nothing is written unless all can be."""

import json

import pytest
import torch
from safetensors.torch import load_file

import regard
from regard.cli import run
from regard.data.tokenizer import TokenizerPair
from regard.data.tokenizer_file import UNMATCHED
from regard.errors import FolderError
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.families.gpt2 import GPT2
from regard.weights.folder import verify_folder, write_folder
from regard.weights.model_folder import LoadedModel
from regard.weights.shards import Shard, TensorPart, shard_name
from regard.weights.verified_folder import VerifiedFolder
from tests.weights.test_marian_languages import TRANSLATOR, of_languages

IDS = torch.tensor([[3, 1, 4, 1, 5]])


@pytest.fixture
def gpt2(tmp_path):
    """The Hugging Face folder of a GPT-2 with one layer."""
    from regard.models.decoder_only import DecoderOnlyConfig
    from regard.weights.names import write_names
    from regard.weights.tensors import model_tensors, write_tensors

    config = DecoderOnlyConfig(vocab_size=11, d_model=4, num_heads=2, num_layers=1, d_ff=5, max_positions=6)
    folder = tmp_path / "gpt2"
    folder.mkdir()
    table = {**GPT2().write(config, ()), "bos_token_id": 9, "eos_token_id": 9}
    (folder / "config.json").write_text(json.dumps(table), "utf-8")
    write_tensors(
        folder / "model.safetensors",
        write_names(GPT2().table(config), model_tensors(build_model(config, seed=3))),
    )
    pieces = ["a", "b", "c", "Ġ", "ab", "Ġa", "d", "e", "f", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({piece: n for n, piece in enumerate(pieces)}), "utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\na b\nĠ a\n", "utf-8")
    return folder


@torch.no_grad()
def test_a_model_converted_to_regard_and_back_is_the_same(gpt2, tmp_path):
    done = regard.convert(gpt2, out=tmp_path / "regard")
    assert (done.family, done.unused_tensors) == ("gpt2", ())
    verify_folder(tmp_path / "regard")
    ours, direct = regard.load(tmp_path / "regard", device="cpu"), regard.load(gpt2, device="cpu")
    torch.testing.assert_close(ours.model(IDS), direct.model(IDS), rtol=0, atol=0)
    assert ours.tokenizers.source.encode("ab ac") == [4, 5, 2]

    back = regard.convert(tmp_path / "regard", out=tmp_path / "huggingface", to="hf")
    assert back.family == "gpt2"
    before, after = (load_file(folder / "model.safetensors") for folder in (gpt2, tmp_path / "huggingface"))
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, rtol=0, atol=0)
    again = regard.load(tmp_path / "huggingface", device="cpu")
    torch.testing.assert_close(again.model(IDS), ours.model(IDS), rtol=0, atol=0)
    assert again.tokenizers.source.encode("ab ac") == [4, 5, 2]


def test_nothing_is_written_where_something_is_missing(gpt2, tmp_path):
    (gpt2 / "merges.txt").unlink()
    (gpt2 / "vocab.json").unlink()
    with pytest.raises(FolderError, match="has no tokeniser"):
        regard.convert(gpt2, out=tmp_path / "regard")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gpt2"]


def test_a_folder_that_exists_is_not_overwritten(gpt2, tmp_path):
    regard.convert(gpt2, out=tmp_path / "regard")
    (tmp_path / "huggingface").mkdir()
    (tmp_path / "huggingface" / "note").write_text("mine")
    with pytest.raises(FolderError, match="exists"):
        regard.convert(tmp_path / "regard", out=tmp_path / "huggingface", to="hf")
    assert [path.name for path in (tmp_path / "huggingface").iterdir()] == ["note"]


def test_a_model_folder_that_exists_is_not_overwritten(gpt2, tmp_path):
    regard.convert(gpt2, out=tmp_path / "regard")
    before = (tmp_path / "regard" / "MANIFEST.json").read_bytes()
    with pytest.raises(FolderError, match="regard exists") as caught:
        regard.convert(gpt2, out=tmp_path / "regard")
    assert caught.value.hint == "choose a new or an empty folder"
    assert (tmp_path / "regard" / "MANIFEST.json").read_bytes() == before
    (tmp_path / "empty").mkdir()
    assert regard.convert(gpt2, out=tmp_path / "empty").family == "gpt2"


def test_a_folder_that_is_not_from_hugging_face_is_refused(gpt2, tmp_path):
    regard.convert(gpt2, out=tmp_path / "regard")
    with pytest.raises(FolderError, match="regard is a folder of regard already") as caught:
        regard.convert(tmp_path / "regard", out=tmp_path / "again")
    assert "--to hf" in caught.value.hint
    with pytest.raises(FolderError, match="nothing does not exist"):
        regard.convert(tmp_path / "nothing", out=tmp_path / "again")
    with pytest.raises(FolderError, match="is a Hugging Face folder"):
        regard.convert(gpt2, out=tmp_path / "again", to="hf")


def test_the_command_prints_the_path_of_the_model(gpt2, tmp_path, capsys):
    assert run(["convert", str(gpt2), "--out", str(tmp_path / "regard")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'regard'}\n"
    assert (
        run(
            [
                "convert",
                str(tmp_path / "regard"),
                "--to",
                "hf",
                "--family",
                "t5",
                "--out",
                str(tmp_path / "x"),
            ]
        )
        == 2
    )
    output = capsys.readouterr().err
    assert "a decoder_only model is not a t5 model" in output
    assert not (tmp_path / "x").exists()


def test_a_shape_that_no_family_has_is_refused_with_the_reason():
    from pathlib import Path

    from regard.weights.pretrained import to_huggingface

    config = EncoderDecoderConfig(
        src_vocab_size=9, tgt_vocab_size=9, d_model=8, num_heads=2, d_ff=8, positions="alibi"
    )
    loaded = LoadedModel(
        model=build_model(config, seed=0),
        config=config,
        tokenizer_pair=None,
        labels=(),
        generation={},
        path=Path("model"),
    )
    with pytest.raises(FolderError, match="no Hugging Face family fits"):
        to_huggingface(loaded)
    with pytest.raises(FolderError, match="positions = 'alibi', but a marian model has 'sinusoidal'"):
        to_huggingface(loaded, "marian")


def test_the_languages_that_a_text_may_begin_with_are_in_the_readme(tmp_path):
    tokenizer = of_languages(UNMATCHED, "Unigram")
    for given, named in ((TokenizerPair(tokenizer, tokenizer), True), (None, False)):
        loaded = LoadedModel(
            model=build_model(TRANSLATOR, seed=0),
            config=TRANSLATOR,
            tokenizer_pair=given,
            labels=(),
            generation={},
            path=tmp_path / "model",
        )
        regard.convert(loaded, out=tmp_path / str(named), to="hf", family="marian")
        readme = (tmp_path / str(named) / "README.md").read_text("utf-8")
        assert ("`>>fra<<`, `>>zh_hans<<`" in readme) is named


def test_shards_are_joined_to_the_folder_that_has_one_file(gpt2, tmp_path):
    whole, sharded, joined = tmp_path / "whole", tmp_path / "sharded", tmp_path / "joined"
    regard.convert(gpt2, out=whole)
    tensors = load_file(whole / "model.safetensors")
    names = [name for name in VerifiedFolder.open(whole).names if name != "model.safetensors"]
    files = {name: (whole / name).read_bytes() for name in [*names, "README.md"]}
    shards = {shard_name("model.safetensors", n, 2): shard for n, shard in enumerate(halves(tensors), 1)}
    write_folder(sharded, {**files, **shards})

    done = regard.convert(sharded, out=joined)
    assert done.parameters == sum(tensor.numel() for tensor in tensors.values())
    for path in whole.iterdir():
        if path.name != "MANIFEST.json":
            assert (joined / path.name).read_bytes() == path.read_bytes(), path.name
    with torch.no_grad():
        own = [regard.load(folder, device="cpu").model(IDS) for folder in (whole, sharded, joined)]
    assert torch.equal(own[0], own[1])
    assert torch.equal(own[0], own[2])
    with pytest.raises(FolderError, match="is a folder of regard already"):
        regard.convert(joined, out=tmp_path / "again")
    with pytest.raises(FolderError, match="only joined: family is not used"):
        regard.convert(sharded, out=tmp_path / "again", family="gpt2")


def halves(tensors):
    for half in (0, 1):
        parts = {}
        for name, tensor in tensors.items():
            middle = (len(tensor) + 1) // 2
            rows = tensor[middle:] if half else tensor[:middle]
            if len(rows):
                parts[name] = TensorPart(tensor=rows, shape=tuple(tensor.shape), first=middle * half)
        yield Shard(parts)
