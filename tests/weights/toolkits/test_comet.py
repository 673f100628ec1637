"""Metrics of COMET give its scores, or are refused by the name of a setting."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from regard.cli import run
from regard.errors import FolderError
from regard.models.translation_metric import TranslationMetric
from regard.verbs.convert import convert
from regard.verbs.shared.learned_metric import LearnedMetric, Segment
from regard.weights.model_folder import LoadedModel
from regard.weights.toolkits.load import load_toolkit, toolkit_of, with_encoder
from tests.weights.toolkits.peers import FIXTURES, made_by

HERE = FIXTURES / "comet"
ENCODER = HERE / "encoder"
MADE = sorted(path for path in HERE.iterdir() if path.is_dir() and path != ENCODER)


def read(folder: Path, encoder: Path = ENCODER) -> LoadedModel:
    return load_toolkit(with_encoder(toolkit_of(folder), encoder), folder, trust_pickle=True).loaded


def same_as_expected(folder: Path, encoder: Path = ENCODER) -> None:
    """Asserts that scores are those of the folder's `expected.json`: with and without references."""
    metric = LearnedMetric(read(folder, encoder))
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    segments = [
        Segment(translation=each["mt"], source=each["src"], reference=each["ref"])
        for each in expected["samples"]
    ]
    assert metric.scores(segments) == pytest.approx(expected["scores"], abs=1e-5)
    if "without_references" in expected:
        segments = [Segment(translation=each.translation, source=each.source) for each in segments]
        assert metric.scores(segments) == pytest.approx(expected["without_references"], abs=1e-5)


@pytest.mark.parametrize("folder", MADE, ids=lambda path: path.name)
def test_scores_are_those_of_comet(folder, in_this_process):
    same_as_expected(folder)


def test_metrics_that_comet_makes_now_give_its_scores(tmp_path):
    for folder in made_by("comet", tmp_path):
        if folder.name != "encoder":
            same_as_expected(folder, tmp_path / "encoder")


def test_the_random_scores_differ(in_this_process):
    """So that a comparison of them means something."""
    for folder in MADE:
        scores = json.loads((folder / "expected.json").read_text("utf-8"))["scores"]
        assert max(scores) - min(scores) > 0.01, folder.name


def test_a_metric_that_comet_says_was_trained_with_softmax_has_it(in_this_process):
    """Its checkpoint has sparsemax; the file hparams.yaml, which COMET reads for this alone, corrects it."""
    assert "sparsemax_patch" in (HERE / "kiwi" / "hparams.yaml").read_text("utf-8")
    assert read(HERE / "kiwi").config.mix == "softmax"
    assert read(HERE / "comet").config.mix == "sparsemax"


@pytest.mark.usefixtures("forked_reader")
def test_a_converted_folder_is_read_from_the_shell_and_names_what_it_leaves_out(tmp_path, capsys):
    arguments = ["--trust-pickle", "--encoder", str(ENCODER), "--out", str(tmp_path / "metric")]
    assert run(["convert", str(HERE / "unified"), *arguments]) == 0
    assert "hidden2tag.bias, hidden2tag.weight, wordloss.weight" in capsys.readouterr().err
    metric = LearnedMetric(tmp_path / "metric")
    assert isinstance(metric.model, TranslationMetric)
    assert metric.name == "metric"


def test_the_file_of_the_checkpoint_may_be_named(in_this_process):
    file = HERE / "kiwi" / "checkpoints" / "model.ckpt"
    assert read(file).path == HERE / "kiwi"


def test_a_folder_of_the_hub_s_cache_whose_files_are_links_is_read(tmp_path, in_this_process):
    snapshot, blobs = tmp_path / "models--a--b" / "snapshots" / "f00", tmp_path / "models--a--b" / "blobs"
    (snapshot / "checkpoints").mkdir(parents=True)
    blobs.mkdir()
    for name in ("hparams.yaml", "checkpoints/model.ckpt", "expected.json"):
        blob = blobs / name.replace("/", "-")
        shutil.copy(HERE / "kiwi" / name, blob)
        (snapshot / name).symlink_to(os.path.relpath(blob, (snapshot / name).parent))
    same_as_expected(snapshot)


def changed(tmp_path: Path, name: str, settings: dict[str, Any], *, both: bool = True) -> Path:
    """A copy of a fixture with other settings in its checkpoint; `both`: and in hparams.yaml."""
    folder = tmp_path / "metric"
    shutil.copytree(HERE / name, folder)
    file = folder / "checkpoints" / "model.ckpt"
    state = torch.load(file, weights_only=True)
    state["hyper_parameters"] |= settings
    torch.save(state, file)
    if both:
        with_yaml(folder, settings)
    return folder


def with_yaml(folder: Path, settings: dict[str, Any]) -> None:
    table = yaml.safe_load((folder / "hparams.yaml").read_text("utf-8")) | settings
    (folder / "hparams.yaml").write_text(yaml.safe_dump(table), "utf-8")


REFUSED = [
    ("comet", "encoder_model", "XLM-RoBERTa-XL"),
    ("comet", "layer", 3),
    ("comet", "layer", "last"),
    ("comet", "layer_transformation", "entmax"),
    ("comet", "pool", "default"),
    ("comet", "hidden_sizes", ["a"]),
    ("comet", "activations", "Relu"),
    ("comet", "final_activation", "Softmax"),
    ("comet", "a_new_setting", 1),
    ("comet", "class_identifier", "xcomet_metric"),
    ("comet", "class_identifier", "ranking_metric"),
    ("comet", "class_identifier", "a_new_metric"),
    ("kiwi", "sent_layer", 3),
    ("kiwi", "input_segments", ["mt"]),
    ("kiwi", "input_segments", ["mt", "src", "doc"]),
]


