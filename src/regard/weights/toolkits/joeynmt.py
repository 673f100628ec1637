"""JoeyNMT 2 (Kreutzer et al. 2019): `best.ckpt` with `config.yaml` and the vocabularies of its folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.errors import FolderError
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.names import Entry, linear
from regard.weights.pickled import read_pickle, refuse_untrusted
from regard.weights.toolkits.decoding import search_settings
from regard.weights.toolkits.joeynmt_vocabulary import SpecialSymbols, read_tokenizer
from regard.weights.toolkits.settings import Settings
from regard.weights.toolkits.toolkit import Toolkit, ToolkitCheckpoint, checkpoint_file
from regard.weights.toolkits.torch_names import (
    EmbeddingNames,
    attention,
    cross_attention,
    drop_sinusoids,
    refuse_unequal_sides,
)
from regard.weights.toolkits.yaml_file import read_yaml_table

CONFIG = "config.yaml"
CHECKPOINTS = ("best.ckpt", "latest.ckpt")
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu"}
SOURCE = "src_embed.lut.weight"
EMBEDDINGS = EmbeddingNames(
    source=SOURCE, target="trg_embed.lut.weight", output="decoder.output_layer.weight", shared=SOURCE
)
NOT_OF_THE_MODEL = (
    "name", "joeynmt_version", "model_dir", "use_cuda", "fp16", "random_seed", "num_workers", "training",
    "normalization",
)  # fmt: skip
INITIALIZATION = (
    "initializer", "init_gain", "init_weight", "init_rnn_orthogonal", "lstm_forget_gate", "embed_initializer",
    "embed_init_gain", "embed_init_weight", "bias_initializer",
)  # fmt: skip
OF_EVALUATION = (
    "load_model", "batch_size", "batch_type", "eval_metrics", "eval_metric", "sacrebleu_cfg", "sacrebleu",
    "return_attention", "return_prob",
)  # fmt: skip
CORPORA = (
    "train", "dev", "test", "dataset_type", "dataset_cfg", "sample_train_subset", "sample_dev_subset",
    "random_train_subset", "random_dev_subset",
)  # fmt: skip


class JoeyNMT(Toolkit):
    """JoeyNMT's transformer."""

    name = "joeynmt"
    title = "JoeyNMT"

    def recognises(self, path: Path) -> bool:
        folder = path.parent if path.is_file() else path
        has_checkpoint = path.suffix == ".ckpt" if path.is_file() else any(path.glob("*.ckpt"))
        return has_checkpoint and (folder / CONFIG).is_file()

    def read(self, path: Path, *, trust_pickle: bool) -> ToolkitCheckpoint:
        file = checkpoint_file(path, "*.ckpt", CHECKPOINTS)
        refuse_untrusted(file, trust_pickle=trust_pickle)
        folder = file.parent
        settings = Settings(read_yaml_table(folder / CONFIG), str(folder / CONFIG))
        settings.ignore(*NOT_OF_THE_MODEL)
        settings.must_be("task", "MT")
        data = settings.section("data")
        data.ignore(*CORPORA)
        data.must_be("task", "MT")
        symbols = SpecialSymbols.of(data)
        source, target = (
            read_tokenizer(folder, data.section(side), side, symbols) for side in ("src", "trg")
        )
        data.finish()
        tensors, _ = read_pickle(file, "joeynmt")
        config = _config(settings.section("model"), tensors, symbols, source.vocab_size, target.vocab_size)
        generation, unused = (
            _decoding(settings.section("testing")) if "testing" in settings.table else ({}, ())
        )
        settings.finish()
        return ToolkitCheckpoint(
            path=file,
            config=config,
            table=_table(config),
            tensors=_weights(tensors, config, file),
            source=source,
            target=target,
            generation=generation,
            unused_decoding=unused,
        )


def _config(
    model: Settings, tensors: Mapping[str, Tensor], symbols: SpecialSymbols, src_size: int, tgt_size: int
) -> EncoderDecoderConfig:
    model.ignore(*INITIALIZATION)
    both = model.take(bool, "tied_embeddings", False)
    output = model.take(bool, "tied_softmax", False)
    sides = [_side(model.section(name), name, tensors) for name in ("encoder", "decoder")]
    encoder, decoder = sides
    equal = ("d_model", "num_heads", "d_ff", "activation", "norm_position", "scaled_embedding")
    refuse_unequal_sides(encoder, decoder, equal, model.where)
    model.finish()
    layers = {f"num_{side}_layers": table.pop("layers") for side, table in zip(SIDES, sides, strict=True)}
    return EncoderDecoderConfig(
        src_vocab_size=src_size,
        tgt_vocab_size=tgt_size,
        norm_eps=1e-6,
        tied=("all" if output else "embeddings") if both else ("target" if output else "none"),
        pad_id=symbols.pad,
        **layers,
        **encoder,
    )


SIDES = ("encoder", "decoder")


