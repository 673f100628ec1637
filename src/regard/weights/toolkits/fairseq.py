"""fairseq (Ott et al. 2019): `model.pt` of a `transformer`, with the dictionaries of both languages."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.errors import FolderError
from regard.layers.feedforward import Activation
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.names import Entry, linear, renamed, same
from regard.weights.pickled import read_pickle, refuse_untrusted
from regard.weights.toolkits.decoding import search_settings
from regard.weights.toolkits.fairseq_dictionary import EOS, PAD, UNK, read_tokenizers
from regard.weights.toolkits.fairseq_settings import MODEL_UNUSED, OF_TRAINING
from regard.weights.toolkits.settings import Settings
from regard.weights.toolkits.toolkit import Toolkit, ToolkitCheckpoint, checkpoint_file
from regard.weights.toolkits.torch_names import HINT, EmbeddingNames, attention, cross_attention

CHECKPOINTS = ("model.pt", "checkpoint_best.pt", "checkpoint_last.pt")
SIDES = ("encoder", "decoder")
ARCHITECTURES = (
    "transformer", "transformer_iwslt_de_en", "transformer_wmt_en_de", "transformer_wmt_en_de_big",
    "transformer_wmt_en_de_big_t2t", "transformer_vaswani_wmt_en_de_big", "transformer_vaswani_wmt_en_fr_big",
    "transformer_tiny",
)  # fmt: skip
ACTIVATIONS: dict[str, Activation] = {  # swish, which fairseq names too, ends in an error there
    "relu": "relu", "gelu": "gelu", "gelu_accurate": "gelu_tanh", "gelu_fast": "gelu_tanh",
}  # fmt: skip
NEVER_TRUE = (
    "adaptive_input", "no_cross_attention", "cross_self_attention", "tie_adaptive_weights", "char_inputs",
    "no_decoder_final_norm", "no_token_positional_embeddings", "merge_src_tgt_embed", "prepend_bos",
)  # fmt: skip
NEVER_SET = (
    "adaptive_softmax_cutoff", "encoder_layers_to_keep", "decoder_layers_to_keep", "xformers_att_config",
    "encoder_xformers_att_config", "decoder_xformers_att_config",
)  # fmt: skip
TARGET, OUTPUT = "decoder.embed_tokens.weight", "decoder.output_projection.weight"
EMBEDDINGS = EmbeddingNames(source="encoder.embed_tokens.weight", target=TARGET, output=OUTPUT, shared=TARGET)
OLD_NAMES = [
    *((rf"\.layer_norms\.{number}\.", f".{name}.") for number, name in
      (("0", "self_attn_layer_norm"), ("2", "final_layer_norm"))),
    (r"^(encoder\..*)\.layer_norms\.1\.", r"\1.final_layer_norm."),
    (r"^(decoder\..*)\.layer_norms\.1\.", r"\1.encoder_attn_layer_norm."),
    (r"^decoder\.embed_out$", OUTPUT),
]  # fmt: skip
FIXED = (
    r"^(encoder|decoder)\.embed_positions\.(weights|_float_tensor)$",
    r"^(encoder|decoder)\.version$",
    # copies for PyTorch's fused layer, which fairseq computes again from the others
    r"^encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)$",
)


class Fairseq(Toolkit):
    """fairseq's transformer."""

    name = "fairseq"
    title = "fairseq"

    def recognises(self, path: Path) -> bool:
        folder = path.parent if path.is_file() else path
        has_checkpoint = path.suffix == ".pt" if path.is_file() else any(path.glob("*.pt"))
        return has_checkpoint and any(folder.glob("dict.*.txt"))

    def read(self, path: Path, *, trust_pickle: bool) -> ToolkitCheckpoint:
        file = checkpoint_file(path, "*.pt", CHECKPOINTS)
        refuse_untrusted(file, trust_pickle=trust_pickle)
        tensors, saved = read_pickle(file, "fairseq")
        settings = Settings(_arguments(saved, file), str(file))
        languages = settings.optional(str, "source_lang"), settings.optional(str, "target_lang")
        source, target = read_tokenizers(file.parent, *languages)
        tensors = _tensors(tensors, file)
        config = _config(settings, source.vocab_size, target.vocab_size)
        generation, unused = _decoding(saved)
        tokenizer = settings.optional(str, "tokenizer")
        if tokenizer not in (None, "space", "None"):
            unused = (*unused, f"tokenizer = {tokenizer} (give texts that it has tokenised)")
        settings.finish()
        EMBEDDINGS.drop_tied(tensors, config.tied, file)
        return ToolkitCheckpoint(
            path=file,
            config=config,
            table=_table(config),
            tensors=tensors,
            source=source,
            target=target,
            generation=generation,
            unused_decoding=unused,
        )


