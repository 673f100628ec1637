"""Makes checkpoints of fairseq by its own code, with the logits and the ids that it computes.

Run by a Python that has fairseq and subword-nmt: `python make_fairseq.py OUT`.
"""

import io
import json
import sys
from argparse import Namespace
from pathlib import Path

import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel, base_architecture
from subword_nmt.apply_bpe import BPE

TEXTS = ["the lowest house", "a new  house .", "no unknown-ß word", "lower low", "x </s> <unk>"]
CODES = ["#version: 0.2", "t h", "th e</w>", "l o", "lo w", "low e", "h o", "ho u", "hou s", "hous e</w>",
         "n e", "ne w</w>", "lowe s", "lowes t</w>", "a b", "ab c"]  # fmt: skip
PIECES = ["the", "lo@@", "low@@", "w", "e@@", "r", "s@@", "t", "house", "new", "n@@", "e", "a", "lowest",
          "o@@", "u@@", "i@@", "d", "t@@", "l@@", "w@@", ".", "x", "-@@", "k@@"]  # fmt: skip
COMMON = {
    "encoder_embed_dim": 8,
    "encoder_ffn_embed_dim": 12,
    "encoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "decoder_layers": 1,
    "max_source_positions": 30,
    "max_target_positions": 30,
}
CASES = {
    "shared": {"share_all_embeddings": True},
    "output": {"share_decoder_input_output_embed": True, "activation_fn": "gelu", "no_scale_embedding": True},
    "pre-norm": {"encoder_normalize_before": True, "decoder_normalize_before": True},
    "learned": {"encoder_learned_pos": True, "decoder_learned_pos": True, "layernorm_embedding": True,
                "share_all_embeddings": True, "activation_fn": "gelu_accurate"},
    "old": {"encoder_normalize_before": True, "decoder_normalize_before": True,
            "share_all_embeddings": True},
}  # fmt: skip
TRAINING = {"lr": [0.0005], "optimizer": "adam", "adam_betas": "(0.9, 0.98)", "update_freq": [1],
            "criterion": "label_smoothed_cross_entropy", "data": "data-bin", "bpe": None, "fp16": True,
            "tokenizer": None}  # fmt: skip


def perturbed(model: torch.nn.Module) -> torch.nn.Module:
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter + 0.3 * torch.randn_like(parameter))
    return model.eval()


def in_old_form(tensors: dict) -> dict:
    """As fairseq before 0.8 has written attentions and norms, and the output of shared embeddings."""
    found = {name: t for name, t in tensors.items() if name != "decoder.output_projection.weight"}
    for name in [name for name in found if name.endswith("attn.q_proj.weight")]:
        begin = name.removesuffix("q_proj.weight")
        for kind in ("weight", "bias"):
            parts = [found.pop(f"{begin}{part}_proj.{kind}") for part in "qkv"]
            found[f"{begin}in_proj_{kind}"] = torch.cat(parts)
    renamed = {}
    for name, tensor in found.items():
        side = name.split(".")[0]
        numbers = {"self_attn_layer_norm": 0, "encoder_attn_layer_norm": 1}
        numbers["final_layer_norm"] = 1 if side == "encoder" else 2
        parts = name.split(".")
        for old, number in numbers.items():
            if old in parts:
                place = parts.index(old)
                parts[place : place + 1] = ["layer_norms", str(number)]
        renamed[".".join(parts)] = tensor
    return renamed


def make(folder: Path, name: str, changes: dict) -> None:
    folder.mkdir(parents=True)
    dictionary = Dictionary()
    for number, piece in enumerate(PIECES):
        dictionary.add_symbol(piece, n=len(PIECES) - number)
    for language in ("en", "xx"):
        dictionary.save(str(folder / f"dict.{language}.txt"))
    (folder / "bpecodes").write_text("\n".join(CODES) + "\n", "utf-8")
    arguments = Namespace(arch="transformer", source_lang="en", target_lang="xx", **COMMON, **changes)
    base_architecture(arguments)
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    model = perturbed(TransformerModel.build_model(arguments, task))
    src, tgt = torch.tensor([[7, 5, 12, 9, 2]]), torch.tensor([[2, 6, 4, 10, 8]])
    with torch.no_grad():
        logits, _ = model(src, torch.tensor([5]), tgt)
    bpe = BPE(io.StringIO("\n".join(CODES)))
    lines = [bpe.process_line(text) for text in TEXTS]
    ids = [dictionary.encode_line(line, append_eos=False, add_if_not_exist=False).tolist() for line in lines]
    outputs = [[6, 4, 10, 8], [5, 9, 4, 3, 11]]
    texts = [dictionary.string(torch.tensor(each), bpe_symbol="subword_nmt") for each in outputs]
    tensors = dict(model.state_dict())
    if name == "old":
        tensors = in_old_form(tensors)
    settings = Namespace(**vars(arguments), **TRAINING, task="translation")
    state = {
        "args": settings,
        "cfg": None,
        "model": tensors,
        "criterion": None,
        "optimizer_history": [{"criterion_name": "X", "optimizer_name": "Y", "num_updates": 4}],
        "task_state": {},
        "extra_state": {"train_iterator": {"epoch": 1}, "best": 3.5, "val_loss": 3.5},
        "last_optimizer_state": {"state": {}, "param_groups": []},
    }
    if name == "output":  # as 0.11 and later write it
        generation = {"_name": None, "beam": 4, "lenpen": 0.6, "min_len": 2, "max_len_a": 1.2}
        model_settings = Namespace(**vars(arguments), **TRAINING, _name="transformer")
        cfg = {"_name": None, "common": {"fp16": False}, "model": model_settings, "generation": generation}
        state["cfg"] = {**cfg, "task": {"_name": "translation", "source_lang": "en", "target_lang": "xx"}}
        state["args"] = None
    torch.save(state, folder / "model.pt")
    expected = {"src": src[0].tolist(), "tgt": tgt[0].tolist(), "logits": logits[0].tolist()}
    given = [number for number, text in enumerate(TEXTS) if "<" not in text]  # fairseq reads special tokens
    expected |= {"texts": [TEXTS[n] for n in given], "ids": [ids[n] for n in given]}
    expected |= {"outputs": outputs, "output_texts": texts}
    (folder / "expected.json").write_text(json.dumps(expected), "utf-8")


if __name__ == "__main__":
    for name, changes in CASES.items():
        make(Path(sys.argv[1]).resolve() / name, name, changes)
