"""Encoders in ONNX and in a page: their scripts read texts and put out labels as regard does."""

import dataclasses
import functools
import json
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import regard
from regard.cli import run
from regard.errors import RunError
from regard.exports import onnx_encoder, onnx_encoder_process, web_encoder, web_encoder_process
from regard.exports.encoder_certificate import compare_encoders
from regard.exports.encoder_export import compared, export_encoder
from regard.exports.onnx_encoder import ONNX_ENCODER
from regard.exports.onnx_process import module_of
from regard.exports.refusal import NotExpressible
from regard.exports.web_encoder import WEB_ENCODER
from regard.exports.web_node import node
from regard.verbs.classify import output_lines as class_lines
from regard.verbs.fill import output_lines as filled_lines
from regard.verbs.tag import output_lines as tag_lines

HEADS = {
    "classification": ("good", "bad", "none"),
    "regression": (),
    "tokens": ("N", "V", "X"),
    "masked_language_model": (),
}
NIGHTLY = pytest.mark.nightly
# For every change two of the heads: a graph takes seconds, and the others' outputs are read in the same way.
FIRST = [
    pytest.param(head, marks=() if head in ("classification", "masked_language_model") else NIGHTLY)
    for head in HEADS
]
WORDS = {"tokens": "wordpunct", "positions": "learned", "max_positions": 40}  # of one graph in three tests
LEARNED = {  # and so are these
    "positions": "learned",
    "max_positions": 40,
    "num_token_types": 2,
    "norm": "layer",
    "activation": "gelu",
}
TEXTS = ["a good film .", "the cat sat on unbelievability", "(the cat) sat... U.S.", "bad"]
MASKED = ["a [MASK] film .", "the<mask>sat on the [MASK]", "un[MASK]able"]


@pytest.fixture(scope="module")
def exported(encoder_folder, tmp_path_factory, exporter_without_checks):
    """An encoder with a head, and its graph with the script in Python."""

    @functools.cache
    def made(head, **changes):
        loaded = regard.load(encoder_folder(head, HEADS[head], **changes), device="cpu")
        folder = tmp_path_factory.mktemp(head)
        onnx_encoder.save(loaded, folder)
        return loaded, folder

    return made


@pytest.fixture
def traced(exported, monkeypatch):
    """Exports of an encoder with this head take its graph from `exported`: tracing takes three seconds."""

    def with_head(head, **changes):
        loaded, folder = exported(head, **changes)
        monkeypatch.setattr(
            onnx_encoder, "save_head_graph", lambda _, out: shutil.copy(folder / onnx_encoder.ENCODER, out)
        )
        return loaded

    return with_head


def lines_of(loaded, texts):
    """What the command prints for each text."""
    verb, lines = {
        "classification": (regard.Classifier, class_lines),
        "regression": (regard.Classifier, class_lines),
        "tokens": (regard.Tagger, tag_lines),
        "masked_language_model": (regard.Filler, filled_lines),
    }[loaded.config.head]
    return [lines(each) for each in verb(model=loaded)(texts)]


def assert_same_lines(head, printed, expected):
    """Equal lines; of numbers the last digit may differ."""
    if head == "regression":
        assert [float(each) for each in printed.split()] == pytest.approx(
            [float(each) for each in expected], 1e-4
        )
    else:
        assert printed == "".join(expected)


def texts_of(head):
    return MASKED if head == "masked_language_model" else TEXTS


@pytest.mark.parametrize("head", FIRST)
def test_the_script_in_python_puts_out_the_lines_of_the_command(head, exported):
    loaded, folder = exported(head)
    texts = texts_of(head)
    code = "import sys; sys.modules['regard'] = sys.modules['torch'] = None; import runpy; "
    code += f"sys.argv = sys.argv[1:]; runpy.run_path({str(folder / 'predict.py')!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code, "predict.py", *texts], capture_output=True, text=True, check=True
    )
    assert_same_lines(head, done.stdout, lines_of(loaded, texts))


@pytest.mark.parametrize("head", FIRST)
def test_outputs_are_equal_and_a_changed_weight_is_noticed(head, exported, tmp_path):
    loaded, folder = exported(head)
    found, facts = compared(ONNX_ENCODER, loaded, folder, TEXTS, compute=onnx_encoder_process.answer)
    assert found.failures == []
    assert found.equal == found.texts_read == 1
    assert found.largest_difference < 1e-4
    assert facts["texts"]["count"] == len(TEXTS)
    for path in folder.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    model = onnx.load(folder / "encoder.onnx")
    weight = next(each for each in model.graph.initializer if each.data_type == 1 and len(each.dims) == 2)
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) + 0.5, weight.name))
    onnx.save(model, tmp_path / "encoder.onnx")
    found, _ = compared(ONNX_ENCODER, loaded, tmp_path, TEXTS, compute=onnx_encoder_process.answer)
    assert found.failures


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(LEARNED, id="learned"),
        pytest.param(
            {"pooling": "max", "pooler": True, "window": 3, "positions": "alibi", "input_convolution": 5},
            id="alibi",
        ),
        pytest.param(
            {"pooling": "cls", "positions": "t5", "embedding_size": 8, "norm_position": "post"},
            id="t5",
            marks=NIGHTLY,
        ),
    ],
)
def test_settings_of_encoders_are_computed_as_by_regard(settings, exported):
    loaded, folder = exported("classification", **settings)
    found, _ = compared(ONNX_ENCODER, loaded, folder, TEXTS * 3, compute=onnx_encoder_process.answer)
    assert found.failures == []
    assert found.largest_difference < 1e-4


