"""A folder's defaults of decoding are followed here as they are there, or are named."""

import json

import pytest
import torch

from regard.cli import run
from regard.decoding.continuation import ContinuationSettings
from regard.decoding.settings import GenerationSettings
from regard.errors import FolderError
from regard.recipe import read
from regard.verbs.summarize import Summarizer
from regard.weights.pretrained import load_pretrained, to_huggingface

MARKS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
SIZES = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 64,
    "forced_eos_token_id": 2,
    "init_std": 0.5,
}
SUMMARY = {
    "num_beams": 4,
    "min_length": 8,
    "max_length": 20,
    "early_stopping": True,
    "length_penalty": 2.0,
    "no_repeat_ngram_size": 3,
    "forced_bos_token_id": 0,
    "forced_eos_token_id": 2,
}
TEXTS = ["a film about paris", "berlin is the capital of germany", "good", "the cat sat on the mat, again"]
LLAMA = {
    "hidden_size": 12,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 9,
    "bos_token_id": 0,
    "eos_token_id": 2,
}


def decoding_of(folder, settings):
    path = folder / "generation_config.json"
    path.write_text(json.dumps(settings), "utf-8")
    return load_pretrained(folder)


@pytest.fixture(scope="module")
def bart(their_folder):
    """A BART that ends its texts after some tokens."""
    folder, theirs, _ = their_folder(
        "BartForConditionalGeneration", "BartConfig", {**SIZES, **MARKS}, pieces="bytes"
    )
    theirs.final_logits_bias[0, 2] += 7.0
    theirs.save_pretrained(folder)
    return folder, theirs


@pytest.fixture(scope="module")
def llama(their_folder):
    return their_folder("LlamaForCausalLM", "LlamaConfig", LLAMA, pieces="bytes")[0]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"min_length": 3},
        {"bad_words_ids": [[1], [2], *([each] for each in range(3, 260, 2))]},
        {"num_beams": 1, "length_penalty": 1.0},
        {"num_beams": 2, "length_penalty": None},
        {"num_beams": None, "early_stopping": None, "length_penalty": None},
        {
            "early_stopping": False,
            "min_length": 3,
            "max_length": 60,
        },  # none has to end, since transformers does not force an end
        {"early_stopping": None, "length_penalty": 1.0, "min_length": None},
    ],
    ids=str,
)
def test_a_summary_is_theirs(bart, changes, tmp_path, capsys):
    from transformers import GenerationConfig

    folder, theirs = bart
    settings = {name: value for name, value in (SUMMARY | changes).items() if value is not None}
    decoding_of(folder, settings)
    assert run(["convert", str(folder), "--out", str(tmp_path / "ours")]) == 0
    assert capsys.readouterr().err == ""
    summarizer = Summarizer(tmp_path / "ours", device="cpu")
    tokenizers = summarizer.loaded.tokenizers
    asked = GenerationConfig(**{**settings, **MARKS})
    lengths = []
    for text, found in zip(TEXTS, summarizer(TEXTS), strict=True):
        ids = torch.tensor([[*tokenizers.source.encode(text), 2]])
        assert ids[0, 0] == 0
        [said] = theirs.generate(ids, generation_config=asked).tolist()
        said = said[1 : said.index(2, 1)] if 2 in said[1:] else said[1:]
        assert list(found.candidates[0].tokens) == tokenizers.target.tokens(said)
        lengths.append(len(said))
    assert min(lengths) >= settings.get("min_length", 1) - 1
    assert max(lengths) <= settings["max_length"] - 2
    assert len(set(lengths)) > 1


def test_lengths_are_counted_as_here(bart):
    folder, _ = bart
    for settings, found in (
        ({"max_length": 20, "forced_eos_token_id": 2}, {"max_length": 18}),
        ({"max_length": 20}, {"max_length": 19}),
        ({"max_new_tokens": 20, "max_length": 30, "forced_eos_token_id": 2}, {"max_length": 19}),
        ({"min_length": 8}, {"min_new_tokens": 7}),
        ({"min_length": 8, "min_new_tokens": 9}, {"min_new_tokens": 9}),
        ({"min_length": 1}, {}),
    ):
        assert decoding_of(folder, settings).loaded.generation == {"beam_size": 1, **found}


def test_a_search_with_default_settings_is_that_of_transformers(bart, tmp_path):
    """Greedy without num_beams; a beam without early_stopping ends by their heuristic."""
    beam = {"beam_size": 4, "length_penalty": "power", "alpha": 1.0}
    for settings, found in (
        ({}, {"beam_size": 1}),
        ({"length_penalty": 2.0}, {"beam_size": 1}),
        ({"num_beams": 4}, {**beam, "heuristic_stopping": True}),
        ({"num_beams": 4, "early_stopping": False}, {**beam, "heuristic_stopping": True}),
        ({"num_beams": 4, "early_stopping": True}, {**beam, "early_stopping": True}),
        ({"num_beams": 4, "early_stopping": "never"}, beam),
    ):
        theirs = decoding_of(bart[0], settings)
        assert (theirs.loaded.generation, theirs.unused_decoding) == (found, ())
        stops = {"heuristic_stopping": False, "early_stopping": True, "never": "never"}
        reported = next((stops[name] for name in (*found, "never") if name in stops), None)
        written = to_huggingface(theirs.loaded, "bart").files["generation_config.json"]
        assert json.loads(written).get("early_stopping", False) == (
            reported if "num_beams" in settings else False
        )


