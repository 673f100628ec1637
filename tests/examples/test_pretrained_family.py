"""The example's Seed-OSS computes what transformers' does, with and without biases, there and back."""

import json
import runpy
from pathlib import Path

import pytest
import torch

from regard.errors import FolderError
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
    "head_dim": 6,
}


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Registers the example's family; saves a random model of transformers with these biases."""
    transformers = pytest.importorskip("transformers")
    monkeypatch.setattr(FAMILIES, "added", dict(FAMILIES.added))
    runpy.run_path(str(EXAMPLE))

    def model(**biases):
        torch.manual_seed(0)
        config = transformers.SeedOssConfig(**SIZES, **biases, attn_implementation="eager")
        made = transformers.SeedOssForCausalLM(config).eval()
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter, std=0.2)  # biases too
        made.save_pretrained(tmp_path / "seed_oss")
        return made, tmp_path / "seed_oss"

    return model


@pytest.mark.parametrize("biases", [True, False])
def test_logits_are_those_of_transformers(saved, biases):
    theirs, folder = saved(attention_bias=biases)
    loaded = load_pretrained(folder).loaded
    ids = torch.randint(4, 61, (2, 20))
    with torch.no_grad():
        torch.testing.assert_close(loaded.model(ids), theirs(ids).logits, rtol=1e-4, atol=1e-4)
    back = to_huggingface(loaded, "seed_oss").files["config.json"]
    assert isinstance(back, bytes)
    assert json.loads(back)["attention_bias"] is biases


def test_what_the_example_does_not_compute_is_refused(saved):
    _, folder = saved(attention_out_bias=True)
    with pytest.raises(FolderError, match="attention_out_bias"):
        load_pretrained(folder)
