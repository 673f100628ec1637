"""What a model folder may lack or hold too much of, at the limits themselves."""

import errno
import os
from dataclasses import replace

import pytest
import torch

from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.errors import FolderError, RunError
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.vision import VisionConfig
from regard.weights import folder as folders
from regard.weights import model_folder
from regard.weights.folder import verify_folder, write_folder
from regard.weights.model_folder import (
    check_size,
    load_model,
    open_model_folder,
    read_config_class,
    reads_text,
)
from regard.weights.saved_tensors import SavedTensors
from regard.weights.strict_json import json_bytes
from regard.weights.tensors import model_tensors, write_tensors
from regard.weights.verified_folder import VerifiedFolder
from tests.weights.test_model_folder import APART, JOINT, config_of, files_of


def test_a_folder_of_two_tokenizers_or_of_one_is_read_by_the_names_of_its_files(tmp_path):
    for name, tokenizers, tied in (("joint", JOINT, "all"), ("apart", APART, "target")):
        write_folder(tmp_path / name, files_of(config_of(tokenizers, tied=tied), tokenizers)[1])
        pair = load_model(tmp_path / name).tokenizers
        assert (pair.source is pair.target) is (name == "joint")
        assert load_model(tmp_path / name).chat_template is None


def test_a_model_without_its_tokenizer_says_what_it_lacks(tmp_path):
    write_folder(tmp_path / "m", files_of(config_of())[1])
    loaded = load_model(tmp_path / "m")
    assert loaded.tokenizers is loaded.tokenizer_pair
    with pytest.raises(FolderError, match="m has no tokeniser") as lacking:
        _ = replace(loaded, tokenizer_pair=None).tokenizers
    assert lacking.value.hint
    assert reads_text(loaded.config)
    pixels = VisionConfig(
        num_labels=2, image_size=8, patch_size=4, d_model=8, num_heads=2, d_ff=16, num_layers=1
    )
    assert not reads_text(pixels)
    with pytest.raises(FolderError, match="m: a vision model reads no text") as deaf:
        _ = replace(loaded, tokenizer_pair=None, config=pixels).tokenizers
    assert deaf.value.hint


@pytest.mark.parametrize(
    ("source", "target", "chosen"),
    [((5,), (6,), True), ((), (6,), False), ((5,), (), False), ((), (), False)],
)
def test_both_languages_of_a_model_of_many_are_chosen(tmp_path, source, target, chosen):
    write_folder(tmp_path / "m", files_of(config_of())[1])
    both = [Tokenizer.from_bytes(JOINT.source.to_bytes()).with_prefix(each) for each in (source, target)]
    for each in both:
        each.languages = {"de": 5, "fr": 6}
    pair = TokenizerPair(*both)
    loaded = replace(load_model(tmp_path / "m"), tokenizer_pair=pair)
    if chosen:
        assert loaded.tokenizers is pair
        return
    with pytest.raises(FolderError, match="m has 2 languages, and none is chosen") as caught:
        _ = loaded.tokenizers
    assert "--source-lang" in caught.value.hint


def test_an_export_is_named_as_one(tmp_path):
    write_folder(tmp_path / "m", {"config.json": b"{}", "export.json": b"{}"})
    with pytest.raises(FolderError, match="m is an export for another engine") as caught:
        open_model_folder(tmp_path / "m")
    assert caught.value.hint


def test_the_class_of_a_config_needs_no_other_file(tmp_path):
    write_folder(tmp_path / "m", files_of(config_of())[1])
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / "m" / name).unlink()
    assert read_config_class(tmp_path / "m") is EncoderDecoderConfig
    with pytest.raises(FolderError, match=r"model\.safetensors"):
        open_model_folder(tmp_path / "m")


