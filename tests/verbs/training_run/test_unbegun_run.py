"""A run folder whose start failed takes a corrected recipe as if it were new; a trained one does not."""

import contextlib
import shutil

import pytest
import torch

from regard.distributed.group import Group
from regard.errors import ConfigError, DataError, FolderError, RecipeError
from regard.verbs.shared.settings import load_recipe
from regard.verbs.tasks import translation
from regard.verbs.train import train
from regard.verbs.training_run.data_checks import ChangedData
from regard.verbs.training_run.initial_model import START, begin
from regard.weights.checkpoint import RunFolder, checkpoint_digest
from tests.verbs.test_train import RECIPE

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(RECIPE, "utf-8")
    return path


def digest(out):
    return checkpoint_digest(RunFolder(out).latest())


@pytest.fixture
def expected(recipe, tmp_path):
    """The digest of a run in a new folder."""
    return digest(train(recipe, out=tmp_path / "expected", threads=1, quiet=True).run)


@pytest.mark.parametrize(
    "wrong",
    [
        ["model.num_heads=5"],
        ["model.preset=large"],
        ['training.freeze=["encoder.block"]'],
        ["training.seed=2", "training.adapter.rank=2"],
    ],
    ids=str,
)
def test_a_corrected_recipe_is_trained_in_the_same_folder(recipe, tmp_path, expected, wrong, capsys):
    out = tmp_path / "run"
    with pytest.raises((ConfigError, RecipeError)):
        train(recipe, out=out, overrides=wrong, threads=1)
    capsys.readouterr()
    train(recipe, out=out, threads=1)
    assert f"no training has begun in {out}: it takes the new recipe" in capsys.readouterr().err
    assert digest(out) == expected
    with pytest.raises(FolderError, match="holds a run of another recipe"):
        train(recipe, out=out, overrides=wrong, threads=1)


def test_what_was_prepared_for_another_recipe_is_not_used(recipe, tmp_path, expected, monkeypatch):
    """The first start fails after its data and its pretrained model were read."""
    first = train(recipe, out=tmp_path / "first", overrides=["data.train.size=50"], threads=1, quiet=True)
    out = tmp_path / "run"

    def broken(*given, **named):
        raise RecipeError("a mistake", "of this test")

    with monkeypatch.context() as patched:
        patched.setattr("regard.verbs.train.training_summary", broken)
        with pytest.raises(RecipeError, match="a mistake"):
            train(recipe, out=out, init=first.model, overrides=["data.train.length=3"], threads=1, quiet=True)
    assert (out / START).is_file()
    assert list((out / "data").iterdir())
    train(recipe, out=out, threads=1, quiet=True)
    assert digest(out) == expected
    assert not (out / START).exists()


def test_texts_that_are_the_same_are_not_prepared_again(recipe, tmp_path, monkeypatch):
    out = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr("regard.verbs.train.training_summary", None)
        with pytest.raises(TypeError):
            train(recipe, out=out, overrides=["model.d_ff=48"], threads=1, quiet=True)
    assert list((out / "data").iterdir())
    before = {path: path.stat().st_mtime_ns for path in (out / "data").rglob("*") if path.is_file()}
    train(recipe, out=out, threads=1, quiet=True)
    after = {path: path.stat().st_mtime_ns for path in before}
    assert before == after


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


@pytest.fixture
def files(recipe, tmp_path):
    """The recipe with corpora in files, of which one has a line that cannot be used."""
    lines = [f"{number} {number % 7} 5" for number in range(60)]
    for name in ("train.a", "train.b", "valid.a", "valid.b"):
        write(tmp_path / name, lines)
    table = recipe.read_text("utf-8")
    _, _, rest = table.partition("[tokenizer]")
    strict = '[data.lines]\nempty = "error"\n'
    data = '[data.train]\nsource = "train.a"\ntarget = "train.b"\n[data.valid]\nsource = "valid.a"\n'
    recipe.write_text(f'name = "small"\n{data}target = "valid.b"\n{strict}[tokenizer]{rest}', "utf-8")
    write(tmp_path / "train.b", [*lines[:30], "", *lines[31:]])
    return lambda: write(tmp_path / "train.b", lines)


