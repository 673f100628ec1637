"""Packages of Argos Translate: what is in them, and what Argos Translate makes of them."""

import dataclasses
import importlib.util
import json
import math
import zipfile

import pytest
import torch

import regard
from regard.cli import run
from regard.data.tokenizer import TokenizerPair
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.errors import RunError, UserError
from regard.exports import argos_package
from regard.exports.argos_comparison import PackageComparison
from regard.exports.argos_package import export_to_argos
from regard.exports.refusal import NotExpressible
from tests.exports.engine_models import small_model
from tests.exports.test_sentencepiece_file import CORPUS

pytest.importorskip("ctranslate2")
pytest.importorskip("sentencepiece")
INSTALLED = importlib.util.find_spec("argostranslate") is not None
TEXTS = ["the dog's toys", "'the 90's", "L'homme dit-il: \"aujourd'hui\"", "it's ours"]


def model(*, base="llama", kind="bpe", **settings):
    """A small model with a tokeniser of pieces."""
    tokenizer = train_tokenizer(CORPUS, kind, TokenizerSettings(kind=kind, vocab_size=180))
    size = tokenizer.vocab_size
    sizes = {"src_vocab_size": size, "tgt_vocab_size": size, "output_bias": True}
    loaded = small_model("encoder_decoder", base, **sizes, **settings)
    with torch.no_grad():
        loaded.model.get_parameter("output.bias")[tokenizer.eos_id] += 3  # so that outputs end
    return dataclasses.replace(loaded, tokenizer_pair=TokenizerPair(tokenizer, tokenizer))


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    out = tmp_path_factory.mktemp("argos") / "small.argosmodel"
    return out, export_to_argos(model(), out, languages="en-de", texts=TEXTS)


def test_a_package_has_what_argos_translate_reads(package):
    path, certificate = package
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        metadata = json.loads(archive.read("translate-en_de-1_0/metadata.json"))
        stored = json.loads(archive.read("translate-en_de-1_0/CERTIFICATE.json"))
    assert {f"translate-en_de-1_0/{name}" for name in (
        "metadata.json", "sentencepiece.model", "README.md", "model/model.bin", "model/config.json"
    )} <= names  # fmt: skip
    assert (metadata["from_code"], metadata["from_name"]) == ("en", "English")
    assert (metadata["to_code"], metadata["to_name"]) == ("de", "German")
    assert stored == certificate


def test_pieces_and_outputs_are_those_of_regard(package):
    _, certificate = package
    assert certificate["argos"]["pieces"]["equal"] == 1
    assert certificate["argos"]["outputs"]["equal"] + certificate["argos"]["outputs"]["tied"] == 1
    assert certificate["argos"]["judged_by"] == (
        "argostranslate" if INSTALLED else "sentencepiece and ctranslate2"
    )


@pytest.mark.skipif(not INSTALLED, reason="argostranslate is not installed")
def test_argos_translate_installs_a_package_and_translates_the_same(package):
    _, certificate = package
    assert certificate["argos"]["translations"]["equal"] == 1
    assert certificate["versions"]["argostranslate"]


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["unigram", "characters"])
@pytest.mark.parametrize("tied", ["target", "none"])
def test_other_tokenisers_and_untied_embeddings(kind, tied, tmp_path):
    certificate = export_to_argos(
        model(kind=kind, tied=tied, base="vaswani"), tmp_path / "a.argosmodel", languages="en-de", texts=TEXTS
    )
    assert certificate["argos"]["pieces"]["equal"] == 1


def found(**shares):
    values = {
        "texts": 20, "pieces": 1.0, "outputs_equal": 1.0, "outputs_tied": 0.0, "translations": 1.0,
        "unknown": 0, "usual": 0.5, "least_outputs": 0.995, "versions": {},
    }  # fmt: skip
    return PackageComparison(**values | shares)


@pytest.mark.parametrize(
    ("shares", "problem"),
    [
        ({"pieces": 0.9}, "share of texts with equal pieces: 0.9, at least 0.95"),
        ({"outputs_equal": 0.9, "outputs_tied": 0.05}, "share of equal outputs by its search: 0.95"),
        ({"translations": 0.99}, "share of equal translations: 0.99, at least 1"),
        ({"pieces": math.nan}, "share of texts with equal pieces: nan"),
    ],
)
def test_each_bound_can_fail(shares, problem):
    assert found().failures == found(translations=None).failures == []
    [line] = found(**shares).failures
    assert problem in line


@pytest.mark.nightly
def test_a_package_whose_pieces_differ_is_not_written(tmp_path, monkeypatch):
    right = argos_package.sentencepiece_file

    def other(tokenizer):
        return right(train_tokenizer(CORPUS, "bpe", TokenizerSettings(kind="bpe", vocab_size=120)))

    monkeypatch.setattr(argos_package, "sentencepiece_file", other)
    with pytest.raises(RunError, match="share of texts with equal pieces"):
        export_to_argos(model(), tmp_path / "a.argosmodel", languages="en-de", texts=TEXTS[:2])
    assert not [*tmp_path.iterdir()]


def test_what_argos_translate_does_not_have_is_refused_by_name(tmp_path):
    out = tmp_path / "a.argosmodel"
    with pytest.raises(NotExpressible, match="max_positions = 64"):
        export_to_argos(model(positions="learned", max_positions=64), out, languages="en-de")
    with pytest.raises(UserError, match="decoder_only"):
        export_to_argos(small_model("decoder_only"), out, languages="en-de")
    with pytest.raises(NotExpressible, match="kind = 'words'"):
        export_to_argos(small_model("encoder_decoder"), out, languages="en-de")
    forced = model()
    forced.generation["forced_bos_id"] = 7
    with pytest.raises(NotExpressible, match="forced_bos_id = 7"):
        export_to_argos(forced, out, languages="en-de")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--out", "x"], "does not end in .argosmodel"),
        (["--out", "x.argosmodel", "--languages", "english"], "'english' is not two codes"),
    ],
)
def test_wrong_options_are_named(options, problem, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["export", "en-de", "--to", "argos", *options]) == 2
    assert problem in capsys.readouterr().err


def test_languages_are_of_packages_alone(tmp_path):
    with pytest.raises(UserError, match="languages = 'en-de' is not possible with to = 'onnx'"):
        regard.export("en-de", to="onnx", out=tmp_path / "a", languages="en-de")
