"""torch.nn.Transformer in a plain loop, as in PyTorch's tutorials: the reference."""

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.convert.to_torch import transformer_weights
from benchmarks.training.loop import Loop
from regard.layers.positions import sinusoids


class Translator(nn.Module):
    """Embeddings and sinusoids around torch.nn.Transformer; the three embeddings are one, as in the paper."""

    positions: Tensor

    def __init__(self, config: Any) -> None:
        super().__init__()
        d_model, everywhere = config.d_model, config.attention_dropout
        self.scale = d_model**0.5
        self.embedding = nn.Embedding(config.tgt_vocab_size, d_model)
        self.register_buffer("positions", sinusoids(0, 1024, d_model), persistent=False)
        self.dropout = nn.Dropout(config.dropout)
        self.transformer = nn.Transformer(
            d_model,
            config.num_heads,
            config.num_encoder_layers,
            config.num_decoder_layers,
            config.d_ff,
            config.dropout,
            batch_first=True,
            norm_first=config.norm_position == "pre",
        )
        if config.norm_position == "post":  # torch has one more norm at the end of each stack than the paper
            self.transformer.encoder.norm = self.transformer.decoder.norm = None
        if not everywhere:
            self._only_where_the_paper_drops()

    def forward(self, batch: Any) -> Tensor:
        device, length = batch.src_ids.device, batch.tgt_input.size(1)
        padding = torch.arange(batch.src_ids.size(1), device=device) >= batch.src_lengths[:, None]
        future = nn.Transformer.generate_square_subsequent_mask(length, device).isinf()
        states = self.transformer(
            self._embedded(batch.src_ids),
            self._embedded(batch.tgt_input),
            tgt_mask=future,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return states @ self.embedding.weight.T

    def _embedded(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.size(1)])

    def _only_where_the_paper_drops(self) -> None:
        """Turn off dropout of attention weights and inside feed-forward networks, which torch cannot."""
        for module in self.transformer.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p = 0.0  # between the two linear layers of the feed-forward network


class Plain(Loop):
    """The reference."""

    def make(self, config: Any, weights: dict[str, Tensor]) -> nn.Module:
        model = Translator(config)
        model.load_state_dict(transformer_weights(config, weights))
        return model

    def logits(self, batch: Any) -> Tensor:
        return self.model(batch)
