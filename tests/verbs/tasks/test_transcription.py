"""Transcription, from recordings on disk to a scored model folder that transcribes new ones."""

import itertools

import numpy as np
import pytest

from regard.cli import run
from regard.errors import DataError, FolderError, RecipeError
from regard.verbs.shared.settings import recipe_from
from regard.verbs.tasks import transcription
from regard.verbs.train import train
from regard.verbs.transcribe import Transcriber, output_lines, transcribe
from regard.weights.model_folder import load_model

RECIPE = """
name = "tones"
[task]
kind = "transcription"
[data.train]
frames = "train.npz"
text = "train.txt"
[data.valid]
frames = "valid.npz"
text = "valid.txt"
[data.test]
frames = "valid.npz"
text = "valid.txt"
[model]
preset = "tiny"
d_model = 16
d_ff = 32
num_layers = 1
subsampling_factor = 2
dropout = 0.0
[batches]
batch_tokens = 400
[training]
max_steps = 120
label_smoothing = 0.0
validate_every = 60
save_every = 60
best_metric = "label_error_rate"
[training.schedule]
kind = "linear"
learning_rate = 0.01
warmup_steps = 10
[decoding]
beam_size = 3
"""


def tones(count: int, seed: int) -> tuple[list[np.ndarray], list[str]]:
    """Low and high tones, of 4 to 7 frames each, with a pause after each, two to four in a recording."""
    generator = np.random.default_rng(seed)
    recordings, texts = [], []
    for _ in range(count):
        said = generator.choice(["low", "high"], generator.integers(2, 5)).tolist()
        pieces = []
        for word in said:
            tone = np.zeros((generator.integers(6, 10), 4))
            tone[2:, slice(0, 2) if word == "low" else slice(2, 4)] = 1
            pieces.append(tone)
        frames = np.concatenate(pieces)
        recordings.append((frames + 0.1 * generator.normal(size=frames.shape)).astype(np.float32))
        texts.append(" ".join(said))
    return recordings, texts


def save(folder, part: str, recordings: list[np.ndarray], texts: list[str]) -> None:
    np.savez(folder / f"{part}.npz", frames=np.concatenate(recordings), lengths=list(map(len, recordings)))
    (folder / f"{part}.txt").write_text("".join(f"{text}\n" for text in texts))


@pytest.fixture
def folder(tmp_path):
    save(tmp_path, "train", *tones(60, 1))
    save(tmp_path, "valid", *tones(12, 2))
    (tmp_path / "tones.toml").write_text(RECIPE)
    return tmp_path


def prepared(folder, limit=None, **sections) -> transcription.Transcription:
    table = {
        "name": "tones",
        "task": {"kind": "transcription"},
        "data": {part: {"frames": f"{part}.npz", "text": f"{part}.txt"} for part in ("train", "valid")},
        "model": {"preset": "tiny", "subsampling_factor": 2},
        "training": {"label_smoothing": 0.0},
    }
    for name, section in sections.items():
        table[name] = {**table.get(name, {}), **section}
    source = recipe_from(table, "", folder, "tones.toml")
    return transcription.prepare(source, folder / "data", say=lambda _: None, limit=limit)


def test_tones_are_transcribed(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    result = train("tones.toml", out="run", threads=1)
    assert result.metrics["label error rate"] <= 5
    best = load_model("run")
    assert best.labels == ("", "high", "low")
    assert best.generation == {"beam_size": 3}
    assert "regard transcribe" in (folder / "run" / "best" / "README.md").read_text()

    recordings, texts = tones(20, 3)
    transcripts = transcribe(recordings, model="run", threads=1)
    assert sum(one == other for one, other in zip(transcripts, texts, strict=True)) >= 18
    save(folder, "other", recordings, texts)
    assert transcribe("other.npz", model="run", threads=1) == transcripts
    assert transcribe([], model="run") == []
    capsys.readouterr()
    assert run(["transcribe", "other.npz", "--model", "run"]) == 0
    assert capsys.readouterr().out.splitlines() == transcripts
    alone = [transcribe([recording], model="run")[0] for recording in recordings[:3]]
    assert alone == transcripts[:3]

    transcriber = Transcriber("run", beam_size=1)
    [first] = transcriber(recordings[:1])
    assert (first.line, first.text) == (1, transcripts[0])
    assert first.log_prob < 0
    assert output_lines(first) == f"{first.text}\n"
    assert output_lines(first, as_json=True).startswith('{"line": 1, "text": ')
    with pytest.raises(DataError, match="recording 2 has 5 frames of 3 features"):
        transcriber([recordings[0], np.zeros((5, 3), np.float32)])


def test_another_model_does_not_transcribe(untrained):
    with pytest.raises(FolderError, match="not a model that transcribes"):
        Transcriber(untrained)


def test_a_dry_run_keeps_some(folder):
    task = prepared(folder, limit=30)
    assert len(task.examples()) == 30
    assert task.labels == ("", "high", "low")
    assert (task.config.num_features, task.config.num_labels) == (4, 3)


def test_a_label_that_training_does_not_have_is_refused_with_its_line(folder):
    recordings, texts = tones(12, 2)
    save(folder, "valid", recordings, [*texts[:4], "low middle", *texts[5:]])
    with pytest.raises(DataError, match=r"valid.txt:5: label 'middle' does not occur"):
        prepared(folder)


def test_transcripts_that_are_too_long_for_an_alignment_are_refused_before_training(folder):
    with pytest.raises(DataError, match="labels need") as refusal:
        prepared(folder, model={"subsampling_factor": 8, "subsampling": "stacked"})
    assert "lower subsampling_factor (8)" in refusal.value.hint


def test_validation_needs_labels(folder):
    recordings, _ = tones(12, 2)
    save(folder, "valid", recordings, [""] * 12)
    with pytest.raises(DataError, match="all transcripts are empty"):
        prepared(folder)


def test_other_features_are_refused(folder):
    recordings, texts = tones(12, 2)
    save(folder, "valid", [frames[:, :3] for frames in recordings], texts)
    with pytest.raises(DataError, match=r"valid.txt: frames have 3 features, but the model reads 4"):
        prepared(folder)


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("training", "label_smoothing", 0.1, "label_smoothing is not for CTC"),
        ("training", "r_drop", 1.0, "r_drop"),
        ("training", "best_metric", "accuracy", "does not measure"),
        ("decoding", "beam_size", 0, "beam_size is 0, but must be at least 1"),
        ("model", "kind", "vision", "trains 'conformer' models only"),
    ],
)
def test_settings_that_a_recipe_may_not_have_are_refused(folder, section, key, value, message):
    with pytest.raises(RecipeError, match=message) as refusal:
        prepared(folder, **{section: {key: value}})
    assert refusal.value.hint


def test_batches_of_validation_hold_each_recording_once(folder):
    task = prepared(folder)
    lines = [batch.lines.tolist() for batch in transcription._batches(task._parts["valid"])]
    assert sorted(itertools.chain(*lines)) == list(range(1, 13))
