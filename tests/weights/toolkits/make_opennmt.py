"""Makes checkpoints of OpenNMT-py by its own code, with the logits and the ids that it computes.

Run by a Python that has onmt: `python make_opennmt.py OUT`. With `small` after OUT the tables of positions,
most of a file, are cut to the first few, as in the fixtures beside this file.
"""

import io
import json
import sys
from pathlib import Path

import pyonmttok
import torch
from onmt import opts
from onmt.inputters.inputter import vocabs_to_dict
from onmt.model_builder import build_base_model
from onmt.utils.parse import ArgumentParser
from subword_nmt.apply_bpe import BPE

TEXTS = ["the lowest house", "a new house", "no unknown-ß word", "lower low"]
SPECIALS = ["<unk>", "<blank>", "<s>", "</s>"]
WORDS = ["the", "lowest", "house", "a", "new", "low", "lower", "x"]
CODES = ["#version: 0.2", "t h", "th e</w>", "l o", "lo w", "low e", "h o", "ho u", "hou s", "hous e</w>"]
PIECES = ["the", "lo@@", "low@@", "w", "e@@", "r", "s@@", "t", "house", "n@@", "a", "x", "d"]
BASE = ["--encoder_type", "transformer", "--decoder_type", "transformer", "--enc_layers", "2", "--dec_layers",
        "1", "--hidden_size", "8", "--word_vec_size", "8", "--heads", "2", "--transformer_ff", "12",
        "--position_encoding"]  # fmt: skip
CASES = {
    "shared": (["--share_embeddings", "--share_decoder_embeddings", "--share_vocab"], None),
    "biases": (["--add_qkvbias", "--add_ffnbias", "--pos_ffn_activation_fn", "gelu",
                "--position_encoding_type", "SinusoidalConcat"], "bpe"),
    "gated": (["--pos_ffn_activation_fn", "silu", "--layer_norm", "rms", "--share_decoder_embeddings"], None),
    "gated gelu": (["--pos_ffn_activation_fn", "gated-gelu", "--share_embeddings", "--share_vocab"], None),
}  # fmt: skip


def make(folder: Path, changes: list[str], kind: str | None, *, small: bool) -> None:
    folder.mkdir(parents=True)
    pieces = [*SPECIALS, *(PIECES if kind == "bpe" else WORDS)]
    vocabulary = pyonmttok.build_vocab_from_tokens(pieces)
    vocabs = {"src": vocabulary, "tgt": vocabulary, "data_task": "seq2seq", "decoder_start_token": "<s>"}
    parser = ArgumentParser()
    opts.train_opts(parser)
    config = ["--config", str(folder / "data.yaml")]
    (folder / "data.yaml").write_text("data: {}\nsave_data: x\nsrc_vocab: x\n", "utf-8")
    given, _ = parser.parse_known_args([*config, *BASE, *changes, "--save_model", "model"])
    (folder / "data.yaml").unlink()
    given.transforms = ["filtertoolong", *([kind] if kind else [])]
    if kind == "bpe":
        (folder / "codes").write_text("\n".join(CODES) + "\n", "utf-8")
        given.src_subword_model = "data/codes"
    given.config, given.data = None, {}
    ArgumentParser.update_model_opts(given)
    model = build_base_model(given, vocabs).eval()
    torch.manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            around = 1.0 if "layer_norm" in name and name.endswith("weight") else 0.0
            parameter.copy_(around + 0.4 * torch.randn_like(parameter))
        model.update_dropout(0.0, 0.0)
        src, tgt = torch.tensor([[7, 5, 9, 6]]), torch.tensor([[2, 6, 4, 10, 8]])
        states, _ = model(src[..., None], torch.cat([tgt, tgt[:, :1]], 1)[..., None], torch.tensor([4]))
        logits = model.generator(states)
    bpe = BPE(io.StringIO("\n".join(CODES)))
    segmented = [bpe.segment_tokens(text.split()) if kind else text.split() for text in TEXTS]
    expected = {"src": src[0].tolist(), "src_end": 3, "tgt": tgt[0].tolist(), "logits": logits[0].tolist()}
    expected |= {"texts": TEXTS, "ids": [vocabulary(each) for each in segmented]}
    expected |= {"outputs": [], "output_texts": []}
    (folder / "expected.json").write_text(json.dumps(expected), "utf-8")
    tensors = {name: tensor for name, tensor in model.state_dict().items() if "generator" not in name}
    if small:
        tensors = {name: t[:20].clone() if name.endswith("pe.pe") else t for name, t in tensors.items()}
    state = {
        "model": tensors,
        "generator": dict(model.generator.state_dict()),
        "vocab": vocabs_to_dict(vocabs),
        "opt": given,
        "optim": {"training_step": 3, "optimizer": {"state": {}}},
    }
    torch.save(state, folder / "model_step_3.pt")


if __name__ == "__main__":
    for name, (changes, kind) in CASES.items():
        make(Path(sys.argv[1]).resolve() / name, changes, kind, small=sys.argv[2:] == ["small"])
