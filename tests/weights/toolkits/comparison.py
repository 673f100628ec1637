"""A checkpoint that a toolkit's own code has made, compared with what regard computes from it."""

import json
from pathlib import Path

import torch

from regard.weights.model_folder import LoadedModel
from regard.weights.toolkits.load import load_toolkit, toolkit_of


@torch.no_grad()
def same_as_expected(folder: Path, toolkit: str) -> LoadedModel:
    """Asserts that logits, ids of texts and texts of ids are those of the folder's `expected.json`."""
    found = toolkit_of(folder)
    assert found is not None
    assert found.name == toolkit
    loaded = load_toolkit(found, folder, trust_pickle=True).loaded
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    model, target = loaded.model, loaded.tokenizers.target
    end = [expected["src_end"]] if "src_end" in expected else []  # where regard adds one that is not read
    src = torch.tensor([[*expected["src"], *end]])
    memory = model.encode(src, torch.tensor([src.size(1)]))
    logits = model.project(model.decoder_states(torch.tensor([expected["tgt"]]), memory))[0]
    theirs = torch.tensor(expected["logits"])
    torch.testing.assert_close(logits[:, : theirs.size(1)], theirs, rtol=1e-5, atol=1e-5)
    assert expected["tgt"][0] == target.bos_id
    for text, ids in zip(expected["texts"], expected["ids"], strict=True):
        assert loaded.tokenizers.source.encode(text) == ids, text
    for ids, text in zip(expected["outputs"], expected["output_texts"], strict=True):
        assert target.decode(ids) == text
    return loaded
