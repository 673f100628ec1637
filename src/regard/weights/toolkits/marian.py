"""Marian (Junczys-Dowmunt et al. 2018): `model.npz`, with its YAML and SentencePiece vocabularies.

The numbers are those of marian-dev's transformer.h. transformers and CTranslate2 differ: the angles of
Marian's sinusoids are pos / 10000^(i/(d_model/2 - 1)), and the eps of its norms is 1e-6.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import FolderError
from regard.layers.block import NormPosition
from regard.layers.feedforward import Activation
from regard.models.encoder_decoder import EncoderDecoderConfig, Tied
from regard.weights.families.family import widths
from regard.weights.names import Entry, same
from regard.weights.toolkits.decoding import search_settings
from regard.weights.toolkits.marian_vocabulary import find_vocabularies, read_tokenizer
from regard.weights.toolkits.npz import read_npz
from regard.weights.toolkits.settings import Settings
from regard.weights.toolkits.toolkit import NEVER, Toolkit, ToolkitCheckpoint, with_row
from regard.weights.toolkits.torch_names import EmbeddingNames
from regard.weights.toolkits.yaml_file import as_table, parse_yaml, read_yaml_table

CONFIG = "special:model.yml"
ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "swish": "silu"}
OUTPUT = "decoder_ff_logit_out"
EMBEDDINGS = EmbeddingNames(
    source="encoder_Wemb", target="decoder_Wemb", output=f"{OUTPUT}_Wt", shared="Wemb"
)
STACKS = ("encoder", "decoder")
# settings of other types of models and of training
WITHOUT_EFFECT = (
    "version", "dim-rnn", "enc-type", "enc-cell", "enc-cell-depth", "dec-cell", "dec-cell-base-depth",
    "dec-cell-high-depth", "skip", "layer-normalization", "best-deep", "transformer-dim-aan",
    "transformer-aan-depth", "transformer-aan-activation", "transformer-aan-nogate",
    "transformer-guided-alignment-layer", "transformer-depth-scaling", "transformer-dropout",
    "transformer-dropout-attention", "transformer-dropout-ffn", "dropout-rnn", "dropout-src", "dropout-trg",
    "char-stride", "char-highway", "char-conv-filters-num", "char-conv-filters-widths", "bert-mask-symbol",
    "bert-sep-symbol", "bert-class-symbol", "bert-masking-fraction", "bert-train-type-embeddings",
    "bert-type-vocab-size", "separator-symbol", "transformer-rnn-projection", "ulr-query-vectors",
    "ulr-keys-vectors", "ulr-trainable-transformation", "ulr-dropout", "ulr-softmax-temperature",
    "comet-final-sigmoid", "comet-mix", "comet-mix-norm", "comet-dropout", "comet-mixup", "comet-mixup-reg",
    "comet-pooler-ffn", "comet-prepend-zero", "unk-symbol",
)  # fmt: skip


# operations after a layer (n: norm, a: residual) and after a stack -> where the norms are
NORMS: dict[tuple[str, str], NormPosition] = {("an", ""): "post", ("na", "n"): "reordered"}


class Marian(Toolkit):
    """Marian's transformer."""

    name = "marian"
    title = "Marian"

    def recognises(self, path: Path) -> bool:
        if path.is_file():
            return path.suffix == ".npz"
        return path.is_dir() and not (path / "config.json").exists() and any(path.glob("*.npz"))

    def read(self, path: Path, *, trust_pickle: bool) -> ToolkitCheckpoint:
        file = _model_file(path)
        arrays = read_npz(file)
        if CONFIG not in arrays:
            raise FolderError(f"{file} has no {CONFIG}", "is it a model of Marian?")
        written = arrays.pop(CONFIG).astype(np.uint8).tobytes().rstrip(b"\0")
        where = f"{file}, {CONFIG}"
        settings = Settings(as_table(parse_yaml(written, where), where), where)
        tensors = _tensors(arrays)
        tied = _tied(settings)
        source, target = EMBEDDINGS.of_sides(tied)
        _refuse_missing(tensors, file, source, target)
        rows = tensors[source].shape[0], tensors[target].shape[0]
        _refuse_contradictions(settings, tensors, rows)
        config = _config(settings, tied, rows)
        folder = file.parent
        decoder = _decoder_settings(folder, file)
        names = find_vocabularies(folder, decoder)
        generation, unused_decoding = _decoding(decoder)
        return ToolkitCheckpoint(
            path=file,
            config=config,
            table=_table(config),
            tensors=_with_start(tensors, config, source, target),
            source=read_tokenizer(folder, names[0], "source", rows[0], config.src_vocab_size),
            target=read_tokenizer(folder, names[1], "target", rows[1], config.tgt_vocab_size),
            generation=generation,
            unused_decoding=unused_decoding,
        )


