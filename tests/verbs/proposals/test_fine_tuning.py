"""A recipe with `init` continues from a trained model: shape and decoding stay, the run fits the time."""

import dataclasses
import json

import pytest

from regard.errors import FolderError, RecipeError
from regard.models.build import build_model
from regard.recipe import read_toml
from regard.verbs.new import new
from regard.verbs.proposals.fine_tuning import NEW_TOKENS, run_settings
from regard.verbs.proposals.plan import SIZES
from regard.verbs.proposals.run_plan import MAX_TOKENS
from regard.verbs.shared.settings import load_recipe
from regard.verbs.train import train
from regard.weights.folder import write_folder
from regard.weights.model_folder import load_model, model_files
from regard.weights.tensors import model_tensors


@pytest.fixture(autouse=True)
def _measured_for_a_moment(monkeypatch):
    monkeypatch.setattr("regard.verbs.proposals.training_speed.TIMED_SECONDS", 0.02)
    monkeypatch.setattr("regard.verbs.proposals.training_speed.TIMED_PAIRS", 50)


@pytest.fixture
def digits(tmp_path):
    """Two files of digits, which the untrained model has tokens for."""
    lines = "".join(f"{i % 10} {i // 10 % 10} {i % 7}\n" for i in range(200))
    files = tmp_path / "corpus.a", tmp_path / "corpus.b"
    for file in files:
        file.write_text(lines)
    return files


@pytest.fixture
def positioned(untrained, tmp_path):
    """Makes model folders like `untrained` that have learned so many positions."""
    start = load_model(untrained)

    def made(count):
        config = dataclasses.replace(start.config, positions="learned", max_positions=count)
        others = {**start.tokenizers.files(), "generation.json": b"{}"}
        files = model_files(config, (), others, 'name = "positioned"\n')
        weights = {"model.safetensors": model_tensors(build_model(config, seed=1)), "README.md": b"# ours\n"}
        write_folder(tmp_path / f"model-{count}", {**files, **weights})
        return tmp_path / f"model-{count}"

    return made


def test_the_recipe_has_no_sizes_and_trains_the_model_that_it_names(digits, untrained, tmp_path):
    written = new(*digits, init=untrained, minutes=0.05, cores=1, out=tmp_path / "fine" / "my.toml")
    table, _ = read_toml(written.recipe)
    assert list(table["model"]) == ["init"]
    assert (written.recipe.parent / table["model"]["init"]).resolve() == untrained.resolve()
    assert "tokenizer" not in table
    assert table["decoding"] == {"beam_size": 2, "max_length": 12}
    run = train(written.recipe, out=tmp_path / "run", threads=1, overrides=["training.max_steps=2"])
    tuned = load_model(run.model)
    start = load_model(untrained)
    assert tuned.config == start.config
    assert tuned.tokenizers.files() == start.tokenizers.files()
    assert tuned.generation["max_length"] == 12
    again = new(*digits, init=tmp_path / "run", minutes=0.05, cores=1, out=tmp_path / "again.toml")
    assert read_toml(again.recipe)[0]["model"]["init"] == "run", "a run, by its path from the recipe"


def test_the_included_model_is_named_and_not_its_folder(digits, tmp_path):
    written = new(*digits, init="en-de", minutes=0.05, cores=1, out=tmp_path / "my.toml")
    table, _ = read_toml(written.recipe)
    assert table["model"]["init"] == "en-de"
    assert table["decoding"]["lower_capitals"] is True
    assert "split_above" not in table["decoding"], "the run computes it from its own data"
    assert any(
        f"regard evaluate --model en-de --src {written.data / 'valid.source'}" in note
        for note in written.notes
    )


