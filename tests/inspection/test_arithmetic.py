"""The arithmetic of a cell gives the weight that the model had."""

import math
from dataclasses import replace

import pytest
import torch

from regard.errors import ConfigError
from regard.inspection.arithmetic import weight_arithmetic
from regard.inspection.record import record_model
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.recurrent import RecurrentConfig

PARTS = ("query", "key", "value", "mask", "bias", "scores", "weights", "head_output")
SRC, LENGTHS = torch.tensor([[4, 5, 6, 3], [7, 3, 0, 0]]), torch.tensor([4, 2])
TGT = torch.tensor([[2, 8, 9], [2, 10, 3]])
KINDS = {
    "sinusoidal": {},
    "rotary with shared heads": {"positions": "rotary", "num_kv_heads": 2},
    "norms of queries": {"positions": "rotary", "qk_norm": True},
    "ALiBi": {"positions": "alibi"},
    "T5": {"positions": "t5", "attention_scale": 1.0, "head_dim": 6},
}


@torch.no_grad()
def recorded(parts=PARTS, heads=None, **options):
    sizes = {"src_vocab_size": 11, "tgt_vocab_size": 11, "d_model": 16, "num_heads": 4, "d_ff": 32}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    model = build_model(EncoderDecoderConfig(**sizes, **layers, **options), seed=0).eval()
    with record_model(model, None if heads is None else list(heads), parts=parts, heads=heads) as recording:
        model(SRC, LENGTHS, TGT)
    return recording


@pytest.mark.parametrize("kind", KINDS)
def test_every_cell_comes_to_the_weight_that_was_recorded(kind):
    recording = recorded(**KINDS[kind])
    for name in recording.heads:
        for at in (0, 1):
            weights, scores = recording.weights(name, at), recording.scores(name, at)
            expected = torch.zeros_like(recording.head_output(name, at))
            heads, rows, columns = weights.shape
            for head, row, column in torch.cartesian_prod(
                *map(torch.arange, (heads, rows, columns))
            ).tolist():
                cell = weight_arithmetic(recording, name, head, row, column, at=at)
                assert cell.weight == pytest.approx(float(weights[head, row, column]), abs=1e-6)
                assert cell.score == pytest.approx(float(scores[head, row, column]), abs=1e-5)
                assert cell.value is not None
                expected[head, row] += cell.weight * cell.value
            torch.testing.assert_close(expected, recording.head_output(name, at), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_soft_cap_is_a_step():
    sizes = {"vocab_size": 11, "d_model": 16, "num_heads": 4, "d_ff": 32, "num_layers": 1}
    model = build_model(DecoderOnlyConfig(**sizes, attention_softcap=0.02), seed=0).eval()
    model.blocks[0].self_attention.query_key_value.weight.mul_(9)
    with record_model(model, parts=PARTS) as recording:
        model(TGT)
    name = "blocks.0.self_attention"
    for row, column in ((0, 0), (2, 0), (2, 1), (1, 2)):
        cell = weight_arithmetic(recording, name, 1, row, column)
        assert cell.softcap == 0.02
        assert cell.score == pytest.approx(0.02 * math.tanh(cell.dot * cell.scale / 0.02), abs=1e-6)
        assert cell.weight == pytest.approx(float(recording.weights(name)[1, row, column]), abs=1e-6)


def test_its_steps_lead_from_one_to_the_next():
    cell = weight_arithmetic(recorded(positions="alibi"), "decoder.blocks.0.self_attention", 2, 2, 1)
    torch.testing.assert_close(cell.products, cell.query * cell.key)
    assert cell.dot == pytest.approx(float(cell.products.sum()))
    assert cell.scale == 1 / math.sqrt(4)
    assert cell.bias < 0, "one back"
    assert cell.score == pytest.approx(cell.dot * cell.scale + cell.bias)
    assert cell.visible
    assert cell.weight == pytest.approx(math.exp(cell.score - cell.log_sum))


def test_what_is_hidden_has_a_score_and_no_weight():
    cell = weight_arithmetic(recorded(), "decoder.blocks.0.self_attention", 0, 0, 2)
    assert not cell.visible
    assert cell.weight == 0
    assert math.isfinite(cell.score)
    alone = weight_arithmetic(recorded(), "decoder.blocks.0.self_attention", 0, 0, 0)
    assert alone.weight == pytest.approx(1), "the first row sees itself alone"


def test_heads_keep_their_numbers_where_some_are_recorded():
    name = "decoder.blocks.0.cross_attention"
    some, everything = recorded(heads={name: [3, 1]}, positions="rotary"), recorded(positions="rotary")
    ours, theirs = (weight_arithmetic(each, name, 1, 2, 3) for each in (some, everything))
    torch.testing.assert_close(ours.query, theirs.query)
    assert ours.weight == theirs.weight
    with pytest.raises(ConfigError, match=r"head 2 of .* is not recorded"):
        weight_arithmetic(some, name, 2, 0, 0)


def test_what_there_is_not_is_refused():
    recording, name = recorded(), "decoder.blocks.0.cross_attention"
    for row, column in ((3, 0), (0, 4), (-1, 0)):
        with pytest.raises(ConfigError, match="no cell") as refused:
            weight_arithmetic(recording, name, 0, row, column)
        assert refused.value.hint == "it has 3 rows and 4 columns"
    with pytest.raises(ConfigError, match="no query"):
        weight_arithmetic(recorded(("weights",)), name, 0, 0, 0)
    without = weight_arithmetic(recorded(("query", "key", "mask", "bias")), name, 0, 0, 0)
    with_values = weight_arithmetic(recording, name, 0, 0, 0)
    assert without.value is None
    assert replace(without, value=with_values.value).weight == with_values.weight


@torch.no_grad()
def test_a_recurrent_attention_has_no_products():
    sizes = {"src_vocab_size": 11, "tgt_vocab_size": 11, "d_model": 16, "d_embedding": 8}
    model = build_model(RecurrentConfig(**sizes, attention="additive"), 0).eval()
    with record_model(model, parts=PARTS) as recording:
        model(SRC, LENGTHS, TGT)
    with pytest.raises(ConfigError, match=r"no query of decoder\.attention"):
        weight_arithmetic(recording, "decoder.attention", 0, 0, 0)
