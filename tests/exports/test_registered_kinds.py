"""Models of registered kinds: ONNX graphs are traced from their code; other engines refuse them by name."""

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
from torch import nn

import regard
from regard.errors import FolderError, UserError
from regard.exports import (
    onnx_encoder,
    onnx_encoder_process,
    onnx_folder,
    onnx_process,
    web_encoder,
    web_encoder_process,
    web_folder,
    web_process,
)
from regard.exports.certified_export import compared
from regard.exports.encoder_export import compared as compared_encoders
from regard.exports.look_page import looks_in_node, save_look_folder
from regard.exports.onnx_settings import known
from regard.exports.refusal import NotExpressible
from regard.models import (
    DecoderOnly,
    DecoderOnlyConfig,
    EncoderDecoder,
    EncoderDecoderConfig,
    EncoderOnly,
    EncoderOnlyConfig,
    register_model,
)
from regard.models.build import MODELS
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.verbs.look import Looker
from regard.verbs.views.live_page import live_tables, look_difference
from regard.weights.pretrained import to_huggingface
from tests.exports.engine_models import TEXTS, small_model

KINDS = ["repeated", "halved", "halved_text"]
TRACED = ["repeated", pytest.param("halved_text", marks=pytest.mark.nightly)]  # each takes some seconds
OTHER_ENGINES = ["ctranslate2", "gguf", "argos", "hf"]


@dataclass(frozen=True, kw_only=True)
class RepeatedConfig(EncoderDecoderConfig):
    kind: ClassVar[str] = "repeated"
    times: int = 2


@dataclass(frozen=True, kw_only=True)
class HalvedConfig(EncoderDecoderConfig):
    kind: ClassVar[str] = "halved"


@dataclass(frozen=True, kw_only=True)
class HalvedTextConfig(DecoderOnlyConfig):
    kind: ClassVar[str] = "halved_text"


@dataclass(frozen=True, kw_only=True)
class HalvedClassesConfig(EncoderOnlyConfig):
    kind: ClassVar[str] = "halved_classes"


@dataclass(frozen=True, kw_only=True)
class OtherConfig(EncoderDecoderConfig):
    kind: ClassVar[str] = "other"


class Repeated(EncoderDecoder):
    """One block of the encoder and one of the decoder, each applied several times; half the logits."""

    def __init__(self, config):
        super().__init__(config)
        for stack in (self.encoder, self.decoder):
            stack.blocks = nn.ModuleList([stack.blocks[0]] * config.times)

    def project(self, hidden):
        return super().project(hidden) / 2


class Halved(EncoderDecoder):
    def project(self, hidden):
        return super().project(hidden) / 2


class HalvedText(DecoderOnly):
    def project(self, hidden):
        return super().project(hidden) / 2


class HalvedClasses(EncoderOnly):
    def forward(self, *inputs, **named):
        return super().forward(*inputs, **named) / 2


class Other(SequenceToSequence):
    """A model with the settings of an encoder-decoder, and none of its parts."""


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(MODELS, "added", dict(MODELS.added))
    for config, model in (
        (RepeatedConfig, Repeated),
        (HalvedConfig, Halved),
        (HalvedTextConfig, HalvedText),
        (HalvedClassesConfig, HalvedClasses),
        (OtherConfig, Other),
    ):
        register_model(config)(model)


def model_of(kind, **settings):
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1, **settings}
    return small_model(kind, **({} if kind == "halved_text" else layers))


@pytest.mark.parametrize("kind", TRACED)
def test_a_graph_computes_what_the_code_of_a_registered_model_does(kind, tmp_path):
    loaded = model_of(kind)
    onnx_folder.save(loaded, tmp_path)
    found, _ = compared(onnx_folder.ONNX, loaded, tmp_path, TEXTS, most_new=3, compute=onnx_process.answer)
    assert not found.failures


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("kind", TRACED)
def test_a_page_computes_what_the_code_of_a_registered_model_does(kind, tmp_path):
    loaded = model_of(kind)
    web_folder.save(loaded, tmp_path)
    found, _ = compared(web_folder.WEB, loaded, tmp_path, TEXTS, most_new=3, compute=web_process.answer)
    assert not found.failures


def test_a_look_has_each_application_of_a_block():
    look = Looker(model_of("repeated"), device="cpu").look("ba de")
    names = {name for name in look.paths() if name.startswith("attention/")}
    assert {f"attention/encoder.blocks.{number}.self_attention" for number in (0, 1)} < names
    for path in look.paths():
        look.get(path)


