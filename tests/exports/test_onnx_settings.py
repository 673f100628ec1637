"""Each setting of a model: the ONNX graphs compute what regard does.

An export takes seconds. So each setting is tested by running what is exported, as it is, in PyTorch; some
models with many settings, and nightly each setting, by exporting it.
"""

import pytest
import torch
from torch import nn

import regard
from regard.errors import UserError
from regard.exports.certified_export import compared
from regard.exports.onnx_folder import ONNX, save
from regard.exports.onnx_graphs import CrossDecoderGraph, DecoderGraph, EncoderGraph
from regard.exports.onnx_modules import traceable
from regard.exports.onnx_process import answer
from regard.exports.refusal import NotExpressible
from regard.layers.feedforward import FeedForward
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.registered import FEED_FORWARDS, NORMS, POSITIONS, PositionalEncoding
from tests.exports.engine_models import ALIBI, BASES, TEXTS, random_settings, small_model
from tests.exports.settings_table import KINDS, TABLE, model_of

# Each row with one of the bases for every change, with the other one nightly.
ROWS = [
    pytest.param(*row[:2], base, marks=pytest.mark.nightly if (number + turn) % 2 else ())
    for number, row in enumerate(TABLE)
    for turn, base in enumerate(BASES)
]


def engine_computes_the_same(loaded, folder):
    """True if the greedy outputs, beams and log-probabilities of a saved model are regard's."""
    comparison, _ = compared(ONNX, loaded, folder, TEXTS, most_new=7, compute=answer)
    return (
        comparison.greedy.accepted == comparison.beam.accepted == 1
        and comparison.log_probs.largest_difference <= 1e-4
        and max(each.largest_score_difference for each in (comparison.greedy, comparison.beam)) <= 1e-4
    )


def graph_logits(model, ids, sources, lengths):
    """The logits of the graphs before export: of ids read at once, then one by one by the cache."""
    copied = traceable(model)
    memory = EncoderGraph(copied)(sources, lengths) if isinstance(model, EncoderDecoder) else None
    graph = DecoderGraph(copied) if memory is None else CrossDecoderGraph(copied)
    given = () if memory is None else (lengths, memory)
    config = model.config
    empty = torch.zeros(len(ids), config.num_kv_heads or config.num_heads, 0, config.d_head)
    blocks = model.blocks if memory is None else model.decoder.blocks
    cache, found = [empty] * (2 * len(blocks)), []
    for new in (ids[:, :2], ids[:, 2:3], ids[:, 3:4], ids[:, 4:]):
        logits, cache = graph(new, *given, cache)
        found.append(logits)
    return torch.cat(found, dim=1)


def assert_graphs_compute(loaded, kind):
    generator = torch.Generator().manual_seed(3)
    ids, sources = (torch.randint(4, 20, (3, length), generator=generator) for length in (12, 9))
    lengths = torch.tensor([9, 4, 1])
    given = (sources, lengths, ids) if kind == "encoder_decoder" else (ids,)
    with torch.no_grad():
        torch.testing.assert_close(
            graph_logits(loaded.model, ids, sources, lengths), loaded.model(*given), atol=1e-5, rtol=1e-5
        )


@pytest.mark.parametrize(("name", "text", "base"), ROWS)
def test_what_is_exported_computes_each_setting(name, text, base):
    for kind in KINDS:
        if (loaded := model_of(kind, base, name, text)) is not None:
            assert_graphs_compute(loaded, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scaling", ["yarn", "llama3"])
def test_what_is_exported_computes_scaled_angles(kind, scaling):
    table = {"kind": scaling, "factor": 2.0, "original_length": 8}
    assert_graphs_compute(small_model(kind, "vaswani", positions="rotary", rotary_scaling=table), kind)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "text", "base"), ROWS)
def test_each_setting_is_computed_as_by_regard(name, text, base, tmp_path):
    for kind in KINDS:
        if (loaded := model_of(kind, base, name, text)) is not None:
            (folder := tmp_path / kind).mkdir()
            save(loaded, folder)
            assert engine_computes_the_same(loaded, folder)


