"""Sockeye 3 (Hieber et al. 2022): `params.best` with `config` and the vocabularies of its folder."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_pretrained import SpecialTokens
from regard.errors import FolderError
from regard.models.encoder_decoder import EncoderDecoderConfig, Tied
from regard.weights.huggingface_files import read_table
from regard.weights.names import Entry, linear, same
from regard.weights.pickled import read_pickle, refuse_untrusted
from regard.weights.toolkits.decoding import search_settings
from regard.weights.toolkits.segmentation import segmentation
from regard.weights.toolkits.settings import Settings
from regard.weights.toolkits.toolkit import Toolkit, ToolkitCheckpoint, refuse_other_size, tokenizer_of
from regard.weights.toolkits.torch_names import EmbeddingNames, drop_sinusoids, refuse_unequal_sides
from regard.weights.toolkits.yaml_file import read_yaml_table

CONFIG, BEST = "config", "params.best"
SOURCE = "embedding_source.embedding.weight"
EMBEDDINGS = EmbeddingNames(
    source=SOURCE,
    target="embedding_target.embedding.weight",
    output="output_layer.weight",
    shared=SOURCE,
)
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")  # ids 0 to 3
PAD, UNK, BOS, EOS = range(4)
TIED: dict[str, Tied] = {
    "none": "none",
    "src_trg_softmax": "all",
    "trg_softmax": "target",
    "src_trg": "embeddings",
}
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish1": "silu"}
GATED = {"gelu": "geglu", "swish1": "swiglu"}
# operations before and after a layer (n: norm, r: residual) -> where the norms are
NORMS = {("n", "r"): "pre", ("", "rn"): "post"}
LENGTH_RATIO = "length_ratio."


class Sockeye(Toolkit):
    """Sockeye's transformer."""

    name = "sockeye"
    title = "Sockeye"

    def recognises(self, path: Path) -> bool:
        folder = path.parent if path.is_file() else path
        begins = path.name.startswith("params.") if path.is_file() else (path / BEST).is_file()
        return begins and (folder / CONFIG).is_file() and (folder / "vocab.src.0.json").is_file()

    def read(self, path: Path, *, trust_pickle: bool) -> ToolkitCheckpoint:
        file = path if path.is_file() else path / BEST
        refuse_untrusted(file, trust_pickle=trust_pickle)
        folder = file.parent
        settings = Settings(read_yaml_table(folder / CONFIG), str(folder / CONFIG))
        ratio = _data(settings.section("config_data"))
        config = _config(settings)
        settings.finish()
        tensors, _ = read_pickle(file)
        unused = tuple(sorted(name for name in tensors if name.startswith(LENGTH_RATIO)))
        tensors = {name: tensor for name, tensor in tensors.items() if "traced" not in name}
        return ToolkitCheckpoint(
            path=file,
            config=config,
            table=_table(config),
            tensors=_weights({n: t for n, t in tensors.items() if n not in unused}, config, file),
            source=_tokenizer(folder, "src", config.src_vocab_size),
            target=_tokenizer(folder, "trg", config.tgt_vocab_size),
            generation=search_settings(
                5, penalty="power", alpha=1.0, max_length_ratio=ratio, max_length_offset=math.ceil(ratio)
            ),
            unused=unused,
        )


def _data(settings: Settings) -> float:
    """The greatest length of an output for each source token: the mean of the corpus and two deviations."""
    settings.must_be("num_source_factors", 1)
    settings.must_be("num_target_factors", 1)
    settings.ignore("max_seq_len_source", "max_seq_len_target", "eop_id", "data_statistics")
    settings.finish()
    table = settings.table.get("data_statistics")
    statistics = Settings(table if isinstance(table, Mapping) else {}, settings.where, "data_statistics.")
    mean = statistics.take(float, "length_ratio_mean", 1.0)
    return round(mean + 2 * statistics.take(float, "length_ratio_std", 0.5), 3)


