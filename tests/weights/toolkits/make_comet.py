"""Makes checkpoints of COMET by its own code, with the scores that it computes.

Run by a Python that has unbabel-comet, setuptools below 81 (for pkg_resources, by which COMET reads
`sparsemax_patch` in hparams.yaml) and sentencepiece 0.2.0: `python make_comet.py OUT`. The checkpoints have
random weights; their encoder, a small XLM-RoBERTa without weights, is OUT/encoder.
"""

import io
import json
import os
import sys
from pathlib import Path

import pkg_resources  # noqa: F401 (see above)
import sentencepiece
import torch
import yaml
from comet.models import ReferencelessRegression, RegressionMetric, UnifiedMetric, load_from_checkpoint
from pytorch_lightning import Trainer
from transformers import XLMRobertaConfig, XLMRobertaTokenizerFast

ENCODER = "encoder"
SENTENCES = [
    ("the old house is low", "das alte Haus ist niedrig", "das Haus ist alt und niedrig"),
    ("a new house", "ein neues Haus", "ein neues Haus"),
    ("where is the water?", "wo ist Wasser", "Wo ist das Wasser?"),
    ("", "nichts", "nichts"),
    ("no", "", "nein"),
    ("an unknown ß and 漢字", "ein unbekanntes ß", "ß und 漢字"),
    ("the low house is old " * 9, "das niedrige Haus ist alt " * 9, "das Haus ist alt und niedrig " * 9),
    ("low", "das niedrige Haus ist alt " * 6, "niedrig"),
]
ENCODER_SETTINGS = {
    "hidden_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 42,
    "type_vocab_size": 1,
}
COMMON = {
    "encoder_model": "XLM-RoBERTa",
    "pretrained_model": ENCODER,
    "load_pretrained_weights": False,
    "local_files_only": True,
    "hidden_sizes": [12, 6],
}
CASES = {
    # as wmt22-comet-da
    "comet": (RegressionMetric, {"layer_norm": False, "layer_transformation": "sparsemax"}),
    "layer": (RegressionMetric, {"layer": 1, "pool": "cls", "hidden_sizes": [5], "activations": "sigmoid"}),
    # as wmt20-comet-qe-da
    "reference-free": (ReferencelessRegression, {"layer_norm": True, "pool": "max"}),
    # as wmt22-cometkiwi-da
    "kiwi": (UnifiedMetric, {"layer_norm": False, "input_segments": ["mt", "src"]}),
    "unified": (
        UnifiedMetric,
        {"final_activation": "Sigmoid", "word_level_training": True, "word_layer": 2,
         "cross_entropy_weights": [0.1, 0.4, 0.5]},
    ),
    "unified-reference": (UnifiedMetric, {"input_segments": ["mt", "ref"], "sent_layer": 2}),
}  # fmt: skip
CLASSES = {
    RegressionMetric: "regression_metric",
    ReferencelessRegression: "referenceless_regression_metric",
    UnifiedMetric: "unified_metric",
}


def make_encoder() -> None:
    """The settings and the tokeniser of the encoder; a tokeniser of sentencepiece, as XLM-RoBERTa has."""
    model = io.BytesIO()
    texts = [text for sentence in SENTENCES for text in sentence if text and "漢" not in text]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=60,
        hard_vocab_limit=False,
        normalization_rule_name=os.environ.get("RULE", "identity"),  # others are tables of 300 kB
        minloglevel=2,
    )
    Path(ENCODER).mkdir()
    file = Path("sentencepiece.bpe.model")
    file.write_bytes(model.getvalue())
    tokenizer = XLMRobertaTokenizerFast(str(file))
    tokenizer.save_pretrained(ENCODER)
    file.unlink()
    (Path(ENCODER) / file).unlink(missing_ok=True)
    XLMRobertaConfig(vocab_size=len(tokenizer), **ENCODER_SETTINGS).save_pretrained(ENCODER)


def perturbed(model: torch.nn.Module) -> torch.nn.Module:
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter + 0.3 * torch.randn_like(parameter))
    return model.eval()


def make(name: str, kind: type, changes: dict) -> None:
    model = perturbed(kind(**{**COMMON, **changes}))
    file = Path(name) / "checkpoints" / "model.ckpt"
    file.parent.mkdir(parents=True)
    trainer = Trainer(logger=False, enable_checkpointing=False, accelerator="cpu", barebones=True)
    trainer.strategy.connect(model)
    trainer.save_checkpoint(file)
    settings = {**dict(model.hparams), "class_identifier": CLASSES[kind]}
    if name == "kiwi":
        settings |= {"layer_transformation": "sparsemax_patch", "word_weights": [0.15, 0.85]}
    (Path(name) / "hparams.yaml").write_text(yaml.dump(settings), "utf-8")
    loaded = load_from_checkpoint(str(file), local_files_only=True)
    samples = [{"src": src, "mt": mt, "ref": ref} for src, mt, ref in SENTENCES]
    expected = {"samples": samples, "scores": scores(loaded, samples)}
    if name == "unified":
        without = [{"src": src, "mt": mt} for src, mt, _ in SENTENCES]
        expected["without_references"] = scores(loaded, without)
    (Path(name) / "expected.json").write_text(json.dumps(expected, ensure_ascii=False), "utf-8")


def scores(model: torch.nn.Module, samples: list) -> list:
    return model.predict(samples, batch_size=3, gpus=0, progress_bar=False, num_workers=0).scores


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    os.chdir(out)
    make_encoder()
    for name, (kind, changes) in CASES.items():
        make(name, kind, changes)
