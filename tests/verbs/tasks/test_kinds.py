"""Every kind of task can stop early, start from a trained model, and be scored from its model folder."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.decoding.controls import Controls
from regard.decoding.settings import GenerationSettings
from regard.errors import DataError, FolderError, RecipeError, RegardError, UserError
from regard.recipe import apply_overrides
from regard.verbs.evaluate import evaluate
from regard.verbs.shared.settings import load_recipe, load_run, recipe_from, refuse_unused_settings
from regard.verbs.shared.test_data_settings import changed_generation
from regard.verbs.tasks.kinds import KINDS
from regard.verbs.train import train
from regard.verbs.training_run.initial_model import begin
from regard.weights.checkpoint import RunFolder
from regard.weights.model_folder import load_model
from regard.weights.tensors import model_tensors

SHORT = {"max_steps": 2, "save_every": 2, "validate_every": 2, "label_smoothing": 0.0}
TINY = {"d_model": 16, "num_heads": 2, "d_ff": 32}
ENCODER = {"preset": "small", "num_layers": 1, **TINY}
TEXTS = [
    f"{number % 2} the {'good' if number % 2 else 'poor'} film number {number % 7}" for number in range(40)
]


def labelled(folder):
    (folder / "train.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    (folder / "test.txt").write_text("".join(f"{text} again\n" for text in TEXTS[:15]))
    data = {part: {"file": f"{part}.txt", "format": "labelled"} for part in ("train", "test")}
    names = {"0": "negative", "1": "positive"}
    return {"data": {**data, "label_names": names}, "tokenizer": {"vocab_size": 80}, "model": ENCODER}


def tagged(folder):
    def sentence(number):
        words = [
            ("the", "DET"),
            (("cat", "dog")[number % 2], "NOUN"),
            (("sits", "runs")[number % 3 % 2], "VERB"),
        ]
        rows = [f"{i}\t{word}\t_\t{tag}\tX\t_\t_\t_\t_\t_\n" for i, (word, tag) in enumerate(words, start=1)]
        return "".join(rows) + "\n"

    for part, count in (("train", 30), ("test", 8)):
        (folder / f"{part}.conllu").write_text("".join(map(sentence, range(count))))
    data = {part: {"file": f"{part}.conllu"} for part in ("train", "test")}
    return {"data": data, "tokenizer": {"vocab_size": 60}, "model": ENCODER}


def graph(folder):
    generator = np.random.default_rng(0)
    labels, order = np.arange(30) % 2, generator.permutation(30)
    np.savez(
        folder / "graph.npz",
        features=generator.random((30, 5), dtype=np.float32),
        edges=np.stack([np.arange(30), (np.arange(30) + 2) % 30]),
        labels=labels,
        label_names=np.array(["even", "odd"]),
        train=order[:10],
        valid=order[10:20],
        test=order[20:],
    )
    return {"data": {"file": "graph.npz"}, "model": {"d_model": 16, "num_heads": 4}}


def pairs(folder):
    corpus = {"synthetic": "copy", "size": 60, "length": 5}
    (folder / "pairs.tsv").write_text("".join(f"{i} 3 4\t4 3 {i}\n" for i in range(10)))
    tsv = {"file": "pairs.tsv", "format": "tsv", "source_field": "0", "target_field": "1"}
    return {
        "data": {"train": corpus, "valid": {**corpus, "split": "valid"}, "test": tsv},
        "tokenizer": {"kind": "words"},
        "validation": {"metrics": ["exact_match", "error_rate"]},
        "model": {"num_encoder_layers": 1, "num_decoder_layers": 1, **TINY},
    }


def numbers(folder):
    recipe = labelled(folder)
    del recipe["data"]["label_names"]
    return recipe


def images(folder):
    generator = np.random.default_rng(0)
    for part, count in (("train", 40), ("test", 12)):
        pixels = generator.integers(0, 255, (count, 8, 8), dtype=np.uint8)
        np.savez(folder / f"{part}.npz", images=pixels, labels=np.arange(count) % 2)
    data = {part: {"images": f"{part}.npz", "labels": f"{part}.npz"} for part in ("train", "test")}
    return {"data": data, "model": {"patch_size": 4, "num_layers": 1, **TINY}}


def text_shares(folder):
    """A recipe over shares of one text file; `test.txt` holds the test share alone."""
    lines = [text.partition(" ")[2] for text in TEXTS]
    (folder / "text.txt").write_text("\n".join(lines))
    share = "\n".join(lines)
    (folder / "test.txt").write_text(share[int(0.9 * len(share)) :])
    parts = {"train": [0.0, 0.8], "valid": [0.8, 0.9], "test": [0.9, 1.0]}
    data = {part: {"file": "text.txt", "share": share} for part, share in parts.items()}
    task = {"kind": "language_model", "block": 16}
    model = {"num_layers": 1, "max_positions": 16, **TINY}
    return {"data": data, "task": task, "tokenizer": {"kind": "characters"}, "model": model}


def unlabelled(folder):
    recipe = labelled(folder)
    del recipe["data"]["label_names"]
    return recipe


def recordings(folder):
    generator = np.random.default_rng(0)
    for part, count in (("train", 20), ("test", 6)):
        frames = generator.normal(size=(12 * count, 4)).astype(np.float32)
        np.savez(folder / f"{part}.npz", frames=frames, lengths=[12] * count)
        (folder / f"{part}.txt").write_text("low high\n" * count)
    data = {part: {"frames": f"{part}.npz", "text": f"{part}.txt"} for part in ("train", "test")}
    model = {"preset": "tiny", "num_layers": 1, "subsampling_factor": 2, "d_model": 16, "d_ff": 32}
    return {"data": {**data, "valid": data["test"]}, "model": model}


RECIPES = {
    "classification": labelled,
    "images": images,
    "language_model": text_shares,
    "masked_language_model": unlabelled,
    "nodes": graph,
    "regression": numbers,
    "tagging": tagged,
    "transcription": recordings,
    "translation": pairs,
}
DATA_FILES = {  # a value of --data for each kind, and the size of its test data
    "classification": ("test.txt", "15 texts"),
    "images": ("test.npz", "12 images"),
    "language_model": ("test.txt", "1 document"),
    "masked_language_model": ("test.txt", "15 texts"),
    "nodes": ("graph.npz", "10 nodes"),
    "regression": ("test.txt", "15 texts"),
    "tagging": ("test.conllu", "8 sentences, 24 words"),
    "transcription": ("test.npz", "6 recordings, 12 labels"),
    "translation": ("pairs.tsv", "10 pairs"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A function from a kind of task to the folder of a finished run and its test scores."""
    known: dict[str, tuple[Path, dict[str, float]]] = {}

    def finished(kind):
        if kind not in known:
            folder = tmp_path_factory.mktemp(kind)
            (folder / "recipe.toml").write_text("")
            sets = [f"{key}={toml(value)}" for key, value in recipe(kind, folder).items()]
            result = train(folder / "recipe.toml", overrides=sets, out=folder / "run", threads=1)
            known[kind] = folder, result.metrics
        return known[kind]

    return finished