def _config(settings: Settings) -> EncoderDecoderConfig:
    take = settings.take
    settings.must_be("lhuc", False)
    settings.must_be("neural_vocab_selection")
    settings.ignore("neural_vocab_selection_block_loss", "config_length_task", "dtype")
    sizes = take(int, "vocab_source_size"), take(int, "vocab_target_size")
    stacks = [_stack(settings.section(f"config_{side}")) for side in ("encoder", "decoder")]
    encoder, decoder = stacks
    layers = {"num_encoder_layers": encoder.pop("layers"), "num_decoder_layers": decoder.pop("layers")}
    refuse_unequal_sides(encoder, decoder, encoder, settings.where)
    for side, size in zip(("source", "target"), sizes, strict=True):
        embedding = settings.section(f"config_embed_{side}")
        embedding.ignore("dropout", "allow_sparse_grad")
        embedding.must_be("num_factors", 1)
        embedding.must_be("factor_configs", [], None)
        embedding.must_be("num_embed", encoder["d_model"])
        embedding.must_be("vocab_size", size)
        embedding.finish()
    return EncoderDecoderConfig(
        src_vocab_size=sizes[0],
        tgt_vocab_size=sizes[1],
        norm_eps=1e-6,
        position_layout="split",
        attention_bias="none",
        feed_forward_bias=True,
        output_bias=True,
        tied=settings.choice(TIED, "weight_tying_type", "src_trg_softmax"),
        pad_id=PAD,
        **layers,
        **encoder,
    )


def _stack(settings: Settings) -> dict[str, Any]:
    """The settings of the encoder or the decoder, by regard's names."""
    take, must_be = settings.take, settings.must_be
    must_be("decoder_type", "transformer", hint="SSRU is not self-attention: only transformer is supported")
    must_be("use_lhuc", False)
    must_be("block_prepended_cross_attention", False)
    settings.ignore("depth_key_value")  # the width of the encoder, or 0
    kind = take(str, "positional_embedding_type")
    if kind not in ("fixed", "learned"):
        raise settings.refusal("positional_embedding_type", "fixed and learned are")
    lengths = take(int, "max_seq_len_source"), take(int, "max_seq_len_target")
    if kind == "learned" and lengths[0] != lengths[1]:
        raise settings.refusal("max_seq_len_target", f"learned positions of both sides need {lengths[0]}")
    before, after = (take(str, f"{name}process_sequence").replace("d", "") for name in ("pre", "post"))
    if (before, after) not in NORMS:
        raise settings.refusal(
            "postprocess_sequence", "dr after preprocess_sequence n, and drn after none, are"
        )
    gated = take(bool, "use_glu", False)
    found = {
        "d_model": take(int, "model_size"),
        "num_heads": take(int, "attention_heads"),
        "d_ff": take(int, "feed_forward_num_hidden"),
        "layers": take(int, "num_layers"),
        "activation": settings.choice(GATED if gated else ACTIVATIONS, "act_type"),
        "norm_position": NORMS[before, after],
        "positions": "learned" if kind == "learned" else "sinusoidal",
        "max_positions": lengths[0],
        "dropout": take(float, "dropout_prepost", 0.0),
        "attention_dropout": take(float, "dropout_attention", 0.0),
        "activation_dropout": take(float, "dropout_act", 0.0),
    }
    settings.finish()
    return found


def _weights(tensors: dict[str, Tensor], config: EncoderDecoderConfig, file: Path) -> dict[str, Tensor]:
    """The weights without those that are tied or fixed; keys before values in each matrix of both."""
    if config.positions == "sinusoidal":
        for side in ("encoder", "decoder"):
            drop_sinusoids(tensors, f"{side}.pos_embedding.weight", file, layout="split")
    EMBEDDINGS.drop_tied(tensors, config.tied, file)
    width = config.d_model
    found = {}
    for name, tensor in tensors.items():
        stem, _, part = name.rpartition(".")
        if part != "weight" or not stem.endswith((".ff_in", ".ff_kv")):
            found[name] = tensor
            continue
        rows = len(tensor) - 2 * width  # those of the queries; then key and value of each head
        if rows not in (0, width):
            raise FolderError(f"{file}: {name!r} is {list(tensor.shape)}", "config describes another model")
        by_head = tensor[rows:].unflatten(0, (config.num_heads, 2, -1)).transpose(0, 1)
        for letter, matrix in zip("qkv", (tensor[:rows], *by_head.flatten(1, 2)), strict=True):
            if len(matrix):
                found[f"{stem}.{letter}.weight"] = matrix.contiguous()
    return found


