"""What other toolkits call regard's settings, so that the hint of an unknown one can name ours.

From the documentation of fairseq, OpenNMT-py, eole, JoeyNMT, Marian, Sockeye, Hugging Face Transformers and
PEFT, nanoGPT and subword-nmt. docs/do/coming-from-toolkits.md shows the usual ones by toolkit.
"""

from collections.abc import Iterable

PEER_NAMES = {  # a key of recipes, and its names elsewhere
    "model.d_model": (
        "hidden_size hidden_dim embed_dim embedding_dim emb_size dim_emb n_embd d_embed word_vec_size "
        "encoder_embed_dim decoder_embed_dim transformer_model_size model_dim dim"
    ),
    "model.d_ff": (
        "ff_size ff_dim ffn_dim ffn_size transformer_ff intermediate_size dim_feedforward "
        "encoder_ffn_embed_dim decoder_ffn_embed_dim transformer_dim_ffn "
        "transformer_feed_forward_num_hidden n_inner"
    ),
    "model.num_heads": (
        "heads nhead n_head n_heads num_attention_heads attention_heads transformer_heads "
        "encoder_attention_heads decoder_attention_heads transformer_attention_heads"
    ),
    "model.num_layers": "layers n_layer n_layers num_hidden_layers depth",
    "model.num_encoder_layers": "layers n_layer n_layers enc_layers encoder_layers enc_depth num_layers",
    "model.num_decoder_layers": "layers n_layer n_layers dec_layers decoder_layers dec_depth num_layers",
    "model.norm_position": (
        "layer_norm pre_norm prenorm normalize_before norm_first encoder_normalize_before "
        "decoder_normalize_before transformer_preprocess transformer_postprocess"
    ),
    "model.tied": (
        "tied_embeddings tied_embeddings_all tied_softmax tie_embeddings tie_word_embeddings weight_tying "
        "weight_tying_type share_embeddings share_decoder_embeddings share_all_embeddings trg_softmax "
        "share_decoder_input_output_embed"
    ),
    "model.activation": (
        "activation_fn activation_function hidden_act ffn_activation pos_ffn_activation_fn "
        "transformer_ffn_activation transformer_activation_type"
    ),
    "model.positions": (
        "position_encoding positional_encoding pos_encoding pos_emb position_embedding_type rope rotary "
        "alibi max_relative_positions transformer_positional_embedding_type"
    ),
    "model.dropout": (
        "dropout_rate hidden_dropout hidden_dropout_prob resid_pdrop transformer_dropout "
        "transformer_dropout_prepost"
    ),
    "model.attention_dropout": (
        "attn_dropout attn_pdrop attention_probs_dropout_prob transformer_dropout_attention"
    ),
    "model.activation_dropout": "relu_dropout ffn_dropout transformer_dropout_ffn transformer_dropout_act",
    "model.init": (
        "pretrained from_pretrained pretrained_model model_name_or_path load_model train_from "
        "finetune_from_model restore_file init_from pretrained_model_name_or_path"
    ),
    "batches.batch_tokens": (
        "batch_size train_batch_size per_device_train_batch_size mini_batch_words tokens_per_batch "
        "batch_type max_tokens_per_batch max_tokens"
    ),
    "batches.batch_examples": "max_sentences batch_sentences mini_batch per_device_train_batch_size",
    "batches.window": "bucket_size maxi_batch",
    "batches.max_tokens": (
        "max_length max_len max_seq_len max_seq_length max_sent_length src_seq_length max_source_length "
        "max_source_positions max_target_positions model_max_length"
    ),
    "tokenizer.kind": "tokenizer_type level bpe_type transforms",
    "tokenizer.vocab_size": (
        "vocab num_words dim_vocabs voc_limit src_vocab_size tgt_vocab_size num_merges merges bpe_size "
        "bpe_operations num_operations"
    ),
    "tokenizer.joint": "share_vocab shared_vocab shared_vocabulary joined_dictionary joint_vocab joint_bpe",
    "tokenizer.dropout": "bpe_dropout",
    "tokenizer.lowercase": "lower do_lower_case lowercasing uncased",
    "training.max_steps": (
        "epochs max_epoch max_epochs num_epochs num_train_epochs max_update max_updates updates "
        "train_steps num_steps total_steps max_iters iterations steps n_steps total_num_update after"
    ),
    "training.precision": "fp16 bf16 amp mixed_precision half_precision autocast",
    "training.recompute_activations": (
        "gradient_checkpointing checkpoint_activations activation_checkpointing use_ckpting"
    ),
    "training.validate_every": (
        "eval_steps eval_every eval_interval valid_steps valid_freq validation_freq validate_interval "
        "validate_interval_updates checkpoint_interval"
    ),
    "training.save_every": (
        "save_steps save_freq save_interval save_interval_updates save_checkpoint_steps checkpoint_every"
    ),
    "training.report_every": "logging_steps logging_freq log_interval log_every disp_freq",
    "training.keep": (
        "save_total_limit keep_last keep_last_n keep_last_epochs keep_last_params keep_checkpoint "
        "keep_checkpoints keep_best_ckpts keep_interval_updates"
    ),
    "training.accumulate": (
        "update_freq accum_count batch_multiplier optimizer_delay update_interval grad_accum "
        "gradient_accumulation gradient_accumulation_steps accumulate_grad_batches"
    ),
    "training.clip_norm": (
        "max_grad_norm clip_grad_norm clip_grad grad_clip grad_clip_norm gradient_clip_val "
        "gradient_clipping gradient_clipping_threshold"
    ),
    "training.patience": (
        "early_stopping early_stopping_patience early_stop max_num_checkpoint_not_improved"
    ),
    "training.best_metric": (
        "metric_for_best_model early_stopping_metric best_checkpoint_metric optimized_metric "
        "valid_metrics eval_metric early_stop_metric"
    ),
    "training.moving_average": "ema ema_decay average_decay exponential_smoothing",
    "training.average_last": "average_checkpoints num_checkpoints_to_average",
    "training.label_smoothing": "label_smoothing_factor smoothing",
    "training.loss": "criterion loss_type loss_function",
    "training.adapter": "lora peft lora_config peft_config",
    "training.adapter.rank": "lora_r lora_rank r",
    "training.adapter.alpha": "lora_alpha",
    "training.adapter.targets": "target_modules lora_target_modules",
    "training.adapter.dropout": "lora_dropout",
    "training.schedule.learning_rate": "lr learn_rate base_lr max_lr initial_learning_rate",
    "training.schedule.warmup_steps": (
        "warmup_updates warmup_iters num_warmup_steps lr_warmup learning_rate_warmup "
        "learning_rate_warmup_steps"
    ),
    "training.schedule.warmup": "warmup_ratio",
    "training.schedule.kind": (
        "lr_scheduler lr_scheduler_type scheduler scheduling decay_method lr_decay lr_decay_inv_sqrt "
        "learning_rate_scheduler_type"
    ),
    "training.optimizer.kind": "optim optimizer_type optimizer_name",
    "training.optimizer.weight_decay": "l2 adamw_weight_decay",
    "training.optimizer.beta1": "adam_beta1 adam_betas optimizer_betas optimizer_params",
    "training.optimizer.beta2": "adam_beta2 adam_betas optimizer_betas optimizer_params",
    "training.optimizer.epsilon": "eps adam_eps adam_epsilon",
    "decoding.beam_size": "beam beams num_beams beam_width",
    "decoding.alpha": "lenpen beam_alpha normalize length_penalty_alpha",
    "decoding.n_best": "nbest nbest_size num_return_sequences",
    "decoding.sample": "do_sample sampling output_sampling",
    "decoding.top_k": "sampling_topk random_sampling_topk",
    "decoding.top_p": "sampling_topp random_sampling_topp",
    "decoding.temperature": "random_sampling_temp",
    "decoding.ban": "bad_words",
    "decoding.ban_ids": "bad_words_ids suppress_tokens",
    "decoding.no_repeat_ngram_size": "no_repeat_ngram block_ngram_repeat",
    "decoding.max_new_tokens": "max_length max_len max_decode_length max_output_length max_tokens",
    "decoding.stop": "stop_strings stop_words stop_sequences",
}
PEER_VALUES = {  # names that are not keys of recipes, and what they are elsewhere
    "rotary": "rope rotary_embedding",
    "silu": "swish",
    "num": "num_return_sequences n_best nbest",
}
_OURS: dict[str, list[str]] = {}
for _key, _names in PEER_NAMES.items():
    for _name in _names.split():
        _OURS.setdefault(_name, []).append(_key)
for _key in PEER_NAMES:
    _OURS.setdefault(_key.rpartition(".")[2], []).append(_key)
UNITS = {  # of keys whose peers often count in others: epochs, sentences, merges
    "max_steps": "updates",
    "batch_tokens": "tokens",
    "vocab_size": "tokens",
}


def keys_called(name: str) -> list[str]:
    """The dotted recipe keys that regard or another toolkit calls so, by a key or option: `--num-beams`."""
    return _OURS.get(_normal(name), [])


def called_so(name: str, known: Iterable[str]) -> list[str]:
    """The names in `known` (keys without their section, values) that another toolkit calls `name`."""
    leaves = {key.rpartition(".")[2] for key in keys_called(name)}
    leaves |= {ours for ours, names in PEER_VALUES.items() if _normal(name) in names.split()}
    return [each for each in known if _normal(each) in leaves]


def _normal(name: str) -> str:
    return name.lstrip("-").replace("-", "_").lower()


def with_unit(key: str) -> str:
    """A quoted key or option, with its unit if other toolkits count in another one."""
    unit = UNITS.get(_normal(key).rpartition(".")[2])
    return f"{key!r} (in {unit})" if unit else repr(key)