def test_any_decoding_setting_of_the_model_is_one_of_the_recipe(digits, untrained, tmp_path):
    model = tmp_path / "model"
    start = load_model(untrained)
    settings = {"heuristic_stopping": True, "prefixes": {"translation": "say: "}, "repetition_penalty": 1.5}
    others = {**start.tokenizers.files(), "generation.json": json.dumps(settings).encode()}
    files = model_files(start.config, (), others, 'name = "other"\n')
    weights = {"model.safetensors": model_tensors(start.model), "README.md": b"# ours\n"}
    write_folder(model, {**files, **weights})
    written = new(*digits, init=model, minutes=0.05, cores=1, out=tmp_path / "my.toml")
    assert load_recipe(written.recipe).table["decoding"] == settings


def test_the_score_before_is_that_of_the_test_pairs(digits, untrained, tmp_path):
    pairs = "".join(f"{line}\t{line}\n" for line in digits[0].read_text().splitlines())
    (tmp_path / "test.tsv").write_text(pairs)
    table = tmp_path / "train.tsv"
    table.write_text(pairs)
    given = {"init": untrained, "minutes": 0.05, "cores": 1, "columns": ["0", "1"]}
    written = new(table, test=tmp_path / "test.tsv", task="translation", out=tmp_path / "my.toml", **given)
    assert any(f"--src {written.data / 'test.source'}" in note for note in written.notes)


def test_text_that_the_tokeniser_cannot_read_is_reported_and_gets_tokens(digits, untrained, tmp_path):
    digits[1].write_text("".join(f"{i % 10} word\n" for i in range(200)))
    written = new(*digits, init=untrained, minutes=0.05, cores=1, out=tmp_path / "my.toml")
    [warning] = [each for each in written.warnings if "unknown" in each]
    assert warning.startswith("50.0% of the target's tokens")
    assert read_toml(written.recipe)[0]["tokenizer"] == {"extension": {"size": NEW_TOKENS}}
    run = train(written.recipe, out=tmp_path / "run", threads=1, overrides=["training.max_steps=2"])
    target = load_model(run.model).tokenizers.target
    assert target.decode(target.encode("3 word")) == "3 word"


def test_more_time_is_at_most_ten_epochs(digits, untrained, tmp_path):
    runs = [
        new(*digits, init=untrained, minutes=minutes, cores=1, out=tmp_path / f"{minutes}.toml")
        for minutes in (600.0, 6000.0)
    ]
    steps = [read_toml(run.recipe)[0]["training"]["max_steps"] for run in runs]
    assert steps[0] == steps[1]


def test_the_rate_is_a_share_of_the_one_that_trains_from_nothing_and_falls_with_the_width():
    for size in SIZES:
        assert run_settings(size.d_model).learning_rate < size.learning_rate
    rates = [run_settings(width).learning_rate for width in (64, 128, 192, 256, 512, 1024, 4096)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < rates[-2] < rates[-3], "and beyond the widest size"


def test_pairs_fit_the_positions_that_the_model_has_learned(digits, tmp_path, positioned):
    for most, wanted in ((40, 40), (2000, MAX_TOKENS)):
        written = new(*digits, init=positioned(most), minutes=0.05, cores=1, out=tmp_path / f"{most}.toml")
        assert read_toml(written.recipe)[0]["batches"]["max_tokens"] == wanted


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"init": "nowhere"}, FolderError, "nowhere does not exist"),
        ({"init": "en-de", "targets": ["hf"]}, RecipeError, "cannot be changed for hf"),
        (
            {"init": "en-de", "task": "language_model"},
            RecipeError,
            "init is for translations, not for language_model",
        ),
    ],
)
def test_what_cannot_be_fine_tuned_is_refused_before_anything_is_written(
    digits, tmp_path, given, error, message
):
    files = digits[:1] if "task" in given else digits
    with pytest.raises(error, match=message):
        new(*files, **given, out=tmp_path / "my.toml")
    assert not list(tmp_path.glob("my*"))


def test_a_model_that_does_not_translate_is_refused(digits, tmp_path, decoder_folder):
    with pytest.raises(FolderError, match="'decoder_only', which translates nothing"):
        new(*digits, init=decoder_folder(), out=tmp_path / "my.toml")
