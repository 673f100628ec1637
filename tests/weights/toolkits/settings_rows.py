"""The documented table of toolkits: its rows, and which of them a toolkit's checkpoints have."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.toolkits.load import toolkit_of
from tests.parity.settings_table import ABSENT, EQUAL, REFUSED
from tests.weights.toolkits.marian_files import EXPRESSIBLE
from tests.weights.toolkits.peers import FIXTURES, unpickled_here
from tests.weights.toolkits.refusals import marian_folder

TITLE = "Toolkits"
TOOLKITS = {
    "marian": "Marian", "joeynmt": "JoeyNMT", "eole": "eole", "opennmt": "OpenNMT-py", "fairseq": "fairseq",
    "sockeye": "Sockeye",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row: a property of models; `refused` has the setting that a toolkit refuses, see refusals.py."""

    label: str
    has: Callable[[EncoderDecoderConfig], bool] | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    checkpoints: Mapping[str, str] = field(default_factory=dict)  # that have it, though no config shows it


def row(
    label: str,
    has: Callable[[EncoderDecoderConfig], bool] | None = None,
    checkpoints: str = "",
    **refused: str,
) -> Row:
    """A row, with the settings that toolkits refuse; `checkpoints` is one of Marian."""
    return Row(
        label=label, has=has, refused=refused, checkpoints={"marian": checkpoints} if checkpoints else {}
    )


