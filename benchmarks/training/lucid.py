"""x-transformers in the plain loop: its own blocks in the same sizes, so not the same weights.

It has no dropout of sub-layer outputs, only of embeddings; section 5.4 of the paper has both. So it samples
fewer masks than the others.
"""

from typing import Any

import torch
from torch import Tensor, nn
from x_transformers import XTransformer

from benchmarks.training.loop import Loop


class Lucid(Loop):
    """Named after its author's handle, lucidrains."""

    same_weights = False

    def make(self, config: Any, weights: dict[str, Tensor]) -> nn.Module:
        sides = {
            "num_tokens": config.tgt_vocab_size,
            "max_seq_len": 1024,
            "heads": config.num_heads,
            "attn_dim_head": config.d_model // config.num_heads,
            "ff_mult": config.d_ff // config.d_model,
            "ff_custom_activation": nn.ReLU(),
            "attn_dropout": config.attention_dropout,
            "ff_dropout": config.activation_dropout,
            "emb_dropout": config.dropout,
            "attn_flash": True,
            "pre_norm": config.norm_position == "pre",
        }
        depths = {"enc_depth": config.num_encoder_layers, "dec_depth": config.num_decoder_layers}
        both = {f"{side}_{name}": value for side in ("enc", "dec") for name, value in sides.items()}
        model = XTransformer(dim=config.d_model, tie_token_emb=True, **both, **depths)
        model.decoder.net.to_logits.weight = model.encoder.token_emb.emb.weight
        return model

    def logits(self, batch: Any) -> Tensor:
        mask = torch.arange(batch.src_ids.size(1)) < batch.src_lengths[:, None]
        memory = self.model.encoder(batch.src_ids, mask=mask, return_embeddings=True)
        return self.model.decoder.net(batch.tgt_input, context=memory, context_mask=mask)
