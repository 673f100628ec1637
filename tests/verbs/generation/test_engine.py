"""`translate` by CTranslate2: the same texts, and each control that it does not have refused by its name."""

import pytest
import torch

import regard
from regard.decoding.registries import RULES
from regard.decoding.rules import BannedTokens
from regard.decoding.settings import GenerationSettings
from regard.errors import ConfigError, UserError
from regard.exports import certified_sequences, ctranslate2_engine
from regard.verbs.generation import engine
from regard.verbs.generation.controls import CONTROLS_BY_NAME
from regard.verbs.generation.engine import engine_search
from regard.weights.folder import write_folder
from tests.exports.engine_models import small_model

TEXTS = ["A man is sleeping.", "", "Two dogs run across a green field. The sun is shining.", "12 Birds!"]
VALUES = {  # of each control that the engine does not have
    "heuristic_stopping": True, "beam_groups": 2, "must_contain": ("Hund",), "sample": True, "top_k": 3,
    "top_p": 0.5, "min_p": 0.1, "typical_p": 0.5, "seed": 7, "temperature": 0.5, "mbr": "chrf",
    "repetition_penalty": 1.2, "presence_penalty": 0.5, "frequency_penalty": 0.5, "no_repeat_ngram_size": 3,
    "no_repeat_source_ngram_size": 3, "ban": ("Hund",), "ban_ids": ("9",), "boost": ("Hund=2",),
    "min_new_tokens": 2, "stop": (".",), "end_ids": (9,), "prompt_lookup": 3, "draft_model": "en-de",
}  # fmt: skip
NEEDED = {
    "beam_groups": {"beam_size": 4, "diversity": 0.5},
    "mbr": {"sample": True, "mbr_samples": 4},
    "prompt_lookup": {"beam_size": 1},
    "draft_model": {"beam_size": 1},
    **{name: {"sample": True} for name in ("top_k", "top_p", "min_p", "typical_p", "seed", "temperature")},
}
TAKEN = {"beam_size": 2, "length_penalty": "none", "alpha": 0.5, "early_stopping": True, "max_new_tokens": 9}
ELSEWHERE = {
    "mbr_samples",
    "diversity",
    "draft_tokens",
    "max_context",
    "rules",
    "search",
}  # with others, or never


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """The folder of the engine's exports, whose certificates are of few texts."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ctranslate2_engine, "user_cache", lambda part: folder / part)
        patch.setattr(certified_sequences, "MADE_TEXTS", 3)
        patch.setattr(certified_sequences, "MOST_COVERED", 256)
        yield folder


@pytest.fixture(scope="module")
def translator(cache):
    return regard.Translator("en-de", engine="ctranslate2", workers=1)


def test_a_control_is_taken_or_tested_here():
    assert {*VALUES, *TAKEN, *ELSEWHERE} == {*CONTROLS_BY_NAME}


@pytest.fixture(scope="module")
def included():
    return regard.load("en-de")


@pytest.mark.parametrize("name", VALUES)
def test_a_control_that_the_engine_lacks_is_refused_by_its_name(name, cache, included):
    asked = {**NEEDED.get(name, {}), name: VALUES[name]}
    named = "sample" if asked.get("sample") else name
    with pytest.raises(ConfigError, match=rf"(\b{name}\b|\b{named}\b|mbr).* is not possible with engine"):
        regard.Translator(included, engine="ctranslate2", **asked)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"length_penalty": "wu"}, "length_penalty"),
        ({"min_length": 3}, "min_length"),
        ({"forced_bos_id": 5}, "forced_bos_id"),
        ({"n_best": 2, "length_penalty": "none"}, "n_best"),
        ({"early_stopping": True, "length_penalty": "none"}, "early_stopping"),
    ],
)
def test_a_setting_of_the_folder_that_the_engine_lacks_is_refused(settings, name):
    found = GenerationSettings(**{"length_penalty": "power", **settings})
    tokenizers = small_model("encoder_decoder").tokenizers
    with pytest.raises(ConfigError, match=name):
        engine_search(found, tokenizers, found.strategy())


def test_a_registered_rule_and_search_are_refused(cache):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RULES.added, "mine", lambda tokenizer, special: BannedTokens(ids=(9,)))
        with pytest.raises(ConfigError, match="rules"):
            regard.Translator("en-de", engine="ctranslate2", rules=("mine",))


def test_a_hook_that_the_engine_cannot_call_is_refused_by_its_module(cache):
    loaded = regard.load("en-de")
    loaded.model.get_submodule("decoder.blocks.0").register_forward_hook(lambda *given: None)
    with pytest.raises(ConfigError, match=r"the hook.* that decoder\.blocks\.0 has"):
        regard.Translator(loaded, engine="ctranslate2")


def test_a_model_that_changed_since_its_export_is_refused(cache):
    loaded = regard.load("en-de")
    translator = regard.Translator(loaded, engine="ctranslate2")
    assert [each.text for each in translator(TEXTS[:1])]
    loaded.model.train()
    loaded.model.eval()
    of_all = torch.nn.modules.module.register_module_forward_hook(lambda *given: None)
    with of_all, pytest.raises(ConfigError, match=r"the hook.* that every module has"):
        list(translator(TEXTS[:1]))
    assert [each.text for each in translator(TEXTS[:1])]
    loaded.model.output.weight.data += 1
    with pytest.raises(ConfigError, match="the model has changed since it was exported"):
        list(translator(TEXTS[:1]))


@pytest.mark.parametrize("controls", [{}, {"beam_size": 1}, {"alpha": 0.5}, {"length_penalty": "none"}])
def test_texts_are_those_of_regard(cache, controls):
    early = {} if controls.get("beam_size") == 1 or "length_penalty" in controls else {"early_stopping": True}
    other = regard.Translator("en-de", engine="ctranslate2", **controls)
    own = regard.Translator("en-de", **controls, **early)
    assert [each.text for each in other(TEXTS)] == [each.text for each in own(TEXTS)]


def test_lines_scores_and_candidates(translator, cache):
    found = [*translator(TEXTS)]
    assert [each.line for each in found] == [1, 2, 3, 4]
    assert found[1].text == ""
    [own] = regard.Translator("en-de", early_stopping=True)(TEXTS[:1])
    assert found[0].candidates[0].score == pytest.approx(own.candidates[0].score, abs=1e-3)
    assert found[0].candidates[0].log_prob == pytest.approx(own.candidates[0].log_prob, abs=1e-2)
    three = regard.translate(TEXTS[0], model="en-de", engine="ctranslate2", n_best=3)
    assert three == regard.translate(TEXTS[0], model="en-de", early_stopping=True, n_best=3)


def test_done_counts_the_lines(translator):
    counts = []
    assert len([*translator(TEXTS, done=counts.append)]) == sum(counts) == len(TEXTS)


def test_max_new_tokens_cuts(cache):
    text = "Two dogs run across a green field."
    controls = {"max_new_tokens": 3, "beam_size": 1}
    found = regard.translate(text, model="en-de", engine="ctranslate2", **controls)
    assert found == regard.translate(text, model="en-de", **controls)


def test_a_model_is_exported_once_and_a_damaged_export_again(cache, monkeypatch):
    calls = []

    def written(loaded, folder, *, quantization):
        calls.append(quantization)
        write_folder(folder, {"model.bin": b"weights"})

    monkeypatch.setattr(ctranslate2_engine, "export_to_ctranslate2", written)
    loaded = small_model("encoder_decoder")
    folder = ctranslate2_engine.cached_export(loaded, "float32")
    assert ctranslate2_engine.cached_export(loaded, "float32") == folder
    assert len(calls) == 1
    (folder / "model.bin").write_bytes(b"damaged")
    ctranslate2_engine.cached_export(loaded, "float32")
    assert len(calls) == 2
    loaded.model.output.weight.data[0, 0] += 1  # another model
    assert ctranslate2_engine.cached_export(loaded, "float32") != folder


def test_precision_is_that_of_the_export(cache, translator, monkeypatch):
    asked = []
    float32 = engine.cached_export(translator.loaded, "float32")
    monkeypatch.setattr(engine, "cached_export", lambda *given, **_: asked.append(given[1]) or float32)
    int8 = regard.Translator("en-de", engine="ctranslate2", precision="int8")
    assert (int8.precision, asked) == ("int8", ["int8"])
    [found] = int8(TEXTS[:1])
    assert found.to_dict()["precision"] == "int8"


def test_other_devices_and_running_batches_are_refused(translator):
    with pytest.raises(UserError, match="cuda"):
        regard.Translator("en-de", engine="ctranslate2", device="cuda")
    with pytest.raises(UserError, match="running batch"):
        translator.running()


def test_a_model_that_the_engine_lacks_is_refused_by_its_setting(cache):
    with pytest.raises(UserError, match="positions = 'alibi'"):
        regard.Translator(small_model("encoder_decoder", positions="alibi"), engine="ctranslate2", **PLAIN)


PLAIN = {"length_penalty": "power"}
