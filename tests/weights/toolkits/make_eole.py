"""Makes checkpoints of eole by its own code, with the logits and the ids that it computes.

Run by a Python that has eole: `python make_eole.py OUT`. With `small` after OUT the tables of positions, most
of a file, are cut to the first few, as in the fixtures beside this file.
"""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pyonmttok
import sentencepiece
import torch
from eole.config.models import TransformerModelConfig
from eole.models.model import get_model_class
from safetensors.torch import save_file
from subword_nmt.apply_bpe import BPE

TEXTS = ["the lowest house", "a new house", "no unknown-ß word", "lower low"]
SPECIALS = ["<unk>", "<blank>", "<s>", "</s>"]
WORDS = ["the", "lowest", "house", "a", "new", "low", "lower", "x"]
CODES = ["#version: 0.2", "t h", "th e</w>", "l o", "lo w", "low e", "h o", "ho u", "hou s", "hous e</w>"]
PIECES = ["the", "lo@@", "low@@", "w", "e@@", "r", "s@@", "t", "house", "n@@", "a", "x", "d"]
BASE = {"hidden_size": 8, "word_vec_size": 8, "heads": 2, "transformer_ff": 12, "layers": 2}
CASES = {
    "sinusoids": {"model": {"share_embeddings": True, "share_decoder_embeddings": True}, "text": None},
    "biases": {
        "model": {"add_qkvbias": True, "add_final_linear_bias": True, "add_ffnbias": True,
                  "share_decoder_embeddings": True,
                  "mlp_activation_fn": "gelu", "decoder": {"layers": 1},
                  "embeddings": {"position_encoding_type": "SinusoidalConcat"}},
        "text": "bpe",
    },
    "rotary": {
        "model": {"layer_norm": "rms", "norm_eps": 1e-6, "mlp_activation_fn": "gated-silu", "heads_kv": 1,
                  "generator_bias": False, "add_final_linear_bias": False, "add_qkvbias": True,
                  "rope_config": {"rotary_interleave": True, "rotary_theta": 100},
                  "embeddings": {"position_encoding_type": "Rotary", "normalize": True}},
        "text": "sentencepiece",
    },
    "rotary in halves": {
        "model": {"rope_config": {"rotary_interleave": False}, "mlp_activation_fn": "gelu-tanh",
                  "share_decoder_embeddings": True, "embeddings": {"position_encoding_type": "Rotary"}},
        "text": None,
    },
    "learned": {
        "model": {"share_embeddings": True, "mlp_activation_fn": "gated-gelu", "head_dim": 6,
                  "embeddings": {"position_encoding_type": "Learned", "n_positions": 20}},
        "text": None,
    },
    "no positions": {
        "model": {"mlp_activation_fn": "silu", "attn_scaling": 9.0,
                  "embeddings": {"position_encoding_type": None}},
        "text": None,
    },
    "shifted": {
        "model": {"mlp_activation_fn": "gated-gelu-tanh", "share_decoder_embeddings": True,
                  "embeddings": {"position_encoding_type": "Learned", "n_positions": 20,
                                 "position_shift": 2}},
        "text": None,
    },
}  # fmt: skip


def pieces_of(kind: str | None, folder: Path, small: bool) -> list[str]:
    if kind != "sentencepiece":
        (folder / "codes").write_text("\n".join(CODES) + "\n", "utf-8") if kind == "bpe" else None
        return PIECES if kind == "bpe" else WORDS
    with (folder / "sp.model").open("wb") as writer:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["the lowest house", "a new house", "lower low ones"] * 20),
            model_writer=writer, model_type="unigram", vocab_size=34, hard_vocab_limit=False, minloglevel=2,
            normalization_rule_name="identity" if small else "nmt_nfkc",  # a table of 240 kB
        )  # fmt: skip
    reader = sentencepiece.SentencePieceProcessor(str(folder / "sp.model"))
    pieces = [reader.id_to_piece(number) for number in range(reader.get_piece_size())]
    return [piece for piece in pieces if piece not in SPECIALS]


def make(folder: Path, case: dict, *, small: bool) -> None:
    folder.mkdir(parents=True)
    kind = case["text"]
    pieces = [*SPECIALS, *pieces_of(kind, folder, small)]
    vocabulary = pyonmttok.build_vocab_from_tokens(pieces)
    specials = dict(zip(("unk_token", "pad_token", "bos_token", "eos_token"), SPECIALS, strict=True))
    vocabs = {"src": vocabulary, "tgt": vocabulary, "decoder_start_token": "<s>", "specials": specials}
    given = {"architecture": "transformer", **BASE, **case["model"]}
    config = TransformerModelConfig(**json.loads(json.dumps(given)))
    running = SimpleNamespace(
        dropout=[0.0], attention_dropout=[0.0], parallel_gpu=1, use_ckpting=[], self_attn_backend="pytorch",
        quant_layers=[], quant_type="", lora_layers=[], lora_embedding=False,
    )  # fmt: skip
    model = get_model_class(config).build(config, vocabs, running).eval()
    torch.manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            around = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.copy_(around + 0.4 * torch.randn_like(parameter))
        src, tgt = torch.tensor([[7, 5, 9, 6]]), torch.tensor([[2, 6, 4, 10, 8]])
        found = model(src, torch.cat([tgt, tgt[:, :1]], dim=1), torch.tensor([4]))
        logits = model.generator(found.dec_out)
    if kind == "bpe":
        bpe = BPE(io.StringIO("\n".join(CODES)))
        segmented = [bpe.segment_tokens(text.split()) for text in TEXTS]
    elif kind == "sentencepiece":
        reader = sentencepiece.SentencePieceProcessor(str(folder / "sp.model"))
        segmented = [reader.encode(text, out_type=str) for text in TEXTS]
    else:
        segmented = [text.split() for text in TEXTS]
    expected = {"src": src[0].tolist(), "src_end": 3, "tgt": tgt[0].tolist(), "logits": logits[0].tolist()}
    expected |= {"texts": TEXTS, "ids": [vocabulary(each) for each in segmented]}
    expected |= {"outputs": [], "output_texts": []}
    (folder / "expected.json").write_text(json.dumps(expected), "utf-8")
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    if config.share_embeddings:
        tensors.pop("tgt_emb.embeddings.weight")
    if config.share_decoder_embeddings:
        tensors.pop("generator.weight")
    if small:
        tensors = {name: t[:20].clone() if name.endswith("pe.pe") else t for name, t in tensors.items()}
    save_file(tensors, folder / "model.00.safetensors")
    plain = {"src": pieces, "tgt": pieces, "decoder_start_token": "<s>", "specials": specials}
    (folder / "vocab.json").write_text(json.dumps(plain, ensure_ascii=False), "utf-8")
    files = {"bpe": "codes", "sentencepiece": "sp.model"}
    transforms = {kind: {"src_subword_model": f"${{MODEL_PATH}}/{files[kind]}"}} if kind else {}
    whole = {"data": {}, "model": given, "transforms": ["filtertoolong", *([kind] if kind else [])]}
    (folder / "config.json").write_text(json.dumps({**whole, "transforms_configs": transforms}), "utf-8")


if __name__ == "__main__":
    for name, case in CASES.items():
        make(Path(sys.argv[1]).resolve() / name, case, small=sys.argv[2:] == ["small"])