@pytest.mark.parametrize(("name", "setting", "value"), REFUSED)
def test_what_is_not_expressible_is_refused_by_name(tmp_path, name, setting, value, in_this_process):
    folder = changed(tmp_path, name, {setting: value})
    with pytest.raises(FolderError, match=setting) as caught:
        read(folder)
    assert caught.value.hint


@pytest.mark.parametrize("setting", ["layer_norm", "hidden_sizes", "final_activation", "layer"])
def test_settings_that_the_two_files_state_differently_are_refused(tmp_path, setting, in_this_process):
    """COMET takes those of the checkpoint without a word."""
    value = {"layer_norm": True, "hidden_sizes": [12, 7], "final_activation": "Tanh", "layer": 1}[setting]
    folder = changed(tmp_path, "comet", {setting: value}, both=False)
    with pytest.raises(FolderError, match=rf"hparams\.yaml: {setting} = .* but model\.ckpt has"):
        read(folder)


def test_a_setting_that_only_hparams_yaml_has_is_refused_unless_it_is_known(tmp_path, in_this_process):
    folder = changed(tmp_path, "comet", {})
    with_yaml(folder, {"word_weights": [0.2, 0.8]})
    read(folder)
    with_yaml(folder, {"a_new_setting": True})
    with pytest.raises(FolderError, match="a_new_setting"):
        read(folder)


def test_the_settings_of_the_words_head_and_the_name_of_an_activation_in_any_case_change_nothing(
    tmp_path, in_this_process
):
    settings = {"word_level_training": True, "activations": "TANH", "dropout": 0.3, "train_data": ["a.csv"]}
    same_as_expected(changed(tmp_path, "kiwi", settings))


def test_absent_settings_have_the_defaults_of_their_class(tmp_path, in_this_process):
    folder = changed(tmp_path, "unified", {})
    file = folder / "checkpoints" / "model.ckpt"
    state = torch.load(file, weights_only=True)
    for name in ("layer_transformation", "layer_norm", "input_segments", "sent_layer", "activations"):
        del state["hyper_parameters"][name]
    torch.save(state, file)
    same_as_expected(folder)


def test_an_old_checkpoint_s_pooler_is_left_out_by_name_and_its_buffers_in_silence(tmp_path, in_this_process):
    folder = changed(tmp_path, "comet", {})
    file = folder / "checkpoints" / "model.ckpt"
    state = torch.load(file, weights_only=True)
    state["state_dict"]["encoder.model.pooler.dense.weight"] = torch.zeros(16, 16)
    state["state_dict"]["encoder.model.embeddings.position_ids"] = torch.arange(42)[None]
    torch.save(state, file)
    toolkit = with_encoder(toolkit_of(folder), ENCODER)
    assert load_toolkit(toolkit, folder, trust_pickle=True).unused == ("roberta.pooler.dense.weight",)
    same_as_expected(folder)
    state["state_dict"]["a.new.weight"] = torch.zeros(2)
    torch.save(state, file)
    with pytest.raises(FolderError, match=r"a\.new\.weight"):
        read(folder)


def test_a_checkpoint_without_settings_is_refused(tmp_path, in_this_process):
    """COMET would take the defaults of the class."""
    folder = changed(tmp_path, "comet", {})
    file = folder / "checkpoints" / "model.ckpt"
    state = torch.load(file, weights_only=True)
    del state["hyper_parameters"]
    torch.save(state, file)
    with pytest.raises(FolderError, match="hyper_parameters"):
        read(folder)


def test_the_encoder_must_be_named_and_be_that_of_the_metric(tmp_path, in_this_process):
    folder = HERE / "comet"
    with pytest.raises(FolderError, match="neither the sizes nor the tokeniser") as caught:
        convert(folder, out=tmp_path / "out", trust_pickle=True)
    assert "--encoder DIR" in caught.value.hint
    with pytest.raises(FolderError, match="pickle"):
        convert(folder, out=tmp_path / "out", encoder=ENCODER)
    other = tmp_path / "encoder"
    shutil.copytree(ENCODER, other)
    table = json.loads((other / "config.json").read_text("utf-8"))

    def refused(message: str, **settings: object) -> None:
        (other / "config.json").write_text(json.dumps({**table, **settings}), "utf-8")
        with pytest.raises(FolderError, match=message):
            read(folder, other)

    refused("model_type = 'bert'", model_type="bert")
    refused("intermediate", intermediate_size=25)
    refused("hidden_size is not of type int|hidden_size", hidden_size="16")
    refused("num_attention_heads|num_heads", num_attention_heads=3)
    refused("a_new_setting", a_new_setting=1)
    (other / "config.json").write_text(json.dumps(table), "utf-8")
    (other / "tokenizer.json").unlink()
    with pytest.raises(FolderError, match="has no tokeniser"):
        read(folder, other)
    assert not (tmp_path / "out").exists()


def test_an_encoder_for_anything_else_is_refused(tmp_path):
    with pytest.raises(FolderError, match="not a metric of COMET"):
        convert(FIXTURES / "fairseq" / "shared", out=tmp_path / "out", trust_pickle=True, encoder=ENCODER)
    with pytest.raises(FolderError, match="to = 'hf' reads none"):
        convert("en-de", out=tmp_path / "out", to="hf", encoder=ENCODER)
