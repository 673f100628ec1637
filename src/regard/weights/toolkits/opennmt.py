"""OpenNMT-py 3 (Klein et al. 2017): a checkpoint `NAME.pt` with settings and vocabularies in it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.errors import FolderError
from regard.layers.feedforward import Activation
from regard.layers.norm import Norm
from regard.layers.positions import Layout
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.names import Entry, linear, renamed, same
from regard.weights.pickled import read_pickle, refuse_untrusted
from regard.weights.toolkits.decoding import search_settings
from regard.weights.toolkits.eole_vocabulary import read_tokenizers
from regard.weights.toolkits.settings import Settings
from regard.weights.toolkits.toolkit import Toolkit, ToolkitCheckpoint, checkpoint_file
from regard.weights.toolkits.torch_names import EmbeddingNames, attention, cross_attention, drop_sinusoids

STEPS = "*_step_*.pt"
EMBEDDING_MODULE = "embeddings.make_embedding"
TARGET = f"decoder.{EMBEDDING_MODULE}.emb_luts.0.weight"
EMBEDDINGS = EmbeddingNames(
    source=f"encoder.{EMBEDDING_MODULE}.emb_luts.0.weight",
    target=TARGET,
    output="generator.weight",
    shared=TARGET,
)
OUTPUT_BIAS = "generator.bias"
OLD_NAMES = [
    (r"\.layer_norm((_\d+)?)\.a_2$", r".layer_norm\1.weight"),
    (r"\.layer_norm((_\d+)?)\.b_2$", r".layer_norm\1.bias"),
    (r"^generator\.0\.", "generator."),
]
ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "gelu": "gelu", "silu": "swiglu", "gated-gelu": "geglu"}
NORMS: dict[str, Norm] = {"standard": "layer", "rms": "rms"}
LAYOUTS: dict[str, Layout] = {"SinusoidalInterleaved": "interleaved", "SinusoidalConcat": "fairseq"}
NEVER_TRUE = (
    "copy_attn", "coverage_attn", "parallel_residual", "multiquery", "lora_embedding", "reuse_copy_attn",
)  # fmt: skip
ZERO = ("relative_positions_buckets", "sliding_window", "num_experts", "n_src_feats", "num_kv")
NO_LIST = ("lora_layers", "quant_layers", "src_feats_defaults")
OF_OTHERS = (  # other types of models
    "aan_useffn", "bidir_edges", "bridge", "bridge_extra_node", "brnn", "cnn_kernel_width", "context_gate",
    "copy_attn_force", "copy_attn_type", "copy_loss_by_seqlength", "feat_merge", "feat_vec_exponent",
    "feat_vec_size", "global_attention", "global_attention_function", "input_feed", "n_edge_types", "n_node",
    "n_steps", "num_experts_per_tok", "rnn_type", "rotary_dim", "rotary_interleave", "rotary_theta",
    "shared_layer_norm", "src_ggnn_size", "state_dim", "w_bit", "group_size", "quant_type", "lora_alpha",
    "lora_dropout", "lora_rank", "alignment_heads", "alignment_layer", "full_context_alignment",
    "lambda_align", "lambda_coverage", "self_attn_type", "src_word_vec_size",
    "tgt_word_vec_size", "word_vec_size", "enc_hid_size", "dec_hid_size", "rnn_size", "enc_rnn_size",
    "dec_rnn_size", "layers",
)  # fmt: skip
OF_TRAINING = (
    "accum_count", "accum_steps", "adagrad_accumulator_init", "adam_beta1", "adam_beta2", "apex_opt_level",
    "attention_dropout", "average_decay", "average_every", "batch_size", "batch_size_multiple", "batch_type",
    "both_embeddings", "bucket_size", "bucket_size_increment", "bucket_size_init", "config", "data",
    "data_task", "data_type", "decay_method", "decay_steps", "decoder_start_token", "default_specials",
    "dropout", "dropout_steps", "dump_preds", "dump_samples", "dump_transforms", "early_stopping",
    "early_stopping_criteria", "embeddings_type", "exp", "exp_host", "freeze_decoder", "freeze_encoder",
    "freeze_word_vecs_dec", "freeze_word_vecs_enc", "gpu_backend", "gpu_ranks", "gpu_verbose_level",
    "keep_checkpoint", "label_smoothing", "learning_rate", "learning_rate_decay", "lm_prior_lambda",
    "lm_prior_model", "lm_prior_tau", "lambda_prior_lambda", "lambda_prior_tau", "log_file",
    "log_file_level", "loss_scale", "master_ip", "master_port", "max_grad_norm", "model_dtype", "n_sample",
    "normalization", "num_threads", "num_workers", "optim", "override_opts", "overwrite", "parallel_mode",
    "param_init", "param_init_glorot", "pre_word_vecs_dec", "pre_word_vecs_enc", "prefetch_factor",
    "report_every", "reset_optim", "save_checkpoint_steps", "save_config", "save_data", "save_format",
    "save_model", "scoring_debug", "seed", "share_vocab", "single_pass", "skip_empty_level",
    "src_embeddings", "src_seq_length", "src_seq_length_trunc", "src_vocab", "src_vocab_size",
    "src_words_min_frequency", "start_decay_steps", "tensorboard", "tensorboard_log_dir",
    "tensorboard_log_dir_dated", "tgt_embeddings", "tgt_file_prefix", "tgt_seq_length",
    "tgt_seq_length_trunc", "tgt_vocab", "tgt_vocab_size", "tgt_words_min_frequency", "timeout",
    "train_from", "train_steps", "truncated_decoder", "update_vocab", "use_ckpting", "valid_batch_size",
    "valid_metrics", "valid_steps", "verbose", "vocab_sample_queue_size", "vocab_size_multiple",
    "warmup_steps", "world_size", "zero_out_prompt_loss",
)  # fmt: skip
OF_TRANSFORMS = (  # of transforms that are refused where they are used
    "_all_transform", "avg_tok_max", "avg_tok_min", "doc_length", "fuzzy_corpus_ratio", "fuzzy_threshold",
    "fuzzy_token", "fuzzymatch_max_length", "fuzzymatch_min_length", "gpt2_pretok", "insert_ratio",
    "isolated_tag", "langid", "mapped_tokens", "mask_length", "mask_ratio", "max_context", "max_tags",
    "norm_numbers", "norm_quote_commas", "paired_etag", "paired_stag", "penn", "permute_sent_ratio",
    "poisson_lambda", "post_remove_control_chars", "pre_replace_unicode_punct", "random_ratio",
    "replace_length", "response_patterns", "reversible_tokenization", "rotate_ratio", "same_char",
    "same_word", "scripts_nok", "scripts_ok", "src_eq_tgt", "src_lang", "src_spacy_language_model",
    "src_term_stoken", "src_tgt_ratio", "switchout_temperature", "tags_corpus_ratio",
    "tags_dictionary_path", "term_corpus_ratio", "term_example_ratio", "term_source_delimiter",
    "termbase_path", "tgt_lang", "tgt_spacy_language_model", "tgt_term_etoken", "tgt_term_stoken",
    "tm_delimiter", "tm_path", "tokendrop_temperature", "tokenmask_temperature", "transform",
    "transforms", "upper_corpus_ratio",
)  # fmt: skip
OF_TEXTS = re.compile(r"(src|tgt)_(subword|onmttok|vocab_threshold|prefix|suffix|delimiter)\w*")  # read there


class OpenNMT(Toolkit):
    """OpenNMT-py's transformer with an encoder and a decoder."""

    name = "opennmt"
    title = "OpenNMT-py"

    def recognises(self, path: Path) -> bool:
        return path.suffix == ".pt" if path.is_file() else any(path.glob(STEPS))

    def read(self, path: Path, *, trust_pickle: bool) -> ToolkitCheckpoint:
        path = checkpoint_file(path, STEPS)
        refuse_untrusted(path, trust_pickle=trust_pickle)
        tensors, saved = read_pickle(path, "opennmt")
        where = str(path)
        opt, vocabularies = saved.get("opt"), saved.get("vocab")
        if not isinstance(opt, dict) or not isinstance(vocabularies, dict):
            raise FolderError(f"{where} has no opt and vocab of OpenNMT-py 3", "older versions are not read")
        source, target = read_tokenizers(path.parent, _transforms(opt), vocabularies, where=where)
        tensors = renamed(tensors, OLD_NAMES)
        settings = Settings(opt, where, "opt.")
        config = _config(settings, tensors, source.vocab_size, target.vocab_size, target.pad_id)
        settings.finish()
        return ToolkitCheckpoint(
            path=path,
            config=config,
            table=_table(config),
            tensors=_weights(tensors, config, path),
            source=source,
            target=target,
            # the defaults of `onmt_translate`: at most 1.25 times the tokens of the source, plus 5
            generation=search_settings(
                5, penalty="power", alpha=1.0, max_length_ratio=1.25, max_length_offset=5, max_length=250
            ),
        )