@pytest.mark.parametrize("head", [pytest.param("classification", marks=NIGHTLY), "tokens"])
def test_words_and_signs_are_read_alike_and_rare_words_are_unknown(head, exported, traced, engine, tmp_path):
    loaded, folder = exported(head, **WORDS)
    texts = [*TEXTS, "a  splendid film,the best!", "\u3000the\u00a0cat"]
    assert any(loaded.tokenizers.source.unk_id in loaded.tokenizers.source.encode(text) for text in texts)
    model = module_of(folder / "predict.py").Model(folder, 1)
    assert [model.predict(text) for text in texts] == lines_of(loaded, texts)
    web_encoder.save(traced(head, **WORDS), tmp_path)
    done = subprocess.run(
        [node(), str(tmp_path / "run.js"), *texts], capture_output=True, text=True, check=True
    )
    assert done.stdout == "".join(lines_of(loaded, texts))


@pytest.mark.parametrize(
    "head",
    ["classification", "tokens"],
)
def test_a_long_text_is_cut_by_a_classifier_and_refused_by_a_tagger(head, exported):
    text = " ".join(["cat"] * 60)
    loaded, folder = exported(head, **(LEARNED if head == "classification" else WORDS))
    model = module_of(folder / "predict.py").Model(folder, 1)
    if head == "classification":
        assert model.predict(text) == lines_of(loaded, [text])[0]
        return
    with pytest.raises(ValueError, match="more than 40"):
        model.predict(text)
    done = subprocess.run(
        [sys.executable, folder / "predict.py", "the cat", text, "a cat"], capture_output=True, text=True
    )
    first, last = lines_of(loaded, ["the cat", "a cat"])
    assert (done.stdout, done.returncode) == (f"{first}\n{last}", 1)
    assert done.stderr == "error: text 2: the text has 62 tokens, more than 40\n"


@pytest.mark.parametrize("head", FIRST)
def test_the_page_reads_and_puts_out_the_same(head, traced, engine, tmp_path):
    loaded = traced(head)
    web_encoder.save(loaded, tmp_path)
    found, facts = compared(WEB_ENCODER, loaded, tmp_path, TEXTS, compute=web_encoder_process.answer)
    assert found.failures == []
    assert facts["tokenizers"]["texts_encoded"] > 20
    done = subprocess.run(
        [node(), str(tmp_path / "run.js"), *texts_of(head)], capture_output=True, text=True, check=True
    )
    assert_same_lines(head, done.stdout, lines_of(loaded, texts_of(head)))


def test_the_command_writes_a_folder_with_a_certificate(encoder_folder, tmp_path, capsys):
    folder = encoder_folder("classification", HEADS["classification"])
    out = tmp_path / "out"
    assert run(["export", str(folder), "--to", "onnx", "--quantization", "float16", "--out", str(out)]) == 0
    assert "labels 100.0% equal" in capsys.readouterr().err
    certificate = json.loads((out / "CERTIFICATE.json").read_text("utf-8"))
    assert certificate["passed"]
    assert certificate["head"] == "classification"
    assert not (out / "generation.json").exists()
    assert run(["classify", "a", "--model", str(out)]) == 2
    assert "is an export for another engine" in capsys.readouterr().err


def test_other_heads_and_untrained_ones_are_refused_by_name(encoder_folder, tmp_path):
    for head, changes, setting in (
        ("pooled", {}, "head"),
        ("classification", {"fresh_head": True}, "fresh_head"),
    ):
        loaded = regard.load(encoder_folder(head, HEADS.get(head, ()), **changes), device="cpu")
        for target in ("onnx", "web"):
            with pytest.raises(NotExpressible) as error:
                regard.export(loaded, to=target, out=tmp_path / "out")
            assert error.value.setting == setting
    assert not [*tmp_path.iterdir()]


def test_a_script_that_computes_something_else_leaves_no_folder(traced, tmp_path):
    loaded = traced("tokens", **WORDS)

    def save(loaded, folder, quantization):
        onnx_encoder.save(loaded, folder, quantization)
        script = (folder / "predict.py").read_text("utf-8").replace("1 + len(ids)", "len(ids)")
        (folder / "predict.py").write_text(script, "utf-8")

    with pytest.raises(RunError, match="share of texts with equal ids"):
        export_encoder(dataclasses.replace(ONNX_ENCODER, save=save), loaded, tmp_path / "out", texts=TEXTS)
    assert not [*tmp_path.iterdir()]


def test_labels_are_equal_tied_or_different():
    ours = [np.array([[2.0, 1.0, 0.0]], np.float32), np.array([[1.0, 1.00005, 0.0]], np.float32)]
    theirs = [ours[0] + 1, np.array([[1.0, 0.99999, 0.0]], np.float32)]  # a constant changes no probability
    settings = {"classes": True, "scale": 1.0, "read": 1.0, "quantization": "float32"}
    found = compare_encoders(ours, theirs, **settings)
    assert (found.equal, found.tied, found.outputs, found.failures) == (0.5, 0.5, 2, [])
    theirs[1] = np.array([[1.0, 0.5, 3.0]], np.float32)
    assert any("equal labels" in line for line in compare_encoders(ours, theirs, **settings).failures)
    theirs[1] = np.array([[np.nan, 0.5, 0.0]], np.float32)
    assert any("largest" in line for line in compare_encoders(ours, theirs, **settings).failures)


def test_a_number_is_compared_by_the_deviation_of_the_labels():
    found = compare_encoders(
        [np.array([[100.0]])],
        [np.array([[100.5]])],
        classes=False,
        scale=1000.0,
        read=1.0,
        quantization="float32",
    )
    assert found.largest_difference == pytest.approx(5e-4)
    assert found.equal == 1