def _table(config: EncoderDecoderConfig) -> list[Entry]:
    entries = [*EMBEDDINGS.entries(config.tied), same("output.bias", "output_layer.bias")]
    for side, count in (("encoder", config.num_encoder_layers), ("decoder", config.num_decoder_layers)):
        for number in range(count):
            entries += _block(config, f"{side}.blocks.{number}", f"{side}.layers.{number}", side)
        if config.norm_position == "pre":
            entries += linear(f"{side}.norm", f"{side}.final_process.layer_norm")
        if config.positions == "learned":
            entries.append(same(f"{side}.input.positions.weight", f"{side}.pos_embedding.weight"))
    return entries


def _block(config: EncoderDecoderConfig, ours: str, name: str, side: str) -> list[Entry]:
    own = "self_attention" if side == "encoder" else "autoregr_layer"

    def norm(around: str, theirs: str) -> list[Entry]:
        return linear(f"{ours}.{around}.norm", f"{name}.{config.norm_position}_{theirs}.layer_norm")

    entries = [
        Entry(
            ours=f"{ours}.self_attention.query_key_value.weight",
            hf=tuple(f"{name}.{own}.ff_in.{letter}.weight" for letter in "qkv"),
            widths=(config.d_model,) * 3,
        ),
        same(f"{ours}.self_attention.output.weight", f"{name}.{own}.ff_out.weight"),
        *norm("around_self_attention", own),
        *_feed_forward(config, f"{ours}.feed_forward", f"{name}.ff"),
        *norm("around_feed_forward", "ff"),
    ]
    if side == "decoder":
        cross = f"{name}.enc_attention"
        parts = {"query": "ff_q", "key": "ff_kv.k", "value": "ff_kv.v", "output": "ff_out"}
        entries += [
            same(f"{ours}.cross_attention.{part}.weight", f"{cross}.{theirs}.weight")
            for part, theirs in parts.items()
        ]
        entries += norm("around_cross_attention", "enc_attention")
    return entries


def _feed_forward(config: EncoderDecoderConfig, ours: str, name: str) -> list[Entry]:
    if config.activation not in GATED.values():
        return [*linear(f"{ours}.inner", f"{name}.ff1"), *linear(f"{ours}.outer", f"{name}.ff2")]
    gated = [
        Entry(
            ours=f"{ours}.gate_inner.{part}",
            hf=(f"{name}.ff1.{part}", f"{name}.linear.{part}"),
            widths=(config.d_ff, config.d_ff),
        )
        for part in ("weight", "bias")
    ]
    return [*gated, *linear(f"{ours}.outer", f"{name}.ff2")]


def _tokenizer(folder: Path, side: str, size: int) -> Tokenizer:
    path = folder / f"vocab.{side}.0.json"
    vocabulary = read_table(path, folder)
    if sorted(map(str, vocabulary.values())) != sorted(map(str, range(len(vocabulary)))) or any(
        vocabulary.get(token) != number for number, token in enumerate(SPECIAL)
    ):
        raise FolderError(f"{path} lacks {' '.join(SPECIAL)} as ids 0 to 3, or has gaps", "copy it again")
    refuse_other_size(len(vocabulary), size, str(path))
    special = SpecialTokens(pad=PAD, unk=UNK, bos=BOS, eos=EOS, vocab_size=size)
    content = segmentation(folder, vocabulary, (SPECIAL[UNK], SPECIAL[PAD], *SPECIAL[BOS:]), (side,))
    return tokenizer_of(content, special, str(path))
