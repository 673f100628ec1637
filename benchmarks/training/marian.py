"""Hugging Face's Marian in the plain loop, or Pegasus where the shape is pre-norm."""

from typing import Any

import torch
import transformers  # noqa: F401, so that its absence is reported first
from torch import Tensor, nn

from benchmarks.convert.to_hugging_face import pair_model
from benchmarks.training.loop import Loop


class Marian(Loop):
    """Marian with its default attention, PyTorch's fused kernel."""

    def make(self, config: Any, weights: dict[str, Tensor]) -> nn.Module:
        return pair_model(config, weights)

    def logits(self, batch: Any) -> Tensor:
        return logits(self.model, batch)


def logits(model: nn.Module, batch: Any) -> Tensor:
    """The logits at each position of the batch."""
    device = batch.src_ids.device
    mask = torch.arange(batch.src_ids.size(1), device=device) < batch.src_lengths[:, None]
    found = model(
        input_ids=batch.src_ids,
        attention_mask=mask.long(),
        decoder_input_ids=batch.tgt_input,
        use_cache=False,
    )
    return found.logits
