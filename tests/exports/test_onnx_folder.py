"""A folder of ONNX graphs: its loop gives regard's outputs, and its certificate notices any change."""

import ast
import dataclasses
import hashlib
import itertools
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

import regard
from regard.cli import run
from regard.errors import MissingExtra, RunError
from regard.exports import onnx_folder, onnx_graphs
from regard.exports.certified_export import compared
from regard.exports.onnx_folder import ONNX, export_to_onnx, save
from regard.exports.onnx_process import answer, loop_of
from regard.weights.folder import verify_folder
from tests.exports.engine_models import ALIBI, shared_model, small_model
from tests.nightly import nightly_but

SENTENCES = ["A man is sleeping.", "Two dogs run across the field.", "Where is the station, please?"]


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """A small encoder-decoder and its graphs."""
    loaded, folder = shared_model("encoder_decoder"), tmp_path_factory.mktemp("translator")
    save(loaded, folder)
    return loaded, folder


@pytest.fixture(scope="module", params=["small", pytest.param("included", marks=pytest.mark.nightly)])
def in_int8(request, tmp_path_factory):
    """A folder of ONNX with int8 weights: of a small model, or of en-de."""
    if request.param == "included":
        return request.getfixturevalue("box_in_onnx")
    folder = tmp_path_factory.mktemp("int8")
    (folder / "texts").write_text("ba de\nmi gi fa\n", "utf-8")
    loaded = small_model("encoder_decoder", **ALIBI)
    loaded.generation.update({"lower_capitals": True})
    return regard.export(loaded, to="onnx", out=folder / "out", quantization="int8", texts=folder / "texts")


