"""A forced pass has one example; attention sites name the sequences of their rows and columns."""

import pytest
import torch
from torch import nn

from regard.errors import ConfigError
from regard.inspection.passes import (
    attention_sites,
    continuation_pass,
    encoder_pass,
    sequence_of,
    translation_pass,
)
from regard.inspection.patching import Patch, patched
from regard.inspection.record import blocks, record_attention, record_model
from regard.inspection.repeated_blocks import with_distinct_blocks
from regard.inspection.switches import Ablation, ablated
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.models.recurrent import RecurrentConfig

SMALL = {"d_model": 16, "num_heads": 4, "d_ff": 32}
BOTH = {"src_vocab_size": 11, "tgt_vocab_size": 11}


def translator():
    return build_model(
        EncoderDecoderConfig(**BOTH, **SMALL, num_encoder_layers=2, num_decoder_layers=1), seed=0
    )


def recurrent():
    return build_model(RecurrentConfig(**BOTH, d_model=16, d_embedding=8, attention="additive"), seed=0)


def writer():
    return build_model(DecoderOnlyConfig(vocab_size=11, num_layers=2, **SMALL), seed=0)


def encoder():
    config = EncoderOnlyConfig(vocab_size=11, num_layers=1, head="masked_language_model", **SMALL)
    return build_model(config, seed=0)


PASSES = {
    "translator": lambda: translation_pass(translator(), [4, 5, 6], [7, 8], bos_id=2, eos_id=3),
    "recurrent": lambda: translation_pass(recurrent(), [4, 5, 6], [7, 8], bos_id=2, eos_id=3),
    "writer": lambda: continuation_pass(writer(), [2, 4, 5, 6, 3]),
    "encoder": lambda: encoder_pass(encoder(), [2, 4, 5, 3]),
}


def test_a_decoder_reads_what_it_writes_shifted_by_one():
    sequences = PASSES["translator"]().sequences
    assert sequences == {"source": (4, 5, 6, 3), "read": (2, 7, 8), "written": (7, 8, 3)}
    assert PASSES["writer"]().sequences == {"read": (2, 4, 5, 6), "written": (4, 5, 6, 3)}
    assert PASSES["encoder"]().sequences == {"text": (2, 4, 5, 3)}


@pytest.mark.parametrize("kind", PASSES)
@torch.no_grad()
def test_a_pass_has_no_dropout_and_leaves_the_model_as_it_was(kind):
    forced = PASSES[kind]()
    for training in (True, False):
        forced.model.train(training)
        first = forced()
        assert torch.equal(first, forced())
        assert forced.model.training is training
    positions = forced.sequences["written" if "written" in forced.sequences else "text"]
    assert first.shape == (1, len(positions), 11)


@pytest.mark.parametrize("kind", PASSES)
@torch.no_grad()
def test_rows_and_columns_are_as_many_as_their_sequences(kind):
    forced = PASSES[kind]()
    with record_model(forced.model, hidden=[] if kind == "recurrent" else blocks(forced.model)) as recording:
        forced()
    found = attention_sites(forced.model)
    assert [place.name for place in found] == list(recording.heads)
    for place in found:
        rows, columns = len(forced.sequences[place.rows]), len(forced.sequences[place.columns])
        assert recording.weights(place.name).shape == (place.num_heads, rows, columns)
    for name in recording.outputs_by_module:
        length = len(forced.sequences[sequence_of(forced.model, name)])
        assert recording.hidden(name).shape == (length, 16)


def test_layers_are_counted_in_their_part():
    found = [(place.part, place.layer, place.rows, place.columns) for place in attention_sites(translator())]
    assert found == [
        ("encoder", 0, "source", "source"),
        ("encoder", 1, "source", "source"),
        ("decoder", 0, "read", "read"),
        ("cross", 0, "read", "source"),
    ]
    assert [(place.part, place.num_heads) for place in attention_sites(recurrent())] == [("cross", 1)]
    assert [(place.part, place.layer) for place in attention_sites(writer())] == [
        ("decoder", 0),
        ("decoder", 1),
    ]
    assert [place.part for place in attention_sites(encoder())] == ["encoder"]


def shared():
    """An encoder-decoder whose two encoder blocks are one module."""
    model = translator()
    model.encoder.blocks = nn.ModuleList([model.encoder.blocks[0]] * 2)
    return model


def test_a_shared_attention_has_a_site_in_each_place():
    def named(model):
        return [(site.name, site.layer) for site in attention_sites(model)]

    assert named(shared()) == named(translator())


@pytest.mark.parametrize(
    "inside",
    [
        record_model,
        lambda model: record_model(model, hidden=["decoder.blocks.0"]),
        record_attention,
        lambda model: ablated(model, Ablation(layers=["encoder.blocks.0"])),
        lambda model: patched(model, Patch(module="encoder.blocks.0", value=torch.zeros(3, 16))),
    ],
)
def test_what_a_module_computes_in_several_places_is_not_taken_for_one(inside):
    message = r"encoder\.blocks\.0 and encoder\.blocks\.1 are one module"
    with pytest.raises(ConfigError, match=message), inside(shared()):
        pass


def test_a_copy_with_distinct_blocks_has_a_recording_of_each():
    with record_model(with_distinct_blocks(shared())) as recording:
        assert len(recording.heads) == len(attention_sites(translator()))
