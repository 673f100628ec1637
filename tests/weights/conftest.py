"""A small Hugging Face folder, made without transformers."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers

from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.weights import pickled
from regard.weights.names import write_names
from regard.weights.pretrained import FAMILIES
from regard.weights.tensors import model_tensors, write_tensors
from tests.warm_process import run_python

TINY = DecoderOnlyConfig(
    vocab_size=11, d_model=4, num_heads=2, num_layers=1, d_ff=5, max_positions=6, norm_eps=1e-5
)


@pytest.fixture
def forked_reader(monkeypatch):
    """The child process that reads a pickle is a fork of one that has PyTorch; other tests start Python."""

    def run(command, *, timeout, **_):
        return run_python(command[1:], timeout=timeout)

    monkeypatch.setattr(pickled, "subprocess", SimpleNamespace(run=run))


@pytest.fixture
def gpt2(tmp_path) -> Path:
    """A GPT-2 of one layer with a tokeniser of ten pieces."""
    folder = tmp_path / "gpt2"
    folder.mkdir()
    family = FAMILIES["gpt2"]
    model = build_model(TINY, seed=3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    table = {**family.write(TINY, ()), "bos_token_id": 9, "eos_token_id": 9}
    (folder / "config.json").write_text(json.dumps(table), "utf-8")
    write_tensors(folder / "model.safetensors", write_names(family.table(TINY), model_tensors(model)))
    pieces = ["a", "b", "c", "Ġ", "ab", "Ġa", "d", "e", "f", "<|endoftext|>"]
    backend = tokenizers.Tokenizer(
        models.BPE({piece: number for number, piece in enumerate(pieces)}, [("a", "b"), ("Ġ", "a")])
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<|endoftext|>"}', "utf-8")
    return folder
