"""A run with a teacher: its tokeniser, its classes, the same teacher to the end."""

import shutil

import pytest
from torch.nn import functional

from regard.data.tokenizer import TokenizerPair
from regard.errors import FolderError, RecipeError
from regard.training.losses import LOSSES, register_loss
from regard.verbs.train import train
from regard.verbs.training_run.teacher import TEACHER
from regard.weights.checkpoint import RunFolder, checkpoint_digest
from regard.weights.folder import find_folder
from regard.weights.model_folder import load_model
from regard.weights.strict_json import read_json
from tests.verbs.training_run.test_initial_model import SMALL, pairs, write

SHORT = {"max_steps": 4, "save_every": 2, "validate_every": 2}
TEXTS = ["a good day", "what a good film"], ["a bad day", "how bad it was"]


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """The model folder of a translator of a few updates."""
    folder = tmp_path_factory.mktemp("teacher")
    recipe = write(folder / "copy.toml", pairs("copy", model={**SMALL, "d_ff": 48}))
    return train(recipe, out=folder / "run", threads=1).model


def taught(teacher, **table):
    training = {"distillation": {"teacher": str(teacher), "weight": 0.7, "temperature": 2.0}}
    training |= table.pop("training", {})
    return pairs(
        "copy", **{"model": SMALL, "tokenizer": {"kind": "characters"}, **table, "training": training}
    )


def digest(run):
    return checkpoint_digest(RunFolder(run).latest())


def test_a_student_has_the_tokeniser_of_its_teacher_and_resumes_to_the_bit(teacher, tmp_path, capsys):
    recipe = write(tmp_path / "a.toml", taught(teacher))
    whole = train(recipe, out=tmp_path / "whole", threads=1)
    said = capsys.readouterr().err
    assert f"teacher: {teacher}, weight 0.7, temperature 2" in said
    assert f"tokeniser: from {teacher}" in said
    own, other = load_model(whole.model).tokenizers, load_model(teacher).tokenizers
    assert own.digest() == other.digest()
    train(recipe, out=tmp_path / "run", threads=1)
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000004")
    train(tmp_path / "run", resume=True, threads=1)
    assert digest(tmp_path / "run") == digest(tmp_path / "whole")
    names = {path.name for path in find_folder(tmp_path / "run" / "checkpoints" / "step-00000004").iterdir()}
    assert "teacher.safetensors" not in names
    assert TEACHER not in names
    without = train(write(tmp_path / "b.toml", pairs("copy", model=SMALL)), out=tmp_path / "b", threads=1)
    assert digest(without.run) != digest(whole.run)


def test_another_teacher_is_refused_when_a_run_resumes_and_a_moved_one_is_not(teacher, tmp_path):
    shutil.copytree(teacher, tmp_path / "teacher")
    recipe = write(tmp_path / "a.toml", taught("teacher"))
    train(recipe, out=tmp_path / "run", threads=1)
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000004")
    shutil.rmtree(tmp_path / "teacher")
    other = write(tmp_path / "other.toml", pairs("copy", model={**SMALL, "d_ff": 48}, training={"seed": 7}))
    shutil.copytree(train(other, out=tmp_path / "other", threads=1).model, tmp_path / "teacher")
    with pytest.raises(FolderError, match="is not the teacher with which this run began"):
        train(tmp_path / "run", resume=True, threads=1)
    shutil.rmtree(tmp_path / "teacher")
    with pytest.raises(FolderError, match="teacher does not exist"):
        train(tmp_path / "run", resume=True, threads=1)
    shutil.copytree(teacher, tmp_path / "teacher")
    train(tmp_path / "run", resume=True, threads=1)
    assert read_json(tmp_path / "run" / TEACHER)["path"] == str(tmp_path / "teacher")


def test_a_dry_run_has_its_teacher_and_keeps_nothing(teacher, tmp_path, capsys):
    result = train(write(tmp_path / "a.toml", taught(teacher)), dry_run=True, threads=1)
    assert "teacher: " in capsys.readouterr().err
    assert result.metrics.keys() == {"loss", "exact_match"}
    assert [path.name for path in tmp_path.iterdir()] == ["a.toml"]


def test_a_recurrent_student_learns_from_a_transformer(teacher, tmp_path):
    model = {"kind": "recurrent", "d_model": 16, "d_embedding": 8}
    result = train(write(tmp_path / "a.toml", taught(teacher, model=model)), out=tmp_path / "run", threads=1)
    assert load_model(result.model).config.kind == "recurrent"


def classes(folder, names=("yes", "no"), **table):
    """A recipe of classification."""
    lines = [f"{name} {text}" for name, texts in zip(names, TEXTS, strict=True) for text in texts * 8]
    (folder / f"{'-'.join(names)}.txt").write_text("\n".join(lines) + "\n")
    file = {"file": f"{'-'.join(names)}.txt", "format": "labelled"}
    training = {**SHORT, **table.pop("training", {})}
    return {
        "name": "classes",
        "task": {"kind": "classification"},
        "data": {"train": file, "valid": file},
        "model": {"preset": "small", "d_model": 16, "d_ff": 16, "num_layers": 1},
        "training": training,
        **table,
    }


