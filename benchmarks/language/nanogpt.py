"""A plain GPT like nanoGPT: fused attention, GELU, pre-norm; no cache in generation."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.convert.names import Weights, block, refuse
from benchmarks.language.writer import Writer
from benchmarks.training.loop import Loop


class Block(nn.Module):
    """A pre-norm block: attention, then the feed-forward network."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        d_model = config.d_model
        self.heads, self.attention_dropout = config.num_heads, config.attention_dropout
        self.norm_1, self.norm_2 = (nn.LayerNorm(d_model, bias=config.bias) for _ in range(2))
        self.attention = nn.Linear(d_model, 3 * d_model, bias=config.bias)
        self.mixed = nn.Linear(d_model, d_model, bias=config.bias)
        self.inner = nn.Linear(d_model, config.d_ff, bias=config.bias)
        self.outer = nn.Linear(config.d_ff, d_model, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.attention(self.norm_1(x)).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        rate = self.attention_dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=rate, is_causal=True)
        x = x + self.dropout(self.mixed(mixed.transpose(1, 2).flatten(2)))
        return x + self.dropout(self.outer(F.gelu(self.inner(self.norm_2(x)))))


class NanoGPT(nn.Module):
    """Ids -> logits at each position; the output layer shares the weights of the embedding."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.block_size = config.max_positions
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.positions = nn.Embedding(config.max_positions, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.norm = nn.LayerNorm(config.d_model, bias=config.bias)

    def forward(self, ids: Tensor, *, last: bool = False) -> Tensor:
        """Logits; with `last` of the last position only, as in nanoGPT's generation."""
        x = self.dropout(self.tokens(ids) + self.positions.weight[: ids.size(1)])
        for each in self.blocks:
            x = each(x)
        x = self.norm(x)
        return F.linear(x[:, -1:] if last else x, self.tokens.weight)


def made(config: Any, weights: Weights) -> NanoGPT:
    """The model with regard's weights.

    Raises:
        Unfit: nanoGPT does not support this model.
    """
    refuse(
        config, tied=(True,), norm=("layer",), norm_position=("pre",), positions=("learned",),
        activation=("gelu",), num_kv_heads=(None, config.num_heads), qk_norm=(False,), window=(None,),
        scaled_embedding=(False,),
    )  # fmt: skip
    names = {
        "self.in": "attention", "self.out": "mixed", "ff.in": "inner", "ff.out": "outer",
        "norm.self": "norm_1", "norm.ff": "norm_2",
    }  # fmt: skip
    found = {
        "tokens.weight": weights["input.embedding.weight"],
        "positions.weight": weights["input.positions.weight"],
        **{name: tensor for name, tensor in weights.items() if name.startswith("norm.")},
    }
    for number in range(config.num_layers):
        for name, tensor in block(weights, f"blocks.{number}").items():
            ours, _, kind = name.rpartition(".")
            found[f"blocks.{number}.{names[ours]}.{kind}"] = tensor
    model = NanoGPT(config)
    model.load_state_dict(found)
    return model


class Trainer(Loop):
    """The reference in training."""

    def make(self, config: Any, weights: dict[str, Tensor]) -> nn.Module:
        return made(config, weights)

    def logits(self, batch: Any) -> Tensor:
        return self.model(batch.ids)


class Generator(Writer):
    """Generation without a cache: each step reads the whole text again."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._model = made(self.config, self.weights()).eval()

    @torch.inference_mode()
    def write(self, length: int) -> list[int]:
        ids = torch.tensor([self.prompt])
        for _ in range(length):
            logits = self._model(ids[:, -self._model.block_size :], last=True)[:, -1]
            logits[:, self.banned] = -torch.inf
            ids = torch.cat([ids, logits.argmax(dim=-1, keepdim=True)], dim=1)
        return ids[0, len(self.prompt) :].tolist()
