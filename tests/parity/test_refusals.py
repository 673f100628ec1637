"""What would say something else here than in transformers is refused, with the setting that does it."""

import json

import pytest

from regard.errors import FolderError
from regard.weights.pretrained import load_pretrained


def change(folder, **settings):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **settings}), "utf-8")


@pytest.mark.parametrize("model", ["BertModel", "RobertaForMaskedLM", "DistilBertForSequenceClassification"])
def test_an_encoder_that_decodes(their_encoder, model):
    folder, *_ = their_encoder(model)
    change(folder, is_decoder=False)
    load_pretrained(folder)
    change(folder, is_decoder=True)
    with pytest.raises(FolderError, match="is_decoder = True is not supported") as caught:
        load_pretrained(folder)
    assert caught.value.hint == "only False is"


@pytest.mark.parametrize(
    ("model", "architecture", "hint"),
    [
        ("BertForMaskedLM", "BertLMHeadModel", "use BertModel"),
        ("BertModel", "RobertaModel", "use BertModel"),
        ("RobertaModel", "RobertaForCausalLM", "use RobertaModel"),
        ("DistilBertModel", "BertModel", "use DistilBertModel"),
    ],
)
def test_a_class_of_another_kind(their_encoder, model, architecture, hint):
    folder, *_ = their_encoder(model)
    change(folder, architectures=[architecture])
    with pytest.raises(FolderError, match=f"the head of class {architecture} is not supported") as caught:
        load_pretrained(folder)
    assert caught.value.hint.startswith(hint)


def test_an_encoder_with_a_pooler_out_of_a_file_that_has_a_head_for_words_too(their_encoder):
    from safetensors.torch import load_file, save_file

    folder, *_ = their_encoder("RobertaModel")
    words, *_ = their_encoder("RobertaForMaskedLM")
    tensors = {f"roberta.{name}": tensor for name, tensor in load_file(folder / "model.safetensors").items()}
    head = {name: each for name, each in load_file(words / "model.safetensors").items() if "lm_head" in name}
    save_file({**tensors, **head}, folder / "model.safetensors")
    found = load_pretrained(folder)
    assert found.loaded.config.head == "pooled"
    assert found.unused == tuple(sorted(head))


LLAMA = {
    "hidden_size": 12,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 9,
    "bos_token_id": 0,
    "eos_token_id": 2,
}


@pytest.mark.parametrize("place", ["rope_parameters", "rope_scaling"])
def test_rotary_positions_of_another_kind_are_named(their_folder, place):
    folder, *_ = their_folder("LlamaForCausalLM", "LlamaConfig", LLAMA, pieces="bytes")
    plain = {"rope_type": "default", "rope_theta": 300.0}
    change(folder, rope_parameters=None, rope_theta=300.0)
    for settings in (plain, {**plain, "partial_rotary_factor": 1.0}):
        change(folder, **{place: settings})
        assert load_pretrained(folder).loaded.config.rotary_base == 300.0
    for wrong, words in (
        ({**plain, "partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5 of rotary positions"),
        ({**plain, "mscale": 2}, "mscale = 2 of rotary positions"),
        ({**plain, "rope_type": "longrope", "factor": 8.0}, "rotary positions of type 'longrope'"),
    ):
        change(folder, **{place: wrong})
        with pytest.raises(FolderError, match=words):
            load_pretrained(folder)
