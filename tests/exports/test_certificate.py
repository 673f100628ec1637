"""The certificate: what is equal, tied or different; and no folder without one that passes."""

import hashlib
import json
import math
import sys
from dataclasses import replace

import pytest
import torch

import regard
from regard.cli import run
from regard.decoding.hypothesis import Hypothesis
from regard.errors import MissingExtra, RunError, UserError
from regard.exports import ctranslate2_folder
from regard.exports.certificate import (
    BOUNDS,
    TIE,
    Comparison,
    EngineOutput,
    LogProbComparison,
    OutputComparison,
    compare_log_probs,
    compare_outputs,
)
from regard.exports.certified_export import compared
from regard.exports.ctranslate2_folder import CTRANSLATE2, export_to_ctranslate2, pieces
from regard.exports.ctranslate2_process import answer
from regard.exports.plain_reference import ForcedLogProbs, TranslationReference
from regard.weights.folder import verify_folder
from tests.exports.engine_models import small_model, tokenizer

EQUAL = OutputComparison(equal=1.0, tied=0.0, equal_tokens=1.0, largest_score_difference=0.0)
SAME = LogProbComparison(sequences=1, tokens=1, largest_difference=0.0, mean_difference=0.0)


def comparison(*, greedy=EQUAL, beam=EQUAL, log_probs=SAME, quantization="float32"):
    return Comparison(greedy=greedy, beam=beam, log_probs=log_probs, bounds=BOUNDS[quantization])


def test_equal_outputs_pass():
    assert comparison().failures == []


@pytest.mark.parametrize("value", [1.0, math.nan, math.inf])
@pytest.mark.parametrize("name", ["largest_difference", "mean_difference"])
def test_log_probs_beyond_their_bound_fail(name, value):
    [failure] = comparison(log_probs=replace(SAME, **{name: value})).failures
    assert "log-probabilit" in failure


@pytest.mark.parametrize("change", [{"equal": 0.9}, {"equal_tokens": 0.9}, {"largest_score_difference": 0.1}])
def test_greedy_outputs_beyond_their_bounds_fail(change):
    assert comparison(greedy=replace(EQUAL, **change)).failures


def test_a_tie_counts_as_equal():
    assert comparison(beam=replace(EQUAL, equal=0.5, tied=0.5)).failures == []


def test_the_bounds_are_wider_for_fewer_bits():
    for one, other in (("float32", "float16"), ("float16", "bfloat16"), ("bfloat16", "int8")):
        assert BOUNDS[one].mean_log_prob < BOUNDS[other].mean_log_prob


@pytest.mark.parametrize("vnni", [True, False])
def test_without_vnni_int8_may_differ_more_and_only_int8(vnni, monkeypatch):
    monkeypatch.setattr(ctranslate2_folder, "has_vnni", lambda: vnni)
    for quantization, usual in BOUNDS.items():
        found = CTRANSLATE2.bounds(small_model("decoder_only").config, quantization)
        wider = quantization == "int8" and not vnni
        assert (found != usual) == wider
        assert found.mean_log_prob / usual.mean_log_prob == pytest.approx(0.4 / 0.15 if wider else 1.0)
        assert found.equal_greedy <= usual.equal_greedy
        assert found.score == usual.score


def test_a_missing_log_prob_is_a_difference():
    found = compare_log_probs([ForcedLogProbs(ids=[4, 3], log_probs=[-1.0, -2.0])], [[-1.0]])
    assert found.largest_difference == math.inf


class Undecided(TranslationReference):
    """A model of which tokens 4 and 5 differ by `gap`."""

    def __init__(self, gap):
        self.gap = gap
        self.tokenizers = type("Pair", (), {"target": tokenizer(), "source": tokenizer()})()

    def log_probs(self, given, output, *, ends=True):
        found = torch.full((len(output) + ends, 8), -9.0)
        found[:, 4], found[:, 5], found[:, 3] = -1.0, -1.0 - self.gap, -3.0
        return found