def test_classes_are_learned_from_a_teacher_and_other_classes_are_refused(tmp_path):
    first = train(write(tmp_path / "a.toml", classes(tmp_path)), out=tmp_path / "a", threads=1)
    taught = {"distillation": {"teacher": str(first.model)}}
    second = train(
        write(tmp_path / "b.toml", classes(tmp_path, training=taught)), out=tmp_path / "b", threads=1
    )
    assert load_model(second.model).labels == load_model(first.model).labels
    other = classes(tmp_path, ("no", "perhaps"), training=taught)
    with pytest.raises(FolderError, match="the teacher has other classes"):
        train(write(tmp_path / "c.toml", other), out=tmp_path / "c", threads=1)


def test_a_teacher_that_does_not_fit_is_refused(teacher, tmp_path):
    words = pairs("copy", model=SMALL, tokenizer={"kind": "characters"})
    other = train(write(tmp_path / "o.toml", words), out=tmp_path / "o", threads=1).model
    with pytest.raises(FolderError, match="the teacher's tokeniser is not that of the run"):
        train(write(tmp_path / "a.toml", taught(teacher)), init=other, out=tmp_path / "a", threads=1)
    learned = pairs("copy", model={**SMALL, "positions": "learned", "max_positions": 8})
    short = train(write(tmp_path / "l.toml", learned), out=tmp_path / "l", threads=1).model
    with pytest.raises(FolderError, match="the teacher reads at most 8 tokens, and the run has up to 256"):
        train(write(tmp_path / "b.toml", taught(short)), out=tmp_path / "b", threads=1)
    with pytest.raises(RecipeError, match="are both set"):
        train(write(tmp_path / "c.toml", taught(teacher, training={"r_drop": 1.0})), out=tmp_path / "c")


def test_a_task_without_classes_is_refused(tmp_path):
    (tmp_path / "numbers.txt").write_text("1.5 a good day\n-2 a bad day\n" * 8)
    file = {"file": "numbers.txt", "format": "labelled"}
    table = {**classes(tmp_path), "task": {"kind": "regression"}, "data": {"train": file, "valid": file}}
    first = train(write(tmp_path / "a.toml", table), out=tmp_path / "a", threads=1)
    table = {**table, "training": {**SHORT, "distillation": {"teacher": str(first.model)}}}
    with pytest.raises(RecipeError, match="SquaredError is not a function of logits and labels"):
        train(write(tmp_path / "b.toml", table), out=tmp_path / "b", threads=1)


def test_a_pair_of_tokenisers_is_read_from_the_files_of_a_task(teacher):
    pair = load_model(teacher).tokenizers
    assert TokenizerPair.of(pair.files()).digest() == pair.digest()
    separate = TokenizerPair(pair.source, TokenizerPair.of(pair.files()).target)
    assert not separate.joint
    assert TokenizerPair.of(separate.files()).digest() == separate.digest()


def test_label_smoothing_without_labels_is_refused(teacher, tmp_path):
    settings = {"distillation": {"teacher": str(teacher), "weight": 1.0}, "label_smoothing": 0.1}
    recipe = write(tmp_path / "a.toml", pairs("copy", model=SMALL, training=settings))
    with pytest.raises(RecipeError, match="label_smoothing has no effect"):
        train(recipe, out=tmp_path / "run", threads=1)


@pytest.fixture
def focal():
    register_loss("focal")(lambda logits, labels: functional.cross_entropy(logits, labels, reduction="none"))
    yield "focal"
    LOSSES.added.pop("focal")


def test_label_smoothing_that_a_registered_loss_does_not_do_is_refused(focal, tmp_path):
    settings = {"loss": focal, "label_smoothing": 0.1}
    recipe = write(tmp_path / "a.toml", pairs("copy", model=SMALL, training=settings))
    with pytest.raises(RecipeError, match="label_smoothing has no effect: the registered loss 'focal'"):
        train(recipe, out=tmp_path / "run", threads=1)


def test_r_drop_without_dropout_is_refused(tmp_path):
    still = {**SMALL, "dropout": 0.0}
    table = pairs("copy", model=still, training={"r_drop": 1.0})
    with pytest.raises(
        RecipeError, match=r"r_drop = 1\.0 has no effect: the model has no dropout"
    ) as refusal:
        train(write(tmp_path / "a.toml", table), out=tmp_path / "a", threads=1)
    assert "doubles the cost" in refusal.value.hint
    again = pairs("copy", model={**still, "attention_dropout": 0.1}, training={"r_drop": 1.0})
    assert train(write(tmp_path / "b.toml", again), out=tmp_path / "b", threads=1).model