def _side(settings: Settings, side: str, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The settings of an encoder or a decoder, by regard's names."""
    take = settings.take
    settings.must_be("type", "transformer", hint="recurrent models of JoeyNMT are not supported")
    if settings.table.get("type") is None:
        raise FolderError(
            f"{settings.where}: {settings.path}type is missing, so the model is recurrent",
            "only type: transformer is supported",
        )
    settings.ignore("freeze")
    settings.must_be("alpha", 1.0)
    embeddings = settings.section("embeddings")
    embeddings.ignore("load_pretrained", "freeze", "dropout")
    width = take(int, "hidden_size")
    embeddings.must_be("embedding_dim", width)
    scaled = embeddings.take(bool, "scale", False)
    embeddings.finish()
    dropout = take(float, "dropout", 0.1)
    position = settings.optional(str, "layer_norm")
    has_norm = f"{side}.layer_norm.weight" in tensors
    if position not in (None, "pre", "post"):
        raise settings.refusal("layer_norm", "pre and post are")
    if position is None and not has_norm and side == "encoder":
        raise FolderError(
            f"{settings.where}: {settings.path}layer_norm is missing, so the encoder has pre-norm layers"
            " without a norm after them",
            "regard's pre-norm encoders have one",
        )
    found = {
        "d_model": width,
        "num_heads": take(int, "num_heads"),
        "d_ff": take(int, "ff_size"),
        "layers": take(int, "num_layers"),
        "activation": settings.choice(ACTIVATIONS, "activation", "relu"),
        "norm_position": position or ("pre" if has_norm else "post"),
        "scaled_embedding": scaled,
        "dropout": dropout,
        "attention_dropout": dropout,
        "activation_dropout": dropout,
    }
    settings.finish()
    return found


def _weights(tensors: dict[str, Tensor], config: EncoderDecoderConfig, file: Path) -> dict[str, Tensor]:
    """The weights without those that are tied to others, and without the positions, which are fixed."""
    for side in SIDES:
        drop_sinusoids(tensors, f"{side}.pe.pe", file)
    EMBEDDINGS.drop_tied(tensors, config.tied, file)
    return tensors


def _table(config: EncoderDecoderConfig) -> list[Entry]:
    entries = EMBEDDINGS.entries(config.tied)
    for side, count in (("encoder", config.num_encoder_layers), ("decoder", config.num_decoder_layers)):
        for number in range(count):
            entries += _block(config, f"{side}.blocks.{number}", f"{side}.layers.{number}", side)
        if config.norm_position == "pre":
            entries += linear(f"{side}.norm", f"{side}.layer_norm")
    return entries


def _block(config: EncoderDecoderConfig, ours: str, name: str, side: str) -> list[Entry]:
    own, norm = ("src_src_att", "layer_norm") if side == "encoder" else ("trg_trg_att", "x_layer_norm")
    parts = ("q_layer", "k_layer", "v_layer")
    entries = [
        *attention(
            config,
            f"{ours}.self_attention",
            [f"{name}.{own}.{part}" for part in parts],
            f"{name}.{own}.output_layer",
        ),
        *linear(f"{ours}.around_self_attention.norm", f"{name}.{norm}"),
        *linear(f"{ours}.feed_forward.inner", f"{name}.feed_forward.pwff_layer.0"),
        *linear(f"{ours}.feed_forward.outer", f"{name}.feed_forward.pwff_layer.3"),
        *linear(f"{ours}.around_feed_forward.norm", f"{name}.feed_forward.layer_norm"),
    ]
    if side == "decoder":
        cross = f"{name}.src_trg_att"
        entries += cross_attention(
            f"{ours}.cross_attention", [f"{cross}.{part}" for part in parts], f"{cross}.output_layer"
        )
        entries += linear(f"{ours}.around_cross_attention.norm", f"{name}.dec_layer_norm")
    return entries


def _decoding(settings: Settings) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Decoding defaults, and those that regard does not have."""
    take = settings.take
    settings.ignore(*OF_EVALUATION)
    alpha = take(float, "beam_alpha", take(float, "alpha", -1.0))
    length = take(int, "max_output_length", -1)
    others: dict[str, Any] = {"max_length_ratio": 1.5, "max_length_offset": 1}  # the end of a source counts
    if length > 0:
        others = {"max_new_tokens": length}
    for name, ours in (("min_output_length", "min_length"), ("n_best", "n_best")):
        if (value := take(int, name, 1)) > 1:
            others[ours] = value
    if (ngrams := take(int, "no_repeat_ngram_size", -1)) > 0:
        others["no_repeat_ngram_size"] = ngrams
    if (penalty := take(float, "repetition_penalty", -1.0)) > 0:
        others["repetition_penalty"] = penalty
    unused = () if take(bool, "generate_unk", True) else ("generate_unk = false",)
    beams = take(int, "beam_size", 1)
    settings.finish()
    return search_settings(beams, penalty="wu", alpha=max(0.0, alpha), **others), unused
