"""Ids -> vectors: token embeddings, scaled (Vaswani et al. 2017, section 3.4) or not."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.layers.arguments import refuse_other_sizes


class TokenEmbedding(nn.Module):
    """A vector for each token, multiplied by sqrt(d_model) if `scaled`.

    The weights are initialised from N(0, 1/d_model): scaled embeddings then have unit variance, and the same
    weights can be those of the output layer. BERT and GPT do not scale.
    """

    def __init__(self, vocab_size: int, d_model: int, *, scaled: bool = True) -> None:
        super().__init__()
        refuse_other_sizes(vocab_size=vocab_size, d_model=d_model)
        self.scale = math.sqrt(d_model) if scaled else 1.0
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, ids: Int64[Tensor, "batch len"]) -> Float[Tensor, "batch len d_model"]:
        return F.embedding(ids, self.weight) * self.scale
