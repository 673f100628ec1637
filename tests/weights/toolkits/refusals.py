"""Settings of toolkits' checkpoints that regard refuses, and checkpoints that have them."""

import json
import shutil
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from tests.weights.toolkits.marian_files import DEFAULTS, write_model, write_words, yaml_text
from tests.weights.toolkits.peers import FIXTURES


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A value of a setting that is refused; the error has `named`, else the name of the setting."""

    name: str
    value: Any
    path: tuple[str, ...] = ()  # the tables that the setting is in
    named: str = ""
    old: str = ""  # of Sockeye, whose settings are replaced as texts

    def __str__(self) -> str:
        return ".".join((*self.path, self.name)) + f" = {self.value}"


def refusals(*path: str, **settings: Any) -> list[Refusal]:
    """Refusals of settings in one table, by their names."""
    return [Refusal(name=name, value=value, path=path) for name, value in settings.items()]


MARIAN = {
    "type": "s2s", "transformer-decoder-autoreg": "rnn", "transformer-ffn-activation": "gelu",
    "transformer-ffn-depth": 3, "transformer-decoder-dim-ffn": 4, "transformer-preprocess": "nd",
    "transformer-postprocess": "dhn", "transformer-postprocess-top": "n",
    "transformer-train-position-embeddings": True, "transformer-disable-position-embeddings": True,
    "transformer-attention-mask": "alibi", "transformer-no-projection": True,
    "transformer-tied-layers": [1, 1], "right-left": True, "input-types": ["sequence", "class"],
    "lemma-dim-emb": 4, "dim-vocabs": [12, 13], "output-omit-bias": True, "a-new-setting": 1,
}  # fmt: skip
JOEYNMT = [
    *refusals("model", "encoder", type="recurrent", alpha=0.9),
    *refusals("model", "decoder", activation="tanh"),
    Refusal(name="layer_norm", value="post", path=("model", "decoder"), named="norm_position"),
    Refusal(name="num_heads", value=4, path=("model", "decoder")),
    Refusal(name="embedding_dim", value=4, path=("model", "encoder", "embeddings")),
    Refusal(name="hidden_size", value=16, path=("model", "encoder"), named="embedding_dim"),
    *refusals("model", something=1),
    *refusals(task="S2T"),
    *refusals("data", "src", level="syllable"),
    *refusals("data", "src", "tokenizer_cfg", pretokenizer="moses"),
    *refusals("data", "special_symbols", lang_tags=["<de>"]),
    Refusal(name="pad_id", value=0, path=("data", "special_symbols"), named="special tokens"),
]
EOLE = [
    *refusals(
        "model", architecture="transformer_lm", mlp_activation_fn="quick_gelu", layer_norm="gemma-rms",
        parallel_residual=True, sliding_window=4, add_key_bias=False, num_experts=2,
        generator_function="sparsemax", relative_positions_buckets=8, a_new_setting=1,
    ),
    *refusals("model", "encoder", encoder_type="brnn", encoder_layer_style="postnorm"),
    Refusal(name="heads", value=4, path=("model", "encoder"), named="num_heads"),
    *refusals("model", "encoder", final_encoder_layer_norm=False),
    *refusals("model", "decoder", coverage_attn=True),
    *refusals("model", "embeddings", position_encoding_type="Alibi", embedding_layer_norm=True),
    Refusal(
        name="embeddings", value={"position_encoding_type": "Learned"}, path=("model",),
        named="n_positions is missing",
    ),
    *refusals(transforms=["onmt_tokenize"]),
    *refusals("transforms_configs", "bpe", src_vocab_threshold=50, a_new_setting=1),
]  # fmt: skip
FAIRSEQ = {
    "arch": "fconv", "task": "multilingual_translation", "activation_fn": "tanh",
    "adaptive_softmax_cutoff": "1000,2000", "cross_self_attention": True, "decoder_attention_heads": 4,
    "decoder_output_dim": 4, "encoder_learned_pos": True, "no_decoder_final_norm": True,
    "no_token_positional_embeddings": True, "pad": 0, "quant_noise_pq": 0.1, "a_new_setting": 1,
}  # fmt: skip
OPENNMT = {
    "encoder_type": "brnn", "model_task": "lm", "max_relative_positions": -1, "position_encoding": False,
    "relative_positions_buckets": 8, "num_experts": 2, "n_src_feats": 1, "coverage_attn": True,
    "parallel_residual": True, "copy_attn": True, "num_kv": 1, "sliding_window": 4,
    "lora_layers": ["linear_query"], "generator_function": "sparsemax", "pos_ffn_activation_fn": "tanh",
    "transforms": ["onmt_tokenize"], "src_vocab_threshold": 50, "a_new_setting": 1,
}  # fmt: skip
SOCKEYE = {  # the text in the file, and the one in its place
    "decoder_type": ("decoder_type: transformer", "decoder_type: ssru_transformer"),
    "lhuc": ("\nlhuc: false", "\nlhuc: true"),
    "use_lhuc": ("use_lhuc: false", "use_lhuc: true"),
    "neural_vocab_selection": ("neural_vocab_selection: null", "neural_vocab_selection: logit_max"),
    "num_source_factors": ("num_source_factors: 1", "num_source_factors: 2"),
    "postprocess_sequence": ("postprocess_sequence: dr", "postprocess_sequence: drn"),
    "block_prepended_cross_attention": ("cross_attention: false", "cross_attention: true"),
    "act_type": ("act_type: relu", "act_type: softrelu"),
    "positional_embedding_type": ("embedding_type: fixed", "embedding_type: none"),
    "weight_tying_type": ("weight_tying_type: src_trg_softmax", "weight_tying_type: src"),
    "a_new_setting": ("\nlhuc: false", "\nlhuc: false\na_new_setting: 1"),
}
REFUSED: Mapping[str, list[Refusal]] = {
    "marian": refusals(**MARIAN),
    "joeynmt": JOEYNMT,
    "eole": EOLE,
    "opennmt": [*refusals(**OPENNMT), Refusal(name="max_relative_positions", value=-2)],  # ALiBi
    "fairseq": refusals(**FAIRSEQ),
    "sockeye": [
        *(Refusal(name=name, old=old, value=new) for name, (old, new) in SOCKEYE.items()),
        Refusal(
            name="attention_heads", old="attention_heads: 2", value="attention_heads: 4", named="num_heads"
        ),
    ],
}


def marian_folder(folder: Path, settings: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Writes a checkpoint of Marian with its vocabularies; its weights."""
    arrays = write_model(folder, settings)
    rows = settings.get("dim-vocabs", [12, 12])
    if rows[0] == rows[1]:
        write_words(folder)
    else:
        write_words(folder, rows[0], "source.vocab.yml")
        write_words(folder, rows[1], "target.vocab.yml")
    return arrays


