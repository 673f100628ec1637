"""From their folder to ours and back: a text has the marks that it had, and decoding the defaults."""

import json

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers, processors

from regard.verbs.convert import convert
from regard.weights.model_folder import load_model
from regard.weights.pretrained import load_pretrained

MARKS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
NARROW = {"hidden_size": 12, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 9}
SIDES = {
    "d_model": 12,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 9,
    "decoder_ffn_dim": 9,
    "decoder_start_token_id": 2,
}
T5 = {"d_model": 12, "num_heads": 2, "d_kv": 6, "d_ff": 9, "num_layers": 1, "decoder_start_token_id": 1}
QWEN = {**NARROW, "head_dim": 6, "num_key_value_heads": 2}
CASES = {
    "bart": ("BartForConditionalGeneration", "BartConfig", SIDES, "<s> $A </s>", "<s> $A </s> </s> $B </s>"),
    "llama": ("LlamaForCausalLM", "LlamaConfig", NARROW, "<s> $A", "<s> $A <s> $B"),
    "qwen3": (
        "Qwen3ForCausalLM",
        "Qwen3Config",
        {**NARROW, "head_dim": 6, "num_key_value_heads": 2},
        "$A",
        "$A $B",
    ),
    "roberta": ("RobertaForMaskedLM", "RobertaConfig", NARROW, "<s> $A </s>", "<s> $A </s> </s> $B </s>"),
    "t5": ("T5ForConditionalGeneration", "T5Config", T5, "$A </s>", "$A </s> $B </s>"),
}
TEXTS = ["a film", "", " of Paris,  of\nBerlin", "<mask> of"]
NAMED = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


@pytest.fixture(params=CASES)
def folder(request, their_folder):
    """A folder with a tokeniser that puts their marks around texts."""
    model, config, sizes, single, pair = CASES[request.param]
    folder, *_ = their_folder(model, config, {**sizes, **MARKS}, pieces="bytes")
    backend = tokenizers.Tokenizer(
        models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"), unk_token="<unk>")
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    backend.save(str(folder / "tokenizer.json"))
    named = NAMED if request.param in ("bart", "llama", "roberta") else {**NAMED, "bos_token": None}
    named = {**named, "mask_token": "<mask>"} if request.param in ("bart", "roberta") else named
    table = {"tokenizer_class": "PreTrainedTokenizerFast", **named}
    (folder / "tokenizer_config.json").write_text(json.dumps(table), "utf-8")
    return folder


def test_a_text_has_the_marks_that_it_had(folder, tmp_path):
    from transformers import AutoTokenizer

    convert(folder, out=tmp_path / "ours")
    family = json.loads((folder / "config.json").read_text("utf-8"))["model_type"]
    convert(tmp_path / "ours", out=tmp_path / "back", to="hf", family=family)
    before, after = (AutoTokenizer.from_pretrained(each) for each in (folder, tmp_path / "back"))
    for text in TEXTS:
        assert after(text)["input_ids"] == before(text)["input_ids"]
        assert after(text, "a film")["input_ids"] == before(text, "a film")["input_ids"]
    for name in ("bos_token_id", "eos_token_id", "pad_token_id", "mask_token_id"):
        if getattr(before, name) is not None:
            assert getattr(after, name) == getattr(before, name), name
    ours, again = load_model(tmp_path / "ours"), load_pretrained(tmp_path / "back").loaded
    assert again.generation == ours.generation
    for side in ("source", "target"):
        here, there = getattr(ours.tokenizers, side), getattr(again.tokenizers, side)
        assert here.encode("a film of") == there.encode("a film of")
        assert here.prefix == there.prefix
        assert (here.pad_id, here.bos_id, here.eos_id) == (there.pad_id, there.bos_id, there.eos_id)


def test_our_own_decoder_puts_its_mark_before_a_text_there_too(decoder_folder, tmp_path):
    from transformers import AutoTokenizer

    for begin in (True, False):
        own = decoder_folder(
            positions="learned", max_positions=40, decoding={"begin": begin, "end_ids": (4,)}
        )
        convert(own, out=tmp_path / f"{begin}", to="hf")
        ours = load_model(own)
        text = ours.tokenizers.source
        marks = [text.bos_id] if begin else []
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / f"{begin}")
        assert tokenizer("to be")["input_ids"] == [*marks, *text.encode("to be")]
        again = load_pretrained(tmp_path / f"{begin}").loaded.generation
        assert again["begin"] is begin
        assert again["end_ids"] == [4]
        assert again["max_new_tokens"] == ours.generation["max_new_tokens"]


DEFAULTS = {
    "BartForConditionalGeneration": {
        "eos_token_id": [2, 9],
        "num_beams": 4,
        "max_length": 30,
        "min_length": 5,
        "early_stopping": True,
        "length_penalty": 2.0,
        "no_repeat_ngram_size": 3,
        "encoder_no_repeat_ngram_size": 4,
        "num_beam_groups": 2,
        "diversity_penalty": 0.5,
        "forced_eos_token_id": 2,
        "stop_strings": ["END"],
    },
    "LlamaForCausalLM": {
        "eos_token_id": [2, 9],
        "do_sample": True,
        "temperature": 0.6,
        "top_p": 0.9,
        "top_k": 0,
        "repetition_penalty": 1.25,
        "max_new_tokens": 12,
    },
    "Qwen3ForCausalLM": {"eos_token_id": 2, "num_beams": 3, "length_penalty": 1.0, "min_new_tokens": 2},
    "T5ForConditionalGeneration": {"eos_token_id": 2, "num_beams": 1, "max_length": 30},
}


def test_decoding_has_the_defaults_that_it_had(folder, tmp_path):
    from transformers import GenerationConfig

    table = json.loads((folder / "config.json").read_text("utf-8"))
    given = DEFAULTS.get(table["architectures"][0])
    if given is None:
        return
    tasks = {"summarization": {"prefix": "summarize: "}, "translation_en_to_de": {"prefix": "to German: "}}
    if table["model_type"] == "t5":
        (folder / "config.json").write_text(json.dumps({**table, "task_specific_params": tasks}), "utf-8")
    (folder / "generation_config.json").write_text(json.dumps(given), "utf-8")
    assert convert(folder, out=tmp_path / "ours").unused_decoding == ()
    done = convert(tmp_path / "ours", out=tmp_path / "back", to="hf", family=table["model_type"])
    assert done.unused_decoding == ()
    there = GenerationConfig.from_pretrained(tmp_path / "back").to_dict()
    assert {name: there.get(name) for name in given} == given
    if table["model_type"] == "t5":
        written = json.loads((tmp_path / "back" / "config.json").read_text("utf-8"))
        assert written["task_specific_params"] == tasks
    again = load_pretrained(tmp_path / "back")
    assert again.loaded.generation == load_model(tmp_path / "ours").generation
    assert again.unused_decoding == ()


def test_what_transformers_has_no_place_for_is_named(untrained):
    from regard.decoding.settings import GenerationSettings
    from regard.weights.huggingface_decoding import write_decoding

    text = load_model(untrained).tokenizers
    written = write_decoding(
        GenerationSettings().to_dict(), has_source=True, tokenizers=text, forced_eos=True
    )
    assert written.decoding == {"num_beams": 5, "early_stopping": "never", "max_length": 1026}
    assert set(written.unused) == {
        "max_length_ratio = 1.0",
        "max_length_offset = 50",
        "length_penalty = 'wu'",
    }
