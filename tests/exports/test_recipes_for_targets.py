"""A model that was trained by a recipe for a target is written for that target."""

import pytest

import regard
from regard.cli import run
from regard.verbs.new import new

WORDS = ["red", "blue", "cat", "dog", "house", "tree", "runs", "sleeps", "the", "a"]
PACKAGES = {  # target -> the packages of its extra
    "ctranslate2": ("ctranslate2",),
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
    "web": ("onnx", "onnxruntime", "onnxscript"),
    "argos": ("ctranslate2", "sentencepiece"),
    "gguf": ("gguf", "llama_cpp"),
    "hf": ("transformers",),
}


@pytest.fixture(autouse=True)
def _measured_for_a_moment(monkeypatch):
    monkeypatch.setattr("regard.verbs.proposals.training_speed.TIMED_SECONDS", 0.02)
    monkeypatch.setattr("regard.verbs.proposals.training_speed.TIMED_PAIRS", 50)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """A corpus for each task, as the first arguments of `new`."""
    folder = tmp_path_factory.mktemp("corpora")
    rows = [[WORDS[(i * j) % 10] for j in range(1, 4 + i % 4)] for i in range(120)]
    (folder / "a.en").write_text("".join(f"{' '.join(row)} {i}\n" for i, row in enumerate(rows)), "utf-8")
    (folder / "a.de").write_text(
        "".join(f"{i} {' '.join(row[::-1])}\n" for i, row in enumerate(rows)), "utf-8"
    )
    (folder / "book.txt").write_text("".join(f"{' '.join(row)}.\n" for row in rows) * 2, "utf-8")
    return {"translation": (folder / "a.en", folder / "a.de"), "language_model": (folder / "book.txt",)}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("task", "target"),
    [
        *(("translation", each) for each in ("ctranslate2", "onnx", "web", "argos", "hf")),
        *(("language_model", each) for each in ("ctranslate2", "onnx", "web", "gguf", "hf")),
    ],
)
def test_a_model_trained_by_such_a_recipe_leaves(corpora, tmp_path, task, target):
    for package in PACKAGES[target]:
        pytest.importorskip(package)
    written = new(
        *corpora[task],
        minutes=1.0 if task == "translation" else None,
        targets=[target],
        out=tmp_path / "r.toml",
    )
    small = ["model.d_model=32", "model.d_ff=32", "training.max_steps=3", "training.validate_every=3"]
    settings = [each for setting in [*small, "training.save_every=3"] for each in ("--set", setting)]
    assert (
        run(["train", str(written.recipe), "--out", str(tmp_path / "run"), "--device", "cpu", *settings]) == 0
    )
    out = tmp_path / ("out.argosmodel" if target == "argos" else "out")
    languages = "en-de" if target == "argos" else None
    report = regard.export(tmp_path / "run", to=target, out=out, languages=languages)
    if target == "hf":
        assert not (report.path / "modeling_regard.py").exists()
        assert "family_refused" not in report.certificate
