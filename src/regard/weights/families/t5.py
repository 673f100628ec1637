"""T5 (Raffel et al. 2020), version 1.1, and models tuned from it, such as Flan-T5."""

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.families.family import OTHER_HEADS, ConfigReader, ConvertedConfig, Family, widths
from regard.weights.names import Entry, linear, same, stacked_tensors

NETWORKS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "silu": "silu",
    "gated-gelu": "geglu_tanh",
    "gated-silu": "swiglu",
}


class T5(Family):
    """T5: pre-norm with RMS norms, no biases, unscaled attention scores, bucketed relative positions."""

    name = "t5"
    config = EncoderDecoderConfig
    special_tokens: ClassVar = {"pad": "<pad>", "unk": "<unk>", "eos": "</s>"}
    ties: ClassVar = {
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
        "lm_head.weight": "shared.weight",
    }
    buffers: ClassVar = (r"^decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight$",)

    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        take = settings.take
        settings.refuse_other_heads("T5ForConditionalGeneration", others=(*OTHER_HEADS, "EncoderModel"))
        settings.unused("n_positions", "output_past", "classifier_dropout")
        settings.unused("is_decoder")  # transformers sets it for each side
        tied_flag = take(bool, "tie_word_embeddings", default=True)
        scaled = take(bool, "scale_decoder_outputs", default=tied_flag)
        untied = "lm_head.weight" in names and not (tied_flag and scaled)
        network = take(str, "feed_forward_proj", default="relu")
        gated, word = network.startswith("gated-"), network.removeprefix("gated-")
        settings.must_be("is_gated_act", gated)  # transformers computes both, but lets a file have others
        settings.must_be("dense_act_fn", "gelu_new" if network == "gated-gelu" else word)
        vocab_size, num_layers = take(int, "vocab_size"), take(int, "num_layers")
        pad_id = settings.token("pad_token_id", vocab_size)
        start_id = settings.token("decoder_start_token_id", vocab_size)
        config = EncoderDecoderConfig(
            src_vocab_size=vocab_size,
            tgt_vocab_size=vocab_size,
            d_model=take(int, "d_model"),
            num_heads=take(int, "num_heads"),
            head_dim=take(int, "d_kv"),
            attention_scale=1.0,
            num_encoder_layers=num_layers,
            num_decoder_layers=take(int, "num_decoder_layers", default=num_layers),
            d_ff=take(int, "d_ff"),
            norm="rms",
            norm_eps=take(float, "layer_norm_epsilon", default=1e-6),
            norm_position="pre",
            activation=settings.choice(NETWORKS, "feed_forward_proj", default="relu"),  # type: ignore[arg-type]
            bias=False,
            positions="t5",
            position_buckets=take(int, "relative_attention_num_buckets", default=32),
            position_distance=take(int, "relative_attention_max_distance", default=128),
            scaled_embedding=False,
            scaled_output=scaled,
            tied="embeddings" if untied else "all",
            dropout=take(float, "dropout_rate", default=0.1),
            pad_id=pad_id or 0,
        )
        return ConvertedConfig(
            config=config,
            start_id=pad_id if start_id is None else start_id,
            pad_id=pad_id,
            eos_id=settings.token("eos_token_id", vocab_size),
        )

    def write(self, config: EncoderDecoderConfig, labels: Sequence[str]) -> dict[str, Any]:
        network = next((name for name, ours in NETWORKS.items() if ours == config.activation), "relu")
        return {
            "model_type": self.name,
            "architectures": ["T5ForConditionalGeneration"],
            "is_encoder_decoder": True,
            "vocab_size": config.src_vocab_size,
            "d_model": config.d_model,
            "num_heads": config.num_heads,
            "d_kv": config.d_head,
            "num_layers": config.num_encoder_layers,
            "num_decoder_layers": config.num_decoder_layers,
            "d_ff": config.d_ff,
            "layer_norm_epsilon": 1e-6 if config.norm_eps is None else config.norm_eps,
            "feed_forward_proj": network,
            "relative_attention_num_buckets": config.position_buckets,
            "relative_attention_max_distance": config.position_distance,
            "dropout_rate": config.dropout,
            "pad_token_id": config.pad_id,
            "decoder_start_token_id": config.pad_id,
            "tie_word_embeddings": config.scaled_output,  # transformers scales the output if it is true
        }

    def special_token_ids(
        self, config: EncoderDecoderConfig, special_tokens: dict[str, int]
    ) -> dict[str, Any]:
        return {
            "pad_token_id": special_tokens["pad_token_id"],
            "eos_token_id": special_tokens["eos_token_id"],
            "decoder_start_token_id": special_tokens["bos_token_id"],
        }

    def table(self, config: EncoderDecoderConfig) -> list[Entry]:
        bias = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        entries = [same("decoder.input.embedding.weight", "shared.weight")]
        if config.tied != "all":
            entries.append(same("output.weight", "lm_head.weight"))
        for side, count in (("encoder", config.num_encoder_layers), ("decoder", config.num_decoder_layers)):
            entries.append(same(f"{side}.position_bias.weight", f"{side}.{bias}"))
            entries += linear(f"{side}.norm", f"{side}.final_layer_norm", bias=False)
            for number in range(count):
                entries += _block(config, f"{side}.blocks.{number}", f"{side}.block.{number}.layer", side)
        return entries


def _block(config: EncoderDecoderConfig, ours: str, hf: str, side: str) -> list[Entry]:
    def plain(our_name: str, name: str) -> list[Entry]:
        return linear(f"{ours}.{our_name}", f"{hf}.{name}", bias=False)

    qkv = [f"{hf}.0.SelfAttention.{each}" for each in "qkv"]
    entries = [
        *stacked_tensors(f"{ours}.self_attention.query_key_value", qkv, widths(config), bias=False),
        *plain("self_attention.output", "0.SelfAttention.o"),
        *plain("around_self_attention.norm", "0.layer_norm"),
    ]
    last = 1
    if side == "decoder":
        last = 2
        for our_name, name in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "o")):
            entries += plain(f"cross_attention.{our_name}", f"1.EncDecAttention.{name}")
        entries += plain("around_cross_attention.norm", "1.layer_norm")
    network = f"{hf}.{last}.DenseReluDense"
    if config.activation in ("geglu_tanh", "swiglu"):
        gate = [f"{network}.wi_0", f"{network}.wi_1"]
        entries += stacked_tensors(
            f"{ours}.feed_forward.gate_inner", gate, (config.d_ff, config.d_ff), bias=False
        )
    else:
        entries += plain("feed_forward.inner", f"{last}.DenseReluDense.wi")
    entries += plain("feed_forward.outer", f"{last}.DenseReluDense.wo")
    return entries + plain("around_feed_forward.norm", f"{last}.layer_norm")
