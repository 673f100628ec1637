"""A run folder whose start failed takes a corrected recipe as if it were new; a trained one does not."""

import pytest

from regard.errors import ConfigError, FolderError, RecipeError
from regard.verbs.tasks import translation
from regard.verbs.train import train
from regard.verbs.training_run.initial_model import START
from regard.weights.checkpoint import RunFolder, checkpoint_digest
from tests.verbs.test_train import recipe  # noqa: F401

pytestmark = pytest.mark.filterwarnings("error")


def digest(out):
    return checkpoint_digest(RunFolder(out).latest())


@pytest.fixture
def expected(recipe, tmp_path):  # noqa: F811
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
def test_a_corrected_recipe_is_trained_in_the_same_folder(recipe, tmp_path, expected, wrong, capsys):  # noqa: F811
    out = tmp_path / "run"
    with pytest.raises((ConfigError, RecipeError)):
        train(recipe, out=out, overrides=wrong, threads=1)
    capsys.readouterr()
    train(recipe, out=out, threads=1)
    assert f"no training has begun in {out}: it takes the new recipe" in capsys.readouterr().err
    assert digest(out) == expected
    with pytest.raises(FolderError, match="holds a run of another recipe"):
        train(recipe, out=out, overrides=wrong, threads=1)


def test_what_was_prepared_for_another_recipe_is_not_used(recipe, tmp_path, expected, monkeypatch):  # noqa: F811
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


def test_texts_that_are_the_same_are_not_prepared_again(recipe, tmp_path, monkeypatch):  # noqa: F811
    out = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr("regard.verbs.train.training_summary", None)
        with pytest.raises(TypeError):
            train(recipe, out=out, overrides=["model.d_ff=48"], threads=1, quiet=True)
    before = {path: path.stat().st_mtime_ns for path in (out / "data").rglob("*") if path.is_file()}
    train(recipe, out=out, threads=1, quiet=True)
    after = {path: path.stat().st_mtime_ns for path in before}
    assert before == after


def test_a_model_is_checked_before_its_data_are_read(recipe, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(translation, "open_corpus", None)
    with pytest.raises(ConfigError, match="num_heads"):
        train(recipe, out=tmp_path / "run", overrides=["model.num_heads=5"], quiet=True)
    with pytest.raises(RecipeError, match=r"freeze: nothing is called 'encoder\.block'"):
        train(recipe, out=tmp_path / "run", overrides=['training.freeze=["encoder.block"]'], quiet=True)