COMBINED = {  # all positions, norms, units and caches, each once
    "post-norm sinusoidal": ("encoder_decoder", {"embedding_norm": True, "output_bias": True}),
    "t5": ("encoder_decoder", {
        "positions": "t5", "position_buckets": 8, "position_distance": 12, "norm": "rms", "tied": "none",
        "norm_position": "pre", "attention_scale": 1.0, "scaled_output": True, "bias": False,
    }),
    "alibi": ("encoder_decoder", ALIBI),
    "rotary in a window": ("decoder_only", {
        "positions": "rotary", "norm": "rms", "activation": "swiglu", "window": 3, "num_kv_heads": 2,
        "head_dim": 6, "tied": False, "norm_position": "pre",
    }),
    "windows in turn, soft caps": ("decoder_only", {
        "positions": "rotary", "norm": "rms", "window": 3, "num_layers": 2, "norm_position": "sandwich",
        "layer_types": ("sliding_attention", "full_attention"), "local_rotary_base": 30.0,
        "attention_softcap": 2.0, "logit_softcap": 9.0, "num_kv_heads": 1,
    }),
    "parallel": ("decoder_only", {
        "positions": "rotary", "rotary_dim": 4, "norm_position": "pre", "parallel_residual": "one_norm",
        "output_bias": True, "tied": False, "activation": "gelu",
    }),
    "reordered norms": ("decoder_only", {
        "positions": "rotary", "norm": "rms", "norm_position": "reordered", "qk_norm": "all_heads",
        "num_kv_heads": 2,
    }),
    "learned": ("decoder_only", {
        "positions": "learned", "position_offset": 2, "max_positions": 40, "activation": "gelu_tanh",
        "norm_position": "pre", "scaled_embedding": True,
    }),
    "split sinusoidal of an odd width": ("decoder_only", {
        "position_layout": "split", "d_model": 25, "head_dim": 6, "activation": "gelu",
    }),
}  # fmt: skip


FIRST = ("alibi",)  # two graphs, with most settings; the others nightly


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FIRST else pytest.mark.nightly) for name in COMBINED]
)
def test_many_settings_together_are_computed_as_by_regard(name, tmp_path):
    kind, settings = COMBINED[name]
    loaded = small_model(kind, **settings)
    save(loaded, tmp_path)
    assert engine_computes_the_same(loaded, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_settings_of_any_kind_are_computed_as_by_regard(kind, seed, tmp_path):
    loaded = small_model(kind, **random_settings(kind, seed))
    save(loaded, tmp_path)
    assert engine_computes_the_same(loaded, tmp_path)


def test_positions_go_beyond_the_tables_of_the_model():
    loaded = small_model("decoder_only", "llama")
    ids = torch.full((1, 1030), 5)
    with torch.no_grad():
        found = graph_logits(loaded.model, ids, None, None)
        torch.testing.assert_close(found, loaded.model(ids), atol=1e-4, rtol=1e-4)


class Halves(nn.Module):
    """A registered positional encoding."""

    def __init__(self, config, bidirectional):
        super().__init__()
        self.width = config.d_model

    def forward(self, start, length):
        return ((torch.arange(length) + start) / 2)[:, None].repeat(1, self.width)


class Tanh(nn.Module):
    """A registered norm."""

    def __init__(self, config, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.gain * torch.tanh(x)


def squared_relu(config):
    """A registered feed-forward network."""
    return FeedForward(config.d_model, config.d_ff, lambda x: torch.relu(x).square())


def test_registered_parts_are_exported_as_they_are(sigmoid, tmp_path, monkeypatch):
    """The exporter put the kernel of softmax into an attention of one's own, and the certificate failed."""
    monkeypatch.setitem(POSITIONS.added, "halves", PositionalEncoding("input", Halves))
    monkeypatch.setitem(NORMS.added, "tanh", Tanh)
    monkeypatch.setitem(FEED_FORWARDS.added, "squared_relu", squared_relu)
    parts = {"positions": "halves", "attention": "sigmoid", "norm": "tanh", "activation": "squared_relu"}
    loaded = small_model("decoder_only", **parts, num_layers=1)
    assert_graphs_compute(loaded, "decoder_only")
    save(loaded, tmp_path)
    assert engine_computes_the_same(loaded, tmp_path)


def test_other_kinds_of_models_are_refused(encoder_folder, tmp_path):
    folder = encoder_folder("none")
    with pytest.raises(UserError, match="encoder_only"):
        save(regard.load(folder, device="cpu"), tmp_path)


def test_weights_in_another_form_are_refused(tmp_path):
    with pytest.raises(NotExpressible) as error:
        save(small_model("decoder_only"), tmp_path, "bfloat16")
    assert (error.value.setting, error.value.value) == ("quantization", "bfloat16")
    assert not [*tmp_path.iterdir()]