def _model_file(path: Path) -> Path:
    if path.is_file():
        return path
    found = sorted(path.glob("*.npz"))
    if (path / "model.npz") in found or len(found) == 1:
        return path / "model.npz" if len(found) > 1 else found[0]
    names = ", ".join(each.name for each in found[:5])
    raise FolderError(f"{path} has {len(found)} models: {names}", "name one of these files")


def _tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """The weights; a bias or a gain, which Marian stores as a row, becomes a vector."""
    found = {name: array for name, array in arrays.items() if not name.startswith("special:")}
    for name, array in found.items():
        if array.dtype not in (np.float32, np.float16):
            raise FolderError(
                f"{name!r} is of type {array.dtype}, not floating point", "use the model that was trained"
            )
    tensors = {name: torch.from_numpy(np.array(array, np.float32)) for name, array in found.items()}
    return {
        name: tensor.reshape(-1) if tensor.ndim == 2 and tensor.shape[0] == 1 else tensor
        for name, tensor in tensors.items()
    }


def _tied(settings: Settings) -> Tied:
    """The value of regard's `tied`: which embeddings are one matrix."""
    take = settings.take
    everything = take(bool, "tied-embeddings-all", False)
    both_sides = take(bool, "tied-embeddings-src", False) or everything
    output = take(bool, "tied-embeddings", False) or everything
    if both_sides:
        return "all" if output else "embeddings"
    return "target" if output else "none"


def _refuse_missing(tensors: Mapping[str, Tensor], file: Path, *names: str) -> None:
    for name in names:
        if name not in tensors or tensors[name].ndim != 2:
            raise FolderError(f"{file} has no matrix {name!r}", f"{CONFIG} describes another model")


def _refuse_contradictions(settings: Settings, tensors: Mapping[str, Tensor], rows: tuple[int, int]) -> None:
    """Refuses weights that are not those which the settings describe, where their names do not show it."""
    sizes = settings.optional(list, "dim-vocabs") or []
    differ = any(str(size) not in ("0", str(count)) for size, count in zip(sizes, rows, strict=False))
    if len(sizes) not in (0, 2) or differ:
        raise settings.refusal("dim-vocabs", f"the embeddings have {rows[0]:,} and {rows[1]:,} rows")
    omitted = settings.take(bool, "output-omit-bias", False)
    if omitted == (f"{OUTPUT}_b" in tensors):
        raise settings.refusal("output-omit-bias", f"it contradicts the tensor {OUTPUT}_b")


