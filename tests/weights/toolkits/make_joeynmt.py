"""Makes checkpoints of JoeyNMT by its own code, with the logits and the ids that it computes.

Run by a Python that has joeynmt: `python make_joeynmt.py OUT`. With `small` after OUT the tables of
positions, most of a file, are cut to the first few, as in the fixtures beside this file.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import sentencepiece
import torch
import yaml
from joeynmt.batch import Batch  # noqa: F401 (imports what models need)
from joeynmt.config import _check_special_symbols
from joeynmt.model import build_model
from joeynmt.tokenizers import build_tokenizer
from joeynmt.vocabulary import build_vocab

TEXTS = [
    "the lowest house",
    "a new  house.",
    "no unknown-ß word",
    "Low lower",
    "the \u201cnew\u201d ones ?",
    "x",
]
CODES = ["#version: 0.2", "t h", "th e</w>", "l o", "lo w", "low e", "h o", "ho u", "hou s", "hous e</w>",
         "n e", "ne w</w>", "lowe s", "lowes t</w>", "a b", "ab c"]  # fmt: skip
BPE_PIECES = ["the", "lo@@", "low@@", "w", "e@@", "r", "s@@", "t", "house", "new", "n@@", "e", "a", "h@@",
              "o@@", "u@@", "i@@", "d", "t@@", "l@@", "w@@", ".", "x", "-@@", "k@@"]  # fmt: skip
WORDS = ["the", "lowest", "house", "a", "new", "low", "lower", "x", "ones", '"new"', "ones?", "house."]
CHARACTERS = [*'▁thelowsunar.x?"', "L"]
SIDE = {
    "type": "transformer",
    "num_layers": 2,
    "num_heads": 2,
    "hidden_size": 8,
    "ff_size": 12,
    "dropout": 0.1,
}
EMBEDDINGS = {"embedding_dim": 8, "scale": True, "dropout": 0.0}
CASES = {
    "words": {"layer_norm": "pre", "tied_embeddings": True, "tied_softmax": True, "level": "word"},
    "bpe": {"layer_norm": "post", "tied_softmax": True, "level": "bpe", "activation": "gelu"},
    "characters": {"layer_norm": "pre", "tied_embeddings": True, "level": "char", "activation": "swish"},
    "untied": {"layer_norm": "post", "level": "word", "scale": False, "normalize": True, "lowercase": True},
    "pieces": {"layer_norm": "pre", "level": "sentencepiece", "tied_softmax": True, "tied_embeddings": True},
    "normalised characters": {"layer_norm": "pre", "level": "char", "normalize": True},
}


def vocabulary(level: str, folder: Path, small: bool) -> list[str]:
    special = ["<unk>", "<pad>", "<s>", "</s>"]
    if level != "sentencepiece":
        return [*special, *{"word": WORDS, "bpe": BPE_PIECES, "char": CHARACTERS}[level]]
    with (folder / "sp.model").open("wb") as writer:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["the lowest house", "a new house", "lower low ones"] * 20),
            model_writer=writer,
            model_type="unigram",
            vocab_size=34,
            hard_vocab_limit=False,
            minloglevel=2,
            normalization_rule_name="identity" if small else "nmt_nfkc",  # a table of 240 kB
        )
    reader = sentencepiece.SentencePieceProcessor(str(folder / "sp.model"))
    pieces = [reader.id_to_piece(number) for number in range(reader.get_piece_size())]
    return [*special, *[piece for piece in pieces if piece not in special][::2]]


def make(folder: Path, case: dict, *, small: bool) -> None:
    folder.mkdir(parents=True)
    level = case["level"]
    pieces = vocabulary(level, folder, small)
    for side in ("src", "trg"):
        (folder / f"{side}_vocab.txt").write_text("\n".join(pieces) + "\n", "utf-8")
    data = {"lang": "en", "level": "bpe" if level == "sentencepiece" else level}
    data |= {name: case[name] for name in ("normalize", "lowercase") if name in case}
    if level == "bpe":
        (folder / "codes.txt").write_text("\n".join(CODES) + "\n", "utf-8")
        data |= {"tokenizer_type": "subword-nmt", "tokenizer_cfg": {"codes": str(folder / "codes.txt")}}
    elif level == "sentencepiece":
        data |= {"tokenizer_type": "sentencepiece", "tokenizer_cfg": {"model_file": str(folder / "sp.model")}}
    side = {**SIDE, "layer_norm": case["layer_norm"], "activation": case.get("activation", "relu")}
    side["embeddings"] = {**EMBEDDINGS, "scale": case.get("scale", True)}
    model = {
        "tied_embeddings": case.get("tied_embeddings", False),
        "tied_softmax": case.get("tied_softmax", False),
        "encoder": side,
        "decoder": {**side, "num_layers": 1},
    }
    config = {
        "name": "made",
        "joeynmt_version": "2.3.0",
        "model_dir": str(folder),
        "data": {"src": data, "trg": {**data, "lang": "xx"}, "special_symbols": {}},
        "testing": {"beam_size": 5, "beam_alpha": 1.0, "max_output_length": -1},
        "model": model,
    }
    plain = json.loads(json.dumps(config).replace(str(folder) + "/", ""))
    plain["model_dir"] = "model"
    (folder / "config.yaml").write_text(yaml.safe_dump(plain, allow_unicode=True), "utf-8")

    data_config = config["data"]
    data_config["special_symbols"] = SimpleNamespace(**_check_special_symbols({}))
    source, target = build_vocab(data_config, model_dir=folder)
    torch.manual_seed(3)
    network = build_model(json.loads(json.dumps(model)), src_vocab=source, trg_vocab=target).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(parameter + 0.3 * torch.randn_like(parameter))
    src = torch.tensor([[5, 4, 9, 7, 3]])
    tgt = torch.tensor([[2, 6, 4, 10, 8]])
    with torch.no_grad():
        memory, hidden, _, _ = network(
            return_type="encode", src=src, src_length=torch.tensor([5]), src_mask=torch.ones(1, 1, 5).bool()
        )
        logits, _, _, _ = network(
            return_type="decode",
            trg_input=tgt,
            encoder_output=memory,
            encoder_hidden=hidden,
            src_mask=torch.ones(1, 1, 5).bool(),
            unroll_steps=None,
            decoder_hidden=None,
            trg_mask=torch.ones(1, 1, 5).bool(),
        )
    tokenizers = build_tokenizer(data_config)
    tokenizers["en"].set_vocab(source)
    # of words JoeyNMT takes what is between two spaces for an unknown one
    given = [text.replace("  ", " ") for text in TEXTS] if level == "word" else TEXTS
    ids = [[source.lookup(p) for p in tokenizers["en"](tokenizers["en"].pre_process(text))] for text in given]
    outputs = [[6, 4, 10, 8], [5, 9, 4, 7, 11]]
    texts = [tokenizers["en"].post_process([source._itos[n] for n in each]) for each in outputs]
    tensors = network.state_dict()
    if small:
        tensors = {name: t[:, :20].clone() if name.endswith("pe.pe") else t for name, t in tensors.items()}
    state = {
        "model_state": tensors,
        "optimizer_state": torch.optim.Adam(network.parameters()).state_dict(),
        "scaler_state": None,
        "scheduler_state": {"step": 4, "rates": [0.1]},
        "train_iter_state": torch.Generator().get_state(),
        "stats_state": {"steps": 4, "best_ckpt_score": float("inf"), "is_min_lr": False},
    }
    torch.save(state, folder / "4.ckpt")
    (folder / "4.ckpt").rename(folder / "best.ckpt") if small else (folder / "best.ckpt").symlink_to("4.ckpt")
    expected = {"src": src[0].tolist(), "tgt": tgt[0].tolist(), "logits": logits[0].tolist()}
    expected |= {"texts": given, "ids": ids, "outputs": outputs, "output_texts": texts}
    (folder / "expected.json").write_text(json.dumps(expected), "utf-8")


if __name__ == "__main__":
    out = Path(sys.argv[1]).resolve()
    for name, case in CASES.items():
        make(out / name, case, small=sys.argv[2:] == ["small"])