def test_corrected_data_are_trained_on_in_the_same_folder(recipe, tmp_path, files, capsys):
    out = tmp_path / "run"
    with pytest.raises(DataError, match=r"train\.b:31"):
        train(recipe, out=out, threads=1)
    files()
    capsys.readouterr()
    train(recipe, out=out, threads=1)
    assert "has changed since this run began: as no training has begun, they are read again" in (
        capsys.readouterr().err
    )
    assert digest(out) == digest(train(recipe, out=tmp_path / "expected", threads=1, quiet=True).run)
    write(tmp_path / "train.b", ["1 2"] * 60)
    with pytest.raises(FolderError, match="has changed since this run began"):
        train(recipe, out=out, threads=1)


def test_a_process_that_is_not_the_first_does_not_undo_what_the_first_prepared(recipe, tmp_path):
    class Second(Group):
        """The second of two processes, whose files differ from those of the first."""

        def first_alone(self):
            return contextlib.nullcontext()

    out = tmp_path / "run"
    source = load_recipe(recipe)
    with RunFolder(out).lock() as run:
        begin(source, run, torch.device("cpu"), say=lambda text: None)
        before = sorted((out / "data").rglob("*"))
        other = load_recipe(recipe, ["data.train.size=100"])
        with pytest.raises(ChangedData):
            begin(other, run, torch.device("cpu"), say=lambda text: None, group=Second(rank=1, size=2))
    assert sorted((out / "data").rglob("*")) == before


def test_what_else_is_beside_the_prepared_data_is_kept(recipe, tmp_path, capsys):
    out = tmp_path / "run"
    with pytest.raises(ConfigError):
        train(recipe, out=out, overrides=["model.num_heads=5"], threads=1)
    (out / "data").mkdir()
    (out / "data" / "corpus.txt").write_text("years of work\n", "utf-8")
    capsys.readouterr()
    train(recipe, out=out, overrides=["data.train.size=100"], threads=1)
    (kept,) = out.glob("data.old-*")
    assert f"what was prepared before is in {kept}" in capsys.readouterr().err
    assert (kept / "corpus.txt").read_text("utf-8") == "years of work\n"


def test_a_run_whose_checkpoints_were_removed_has_trained(recipe, tmp_path):
    out = train(recipe, out=tmp_path / "run", threads=1, quiet=True).run
    for path in (out / "checkpoints").iterdir():
        shutil.rmtree(path)
    with pytest.raises(FolderError, match="holds a run of another recipe"):
        train(recipe, out=out, overrides=["training.seed=2"], threads=1)


def test_a_probe_freezes_the_whole_pretrained_encoder(encoder_folder, tmp_path):
    (tmp_path / "labels.txt").write_text("1 a good film\n0 the cat sat\n" * 8, "utf-8")
    table = f"""
name = "probe"
[task]
kind = "classification"
[data.train]
file = "labels.txt"
format = "labelled"
[data.valid]
file = "labels.txt"
format = "labelled"
[model]
init = "{encoder_folder("none")}"
[training]
max_steps = 2
freeze = ["encoder"]
"""
    (tmp_path / "probe.toml").write_text(table, "utf-8")
    assert train(tmp_path / "probe.toml", out=tmp_path / "run", threads=1, quiet=True).steps == 2


def test_a_model_is_checked_before_its_data_are_read(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(translation, "open_corpus", None)
    with pytest.raises(ConfigError, match="num_heads"):
        train(recipe, out=tmp_path / "run", overrides=["model.num_heads=5"], quiet=True)
    with pytest.raises(RecipeError, match=r"freeze: nothing is called 'encoder\.block'"):
        train(recipe, out=tmp_path / "run", overrides=['training.freeze=["encoder.block"]'], quiet=True)