def _arguments(saved: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """The settings of the model: `args`, or in fairseq 0.11 and later the part `model` of `cfg`.

    The settings of the two languages are in the part `task` there.
    """
    if isinstance(saved.get("args"), dict):
        return saved["args"]
    cfg = saved.get("cfg")
    if not isinstance(cfg, dict) or not isinstance(cfg.get("model"), dict):
        raise FolderError(f"{file} has no args and no cfg", "is it a model of fairseq?")
    part = cfg.get("task")
    task = part if isinstance(part, dict) else {}
    languages = {name: task[name] for name in ("source_lang", "target_lang") if name in task}
    model = dict(cfg["model"])
    for side in (*SIDES, "quant_noise"):  # tables since 0.12
        if isinstance(part := model.get(side), dict):
            del model[side]
            model |= {f"{side}_{name}": value for name, value in part.items()}
    if "arch" not in model:
        model["arch"] = model.get("_name")
    return {**languages, **model}


def _tensors(tensors: Mapping[str, Tensor], file: Path) -> dict[str, Tensor]:
    """The weights by the names of fairseq 0.10 and later, without positions that are computed."""
    for side in SIDES:
        version = tensors.get(f"{side}.version")
        if version is None or f"{side}.layer_norm.weight" not in tensors:
            continue
        if version.numel() != 1 or version.item() < 3:
            raise FolderError(
                f"{file}: {side}.version = {version.tolist()} is not supported",
                "its pre-norm layers have no norm after them",
            )
    found: dict[str, Tensor] = {}
    for name, tensor in renamed(tensors, OLD_NAMES).items():
        if any(re.search(pattern, name) for pattern in FIXED):
            continue
        if match := re.fullmatch(r"(.*attn)\.in_proj_(weight|bias)", name):
            if tensor.ndim == 0 or len(tensor) % 3:
                raise FolderError(f"{file}: {name!r} {list(tensor.shape)} is not three tensors", HINT)
            for part, rows in zip("qkv", tensor.chunk(3), strict=True):
                found[f"{match[1]}.{part}_proj.{match[2]}"] = rows.contiguous()
        else:
            found[name] = tensor
    return found


def _config(settings: Settings, src_size: int, tgt_size: int) -> EncoderDecoderConfig:
    take, must_be = settings.take, settings.must_be
    must_be("arch", *ARCHITECTURES, hint=f"of fairseq's models {', '.join(ARCHITECTURES)} are supported")
    must_be("task", "translation", hint="only models of the task translation are supported")
    for name in NEVER_TRUE:
        must_be(name, False)
    for name in NEVER_SET:
        must_be(name)
    for name in ("encoder_langtok", "decoder_langtok", "langs", "lang_pairs"):
        must_be(name, [], "")
    for name, number in (("pad", PAD), ("eos", EOS), ("unk", UNK), ("base_layers", 0), ("quant_noise_pq", 0)):
        must_be(name, number)
    settings.ignore(*OF_TRAINING, *MODEL_UNUSED)
    width = _both(settings, int, "embed_dim", 512)
    for name in ("decoder_input_dim", "decoder_output_dim"):
        if take(str, name, "").startswith("${"):  # a reference to decoder.embed_dim
            continue
        must_be(name, width)
    learned = _both(settings, bool, "learned_pos", False)
    limits = take(int, "max_source_positions", 1024), take(int, "max_target_positions", 1024)
    if learned and limits[0] != limits[1]:
        raise settings.refusal("max_target_positions", f"learned positions of both sides need {limits[0]}")
    everything = take(bool, "share_all_embeddings", False)
    output = take(bool, "share_decoder_input_output_embed", False)
    activation_dropout = take(float, "activation_dropout", 0.0) or take(float, "relu_dropout", 0.0)
    settings.ignore("relu_dropout")
    return EncoderDecoderConfig(
        src_vocab_size=src_size,
        tgt_vocab_size=tgt_size,
        d_model=width,
        num_heads=_both(settings, int, "attention_heads", 8),
        num_encoder_layers=take(int, "encoder_layers", 6),
        num_decoder_layers=take(int, "decoder_layers", 6),
        d_ff=_both(settings, int, "ffn_embed_dim", 2048),
        activation=settings.choice(ACTIVATIONS, "activation_fn", "relu"),
        norm_position="pre" if _both(settings, bool, "normalize_before", False) else "post",
        positions="learned" if learned else "sinusoidal",
        position_layout="fairseq",
        position_offset=PAD + 1,
        max_positions=limits[0],
        scaled_embedding=not take(bool, "no_scale_embedding", False),
        embedding_norm=take(bool, "layernorm_embedding", False),
        tied="all" if everything else "target" if output else "none",
        dropout=take(float, "dropout", 0.1),
        attention_dropout=take(float, "attention_dropout", 0.0),
        activation_dropout=activation_dropout,
        pad_id=PAD,
    )


def _both(settings: Settings, kind: type, name: str, default: Any) -> Any:
    """A setting that must be equal on both sides."""
    encoder, decoder = (settings.take(kind, f"{side}_{name}", default) for side in SIDES)
    if encoder != decoder:
        raise FolderError(
            f"{settings.where}: encoder_{name} = {encoder}, decoder_{name} = {decoder}",
            "only models with equal settings on both sides are supported",
        )
    return encoder


def _table(config: EncoderDecoderConfig) -> list[Entry]:
    entries = EMBEDDINGS.entries(config.tied)
    for side, count in (("encoder", config.num_encoder_layers), ("decoder", config.num_decoder_layers)):
        for number in range(count):
            entries += _block(config, f"{side}.blocks.{number}", f"{side}.layers.{number}", side)
        if config.norm_position == "pre":
            entries += linear(f"{side}.norm", f"{side}.layer_norm")
        if config.embedding_norm:
            entries += linear(f"{side}.input.norm", f"{side}.layernorm_embedding")
        if config.positions == "learned":
            entries.append(same(f"{side}.input.positions.weight", f"{side}.embed_positions.weight"))
    return entries


def _block(config: EncoderDecoderConfig, ours: str, name: str, side: str) -> list[Entry]:
    entries = [
        *attention(
            config,
            f"{ours}.self_attention",
            [f"{name}.self_attn.{part}_proj" for part in "qkv"],
            f"{name}.self_attn.out_proj",
        ),
        *linear(f"{ours}.around_self_attention.norm", f"{name}.self_attn_layer_norm"),
        *linear(f"{ours}.feed_forward.inner", f"{name}.fc1"),
        *linear(f"{ours}.feed_forward.outer", f"{name}.fc2"),
        *linear(f"{ours}.around_feed_forward.norm", f"{name}.final_layer_norm"),
    ]
    if side == "decoder":
        entries += cross_attention(
            f"{ours}.cross_attention",
            [f"{name}.encoder_attn.{part}_proj" for part in "qkv"],
            f"{name}.encoder_attn.out_proj",
        )
        entries += linear(f"{ours}.around_cross_attention.norm", f"{name}.encoder_attn_layer_norm")
    return entries


def _decoding(saved: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The defaults of `fairseq-generate`, changed by the part `generation` of `cfg`."""
    cfg = saved.get("cfg")
    table = cfg.get("generation") if isinstance(cfg, dict) else None
    settings = Settings(table if isinstance(table, dict) else {}, "generation")
    take = settings.take
    alpha = 0.0 if take(bool, "unnormalized", False) else take(float, "lenpen", 1.0)
    others: dict[str, Any] = {"min_length": take(int, "min_len", 1)}
    if ngrams := take(int, "no_repeat_ngram_size", 0):
        others["no_repeat_ngram_size"] = ngrams
    penalty = take(float, "unkpen", 0.0)
    found = search_settings(
        take(int, "beam", 5),
        penalty="power",
        alpha=alpha,
        early_stopping=True,
        max_length_ratio=take(float, "max_len_a", 0.0),
        max_length_offset=take(int, "max_len_b", 200),
        **others,
    )
    return found, (f"unkpen = {penalty:g}",) if penalty else ()