def spoiled(source, folder, name, change):
    """A copy of saved graphs, in which `change` was applied to a weight of a graph."""
    shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    model = onnx.load(folder / name)
    weights = [each for each in model.graph.initializer if each.data_type == 1 and len(each.dims) == 2]
    weight = weights[change % len(weights)]
    values = numpy_helper.to_array(weight).copy()
    values.reshape(-1)[values.size // 2] += 0.5
    weight.CopyFrom(numpy_helper.from_array(values, weight.name))
    onnx.save(model, folder / name)


@pytest.mark.parametrize("name", ["encoder.onnx", "decoder.onnx"])
@pytest.mark.parametrize("number", nightly_but([0, 3, 7], 3))
def test_a_weight_changed_by_hand_is_noticed(translator, tmp_path, name, number):
    loaded, folder = translator
    spoiled(folder, tmp_path, name, number)
    found, _ = compared(ONNX, loaded, tmp_path, ["ba de"], most_new=3, compute=answer)
    assert found.failures
    found, _ = compared(ONNX, loaded, folder, ["ba de"], most_new=3, compute=answer)
    assert not found.failures


def test_a_changed_weight_fails_and_leaves_no_folder(translator, tmp_path, monkeypatch):
    loaded, folder = translator
    monkeypatch.setattr(
        onnx_folder, "save_graphs", lambda model, out: spoiled(folder, out, "decoder.onnx", 1)
    )
    with pytest.raises(RunError, match=r"ONNX does not compute what regard does: .*log-probability"):
        export_to_onnx(loaded, tmp_path / "out", texts=["ba de"])
    assert not [*tmp_path.iterdir()]


def test_a_graph_that_does_not_load_is_reported(tmp_path, monkeypatch):
    def damaged(model, out):
        (out / "encoder.onnx").write_bytes(b"no graph")

    monkeypatch.setattr(onnx_folder, "save_graphs", damaged)
    with pytest.raises(RunError, match="ONNX cannot run the export"):
        export_to_onnx(small_model("encoder_decoder"), tmp_path / "out", texts=["ba de"])
    assert not [*tmp_path.iterdir()]


def test_a_continuing_model_is_exported_by_the_command(decoder_folder, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(["export", str(decoder_folder()), "--to", "onnx", "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert printed.out.strip() == str(out)
    assert "greedy 100.0% equal, beam 5 100.0% equal" in printed.err
    assert not (out / "encoder.onnx").exists()
    assert run(["generate", "1 2", "--model", str(out)]) == 2
    assert "is an export for another engine" in capsys.readouterr().err
    [text] = by_command(out, "To be", "--max-new-tokens", "5")
    assert text == regard.generate("To be", model=decoder_folder(), beam_size=1, max_new_tokens=5)


def by_command(folder, *arguments, **named):
    """The lines that generate.py prints, in a process that is not in the folder and knows no regard."""
    code = "import sys; sys.modules['regard'] = sys.modules['torch'] = None; import runpy; "
    code += f"sys.argv = sys.argv[1:]; runpy.run_path({str(folder / 'generate.py')!r}, run_name='__main__')"
    command = [sys.executable, "-c", code, "generate.py", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True, **named)
    return done.stdout.splitlines()


def test_a_text_that_is_too_long_is_named_and_the_others_are_done(translator, tmp_path):
    _, folder = translator
    shutil.copytree(folder, tmp_path / "out", ignore=shutil.ignore_patterns("__pycache__"))
    table = json.loads((folder / "config.json").read_text()) | {"most_positions": 8}
    (tmp_path / "out" / "config.json").write_text(json.dumps(table))
    script = [sys.executable, str(tmp_path / "out" / "generate.py")]
    done = subprocess.run([*script, "ba de", "ba " * 20, "bi"], capture_output=True, text=True)
    first, last = by_command(tmp_path / "out", "ba de", "bi")
    assert (done.stdout.splitlines(), done.returncode) == ([first, "", last], 1)
    assert re.fullmatch(r"error: text 2: the text has \d+ tokens, more than 8\n", done.stderr)


def test_a_line_that_is_not_utf_8_is_named_and_the_others_are_done(translator):
    _, folder = translator
    for locale in ("C", "C.UTF-8"):
        script = [sys.executable, str(folder / "generate.py")]
        done = subprocess.run(script, input=b"caf\xe9\nba de\n", capture_output=True, env={"LC_ALL": locale})
        assert done.stdout.decode().splitlines() == ["", *by_command(folder, "ba de")]
        assert (done.stderr, done.returncode) == (b"error: text 1: not UTF-8\n", 1)


def test_the_loop_needs_few_packages():
    tree = ast.parse((onnx_folder.FILES / "generate.py").read_text("utf-8"))
    names = {each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    outside = {name.split(".")[0] for name in names} - set(sys.stdlib_module_names)
    assert outside == {"numpy", "onnxruntime", "tokenizers"}


def test_a_folder_has_its_certificate_its_hashes_and_its_loop(in_int8):
    verify_folder(in_int8.path)
    certificate = json.loads((in_int8.path / "CERTIFICATE.json").read_text("utf-8"))
    assert certificate == in_int8.certificate
    assert certificate["passed"]
    assert certificate["versions"].keys() >= {"regard", "onnxruntime", "python"}
    assert certificate["files"].keys() >= {"encoder.onnx", "decoder.onnx", "generate.py", "config.json"}
    for name, digest in certificate["files"].items():
        assert hashlib.sha256((in_int8.path / name).read_bytes()).hexdigest() == digest
    card = (in_int8.path / "README.md").read_text("utf-8")
    assert "do not apply" in card
    assert "`lower_capitals = True`" in card


@pytest.mark.parametrize("size", [1, 3])
def test_other_ends_and_a_forced_first_token_are_applied(translator, tmp_path, size):
    """As those of models of many languages, and of chats."""
    loaded, folder = translator
    ends = [loaded.tokenizers.target.vocabulary()[word] for word in (" bi", " gi", " de")]
    generation = {"forced_bos_id": 7, "end_ids": ends, "length_penalty": "power", "alpha": 1.0}
    changed = dataclasses.replace(loaded, generation=generation)
    shutil.copytree(folder, tmp_path / "out", ignore=shutil.ignore_patterns("__pycache__"))
    table = onnx_folder.loop_config(changed, changed.config)
    (tmp_path / "out" / "config.json").write_text(json.dumps(table))
    script = loop_of(tmp_path / "out")
    loop = script.Model(tmp_path / "out")
    rules = script.Rules(**loop.config["rules"])
    texts = [" ".join(words) for words in itertools.permutations(["ba", "mi", "ki", "fa"], 2)]
    if size > 1:  # the end of a text of the greatest length counts in regard's score, and not in the loop's
        texts = [text for text in texts if loop.search(loop.encode(text), size, 12, rules).ended]
    assert len(texts) >= 4
    named = {} if size == 1 else {"early_stopping": True}
    ours = regard.translate(texts, model=changed, beam_size=size, max_new_tokens=12, **named)
    assert [loop.generate(text, size, 12) for text in texts] == ours
    assert all(text.startswith("da") for text in ours)


def test_a_folder_does_not_name_the_machine_that_wrote_it(in_int8):
    for path in in_int8.path.iterdir():
        content = path.read_bytes()
        assert b"site-packages" not in content
        assert str(onnx_folder.FILES.parent).encode() not in content


@pytest.mark.nightly
def test_int8_weights_have_a_quarter_of_the_bytes(box_in_onnx):
    size = sum((box_in_onnx.path / name).stat().st_size for name in ("encoder.onnx", "decoder.onnx"))
    assert size < 7.3e6  # 27.7e6 in float32
    assert box_in_onnx.certificate["log_probs"]["mean_difference"] > 1e-3


def test_the_command_of_a_folder_translates_as_regard_does(translator):
    loaded, folder = translator
    texts = ["ba de", "mi gi fa ba", "fa"]
    expected = regard.translate(texts, model=loaded, early_stopping=True)
    assert by_command(folder, *texts) == expected
    assert by_command(folder, input="\n".join([texts[0], "", texts[2]])) == [expected[0], "", expected[2]]
    odd = ["  ba de ", "\u200bba\u00a0de", "\ufeff", " "]  # white space around texts, spaces that no line had
    assert by_command(folder, *odd) == [f"  {expected[0]} ", expected[0], "", ""]
    [greedy] = by_command(folder, "--beam", "1", texts[1])
    assert greedy == regard.translate(texts[1], model=loaded, beam_size=1)


@pytest.mark.nightly
def test_the_command_of_the_included_model_translates_as_regard_does(box_in_onnx):
    expected = regard.translate(SENTENCES, early_stopping=True)
    assert by_command(box_in_onnx.path, *SENTENCES) == expected
    lines = "\n".join([SENTENCES[0], "", SENTENCES[2]])
    assert by_command(box_in_onnx.path, input=lines) == [expected[0], "", expected[2]]
    [greedy] = by_command(box_in_onnx.path, "--beam", "1", SENTENCES[1])
    assert greedy == regard.translate(SENTENCES[1], beam_size=1)


@pytest.mark.parametrize("quantization", ["float16", "int8"])
def test_fewer_bits_are_near(quantization, translator, tmp_path):
    loaded, folder = translator
    for name in ("encoder.onnx", "decoder.onnx"):
        shutil.copy(folder / name, tmp_path)
        (onnx_folder.store_in_int8 if quantization == "int8" else onnx_folder.store_in_float16)(
            tmp_path / name
        )
        assert (tmp_path / name).stat().st_size < (folder / name).stat().st_size
    for name in ("config.json", "tokenizer.json", "generate.py"):
        shutil.copy(folder / name, tmp_path)
    found, _ = compared(ONNX, loaded, tmp_path, None, quantization, most_new=3, compute=answer)
    assert 1e-6 < found.log_probs.mean_difference < 0.1


def test_float16_is_exact_for_weights_that_are_float16_also_in_files_beside_the_graphs(tmp_path, monkeypatch):
    loaded = shared_model("decoder_only")
    assert all(parameter.equal(parameter.half().float()) for parameter in loaded.model.parameters())
    (folder := tmp_path / "one file").mkdir()
    save(loaded, folder, "float16")
    found, _ = compared(ONNX, loaded, folder, ["ba de"], most_new=3, compute=answer)
    assert found.log_probs.largest_difference < 1e-5
    monkeypatch.setattr(onnx_graphs, "MAX_EMBEDDED_BYTES", 0)  # as of a large model
    certificate = export_to_onnx(loaded, tmp_path / "out", texts=["ba de"], quantization="float16")
    assert certificate["files"].keys() >= {"decoder.onnx", "decoder.onnx.data"}
    assert certificate["log_probs"]["largest_difference"] < 1e-5


def test_a_row_of_a_batch_is_what_it_is_alone(translator):
    _, folder = translator
    script = loop_of(folder)
    model = script.Model(folder, 1)
    rows = [[5, 6, 7], [8], [9, 10, 11, 12, 13]]
    together = model.read(rows)
    for row, ids in enumerate(rows):
        alone = model.read([ids])
        for name in alone:
            if name != "lengths":
                shape = alone[name].shape[2]
                np.testing.assert_allclose(together[name][row, :, :shape], alone[name][0], atol=1e-5)


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(MissingExtra) as error:
        export_to_onnx(small_model("encoder_decoder"), tmp_path / "out")
    assert error.value.hint == "pip install 'regard[onnx]'"


class Branching(torch.nn.Module):
    """A part that no exporter can trace."""

    def forward(self, ids):
        return ids + 1 if ids.sum() > 3 else ids


def test_a_model_that_cannot_be_traced_is_refused_by_what_went_wrong_first(tmp_path):
    with pytest.raises(RunError) as caught:
        onnx_graphs.save_graph(
            Branching(), tmp_path / "encoder.onnx", (torch.ones(2, 3),), ({},), input_names=["ids"],
            output_names=["out"],
        )  # fmt: skip
    assert "encoder.onnx" in str(caught.value)
    assert "GuardOnDataDependentSymNode" in str(caught.value)  # not the exporter's own advice
    assert "\x1b" not in str(caught.value)
    assert not (tmp_path / "encoder.onnx").exists()