@pytest.mark.nightly
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("kind", ["repeated", "halved_text"])
def test_a_page_with_its_model_looks_as_regard_does(kind, tmp_path):
    loaded = model_of(kind)
    looker = Looker(loaded, device="cpu")
    look = looker.look("ba de")
    save_look_folder(looker.loaded, tmp_path, *live_tables(looker.loaded, look.summary), None)
    [found] = looks_in_node(tmp_path, [{"text": "ba de"}])
    assert look_difference(found, look.summary, look.get) is None


def classifier(encoder_folder):
    """A classifier of a registered kind, with the weights of one of regard's own."""
    loaded = regard.load(encoder_folder("classification", ("good", "bad")), device="cpu")
    config = HalvedClassesConfig.from_dict(loaded.config.to_dict())
    model = HalvedClasses(config).eval()
    model.load_state_dict(loaded.model.state_dict())
    return replace(loaded, model=model, config=config)


def test_a_graph_computes_what_the_code_of_a_registered_classifier_does(encoder_folder, tmp_path):
    loaded = classifier(encoder_folder)
    onnx_encoder.save(loaded, tmp_path)
    found, _ = compared_encoders(
        onnx_encoder.ONNX_ENCODER, loaded, tmp_path, TEXTS, compute=onnx_encoder_process.answer
    )
    assert not found.failures


@pytest.mark.usefixtures("engine")
def test_a_page_computes_what_the_code_of_a_registered_classifier_does(encoder_folder, tmp_path):
    loaded = classifier(encoder_folder)
    web_encoder.save(loaded, tmp_path)
    found, _ = compared_encoders(
        web_encoder.WEB_ENCODER, loaded, tmp_path, TEXTS, compute=web_encoder_process.answer
    )
    assert not found.failures
    assert json.loads((tmp_path / "config.json").read_text("utf-8"))["kind"] == "encoder_only"  # for page.js


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", OTHER_ENGINES)
def test_engines_without_the_code_refuse_a_registered_model_before_they_compute(
    kind, target, tmp_path, monkeypatch
):
    loaded = model_of(kind)
    monkeypatch.setattr(type(loaded.model), "forward", None)
    monkeypatch.setattr(type(loaded.model), "project", None)
    out = tmp_path / ("out.argosmodel" if target == "argos" else "out")
    with pytest.raises(NotExpressible) as error:
        regard.export(loaded, to=target, out=out)
    assert (error.value.setting, error.value.value) == ("kind", kind)
    assert "--to onnx" in error.value.hint
    assert not [*tmp_path.iterdir()]


def test_a_registered_classifier_is_refused_by_them_too(encoder_folder, tmp_path):
    for target in OTHER_ENGINES:
        out = tmp_path / ("out.argosmodel" if target == "argos" else "out")
        with pytest.raises(NotExpressible, match="halved_classes"):
            regard.export(classifier(encoder_folder), to=target, out=out)


@pytest.mark.parametrize("kind", KINDS)
def test_a_conversion_does_not_lead_to_an_export_that_refuses_the_model(kind):
    with pytest.raises(FolderError, match=kind) as error:
        to_huggingface(model_of(kind))
    assert "--to hf" not in error.value.hint
    assert "--to onnx" in error.value.hint


@pytest.mark.parametrize("target", ["onnx", "web", *OTHER_ENGINES])
def test_a_model_that_inherits_the_settings_alone_is_refused_by_name(target, tmp_path):
    own = model_of("halved")
    loaded = replace(own, config=OtherConfig.from_dict(own.config.to_dict()))
    out = tmp_path / ("out.argosmodel" if target == "argos" else "out")
    with pytest.raises(UserError, match="other") as error:
        regard.export(loaded, to=target, out=out)
    assert "--to onnx" not in error.value.hint
    with pytest.raises(UserError, match="other"):
        known(loaded.config)


def test_an_export_that_differs_from_a_registered_model_names_what_is_traced(tmp_path, monkeypatch):
    loaded = model_of("halved")
    monkeypatch.setattr(Halved, "forward", lambda *inputs: 2 * EncoderDecoder.forward(*inputs))
    with pytest.raises(regard.errors.RunError, match="does not compute what regard does") as error:
        regard.export(loaded, to="onnx", out=tmp_path / "out")
    assert "extend" in error.value.hint
    assert "report" not in error.value.hint