def test_an_older_name_of_the_forced_first_token_is_known(bart):
    folder, _ = bart
    (folder / "generation_config.json").unlink(missing_ok=True)
    before = (folder / "config.json").read_text("utf-8")
    older = {**json.loads(before), "force_bos_token_to_be_generated": True}
    older.pop("forced_bos_token_id", None)
    (folder / "config.json").write_text(json.dumps(older), "utf-8")
    found = load_pretrained(folder)
    (folder / "config.json").write_text(before, "utf-8")
    assert found.loaded.generation["forced_bos_id"] == 0


def test_ignored_defaults_of_a_folder_are_reported(bart, capsys):
    folder, _ = bart
    decoding_of(folder, {"suppress_tokens": [7], "num_beams": 2})
    Summarizer(folder, device="cpu")
    reported = f"{folder}: unsupported decoding defaults are ignored: suppress_tokens = [7]"
    assert reported in " ".join(capsys.readouterr().err.split())


def test_every_control_that_is_here_is_taken(bart, llama):
    folder, _ = bart
    settings = {
        "repetition_penalty": 1.5,
        "encoder_no_repeat_ngram_size": 4,
        "num_beams": 6,
        "num_beam_groups": 3,
        "diversity_penalty": 0.5,
        "bad_words_ids": [[1], [*_spelt(folder, "of")], [*_spelt(folder, " of")]],
        "stop_strings": ["END"],
        "suppress_tokens": [7],
        "sequence_bias": [[[3], 0.5]],
        "cache_implementation": "static",
        "num_assistant_tokens": 20,
    }
    found = decoding_of(folder, settings)
    assert found.unused_decoding == ("sequence_bias = [[[3], 0.5]]", "suppress_tokens = [7]")
    assert found.loaded.generation == {
        "repetition_penalty": 1.5,
        "no_repeat_source_ngram_size": 4,
        "beam_size": 6,
        "length_penalty": "power",
        "alpha": 1.0,
        "beam_groups": 3,
        "diversity": 0.5,
        "ban_ids": [" ".join(map(str, _spelt(folder, text))) for text in ("of", " of")],
        "stop": ["END"],
    }
    read(GenerationSettings, found.loaded.generation)

    drawn = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "repetition_penalty": 1.2, "max_length": 99}
    found = decoding_of(llama, drawn)
    assert found.unused_decoding == ("max_length = 99",)
    assert found.loaded.generation == {
        "may_end": True,
        "sample": True,
        "temperature": 0.6,
        "top_p": 0.9,
        "top_k": 50,
        "repetition_penalty": 1.2,
    }
    read(ContinuationSettings, found.loaded.generation)
    found = decoding_of(llama, {**drawn, "do_sample": None, "max_length": None, "max_new_tokens": 5})
    assert found.unused_decoding == ("temperature = 0.6", "top_p = 0.9")
    assert found.loaded.generation == {"may_end": True, "repetition_penalty": 1.2, "max_new_tokens": 5}
    assert decoding_of(llama, {"do_sample": False}).loaded.generation == {"may_end": True, "beam_size": 1}


def _spelt(folder, text):
    [word] = load_pretrained(folder).loaded.tokenizers.target.encode_words(text)
    return word


def test_settings_of_tasks_are_reported_except_prefixes(bart, llama):
    for folder, prefixes in ((bart[0], {"summarization": "summarize: "}), (llama, None)):
        (folder / "generation_config.json").unlink(missing_ok=True)
        path = folder / "config.json"
        before = path.read_text("utf-8")
        tasks = {"summarization": {"prefix": "summarize: ", "num_beams": 4, "max_length": 200}}
        path.write_text(json.dumps({**json.loads(before), "num_beams": 4, "task_specific_params": tasks}))
        found = load_pretrained(folder)
        path.write_text(before, "utf-8")
        assert found.loaded.generation.get("prefixes") == prefixes
        left = [] if prefixes else ["prefix summarization = 'summarize: '"]
        assert list(found.unused_decoding) == ["summarization.max_length = 200", *left]
        assert found.loaded.generation["beam_size"] == 4


@pytest.mark.parametrize(
    "settings",
    [{"num_beams": "4"}, {"num_beams": -1}, {"length_penalty": -1.0}, {"do_sample": 1}, {"top_p": 1.5}],
    ids=str,
)
def test_what_is_no_such_number_is_refused(bart, settings):
    with pytest.raises(FolderError, match=r"generation_config.json: \w+ = .* is not supported"):
        decoding_of(bart[0], settings)
    (bart[0] / "generation_config.json").unlink()