def recipe(kind, folder):
    """A recipe of two updates, its data written into `folder`."""
    return {"name": kind, "task": {"kind": kind}, **RECIPES[kind](folder), "training": SHORT}


def toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in value.items()) + "}"
    return json.dumps(value)


def test_every_kind_of_task_is_tested():
    assert set(RECIPES) == set(DATA_FILES) == set(KINDS)


@pytest.mark.parametrize("kind", RECIPES)
def test_a_run_whose_metric_does_not_improve_stops_early(kind, tmp_path):
    table = recipe(kind, tmp_path)
    metric = (*recipe_from(table, "", tmp_path, kind).recipe.metric_names, "loss")[0]
    still = {"kind": "constant", "learning_rate": 1e-30, "warmup_steps": 1}
    patient = {"max_steps": 20, "save_every": 20, "validate_every": 1, "patience": 2, "label_smoothing": 0.0}
    table["training"] = {**patient, "best_metric": metric, "schedule": still}
    (tmp_path / "recipe.toml").write_text("")
    sets = [f"{key}={toml(value)}" for key, value in table.items()]
    result = train(tmp_path / "recipe.toml", overrides=sets, out=tmp_path / "run", threads=1)
    assert result.steps == 1 + 2
    assert RunFolder(tmp_path / "run").best().manifest["step"] == 1