def _in_npz(refusal: Refusal, folder: Path) -> None:
    marian_folder(folder, {})
    with np.load(folder / "model.npz") as found:
        arrays = dict(found)
    assert arrays["special:model.yml"].tobytes().decode().rstrip("\0") == yaml_text(DEFAULTS)
    text = yaml_text({**DEFAULTS, refusal.name: refusal.value})
    arrays["special:model.yml"] = np.frombuffer(text.encode(), np.int8)
    np.savez(folder / "model.npz", **arrays)


def _in_table(table: dict[str, Any], refusal: Refusal) -> dict[str, Any]:
    place = table
    for name in refusal.path:
        place = place.setdefault(name, {})
    place[refusal.name] = refusal.value
    return table


def _in_yaml(refusal: Refusal, folder: Path) -> None:
    table = yaml.safe_load((folder / "config.yaml").read_text("utf-8"))
    (folder / "config.yaml").write_text(yaml.safe_dump(_in_table(table, refusal)), "utf-8")


def _in_json(refusal: Refusal, folder: Path) -> None:
    table = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(_in_table(table, refusal)), "utf-8")


def _in_pickle(part: str, file: str) -> Callable[[Refusal, Path], None]:
    def change(refusal: Refusal, folder: Path) -> None:
        with torch.serialization.safe_globals([Namespace]):
            state = torch.load(folder / file, weights_only=True)
        vars(state[part])[refusal.name] = refusal.value
        torch.save(state, folder / file)

    return change


def _in_text(refusal: Refusal, folder: Path) -> None:
    text = (folder / "config").read_text("utf-8")
    assert refusal.old in text
    (folder / "config").write_text(text.replace(refusal.old, refusal.value, 1), "utf-8")


CHANGES: Mapping[str, tuple[str, Callable[[Refusal, Path], None]]] = {  # a fixture, and how it is changed
    "joeynmt": ("words", _in_yaml),
    "eole": ("biases", _in_json),
    "opennmt": ("biases", _in_pickle("opt", "model_step_3.pt")),
    "fairseq": ("shared", _in_pickle("args", "model.pt")),
    "sockeye": ("shared", _in_text),
}


def changed(toolkit: str, refusal: Refusal, folder: Path) -> Path:
    """A checkpoint with a setting that is refused, in a new folder."""
    if toolkit == "marian":
        folder.mkdir()
        _in_npz(refusal, folder)
        return folder
    name, change = CHANGES[toolkit]
    shutil.copytree(FIXTURES / toolkit / name, folder)
    change(refusal, folder)
    return folder
