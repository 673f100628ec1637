"""An exported model that transformers saved again comes back as the same model of regard."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.errors import FolderError
from regard.exports.huggingface_folder import save
from regard.verbs.convert import convert
from regard.weights.families.exported import Exported, rotary_frequencies
from regard.weights.families.family import ConfigReader
from regard.weights.model_folder import load_model
from regard.weights.tensors import model_tensors
from tests.exports.engine_models import TEXTS, small_model
from tests.exports.settings_table import KINDS

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("default")  # of transformers

TIED = {"encoder_decoder": ("all", "target", "embeddings", "none"), "decoder_only": (True, False)}
SCALED = {"positions": "rotary", "rotary_scaling": {"kind": "linear", "factor": 2.0}}


def saved_again(folder, out, kind, change=lambda model: None):
    auto = {"encoder_decoder": "AutoModelForSeq2SeqLM", "decoder_only": "AutoModelForCausalLM"}[kind]
    model = getattr(transformers, auto).from_pretrained(folder, trust_remote_code=True)
    change(model)
    model.save_pretrained(out)
    transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=True).save_pretrained(out)
    return out


@pytest.mark.parametrize(
    ("kind", "settings"),
    [*((kind, {"tied": tied}) for kind in KINDS for tied in TIED[kind]), ("decoder_only", SCALED)],
)
def test_it_is_the_same_model(kind, settings, tmp_path):
    loaded = small_model(kind, **settings)
    (folder := tmp_path / "hf").mkdir()
    save(loaded, folder)
    convert(saved_again(folder, tmp_path / "again", kind), out=tmp_path / "back")
    back = load_model(tmp_path / "back")
    assert back.config == loaded.config
    weights, wanted = model_tensors(back.model), model_tensors(loaded.model)
    assert weights.keys() == wanted.keys()
    assert all(torch.equal(weights[name], wanted[name]) for name in wanted)
    for found, given in zip(
        (back.tokenizers.source, back.tokenizers.target),
        (loaded.tokenizers.source, loaded.tokenizers.target),
        strict=True,
    ):
        assert found.encode_batch(list(TEXTS)) == given.encode_batch(list(TEXTS))
        assert found.trained_by_regard == given.trained_by_regard
        assert (found.pad_id, found.bos_id, found.eos_id) == (given.pad_id, given.bos_id, given.eos_id)


def test_weights_that_transformers_trained_are_those_of_the_model(tmp_path):
    (folder := tmp_path / "hf").mkdir()
    save(small_model("decoder_only"), folder)

    def change(model):
        with torch.no_grad():
            model.decoder.input.embedding.weight.mul_(2)

    convert(saved_again(folder, tmp_path / "again", "decoder_only", change), out=tmp_path / "back")
    weights, before = (
        model_tensors(each.model) for each in (load_model(tmp_path / "back"), small_model("decoder_only"))
    )
    name = "input.embedding.weight"
    assert torch.equal(weights[name], 2 * before[name])


def test_a_target_tokenizer_that_was_left_behind_is_missed(tmp_path):
    (folder := tmp_path / "hf").mkdir()
    loaded = small_model("encoder_decoder", joint=False, tied="none")
    save(loaded, folder)
    again = saved_again(folder, tmp_path / "again", "encoder_decoder")
    with pytest.raises(FolderError, match=r"has no target_tokenizer\.json"):
        convert(again, out=tmp_path / "back")
    shutil.copy(folder / "target_tokenizer.json", again)
    convert(again, out=tmp_path / "back")
    target = load_model(tmp_path / "back").tokenizers.target
    assert target.encode_batch(list(TEXTS)) == loaded.tokenizers.target.encode_batch(list(TEXTS))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "vision"}, "kind = 'vision' is not that of an exported model"),
        ({"settings": {"d_model": 16}}, "is missing"),
        ({"rotary": {"frequencies": [1.0], "amplitude": 1.0}}, "the frequencies of the rotary positions"),
        ({"odd": 1}, "the setting 'odd' is unknown"),
    ],
)
def test_a_config_that_was_changed_is_refused(change, message, tmp_path):
    (folder := tmp_path / "hf").mkdir()
    save(small_model("encoder_decoder"), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(FolderError, match=message):
        convert(folder, out=tmp_path / "back")
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("kind", "begin", "generation"), [("encoder_decoder", 3, {}), ("decoder_only", 2, {"begin": False})]
)
def test_a_translator_begins_with_a_token_of_its_own_and_a_language_model_with_none(kind, begin, generation):
    settings = small_model(kind).config.to_dict()
    ids = {"bos_token_id": 2, "pad_token_id": 0, "eos_token_id": 1}
    table = {"kind": kind, "settings": settings, **ids}
    if kind == "encoder_decoder":
        table["decoder_start_token_id"] = 3
    found = Exported(table, Path("m")).read(ConfigReader(table, "m"), [])
    assert (found.start_id, found.generation) == (begin, generation)


def test_any_names_of_a_tied_weight_will_do(tmp_path):
    """Other versions of transformers keep several."""
    (folder := tmp_path / "hf").mkdir()
    loaded = small_model("decoder_only", tied=True)
    save(loaded, folder)
    [file] = folder.glob("*.safetensors")
    tensors = load_file(file)
    names = {"decoder.input.embedding.weight", "output.weight"}
    [given] = names & {*tensors}
    for kept in (names, names - {given}):
        save_file(
            {
                **{name: each for name, each in tensors.items() if name != given},
                **{name: tensors[given].clone() for name in kept},
            },
            file,
            {"format": "pt"},
        )
        convert(folder, out=tmp_path / f"back {len(kept)}")
        back, wanted = (
            model_tensors(load_model(tmp_path / f"back {len(kept)}").model),
            model_tensors(loaded.model),
        )
        assert all(torch.equal(back[name], wanted[name]) for name in wanted)


def test_rotary_frequencies_are_powers_of_the_base_after_scaling():
    base = {"positions": "rotary", "rotary_base": 100.0, "head_dim": 6}

    def found(**settings):
        return rotary_frequencies(small_model("decoder_only", **settings).config)

    assert found(**base, rotary_dim=4) == {"frequencies": pytest.approx([1.0, 0.1]), "amplitude": 1.0}
    assert found(**base)["frequencies"] == pytest.approx([1.0, 100 ** (-1 / 3), 100 ** (-2 / 3)])
    half = found(**base, rotary_dim=4, rotary_scaling={"kind": "linear", "factor": 2.0})
    assert half == {"frequencies": pytest.approx([0.5, 0.05]), "amplitude": 1.0}
    assert found(positions="sinusoidal") is None