def _config(settings: Settings, tied: Tied, rows: tuple[int, int]) -> EncoderDecoderConfig:
    take, must_be = settings.take, settings.must_be
    must_be("type", "transformer", hint="of Marian's models only type = transformer is supported")
    must_be(
        "transformer-decoder-autoreg",
        "self-attention",
        hint="SSRU (rnn) and average attention are not self-attention: train a model with self-attention",
    )
    for name in ("right-left", "ulr", "transformer-no-projection", "transformer-pool", "transformer-no-bias",
                 "transformer-no-affine", "transformer-train-position-embeddings",
                 "transformer-train-positions", "transformer-disable-position-embeddings",
                 "transformer-alibi-shift", "transformer-alibi-trainable", "char-s2s"):  # fmt: skip
        must_be(name, False)
    must_be("transformer-attention-mask", "default", "")
    must_be("transformer-ffn-depth", 2)
    must_be("transformer-decoder-ffn-depth", 0, 2)
    d_ff = take(int, "transformer-dim-ffn", 2048)
    must_be("transformer-decoder-dim-ffn", 0, d_ff)
    for name in ("lemma-dim-emb", "factors-dim-emb", "ulr-dim-emb"):
        must_be(name, 0)
    for name in ("lemma-dependency", "special-vocab", "transformer-tied-layers", "output-approx-knn"):
        must_be(name, "", [])
    must_be("factors-combine", "sum")
    if any(kind != "sequence" for kind in settings.optional(list, "input-types") or ()):
        raise settings.refusal("input-types", "only texts are read")
    settings.ignore(*WITHOUT_EFFECT)
    tgt_vocab_size = rows[1] + 1  # the decoder begins with a vector of zeros, which Marian has no token for
    config = EncoderDecoderConfig(
        src_vocab_size=max(rows[0] + 1, tgt_vocab_size),
        tgt_vocab_size=tgt_vocab_size,
        d_model=take(int, "dim-emb", 512),
        num_heads=take(int, "transformer-heads", 8),
        num_encoder_layers=take(int, "enc-depth", 1),
        num_decoder_layers=take(int, "dec-depth", 1),
        d_ff=d_ff,
        activation=settings.choice(ACTIVATIONS, "transformer-ffn-activation", "swish"),
        position_layout="fairseq",
        norm_position=_norms(settings),
        norm_eps=1e-6,
        embedding_norm="n" in _operations(settings, "transformer-postprocess-emb", "d", "dn"),
        tied=tied,
        output_bias=True,
        pad_id=rows[1],
        **_dropout(settings),
    )
    settings.finish()
    return config


def _dropout(settings: Settings) -> dict[str, Any]:
    names = {"dropout": "", "attention_dropout": "-attention", "activation_dropout": "-ffn"}
    return {ours: settings.take(float, f"transformer-dropout{suffix}", 0.0) for ours, suffix in names.items()}


def _norms(settings: Settings) -> NormPosition:
    settings.must_be(
        "transformer-preprocess",
        "",
        "d",
        hint="pre-norm depends on Marian's version, and differs between its training and its decoding: its"
        " self-attention does not always normalise keys and values",
    )
    after = _operations(settings, "transformer-postprocess", "dan", "dan")
    top = _operations(settings, "transformer-postprocess-top", "", "dn")
    if (after, top) not in NORMS:
        raise FolderError(
            f"{settings.where}: transformer-postprocess = {after!r} is not supported with"
            f" transformer-postprocess-top = {top!r}",
            "dan with nothing at the top, and dna with n, are",
        )
    return NORMS[after, top]


def _operations(settings: Settings, name: str, default: str, known: str) -> str:
    """The operations of a setting, without dropout."""
    found = settings.take(str, name, default)
    if unknown := set(found) - set(known):
        names = {"h": "a highway", "r": "an RMS norm", "a": "a residual connection", "s": "a sublayer's"}
        unknown_name = names.get(min(unknown), repr(min(unknown)))
        raise settings.refusal(name, f"{unknown_name} is not supported here; {', '.join(known)} are")
    return found.replace("d", "")


def _with_start(
    tensors: Mapping[str, Tensor], config: EncoderDecoderConfig, source: str, target: str
) -> dict[str, Tensor]:
    """The weights with a token more, of zeros, with which the decoder begins and which is never output."""
    found = dict(tensors)
    for name in dict.fromkeys((target, source)):
        size = config.tgt_vocab_size if name == target else config.src_vocab_size
        while found[name].shape[0] < size:
            found[name] = with_row(found[name])
    if f"{OUTPUT}_W" in found:
        found[f"{OUTPUT}_Wt"] = found.pop(f"{OUTPUT}_W").T.contiguous()
    if f"{OUTPUT}_Wt" in found:
        found[f"{OUTPUT}_Wt"] = with_row(found[f"{OUTPUT}_Wt"])
    bias = found.get(f"{OUTPUT}_b", torch.zeros(config.tgt_vocab_size - 1))
    found[f"{OUTPUT}_b"] = with_row(bias, NEVER)
    return found