@pytest.mark.parametrize("kind", RECIPES)
def test_a_run_that_starts_from_a_model_of_its_own_kind_takes_all_of_it(runs, kind, tmp_path):
    folder, _ = runs(kind)
    table = recipe(kind, tmp_path)
    table["model"] = {"init": str(folder / "run")}
    messages = []
    with RunFolder(tmp_path / "run").lock() as run:
        _, model = begin(
            recipe_from(table, "", tmp_path, kind), run, torch.device("cpu"), say=messages.append
        )
    assert not [line for line in messages if "fresh" in line or "not used" in line]
    trained = model_tensors(load_model(folder / "run").model)
    assert all(torch.equal(tensor, trained[name]) for name, tensor in model_tensors(model).items())


def test_a_masked_language_model_gets_a_fresh_head_for_each_other_task(runs, tmp_path):
    folder, _ = runs("masked_language_model")
    trained = model_tensors(load_model(folder / "run").model)
    for kind in ("classification", "regression"):
        (tmp_path / kind).mkdir()
        table = {**recipe(kind, tmp_path / kind), "model": {"init": str(folder / "run")}}
        source, messages = recipe_from(table, "", tmp_path / kind, kind), []
        with RunFolder(tmp_path / kind / "run").lock() as run:
            task, model = begin(source, run, torch.device("cpu"), say=messages.append)
        assert "head: fresh (no weights fit)" in messages
        assert "not used: head" in messages
        own = model_tensors(model)
        assert all(torch.equal(own[name], trained[name]) for name in own if name.startswith("encoder."))
        assert task.files["tokenizer.json"] == (folder / "run" / "best" / "tokenizer.json").read_bytes()


@pytest.mark.parametrize("kind", RECIPES)
def test_evaluate_gives_the_scores_of_training_from_any_working_directory(runs, kind, tmp_path, monkeypatch):
    folder, metrics = runs(kind)
    monkeypatch.chdir(tmp_path)
    found = evaluate(model=folder / "run", threads=1)
    assert found.scores
    assert {score.name: score.value for score in found.scores}.items() <= metrics.items()
    assert found.examples.startswith(DATA_FILES[kind][1])
    assert found.labels == load_model(folder / "run").labels
    json.dumps(found.to_dict())


@pytest.mark.parametrize("kind", DATA_FILES)
def test_another_file_is_read_as_the_recipe_s_own_and_is_relative_to_the_working_directory(
    runs, kind, monkeypatch
):
    folder, metrics = runs(kind)
    monkeypatch.chdir(folder)
    found = evaluate(model=folder / "run" / "best", data=DATA_FILES[kind][0], threads=1)
    assert {score.name: score.value for score in found.scores}.items() <= metrics.items()


def test_the_confusion_matrix_counts_all_examples_and_its_diagonal_is_the_accuracy(runs):
    for kind, total in (("classification", 15), ("images", 12), ("nodes", 10), ("tagging", 24)):
        found = evaluate(model=runs(kind)[0] / "run", threads=1)
        table = np.array(found.confusion)
        assert table.shape == (len(found.labels),) * 2
        assert table.sum() == total
        accuracy = next(score.value for score in found.scores if score.name == "accuracy")
        assert 100 * np.trace(table) / total == pytest.approx(accuracy)


def test_a_label_that_the_model_does_not_know_is_named_with_its_line(runs, tmp_path):
    folder, _ = runs("classification")
    (tmp_path / "other.txt").write_text("1 a film\npositive by its name\n7 what is that\n")
    with pytest.raises(DataError, match=r"other.txt:3: label '7' does not occur"):
        evaluate(model=folder / "run", data=tmp_path / "other.txt", threads=1)


def test_a_model_taken_out_of_its_run_folder_reads_its_data_relative_to_the_current_folder(
    runs, tmp_path, monkeypatch
):
    folder, metrics = runs("classification")
    (folder / "run" / "best").rename(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    try:
        with pytest.raises(DataError, match=r"no such file"):
            evaluate(model=tmp_path / "model", threads=1)
        monkeypatch.chdir(folder)
        assert evaluate(model=tmp_path / "model", threads=1).scores[0].value == metrics["accuracy"]
    finally:
        (tmp_path / "model").rename(folder / "run" / "best")
    assert evaluate(model=folder / "run", threads=1).scores[0].value == metrics["accuracy"]


def test_the_context_of_a_call_is_that_of_a_recipe(runs, tmp_path):
    folder, _ = runs("language_model")
    run, copy = folder / "run", tmp_path / "copy"
    shutil.copytree(run, copy)
    saved = json.loads((copy / "resolved.json").read_text("utf-8"))
    saved["recipe"] = apply_overrides(saved["recipe"], ["validation.context=1"])
    (copy / "resolved.json").write_text(json.dumps(saved), "utf-8")
    found = evaluate(model=run, context=1, threads=1).scores
    assert found == evaluate(model=copy, threads=1).scores
    assert "|context:1|" in found[0].signature
    assert found[0].value != evaluate(model=run, threads=1).scores[0].value
    with pytest.raises(RecipeError, match=r"validation\.context = 1000 must be less"):
        evaluate(model=run, context=1000, threads=1)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("language_model", {"beam_size": 2}, "has no beam search"),
        ("transcription", {"alpha": 2.0}, "is decoded with beam_size alone"),
        ("classification", {"context": 1}, "context is for language models"),
        ("translation", {"prefix": "a"}, "test data are scored without prefix"),
    ],
)
def test_what_test_data_are_not_scored_with_is_refused(runs, kind, options, message):
    with pytest.raises(UserError, match=message):
        evaluate(model=runs(kind)[0] / "run", threads=1, **options)


