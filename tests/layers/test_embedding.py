"""Embeddings: rows of a table, scaled."""

import torch
import torch.nn.functional as F

from regard.layers.embedding import TokenEmbedding


def test_an_embedding_is_a_one_hot_vector_times_the_weight_times_the_root_of_the_width():
    """Notebooks forgot sqrt(d_model), so that positions drowned the words."""
    embedding = TokenEmbedding(11, 16)
    ids = torch.tensor([[3, 0], [10, 3]])
    torch.testing.assert_close(embedding(ids), F.one_hot(ids, 11).float() @ embedding.weight * 4)


def test_embeddings_have_unit_variance():
    torch.manual_seed(0)
    embedded = TokenEmbedding(1000, 64)(torch.arange(1000)[None])
    assert abs(embedded.std().item() - 1) < 0.02