def _table(config: EncoderDecoderConfig) -> list[Entry]:
    entries = [*EMBEDDINGS.entries(config.tied), same("output.bias", f"{OUTPUT}_b")]
    for side, count in (("encoder", config.num_encoder_layers), ("decoder", config.num_decoder_layers)):
        for number in range(count):
            entries += _block(config, f"{side}.blocks.{number}", f"{side}_l{number + 1}", side)
        if config.norm_position != "post":
            entries += _norm(f"{side}.norm", f"{side}_top_ln", "")
        if config.embedding_norm:
            entries += _norm(f"{side}.input.norm", f"{side}_emb_ln", "_pre")
    return entries


def _block(config: EncoderDecoderConfig, ours: str, name: str, side: str) -> list[Entry]:
    parts = ("q", "k", "v")
    attention = f"{ours}.self_attention"
    entries = [
        Entry(
            ours=f"{attention}.query_key_value.weight",
            hf=tuple(f"{name}_self_W{part}" for part in parts),
            widths=widths(config),
            transposed=True,
        ),
        Entry(
            ours=f"{attention}.query_key_value.bias",
            hf=tuple(f"{name}_self_b{part}" for part in parts),
            widths=widths(config),
        ),
        *_linear(f"{attention}.output", f"{name}_self", "o"),
        *_norm(f"{ours}.around_self_attention.norm", f"{name}_self_Wo_ln", ""),
        *_linear(f"{ours}.feed_forward.inner", f"{name}_ffn", "1"),
        *_linear(f"{ours}.feed_forward.outer", f"{name}_ffn", "2"),
        *_norm(f"{ours}.around_feed_forward.norm", f"{name}_ffn_ffn_ln", ""),
    ]
    if side == "decoder":
        for part, letter in {"query": "q", "key": "k", "value": "v", "output": "o"}.items():
            entries += _linear(f"{ours}.cross_attention.{part}", f"{name}_context", letter)
        entries += _norm(f"{ours}.around_cross_attention.norm", f"{name}_context_Wo_ln", "")
    return entries


def _linear(ours: str, name: str, part: str) -> list[Entry]:
    return [
        same(f"{ours}.weight", f"{name}_W{part}", transposed=True),
        same(f"{ours}.bias", f"{name}_b{part}"),
    ]


def _norm(ours: str, name: str, suffix: str) -> list[Entry]:
    return [same(f"{ours}.weight", f"{name}_scale{suffix}"), same(f"{ours}.bias", f"{name}_bias{suffix}")]


def _decoder_settings(folder: Path, file: Path) -> dict[str, Any]:
    """The settings of the decoder that are beside a model; none if there is no such file."""
    for name in (f"{file.name}.decoder.yml", "decoder.yml", "config.yml"):
        if (folder / name).is_file():
            return read_yaml_table(folder / name)
    return {}


def _decoding(decoder: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Decoding defaults, and those that regard does not have."""
    settings = Settings(decoder, "decoder.yml")
    factor = settings.take(float, "max-length-factor", 3.0)
    normalize = settings.take(float, "normalize", 0.0)
    generation = search_settings(
        settings.take(int, "beam-size", 12),
        penalty="power",
        alpha=normalize,
        max_length_ratio=factor,
        max_length_offset=max(1, round(factor)),  # the end of a source counts in Marian
    )
    unused: Sequence[str] = ()
    if penalty := settings.take(float, "word-penalty", 0.0):
        unused = (*unused, f"word-penalty = {penalty}")
    if not settings.take(bool, "allow-unk", False):
        unused = (*unused, "allow-unk = false")
    return generation, tuple(unused)
