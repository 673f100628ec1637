"""Hugging Face folders: consistent ones are loaded, inconsistent ones are refused in one line."""

import json
import pickle
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.decoding.continuation import ContinuationSettings
from regard.errors import FolderError
from regard.recipe import read
from regard.weights.model_folder import load_model
from regard.weights.pretrained import FAMILIES, load_pretrained

IDS = torch.tensor([[3, 1, 4, 1, 5]])


@torch.no_grad()
def logits(folder, **how):
    return load_pretrained(folder, **how).loaded.model(IDS)


def change(folder, **settings):
    path = folder / "config.json"
    table = {**json.loads(path.read_text("utf-8")), **settings}
    path.write_text(json.dumps({name: value for name, value in table.items() if value != "GONE"}), "utf-8")


def change_tensors(folder, change):
    tensors = load_file(folder / "model.safetensors")
    save_file(
        {name: tensor.contiguous() for name, tensor in change(tensors).items()}, folder / "model.safetensors"
    )


def refused(folder, pattern, hint="", **how):
    with pytest.raises(FolderError, match=pattern) as caught:
        load_pretrained(folder, **how)
    assert "\n" not in caught.value.message
    assert re.search(hint, caught.value.hint)


def test_several_files_are_one_model(gpt2):
    whole = logits(gpt2)
    tensors = load_file(gpt2 / "model.safetensors")
    (gpt2 / "model.safetensors").unlink()
    names = sorted(tensors)
    places = {}
    for number, part in enumerate((names[:5], names[5:]), start=1):
        file = f"model-0000{number}-of-00002.safetensors"
        save_file({name: tensors[name] for name in part}, gpt2 / file)
        places |= dict.fromkeys(part, file)
    index = gpt2 / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}), "utf-8")
    torch.testing.assert_close(logits(gpt2), whole, rtol=0, atol=0)

    index.write_text(
        json.dumps({"weight_map": {**places, names[0]: "model-00002-of-00002.safetensors"}}), "utf-8"
    )
    refused(gpt2, f"'{names[0]}' is in model-00001-of-00002.safetensors, unlike in the index")
    index.write_text(json.dumps({"weight_map": {**places, names[0]: "../model.safetensors"}}), "utf-8")
    refused(gpt2, "is not the name of a file in the folder")
    (gpt2 / "model-00001-of-00002.safetensors").unlink()
    index.write_text(json.dumps({"weight_map": places}), "utf-8")
    refused(gpt2, "model-00001-of-00002.safetensors is missing")


def test_names_of_older_files_are_known(gpt2):
    whole = logits(gpt2)

    def older(tensors):
        bare = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
        return {**bare, "h.0.attn.bias": torch.ones(1, 1, 6, 6), "h.0.attn.masked_bias": torch.tensor(-1e4)}

    change_tensors(gpt2, older)
    torch.testing.assert_close(logits(gpt2), whole, rtol=0, atol=0)


def test_a_tensor_that_is_tied_may_be_there_again_but_not_another(gpt2):
    whole = logits(gpt2)
    change_tensors(gpt2, lambda them: {**them, "lm_head.weight": them["transformer.wte.weight"].clone()})
    torch.testing.assert_close(logits(gpt2), whole, rtol=0, atol=0)
    change_tensors(gpt2, lambda them: {**them, "lm_head.weight": them["lm_head.weight"] + 1})
    refused(gpt2, "'lm_head.weight' differs from 'transformer.wte.weight'", "tie_word_embeddings")


def test_half_precision_is_widened(gpt2):
    whole = logits(gpt2)
    change_tensors(gpt2, lambda them: {name: tensor.bfloat16() for name, tensor in them.items()})
    there = load_pretrained(gpt2).loaded.model
    assert {parameter.dtype for parameter in there.parameters()} == {torch.float32}
    torch.testing.assert_close(logits(gpt2), whole, rtol=0.1, atol=0.1)


def test_weights_that_do_not_fit_are_named_with_both_shapes(gpt2):
    tensors = load_file(gpt2 / "model.safetensors")
    name = "transformer.h.0.mlp.c_fc.weight"
    change_tensors(gpt2, lambda them: {each: them[each] for each in them if each != name})
    refused(
        gpt2, rf"'{name}' \[4, 5\], the source of blocks.0.feed_forward.inner.weight \[5, 4\], is missing"
    )
    save_file({**tensors, "other": torch.zeros(2, 3)}, gpt2 / "model.safetensors")
    refused(gpt2, r"the model has no weight 'other' \[2, 3\]")
    save_file({**tensors, name: tensors[name].T.contiguous()}, gpt2 / "model.safetensors")
    refused(gpt2, rf"'{name}' is \[5, 4\], not \[4, 5\], the source of blocks.0.feed_forward.inner.weight")
    save_file({**tensors, name: tensors[name] / 0}, gpt2 / "model.safetensors")
    refused(gpt2, "NaN or infinity")
    save_file({**tensors, name: tensors[name].long()}, gpt2 / "model.safetensors")
    refused(gpt2, "not floating point")