def test_test_data_are_translated_with_the_controls_of_a_call(runs):
    run = load_model(runs("translation")[0] / "run")
    changed = changed_generation(run, Controls(beam_size=3, length_penalty="power", alpha=2.0))
    settings = GenerationSettings(**changed)
    assert (settings.beam_size, settings.length_penalty, settings.alpha) == (3, "power", 2.0)
    assert evaluate(model=run, beam_size=3, length_penalty="power", alpha=2.0, threads=1).scores


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"data": "nowhere.txt"}, DataError, "nowhere.txt"),
        ({"src": "a"}, UserError, "do not go together"),
        ({"beam_size": 3}, UserError, "has no beam search"),
        ({"lowercase": True}, UserError, "scored without lowercase"),
        ({"data": "a", "src": "a", "ref": "b"}, UserError, "do not go together"),
    ],
)
def test_what_cannot_be_scored_is_refused(runs, options, error, message):
    with pytest.raises(error, match=message):
        evaluate(model=runs("classification")[0] / "run", threads=1, **options)


def test_a_translation_model_needs_two_files_as_two_options(untrained):
    with pytest.raises(UserError) as caught:
        evaluate(model=untrained, data="some.txt")
    assert caught.value.hint
    assert not isinstance(caught.value, FolderError)


@pytest.mark.parametrize("kind", RECIPES)
def test_a_limit_of_tokens_is_refused_where_nothing_is_cut(kind, tmp_path):
    table = recipe(kind, tmp_path)
    table["batches"] = {**table.get("batches", {}), "max_tokens": 64}
    found = recipe_from(table, "", tmp_path, kind).recipe  # that of an old run is read
    if kind in ("images", "language_model", "nodes", "transcription"):
        with pytest.raises(RecipeError, match="max_tokens = 64 has no effect in this task"):
            refuse_unused_settings(found)
    else:
        refuse_unused_settings(found)


def test_alpha_in_a_recipe_of_a_language_model_needs_a_length_penalty(tmp_path):
    table = recipe("language_model", tmp_path) | {"decoding": {"alpha": 3.0}}
    with pytest.raises(RegardError, match=r"alpha = 3\.0 needs length_penalty"):
        refuse_unused_settings(recipe_from(table, "", tmp_path, "language_model").recipe)
    table["decoding"]["length_penalty"] = "power"
    refuse_unused_settings(recipe_from(table, "", tmp_path, "language_model").recipe)


def test_what_a_new_recipe_may_not_have_is_read_of_a_run_that_has_it(runs, tmp_path):
    folder, _ = runs("translation")
    shutil.copytree(folder, tmp_path / "old")
    resolved = tmp_path / "old" / "run" / "resolved.json"
    saved = json.loads(resolved.read_text("utf-8"))
    saved["recipe"] = apply_overrides(saved["recipe"], ["tokenizer.copies=2", "model.rotary_base=99.0"])
    resolved.write_text(json.dumps(saved), "utf-8")
    assert load_run(tmp_path / "old" / "run").recipe.tokenizer.copies == 2
    (tmp_path / "new.toml").write_text("")
    sets = [f"{key}={toml(value)}" for key, value in saved["recipe"].items()]
    for left, message in (("model", "rotary_base"), ("tokenizer", "copies")):
        with pytest.raises(RecipeError, match=rf"new\.toml: {message} = .* has no effect"):
            load_recipe(tmp_path / "new.toml", sets)
        sets = [each for each in sets if not each.startswith(f"{left}=")]