def test_a_size_is_refused_beyond_what_is_stored_and_not_at_it(monkeypatch):
    config = config_of()
    model = build_model(config, seed=1)
    tensors = model_tensors(model)
    count = sum(tensor.numel() for tensor in tensors.values())
    monkeypatch.setattr(model_folder, "CHEAP_PARAMETERS", 0)
    check_size(config, tensors, "w")
    fewer = {**tensors, "decoder.blocks.0.feed_forward.inner.bias": torch.zeros(15)}
    with pytest.raises(FolderError, match=f"w: {count - 1:,} parameters in {len(tensors)} tensors"):
        check_size(config, fewer, "w")
    monkeypatch.setattr(model_folder, "CHEAP_PARAMETERS", count)
    check_size(config, fewer, "w")
    monkeypatch.setattr(model_folder, "CHEAP_PARAMETERS", 10**9)
    for cheap, stored, refused in ((0, 3, False), (0, 2, True), (3, 0, False), (2, 0, True)):  # of 3 layers
        monkeypatch.setattr(model_folder, "CHEAP_LAYERS", cheap)
        few = dict(list(tensors.items())[:stored])
        if refused:
            with pytest.raises(FolderError, match="too few for the model"):
                check_size(config, few, "w")
        else:
            check_size(config, few, "w")


def test_weights_may_have_twice_the_numbers_of_the_model_in_eight_bytes_and_no_byte_more(
    tmp_path, monkeypatch
):
    config = config_of()
    count = sum(tensor.numel() for tensor in model_tensors(build_model(config, seed=1)).values())
    monkeypatch.setattr(model_folder, "CHEAP_PARAMETERS", 10)
    paths = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    paths[0].touch()
    os.truncate(paths[0], 100)
    for size, refused in ((8 * (2 * count + 10), False), (8 * (2 * count + 10) + 1, True)):
        paths[1].touch()
        os.truncate(paths[1], size - 100)
        if refused:
            with pytest.raises(FolderError, match=f"{size:,} bytes, too many for the model") as caught:
                model_folder._refuse_large_weights(config, paths)
            assert caught.value.hint
        else:
            model_folder._refuse_large_weights(config, paths)
    monkeypatch.setattr(model_folder, "CHEAP_LAYERS", 2)
    model_folder._refuse_large_weights(config, paths)  # of many layers, which are compared later
    monkeypatch.setattr(model_folder, "CHEAP_LAYERS", 3)
    with pytest.raises(FolderError, match="too many for the model"):
        model_folder._refuse_large_weights(config, paths)


def test_a_chat_template_of_the_folder_is_read_and_a_damaged_one_is_named(tmp_path):
    files = files_of(config_of())[1]
    written = {"template": "{{ messages }}", "special_tokens": {"bos_token": "<s>"}}
    write_folder(tmp_path / "m", {**files, "chat_template.json": json_bytes(written)})
    assert load_model(tmp_path / "m").chat_template.to_dict() == written
    write_folder(tmp_path / "n", {**files, "chat_template.json": b"{}"})
    with pytest.raises(FolderError, match=r"n/chat_template\.json is not a chat template"):
        load_model(tmp_path / "n")


def test_tensors_of_other_files_are_stored_without_reading_all_of_them(tmp_path):
    tensors = {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(2, dtype=torch.bfloat16)}
    write_tensors(tmp_path / "a.safetensors", tensors)
    write_folder(tmp_path / "m", {"model.safetensors": SavedTensors([tmp_path / "a.safetensors"])})
    found = VerifiedFolder.open(tmp_path / "m").read_tensors("model.safetensors")
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())
    assert sorted(found) == ["a", "b"]


def test_a_disk_that_fails_while_a_file_is_verified_is_no_damage(tmp_path, monkeypatch):
    write_folder(tmp_path / "m", {"config.json": b"{}"})

    def fails(path):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(folders, "_sha256", fails)
    with pytest.raises(RunError, match=r"cannot read .*config\.json: Input/output error"):
        verify_folder(tmp_path / "m")
