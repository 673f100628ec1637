"""`regard train` as it is typed: from a trained model, with frozen modules, and what is wrong with either."""

import pytest

from regard.cli import run
from regard.training import register_loss
from regard.training.losses import LOSSES
from regard.weights.model_folder import load_model

RECIPE = """
name = "small"
[data.train]
file = "pairs.tsv"
format = "tsv"
[data.valid]
file = "pairs.tsv"
format = "tsv"
[validation]
metrics = ["exact_match"]
[training]
max_steps = 2
save_every = 2
validate_every = 2
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A recipe without a model, whose pairs are digits, as those of the untrained model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.tsv").write_text("".join(f"{i} 1 2\t2 1 {i}\n" for i in range(10)))
    (tmp_path / "small.toml").write_text(RECIPE)
    return tmp_path


@pytest.fixture
def mistake(capsys, folder):
    """A function that calls `regard train` and returns the error and the hint that it prints."""

    def call(*arguments: object) -> tuple[str, str]:
        assert run(["train", "small.toml", "--threads", "1", *map(str, arguments)]) == 2
        [*_, error, hint] = capsys.readouterr().err.splitlines()
        assert not (folder / "runs" / "small" / "best").exists()
        return error, hint

    return call


def test_a_pretrained_model_is_finetuned_and_its_frozen_modules_do_not_change(folder, untrained, capsys):
    freeze = 'training.freeze=["encoder.blocks"]'
    arguments = ["train", "small.toml", "--init", str(untrained), "--set", freeze, "--threads", "1"]
    assert run(arguments) == 0
    output = capsys.readouterr().err
    assert "start: " in output
    assert " trained; cpu" in output
    before, after = load_model(untrained).model, load_model(folder / "runs" / "small").model
    for name, weight in before.state_dict().items():
        same = bool((weight == after.state_dict()[name]).all())
        assert same == name.startswith("encoder.blocks"), name


def test_the_number_of_workers_is_that_of_the_verb(mistake, monkeypatch):
    monkeypatch.setattr(LOSSES, "added", {})
    register_loss("of this process")(lambda logits, labels: logits[:, 0])
    error, _ = mistake("--workers", 2, "--set", 'training.loss="of this process"')
    assert "training.loss = 'of this process' is registered in this process, not in 2 workers" in error


def test_a_module_to_freeze_does_not_exist(mistake, untrained):
    error, hint = mistake("--init", untrained, "--set", 'training.freeze=["encodr.blocks"]')
    assert error == "error: training.freeze: nothing is called 'encodr.blocks'"
    assert hint == "hint: did you mean 'encoder.blocks'?"


def test_a_model_to_start_from_does_not_exist(mistake):
    error, hint = mistake("--init", "nowhere")
    assert "nowhere" in error
    assert hint


def test_a_model_to_start_from_has_another_vocabulary(mistake, untrained, folder):
    (folder / "pairs.tsv").write_text("".join(f"word{i} a b\tb a word{i}\n" for i in range(10)))
    error, hint = mistake("--init", untrained)
    assert f"the vocabulary of {untrained} does not fit" in error
    assert "--init" in hint


def test_adapters_need_a_model_to_adapt(mistake):
    error, hint = mistake("--set", "training.adapter={rank=2}")
    assert "training.adapter" in error
    assert "--init" in hint


def test_an_adapter_with_a_misspelt_setting(mistake, untrained):
    error, hint = mistake("--init", untrained, "--set", "training.adapter={rnak=2}")
    assert "training.adapter.rnak" in error
    assert hint == "hint: did you mean 'rank'?"


def test_an_impossible_layer_decay(mistake, untrained):
    error, _ = mistake("--init", untrained, "--set", "training.optimizer.layer_decay=1.5")
    assert "layer_decay" in error