def _transforms(opt: Mapping[str, Any]) -> dict[str, Any]:
    """The transforms and their settings, in the form of eole's config.json."""
    names = opt.get("transforms") or []
    own = {
        name: value
        for name, value in opt.items()
        if re.match(r"(src|tgt)_(subword_(model|nbest|alpha|vocab)|vocab_threshold)$", name)
    }
    return {"transforms": names, "transforms_configs": dict.fromkeys(names, own)}


def _config(
    settings: Settings, tensors: Mapping[str, Tensor], src_size: int, tgt_size: int, pad_id: int
) -> EncoderDecoderConfig:
    take, must_be = settings.take, settings.must_be
    for name in ("encoder_type", "decoder_type"):
        must_be(name, "transformer", hint="of OpenNMT-py's models only transformer is supported")
    must_be("model_task", "seq2seq")
    must_be("model_type", "text")
    must_be("generator_function", "softmax")
    must_be("max_relative_positions", 0, hint="of its positions only sinusoidal ones are supported")
    for name in NEVER_TRUE:
        must_be(name, False)
    for name in ZERO:
        must_be(name, 0)
    for name in NO_LIST:
        must_be(name, [], "")
    must_be("position_encoding", True)
    settings.ignore(*OF_OTHERS, *OF_TRAINING, *OF_TRANSFORMS)
    settings.ignore(*(name for name in settings.table if OF_TEXTS.fullmatch(name)))
    biases = take(bool, "add_qkvbias", False)
    width = take(int, "hidden_size", take(int, "enc_rnn_size", 512))
    both = take(bool, "share_embeddings", False)
    output = take(bool, "share_decoder_embeddings", False)
    settings.ignore("add_ffnbias")  # OpenNMT-py looks at the weights, too
    return EncoderDecoderConfig(
        src_vocab_size=src_size,
        tgt_vocab_size=tgt_size,
        d_model=width,
        num_heads=take(int, "heads", 8),
        num_encoder_layers=take(int, "enc_layers", 2),
        num_decoder_layers=take(int, "dec_layers", 2),
        d_ff=take(int, "transformer_ff", 2048),
        activation=settings.choice(ACTIVATIONS, "pos_ffn_activation_fn", "relu"),
        norm=settings.choice(NORMS, "layer_norm", "standard"),
        norm_eps=take(float, "norm_eps", 1e-6),
        norm_position="pre",
        position_layout=settings.choice(LAYOUTS, "position_encoding_type", "SinusoidalInterleaved"),
        attention_bias="all" if biases else "none",
        feed_forward_bias="encoder.transformer.0.feed_forward.w_1.bias" in tensors,
        tied=("all" if output else "embeddings") if both else ("target" if output else "none"),
        output_bias=True,
        source_end=False,  # no end token follows a source
        pad_id=pad_id,
    )