@pytest.mark.parametrize("beam", [False, True])
@pytest.mark.parametrize(("gap", "tied"), [(TIE / 2, 1.0), (TIE * 20, 0.0)])
def test_outputs_are_tied_if_regard_is_undecided(gap, tied, beam):
    reference = Undecided(gap)
    own = Hypothesis(ids=[4], log_prob=-4.0, score=-2.0, token_log_probs=[-1.0, -3.0])
    other = EngineOutput(ids=[5], ended=True, score=-2.0)
    found = compare_outputs(reference, [[4]], [own], [other], beam=beam)
    assert (found.equal, found.tied) == (0.0, tied)


def test_an_output_that_does_not_end_is_not_equal_to_one_that_does():
    own = Hypothesis(ids=[4], log_prob=-4.0, score=-2.0, token_log_probs=[-1.0, -3.0])
    other = EngineOutput(ids=[4], ended=False, score=-2.0)
    assert compare_outputs(Undecided(1.0), [[4]], [own], [other], beam=True).equal == 0


def test_each_id_has_a_piece_of_its_own():
    names = pieces(tokenizer())
    assert len({*names}) == len(names) == tokenizer().vocab_size
    assert names[:4] == ["<pad>", "<unk>", "<s>", "</s>"]


@pytest.fixture(scope="module", params=["untrained", pytest.param("en-de", marks=pytest.mark.nightly)])
def exported(request, tmp_path_factory):
    """A model that is untrained, or the included one in int8, exported with two sentences."""
    folder, small = tmp_path_factory.mktemp("exports"), request.param == "untrained"
    lines = ["1 2 3", "4 4 1"] if small else ["A man is sleeping.", "Two dogs run across the field."]
    texts = folder / "texts"
    texts.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    model = request.getfixturevalue("untrained") if small else "en-de"
    form = "float32" if small else "int8"
    found = regard.export(model, to="ctranslate2", out=folder / "out", quantization=form, texts=texts)
    return model, lines, found


def test_a_folder_has_its_certificate_its_hashes_and_its_tokeniser(exported):
    model, lines, exported = exported
    verify_folder(exported.path)
    certificate = json.loads((exported.path / "CERTIFICATE.json").read_text("utf-8"))
    assert certificate == exported.certificate
    assert certificate["passed"]
    assert certificate["texts"]["lines"] == lines
    assert certificate["versions"].keys() >= {"regard", "ctranslate2", "python"}
    assert certificate["files"].keys() >= {"model.bin", "config.json", "shared_vocabulary.json"}
    for name, digest in certificate["files"].items():
        assert hashlib.sha256((exported.path / name).read_bytes()).hexdigest() == digest
    own = regard.load(model, device="cpu").tokenizers.source
    assert (exported.path / "tokenizer.json").read_bytes() == own.to_bytes()
    assert "2 texts" in exported.summary()


def test_int8_is_not_float32(tmp_path):
    loaded, sizes = small_model("encoder_decoder", "llama"), {}
    for form in ("float32", "int8"):
        (folder := tmp_path / form).mkdir()
        ctranslate2_folder.save(loaded, folder, form)
        sizes[form] = (folder / "model.bin").stat().st_size
    found, _ = compared(CTRANSLATE2, loaded, folder, ["ba de"], "int8", most_new=3, compute=answer)
    assert found.log_probs.mean_difference > 1e-3
    assert sizes["int8"] < sizes["float32"]


@pytest.mark.nightly
@pytest.mark.parametrize("exported", ["en-de"], indirect=True)
def test_int8_of_the_included_model_is_not_float32(exported):
    *_, exported = exported
    assert exported.certificate["log_probs"]["mean_difference"] > 1e-3
    assert (exported.path / "model.bin").stat().st_size < 8e6


def changed(monkeypatch, part, value=0.5):
    """Let exports add `value` to a number of this weight."""

    def build(config, weights, own=ctranslate2_folder.encoder_decoder_spec):
        spec = own(config, weights)
        layer = getattr(spec, part[0]).layer[1]
        for name in part[1:]:
            layer = layer[name] if isinstance(name, int) else getattr(layer, name)
        (layer.weight if hasattr(layer, "weight") else layer.gamma).reshape(-1)[3] += value
        return spec

    monkeypatch.setattr(ctranslate2_folder, "encoder_decoder_spec", build)