ROWS = (
    row("embeddings of both sides and the output tied", lambda config: config.tied == "all"),
    row("target embeddings and the output tied", lambda config: config.tied == "target"),
    row("embeddings of both sides tied", lambda config: config.tied == "embeddings"),
    row("nothing tied", lambda config: config.tied == "none"),
    row("source embeddings and the output tied", sockeye="weight_tying_type"),
    row(
        "post-norm", lambda config: config.norm_position == "post", eole="encoder_layer_style",
    ),
    row("pre-norm", lambda config: config.norm_position == "pre", marian="transformer-preprocess"),
    row(
        "pre-norm without a norm after the layers", eole="final_encoder_layer_norm",
        fairseq="no_decoder_final_norm",
    ),
    row("norms of outputs alone", lambda config: config.norm_position == "reordered"),
    row("RMS norms", lambda config: config.norm == "rms"),
    row("norm of the embeddings", lambda config: config.embedding_norm, eole="embedding_layer_norm"),
    row("sinusoidal positions", lambda config: config.positions == "sinusoidal"),
    row(
        "learned positions", lambda config: config.positions == "learned",
        marian="transformer-train-position-embeddings",
    ),
    row("rotary positions", lambda config: config.positions == "rotary", opennmt="max_relative_positions"),
    row(
        "relative positions", eole="relative_positions_buckets", opennmt="relative_positions_buckets",
    ),
    row("ALiBi", marian="transformer-attention-mask", eole="position_encoding_type",
        opennmt="max_relative_positions"),
    row(
        "no positions", lambda config: config.positions == "none", opennmt="position_encoding",
        marian="transformer-disable-position-embeddings", fairseq="no_token_positional_embeddings",
        sockeye="positional_embedding_type",
    ),
    row("activation relu", lambda config: config.activation == "relu"),
    row(
        "activation gelu", lambda config: config.activation == "gelu", marian="transformer-ffn-activation",
    ),
    row("activation gelu by its tanh formula", lambda config: config.activation == "gelu_tanh"),
    row("activation swish (silu)", lambda config: config.activation == "silu"),
    row("gated silu (SwiGLU)", lambda config: config.activation == "swiglu"),
    row("gated gelu (GEGLU)", lambda config: config.activation == "geglu"),
    row("gated gelu by its tanh formula", lambda config: config.activation == "geglu_tanh"),
    row(
        "other activations", joeynmt="activation", eole="mlp_activation_fn", fairseq="activation_fn",
        opennmt="pos_ffn_activation_fn", sockeye="act_type",
    ),
    row("feed-forward networks of other depths", marian="transformer-ffn-depth"),
    row(
        "grouped key heads", lambda config: config.num_kv_heads not in (None, config.num_heads),
        opennmt="num_kv",
    ),
    row("head size not width / heads", lambda config: config.d_head * config.num_heads != config.d_model),
    row(
        "another scale of attention scores", lambda config: config.attention_scale is not None,
        joeynmt="alpha",
    ),
    row("biases in attentions", lambda config: config.attention_biases == "all"),
    row("biases of queries, keys and values", lambda config: config.attention_biases == "inputs"),
    row("no biases in attentions", lambda config: config.attention_biases == "none"),
    row("biases in feed-forward networks", lambda config: config.has_feed_forward_bias),
    row("no biases in feed-forward networks", lambda config: not config.has_feed_forward_bias),
    row("bias of the output", lambda config: config.output_bias),
    row("no bias of the output", lambda config: not config.output_bias, checkpoints="no output bias"),
    row("scaled embeddings", lambda config: config.scaled_embedding),
    row("embeddings not scaled", lambda config: not config.scaled_embedding),
    row(
        "other depths of encoder and decoder",
        lambda config: config.num_encoder_layers != config.num_decoder_layers,
    ),
    row(
        "other sizes of encoder and decoder", marian="transformer-decoder-dim-ffn", joeynmt="num_heads",
        eole="heads", fairseq="decoder_attention_heads", sockeye="attention_heads",
    ),
    row(
        "recurrent and other models", marian="type", joeynmt="type", eole="encoder_type",
        opennmt="encoder_type", fairseq="arch",
    ),
    row("language models", eole="architecture", opennmt="model_task", fairseq="task"),
    row("speech", joeynmt="task"),
    row("SSRU, average attention", marian="transformer-decoder-autoreg", sockeye="decoder_type"),
    row("factors of words", marian="lemma-dim-emb", opennmt="n_src_feats", sockeye="num_source_factors"),
    row("tied layers", marian="transformer-tied-layers"),
    row("cross-attention and self-attention in one", fairseq="cross_self_attention"),
    row("copy attention", opennmt="copy_attn"),
    row("coverage", eole="coverage_attn", opennmt="coverage_attn"),
    row("sliding windows", eole="sliding_window", opennmt="sliding_window"),
    row("parallel residuals", eole="parallel_residual", opennmt="parallel_residual"),
    row("mixtures of experts", eole="num_experts", opennmt="num_experts"),
    row("adaptive softmax", fairseq="adaptive_softmax_cutoff"),
    row("sparsemax", eole="generator_function", opennmt="generator_function"),
    row("LHUC", sockeye="lhuc"),
    row("vocabulary selection", sockeye="neural_vocab_selection"),
    row("adapters, quantised weights", opennmt="lora_layers", fairseq="quant_noise_pq"),
    row(
        "a setting that regard does not know", marian="a-new-setting", joeynmt="something",
        eole="a_new_setting", opennmt="a_new_setting", fairseq="a_new_setting", sockeye="a_new_setting",
    ),
)  # fmt: skip
Compared = Mapping[str, Mapping[str, EncoderDecoderConfig]]


def compared() -> Compared:
    """The configs of the checkpoints that are compared with each toolkit, by their names."""
    with unpickled_here(), tempfile.TemporaryDirectory() as place:
        return {toolkit: dict(_configs(toolkit, Path(place))) for toolkit in TOOLKITS}


def _configs(toolkit: str, place: Path) -> Iterator[tuple[str, EncoderDecoderConfig]]:
    folders: dict[str, Path] = {}
    if toolkit == "marian":
        for number, (name, settings) in enumerate(EXPRESSIBLE.items()):
            folders[name] = place / str(number)
            folders[name].mkdir()
            marian_folder(folders[name], settings)
    else:
        folders = {path.name: path for path in sorted((FIXTURES / toolkit).iterdir()) if path.is_dir()}
    for name, folder in folders.items():
        found = toolkit_of(folder)
        assert found is not None
        config = found.read(folder, trust_pickle=True).config
        assert isinstance(config, EncoderDecoderConfig)
        yield name, config


def cell(row: Row, toolkit: str, configs: Compared) -> str:
    """The cell of the table: what the tests of this toolkit's checkpoints and of its refusals hold."""
    if toolkit in row.refused:
        return REFUSED
    has = row.has is not None and any(map(row.has, configs[toolkit].values()))
    return EQUAL if has or row.checkpoints.get(toolkit) in configs[toolkit] else ABSENT