def _weights(tensors: dict[str, Tensor], config: EncoderDecoderConfig, path: Path) -> dict[str, Tensor]:
    for side in ("encoder", "decoder"):
        drop_sinusoids(tensors, f"{side}.{EMBEDDING_MODULE}.pe.pe", path, layout=config.position_layout)
    EMBEDDINGS.drop_tied(tensors, config.tied, path)
    return tensors


def _table(config: EncoderDecoderConfig) -> list[Entry]:
    entries = [*EMBEDDINGS.entries(config.tied), same("output.bias", OUTPUT_BIAS)]
    for side, layers, count in (
        ("encoder", "transformer", config.num_encoder_layers),
        ("decoder", "transformer_layers", config.num_decoder_layers),
    ):
        for number in range(count):
            entries += _block(config, f"{side}.blocks.{number}", f"{side}.{layers}.{number}", side)
        entries += linear(f"{side}.norm", f"{side}.layer_norm", bias=config.norm == "layer")
    return entries


def _block(config: EncoderDecoderConfig, ours: str, name: str, side: str) -> list[Entry]:
    has_bias, biases = config.norm == "layer", config.attention_biases == "all"
    parts = ("linear_query", "linear_keys", "linear_values")

    def attends(theirs: str) -> tuple[list[str], str]:
        return [f"{name}.{theirs}.{part}" for part in parts], f"{name}.{theirs}.final_linear"

    def norm(around: str, theirs: str) -> list[Entry]:
        return linear(f"{ours}.{around}.norm", f"{name}.{theirs}", bias=has_bias)

    entries = [
        *attention(config, f"{ours}.self_attention", *attends("self_attn"), bias=biases, output_bias=biases),
        *norm("around_self_attention", "layer_norm" if side == "encoder" else "layer_norm_1"),
        *norm("around_feed_forward", "feed_forward.layer_norm"),
        *_feed_forward(config, f"{ours}.feed_forward", f"{name}.feed_forward"),
    ]
    if side == "decoder":
        found = attends("context_attn")
        entries += cross_attention(f"{ours}.cross_attention", *found, bias=biases, output_bias=biases)
        entries += norm("around_cross_attention", "layer_norm_2")
    return entries


def _feed_forward(config: EncoderDecoderConfig, ours: str, name: str) -> list[Entry]:
    bias = config.has_feed_forward_bias
    outer = linear(f"{ours}.outer", f"{name}.w_2", bias=bias)
    if config.activation not in ("swiglu", "geglu"):
        return [*linear(f"{ours}.inner", f"{name}.w_1", bias=bias), *outer]
    gated = [
        Entry(
            ours=f"{ours}.gate_inner.{part}",
            hf=(f"{name}.w_1.{part}", f"{name}.w_3.{part}"),
            widths=(config.d_ff, config.d_ff),
        )
        for part in (("weight", "bias") if bias else ("weight",))
    ]
    return [*gated, *outer]