def test_a_changed_weight_fails_and_leaves_no_folder(tmp_path, monkeypatch):
    changed(monkeypatch, ("decoder", "ffn", "linear_0"))
    with pytest.raises(RunError, match="largest difference of a log-probability"):
        export_to_ctranslate2(small_model("encoder_decoder", "llama"), tmp_path / "out", texts=["ba de"])
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "part",
    [
        ("encoder", "self_attention", "linear", 0),
        ("encoder", "ffn", "linear_0_noact"),
        ("decoder", "attention", "linear", 1),
        ("decoder", "attention", "layer_norm"),
        ("decoder", "ffn", "linear_1"),
    ],
    ids=lambda part: "-".join(map(str, part)),
)
def test_a_change_of_any_part_is_noticed(part, tmp_path, monkeypatch):
    changed(monkeypatch, part)
    loaded = small_model("encoder_decoder", "llama")
    ctranslate2_folder.save(loaded, tmp_path)
    found, _ = compared(CTRANSLATE2, loaded, tmp_path, ["ba de"], most_new=3, compute=answer)
    assert found.failures


@pytest.fixture(scope="module", params=["encoder_decoder", "decoder_only"])
def without_texts(request, tmp_path_factory):
    """A kind of model, its folder and its certificate, of texts that the export made."""
    out = tmp_path_factory.mktemp("exports") / "out"
    return request.param, out, export_to_ctranslate2(small_model(request.param, "llama"), out)


def test_an_export_without_texts_makes_some(without_texts):
    _, _, certificate = without_texts
    assert certificate["texts"]["count"] > 12
    assert certificate["greedy"]["equal"] == certificate["beam"]["equal"] == 1
    assert certificate["vocabulary_forced"] == 1


def test_the_command_prints_its_certificate_and_its_folder(untrained, tmp_path, capsys, new_process):
    (tmp_path / "texts").write_text("1 2 3\n4 4 1\n\n9 8\n", "utf-8")
    out = tmp_path / "out"
    command = ["export", str(untrained), "--to", "ctranslate2", "--out", str(out)]
    assert run([*command, "--texts", str(tmp_path / "texts")]) == 0
    printed = capsys.readouterr()
    assert printed.out.strip() == str(out)
    assert "certificate: 3 texts, greedy 100.0% equal, beam 5 100.0% equal" in printed.err
    assert run(["translate", "1 2", "--model", str(out)]) == 2
    assert "is an export for another engine" in capsys.readouterr().err


def test_an_engine_that_cannot_run_the_folder_is_reported(tmp_path, monkeypatch):
    def spoiled(config, weights, build=ctranslate2_folder.encoder_decoder_spec):
        spec = build(config, weights)
        spec.encoder.embeddings[0].weight = spec.encoder.embeddings[0].weight[:, :5].copy()
        return spec

    monkeypatch.setattr(ctranslate2_folder, "encoder_decoder_spec", spoiled)
    with pytest.raises(RunError, match="cannot run the export"):
        export_to_ctranslate2(small_model("encoder_decoder"), tmp_path / "out", texts=["ba de"])
    assert not [*tmp_path.iterdir()]


def test_an_unknown_quantization_and_texts_without_words_are_refused(tmp_path):
    with pytest.raises(UserError, match="int7"):
        regard.export("en-de", to="ctranslate2", out=tmp_path / "out", quantization="int7")
    with pytest.raises(UserError, match="no texts"):
        export_to_ctranslate2(small_model("encoder_decoder"), tmp_path / "out", texts=[" ", ""])


def test_the_command_refuses_a_folder_with_content(tmp_path, capsys):
    (tmp_path / "file").write_text("mine", "utf-8")
    assert run(["export", "en-de", "--to", "ctranslate2", "--out", str(tmp_path)]) == 2
    assert "exists" in capsys.readouterr().err


def test_a_missing_engine_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(MissingExtra) as error:
        export_to_ctranslate2(small_model("encoder_decoder"), tmp_path / "out")
    assert error.value.hint == "pip install 'regard[ctranslate2]'"


def test_the_code_of_the_card_runs(without_texts, capsys):
    kind, out, _ = without_texts
    card = (out / "README.md").read_text("utf-8")
    code = card.split("```python\n")[1].split("```")[0]
    exec(code.replace("THIS FOLDER", str(out)).replace("a text", "1 2 3"), {})
    assert capsys.readouterr().out.endswith("\n")
    if kind == "decoder_only":
        assert '["<s>", *pieces]' in code  # a text of this model begins with it
