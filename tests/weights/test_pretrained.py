"""Hugging Face folders: consistent ones are loaded, inconsistent ones are refused in one line."""

import dataclasses
import json
import pickle
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.decoding.continuation import ContinuationSettings
from regard.errors import FolderError, RunError, UserError
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.recipe import read
from regard.weights.families.family import ConvertedConfig
from regard.weights.families.gpt2 import GPT2
from regard.weights.huggingface_files import write_plain_folder
from regard.weights.model_folder import load_model
from regard.weights.names import linear, renamed, same, stacked_tensors, write_names
from regard.weights.pretrained import (
    FAMILIES,
    _decoding,
    _equal,
    huggingface_config_class,
    load_pretrained,
    nearest_families,
    register_family,
    to_huggingface,
)
from tests.weights.families.conversion import random_model
from tests.weights.families.test_t5 import CONFIG as OF_T5

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
        ({"model_type": "cohere"}, "the family 'cohere' is not supported", "known: bart"),
        (
            {"model_type": "wav2vec2"},
            "the family 'wav2vec2' is not supported",
            "bart, bert, clip, clip_text_model, clip_vision_model, deit",
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


def test_pickles_are_refused_unless_trusted_and_then_tensors_alone(gpt2, tmp_path, forked_reader):
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
    (gpt2 / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(FolderError, match=r"pytorch_model\.bin: (?!b['\"])\w") as caught:  # a text, not bytes
        load_pretrained(gpt2, trust_pickle=True)
    assert "the process died" not in caught.value.message
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
    change(gpt2, eos_token_id=[9, 11])
    refused(gpt2, "/config.json: eos_token_id = .* is not a token id", "vocab_size - 1")


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


def test_a_model_with_its_tokeniser_goes_through_a_folder_and_back(gpt2, tmp_path):
    """With all that ends a text, the template of a chat, and the token before a text."""
    change(gpt2, eos_token_id=[9, 2])
    (gpt2 / "chat_template.jinja").write_text("{{ messages[0].content }}", "utf-8")
    loaded = load_pretrained(gpt2).loaded
    settings = {"max_new_tokens": 7, "beam_size": 3, "length_penalty": "power", "alpha": 2.0}
    loaded = dataclasses.replace(loaded, generation={**loaded.generation, **settings})
    written = to_huggingface(loaded)
    assert (written.family, written.unused_decoding) == ("gpt2", ())
    table = json.loads(written.files["config.json"])
    assert (table["bos_token_id"], table["eos_token_id"]) == (9, 9)
    decoding = json.loads(written.files["generation_config.json"])
    assert (decoding["eos_token_id"], decoding["num_beams"], decoding["max_new_tokens"]) == ([9, 2], 3, 7)
    write_plain_folder(tmp_path / "written", written.files)
    again = load_pretrained(tmp_path / "written").loaded
    torch.testing.assert_close(logits(tmp_path / "written"), logits(gpt2), rtol=0, atol=0)
    assert again.tokenizers.source.encode("ab ac") == [4, 5, 2]
    assert again.chat_template.template == loaded.chat_template.template
    kept = {name: value for name, value in again.generation.items() if name in settings}
    assert kept == settings
    assert again.generation["end_ids"] == [2]
    plain = dataclasses.replace(loaded, generation={}, chat_template=None)
    files = to_huggingface(plain, "gpt2").files
    assert "chat_template.jinja" not in files
    for begin, given in ((True, {}), (True, {"begin": True}), (False, {"begin": False})):
        files = to_huggingface(dataclasses.replace(plain, generation=given), "gpt2").files
        assert (json.loads(files["tokenizer.json"])["post_processor"] is not None) is begin
    assert json.loads(files["generation_config.json"])["eos_token_id"] == 9


def test_a_model_that_no_family_has_is_refused_with_the_reason_if_one_was_named(gpt2):
    loaded = load_pretrained(gpt2).loaded
    with pytest.raises(FolderError, match="unknown family 'gpt3'") as caught:
        to_huggingface(loaded, "gpt3")
    assert "gpt2" in caught.value.hint
    with pytest.raises(FolderError, match="a decoder_only model is not a bert model"):
        to_huggingface(loaded, "bert")
    other = dataclasses.replace(loaded, config=dataclasses.replace(loaded.config, positions="t5"))
    with pytest.raises(FolderError, match="no Hugging Face family fits this decoder_only model") as caught:
        to_huggingface(other)
    assert "gpt2" in caught.value.hint
    assert "regard export --to hf" in caught.value.hint
    encoder = random_model(EncoderOnlyConfig(vocab_size=9, head="none", d_model=8, num_heads=2, norm="rms"))
    with pytest.raises(FolderError, match="no Hugging Face family fits this encoder_only model") as caught:
        to_huggingface(encoder)
    assert "regard export --to hf" not in caught.value.hint, "transformers' code there is of generation only"


def test_the_prefixes_of_tasks_are_in_config_json():
    words = train_tokenizer(["a b"] * 3, "words", TokenizerSettings(kind="words"))
    sizes = {"src_vocab_size": words.vocab_size, "tgt_vocab_size": words.vocab_size}
    loaded = dataclasses.replace(
        random_model(dataclasses.replace(OF_T5, **sizes)),
        tokenizer_pair=TokenizerPair(words, words),
        generation={"prefixes": {"": "do: ", "sum": "sum: "}},
    )
    table = json.loads(to_huggingface(loaded, "t5").files["config.json"])
    assert table["prefix"] == "do: "
    assert table["task_specific_params"] == {"sum": {"prefix": "sum: "}}


def test_the_nearest_family_needs_the_fewest_changes():
    config = DecoderOnlyConfig(vocab_size=11, d_model=8, num_heads=2, num_layers=1, positions="rotary")
    found = nearest_families(config)
    assert [len(settings) for _, settings in found] == sorted(len(settings) for _, settings in found)
    assert {name for name, _ in found} <= {
        name for name, family in FAMILIES.items() if family.config is DecoderOnlyConfig
    }
    assert len(found) > 3


def test_what_is_no_folder_of_hugging_face_is_refused(gpt2, tmp_path):
    refused(tmp_path / "nothing", "nothing does not exist", "check the path")
    refused(tmp_path, "is not a Hugging Face folder", "config.json and model.safetensors")
    assert huggingface_config_class(gpt2) is DecoderOnlyConfig
    for name in ("MANIFEST.json", "checkpoints"):
        folder = tmp_path / f"ours with {name}"
        folder.mkdir()
        (folder / name).touch()
        refused(folder, "is a folder of regard already", "regard convert")


def test_two_tensors_of_one_name_and_a_tensor_without_a_place_are_errors():
    tensors = {"a.gamma": torch.ones(2), "a.weight": torch.ones(2)}
    with pytest.raises(FolderError, match=r"two tensors have the name 'a\.weight'"):
        renamed(tensors, [("gamma$", "weight")])
    with pytest.raises(RunError, match=r"'b' \[2\] has no counterpart"):
        write_names([same("a", "theirs")], {"a": torch.ones(2), "b": torch.ones(2)})
    assert [entry.ours for entry in linear("a", "b")] == ["a.weight", "a.bias"]
    assert [entry.ours for entry in stacked_tensors("a", ["b", "c"], [1, 1])] == ["a.weight", "a.bias"]


def test_a_family_of_another_package_is_known_by_its_name(gpt2, monkeypatch):
    class Own(GPT2):
        name = "own"

    monkeypatch.setattr(FAMILIES, "added", {})
    change(gpt2, model_type="own")
    refused(gpt2, "the family 'own' is not supported")
    register_family(Own())
    assert load_pretrained(gpt2).family == "own"
    with pytest.raises(UserError, match="gpt2"):
        register_family(GPT2())


def test_a_tokenizer_that_adds_a_token_before_a_text_tells_that_texts_begin_with_one(gpt2):
    assert load_pretrained(gpt2).loaded.generation["begin"] is False
    path = gpt2 / "tokenizer.json"
    table = json.loads(path.read_text("utf-8"))
    single = [
        {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
    ]
    table["post_processor"] = {
        "type": "TemplateProcessing", "single": single, "pair": single,
        "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [9], "tokens": ["<|endoftext|>"]}},
    }  # fmt: skip
    path.write_text(json.dumps(table), "utf-8")
    assert load_pretrained(gpt2).loaded.generation["begin"] is True


def test_a_translation_into_a_chosen_language_begins_with_its_token(tmp_path):
    words = train_tokenizer(["a b"] * 3, "words", TokenizerSettings(kind="words"))
    target = Tokenizer.from_bytes(words.to_bytes()).with_prefix((5,))
    sizes = {"src_vocab_size": words.vocab_size, "tgt_vocab_size": words.vocab_size}
    converted = ConvertedConfig(config=EncoderDecoderConfig(**sizes), eos_id=3)
    for languages in ({}, {"de": 5}):
        target.languages = languages
        found = _decoding(tmp_path, {}, converted, TokenizerPair(words, target)).settings
        assert found.get("forced_bos_id") == (5 if languages else None)
    target = Tokenizer.from_bytes(words.to_bytes())
    target.languages = {"de": 5}
    assert "forced_bos_id" not in _decoding(tmp_path, {}, converted, TokenizerPair(words, target)).settings


@pytest.mark.parametrize(
    ("found", "computed", "equal"),
    [
        (torch.tensor([0.9e-4]), torch.zeros(1), True),
        (torch.tensor([1.5e-4]), torch.zeros(1), False),
        (torch.tensor([9e-4]).half(), torch.zeros(1), True),
        (torch.tensor([2e-3]).half(), torch.zeros(1), False),
        (torch.tensor([1]), torch.ones(1), True),
        (torch.tensor([2]), torch.ones(1), False),
        (torch.zeros(1, 1), torch.zeros(1), False),
    ],
)
def test_numbers_of_a_file_are_those_that_are_computed_as_far_as_its_type_goes(found, computed, equal):
    assert _equal(found, computed) is equal