@pytest.mark.parametrize(
    ("settings", "pattern", "hint"),
    [
        ({"model_type": "gpt3"}, "the family 'gpt3' is not supported", "did you mean 'gpt2'"),
        (
            {"model_type": "wav2vec2"},
            "the family 'wav2vec2' is not supported",
            "bart, bert, deit, distilbert, electra, gemma",
        ),
        ({"model_type": "GONE"}, "model_type is missing", "known"),
        ({"auto_map": {"AutoModel": "code.Model"}}, "refers to code", ""),
        ({"n_head": "two"}, "n_head = 'two' is not of type int", ""),
        ({"n_head": 3}, r"d_model \(4\) must be divisible by num_heads \(3\)", ""),
        ({"n_layer": 2}, "is missing", "another config.json"),
        ({"n_layer": 10**9}, "too few for the model of config.json", ""),
        ({"vocab_size": 10**9}, "too few for the model of config.json", ""),
        ({"vocab_size": 12}, r"'transformer.wte.weight' is \[11, 4\], not \[12, 4\]", ""),
        ({"activation_function": "mish"}, "activation_function = 'mish' is not supported", ""),
        ({"scale_attn_by_inverse_layer_idx": True}, "is not supported", "only False is"),
        ({"rope_magic": 3}, "'rope_magic' is unknown to regard", "remove it"),
        ({"eos_token_id": 11}, "eos_token_id = 11 is not a token id", ""),
        ({"pad_token_id": 11}, "pad_token_id = 11 is not a token id", ""),
    ],
    ids=str,
)
def test_a_config_that_cannot_be_is_refused(gpt2, settings, pattern, hint):
    change(gpt2, **settings)
    refused(gpt2, pattern, hint)


def test_a_missing_file_is_named(gpt2):
    (gpt2 / "model.safetensors").unlink()
    refused(gpt2, "has no model.safetensors")
    (gpt2 / "config.json").unlink()
    refused(gpt2, "is not a Hugging Face folder")


class Hostile:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_pickles_are_refused_unless_trusted_and_then_tensors_alone(gpt2, tmp_path):
    whole = logits(gpt2)
    torch.save(load_file(gpt2 / "model.safetensors"), gpt2 / "pytorch_model.bin")
    (gpt2 / "model.safetensors").unlink()
    refused(gpt2, "is a pickle, which can run code", "--trust-pickle")
    torch.testing.assert_close(logits(gpt2, trust_pickle=True), whole, rtol=0, atol=0)
    traces = tmp_path / "ran"
    torch.save({"transformer.wte.weight": Hostile(traces)}, gpt2 / "pytorch_model.bin")
    refused(gpt2, "pytorch_model.bin", "more than tensors", trust_pickle=True)
    (gpt2 / "pytorch_model.bin").write_bytes(pickle.dumps(Hostile(traces)))
    refused(gpt2, "pytorch_model.bin", "more than tensors", trust_pickle=True)
    assert not traces.exists()


def test_loading_it_as_a_folder_of_regard_is_refused_with_a_hint(gpt2):
    with pytest.raises(FolderError, match="is a Hugging Face folder") as caught:
        load_model(gpt2)
    assert "regard convert" in caught.value.hint


def test_the_tokeniser_is_that_of_the_folder(gpt2):
    text = load_pretrained(gpt2).loaded.tokenizers.source
    assert text.encode("ab ac") == [4, 5, 2]
    assert text.decode([4, 5, 2]) == "ab ac"
    assert (text.vocab_size, text.eos_id, text.bos_id) == (11, 9, 9)


def test_every_family_has_a_name_of_its_own():
    assert [family.name for family in FAMILIES.values()] == list(FAMILIES)


def test_all_that_ends_a_text_reaches_decoding(gpt2):
    assert load_pretrained(gpt2).loaded.generation == {"begin": False, "may_end": True}
    change(gpt2, eos_token_id=[9, 2, 4])
    assert load_pretrained(gpt2).loaded.generation["end_ids"] == [2, 4]
    (gpt2 / "generation_config.json").write_text('{"eos_token_id": [9, 5, 2], "num_beams": 3}', "utf-8")
    found = load_pretrained(gpt2).loaded.generation
    beam = {"beam_size": 3, "length_penalty": "power", "alpha": 1.0, "heuristic_stopping": True}
    assert found == {"begin": False, "may_end": True, "end_ids": [2, 4, 5], **beam}
    read(ContinuationSettings, found, "generation.json")
    for wrong in ([9, 11], [9, "5"], "9", 2.0):
        (gpt2 / "generation_config.json").write_text(json.dumps({"eos_token_id": wrong}), "utf-8")
        refused(gpt2, "generation_config.json: eos_token_id = .* is not a token id", "vocab_size - 1")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_link_out_of_the_folder_is_refused_by_name(gpt2, tmp_path, name):
    (gpt2 / name).rename(tmp_path / "elsewhere")
    (gpt2 / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FolderError, match=rf"{name} is a link out of its folder"):
        load_pretrained(gpt2)


def test_the_snapshot_of_a_hub_cache_is_read(gpt2, tmp_path):
    repository = tmp_path / "models--a--gpt2"
    (repository / "snapshots" / "f00").mkdir(parents=True)
    gpt2.rename(repository / "blobs")
    for path in (repository / "blobs").iterdir():
        (repository / "snapshots" / "f00" / path.name).symlink_to(Path("..", "..", "blobs", path.name))
    load_pretrained(repository / "snapshots" / "f00")
