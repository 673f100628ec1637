"""The example's Mistral computes what transformers' does, inside and beyond its window, there and back."""

import runpy
from pathlib import Path

import pytest
import torch

from regard.weights.pretrained import FAMILIES, load_pretrained, to_huggingface

EXAMPLE = Path(__file__).parents[2] / "examples" / "pretrained_family.py"
SIZES = {
    "vocab_size": 61,
    "hidden_size": 16,
    "intermediate_size": 21,
    "max_position_embeddings": 40,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
}


@pytest.mark.parametrize("window", [None, 5])
def test_logits_are_those_of_transformers(tmp_path, monkeypatch, window):
    transformers = pytest.importorskip("transformers")
    monkeypatch.setattr(FAMILIES, "added", dict(FAMILIES.added))
    runpy.run_path(str(EXAMPLE))
    torch.manual_seed(0)
    config = transformers.MistralConfig(**SIZES, sliding_window=window, attn_implementation="eager")
    theirs = transformers.MistralForCausalLM(config).eval()
    theirs.save_pretrained(tmp_path / "mistral")
    loaded = load_pretrained(tmp_path / "mistral").loaded
    ids = torch.randint(4, 61, (2, 20))
    with torch.no_grad():
        torch.testing.assert_close(loaded.model(ids), theirs(ids).logits, rtol=1e-4, atol=1e-4)
    back = to_huggingface(loaded, "mistral").files["config.json"]
    assert isinstance(back, bytes)
    assert (b'"sliding_window": 5' in back) is (window is not None)
