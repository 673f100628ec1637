"""Classes of the nodes of a graph, from a file on disk to a scored model folder."""

import tomllib

import numpy as np
import pytest
import torch

from regard.distributed.group import Group
from regard.errors import ConfigError, DataError, RecipeError
from regard.verbs.classify_nodes import classify_nodes
from regard.verbs.evaluate import evaluate
from regard.verbs.shared.settings import recipe_from
from regard.verbs.tasks import nodes
from regard.verbs.train import train
from regard.weights.checkpoint import RunFolder
from regard.weights.model_folder import load_model

RECIPE = """
name = "rings"
[task]
kind = "nodes"
[data]
file = "rings.npz"
[model]
kind = "gat"
d_model = 16
num_heads = 4
dropout = 0.2
[training]
max_steps = 60
label_smoothing = 0.0
validate_every = 1
save_every = 25
report_every = 20
best_metric = "accuracy"
second_metric = "loss"
patience = 30
[training.schedule]
kind = "constant"
learning_rate = 0.02
warmup_steps = 1
[training.optimizer]
l2 = 0.0005
"""
TRANSFORMER = """
kind = "graph_transformer"
d_model = 16
num_heads = 4
d_ff = 16
num_node_positions = 4
"""


def rings() -> dict[str, np.ndarray]:
    """Rings of six nodes of one class; a node's own features are mostly noise. Node 60 has no edge."""
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(10) % 2, 6)
    features = generator.random((61, 8), dtype=np.float32)
    features[np.arange(60), labels] += 0.5
    nodes = np.arange(60)
    edges = np.stack([nodes, nodes // 6 * 6 + (nodes + 1) % 6])
    mixed = generator.permutation(60)
    splits = {"train": mixed[:20], "valid": mixed[20:40], "test": mixed[40:]}
    names = np.array(["even", "odd"])
    return {
        "features": features,
        "edges": edges,
        "labels": np.append(labels, -1),
        "label_names": names,
        **splits,
    }


@pytest.fixture
def folder(tmp_path):
    np.savez(tmp_path / "rings.npz", **rings())
    (tmp_path / "recipe.toml").write_text(RECIPE)
    return tmp_path


def changed(folder, table):
    head, tail = RECIPE.split("[model]")
    text = f"{head}[model]{table}[training]{tail.split('[training]', 1)[1]}"
    (folder / "recipe.toml").write_text(text)
    return folder / "recipe.toml"


@pytest.mark.parametrize(
    ("table", "accuracy"),
    [
        ('kind = "gat"\nd_model = 16\nnum_heads = 4\ndropout = 0.2\n', 80),
        pytest.param(
            'kind = "gat"\nattention = "gatv2"\nd_model = 16\nnum_heads = 4\ndropout = 0.2\n',
            80,
            marks=pytest.mark.nightly,
        ),
        pytest.param(TRANSFORMER, 80, marks=pytest.mark.nightly),
        (TRANSFORMER + 'reach = "all"\nmax_distance = 2\nnode_positions = "laplacian"\n', 60),
    ],
    ids=["gat", "gatv2", "near", "all, laplacian"],
)
def test_a_recipe_becomes_a_model_that_uses_neighbouring_nodes(folder, table, accuracy):
    slowly = ["training.schedule.learning_rate=0.005", "training.max_steps=100"]  # no seed of six failed so
    result = train(
        changed(folder, "\n" + table),
        out=folder / "run",
        threads=1,
        overrides=slowly if TRANSFORMER in table else [],
    )
    assert result.metrics["accuracy"] >= accuracy
    found = classify_nodes(folder / "rings.npz", model=result.model)
    assert len(found) == 61
    right = [found[node] == ("even", "odd")[rings()["labels"][node]] for node in rings()["test"]]
    assert 100 * np.mean(right) == pytest.approx(result.metrics["accuracy"])


def test_a_run_that_was_stopped_and_resumed_equals_an_uninterrupted_run(folder):
    whole = train(folder / "recipe.toml", out=folder / "whole", threads=1)
    train(folder / "recipe.toml", out=folder / "parts", threads=1, overrides=["training.max_steps=31"])
    (folder / "parts" / "resolved.json").unlink()
    again = train(folder / "recipe.toml", out=folder / "parts", threads=1)
    assert again.metrics == whole.metrics
    one, two = (
        RunFolder(folder / name).best().read_tensors("model.safetensors") for name in ("whole", "parts")
    )
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_dry_run_keeps_nothing(folder, monkeypatch):
    before = sorted(folder.iterdir())
    monkeypatch.chdir(folder)
    metrics = train(folder / "recipe.toml", dry_run=True, threads=1).metrics
    assert metrics.keys() >= {"loss", "accuracy"}
    assert sorted(folder.iterdir()) == before


def test_without_a_test_split_there_is_no_test_score(folder):
    np.savez(folder / "rings.npz", **{name: array for name, array in rings().items() if name != "test"})
    result = train(folder / "recipe.toml", out=folder / "run", overrides=["training.max_steps=3"], threads=1)
    assert result.metrics.keys() >= {"loss", "accuracy"}


def test_another_graph_is_scored_by_its_test_nodes_alone(folder):
    """It needs no other split; its highest label and the order of its names may differ from the model's."""
    short = ["training.max_steps=3"]
    result = train(folder / "recipe.toml", out=folder / "run", overrides=short, threads=1)
    arrays = rings()
    labels = np.full(61, -1)
    labels[arrays["test"]] = 1 - arrays["labels"][arrays["test"]]
    other = {name: arrays[name] for name in ("features", "edges", "test")}
    np.savez(folder / "other.npz", **other, labels=labels, label_names=np.array(["odd", "even", "neither"]))
    found = evaluate(model=folder / "run", data=folder / "other.npz", threads=1)
    assert found.scores[0].value == result.metrics["accuracy"]
    np.savez(folder / "other.npz", **other, labels=np.zeros(61, np.int64))
    found = evaluate(model=folder / "run", data=folder / "other.npz", threads=1)
    assert np.array(found.confusion)[0].sum() == 20
    np.savez(folder / "other.npz", **{**other, "features": arrays["features"][:, :7]}, labels=labels)
    with pytest.raises(DataError, match="7 features, the model reads 8"):
        evaluate(model=folder / "run", data=folder / "other.npz", threads=1)


def test_the_size_of_the_graph_is_printed(folder, capsys):
    train(folder / "recipe.toml", out=folder / "run", overrides=["training.max_steps=1"], threads=1)
    printed = capsys.readouterr().err
    assert (
        "61 nodes with 8 features, 2 classes; 120 edges, counted in each direction, 1 nodes have none"
        in printed
    )
    assert "training: 20 nodes; validation: 20 nodes; test: 20 nodes" in printed
    assert " nodes/s  eta " in printed


def test_another_graph_is_refused_by_a_run(folder):
    train(folder / "recipe.toml", out=folder / "run", overrides=["training.max_steps=1"], threads=1)
    arrays = rings()
    arrays["features"][0, 0] += 1
    np.savez(folder / "rings.npz", **arrays)
    with pytest.raises(Exception, match="has changed since this run began"):
        train(folder / "run", threads=1)


def test_a_graph_cannot_be_shared_by_workers(folder):
    source = recipe_from(tomllib.loads(RECIPE), RECIPE, folder, "recipe.toml")
    task = nodes.prepare(source, folder / "data", say=lambda text: None)
    with pytest.raises(RecipeError, match="cannot be shared by 2 workers"):
        task.loader(Group(size=2))


def test_features_are_read_as_in_training(folder):
    """The model folder records whether features were normalised and edges made undirected."""
    result = train(
        folder / "recipe.toml",
        out=folder / "run",
        overrides=["training.max_steps=1", "data.normalise=false", "data.undirected=false"],
        threads=1,
    )
    config = load_model(result.model).model.config
    assert (config.normalised, config.undirected) == (False, False)
    with pytest.raises(ConfigError, match="cannot be set in a recipe"):
        train(folder / "recipe.toml", dry_run=True, overrides=["model.normalised=false"], threads=1)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.best_metric=bleu", "best_metric is 'bleu', which validation does not measure"),
        ("training.second_metric=bleu", "second_metric is 'bleu', which validation does not measure"),
        ("data.fill=rings.npz", "did you mean|unknown key"),
    ],
)
def test_a_recipe_that_cannot_work_is_refused(folder, override, message):
    with pytest.raises(RecipeError, match=message):
        train(folder / "recipe.toml", overrides=[override], dry_run=True)
