"""The states of a recurrent model: a cache follows its hypotheses."""

import torch

from regard.models.build import build_model
from regard.models.recurrent import RecurrentConfig


def test_a_cache_moves_the_source_only_when_the_sentences_change():
    table = {"d_model": 16, "d_embedding": 12, "attention": "general", "input_feeding": True}
    config = RecurrentConfig.from_table(table, src_vocab_size=30, tgt_vocab_size=40)
    model = build_model(config, seed=0).eval()
    src = torch.tensor([[4, 9, 3], [8, 5, 3]]).repeat_interleave(2, 0)
    cache = model.start(model.encode(src, torch.full((4,), 3)).select(torch.tensor([0, 0, 2, 2])))
    cache._sentences = torch.tensor([0, 0, 1, 1])  # as after a beam's first step
    keys = cache.source.keys
    assert cache.select(torch.tensor([1, 0, 3, 3])).source.keys is keys
    assert cache.select(torch.tensor([2, 0, 3, 3])).source.keys is not keys
