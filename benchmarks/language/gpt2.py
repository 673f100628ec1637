"""Hugging Face's GPT-2: in the plain training loop, and its `generate`."""

from typing import Any

import torch
import transformers
from torch import Tensor, nn

from benchmarks.convert.to_hugging_face import text_model
from benchmarks.language.writer import Writer
from benchmarks.training.loop import Loop


class Trainer(Loop):
    """GPT-2 with its default attention, PyTorch's fused kernel; biases are trained, from zero."""

    def make(self, config: Any, weights: dict[str, Tensor]) -> nn.Module:
        return text_model(config, weights)

    def logits(self, batch: Any) -> Tensor:
        return self.model(input_ids=batch.ids, use_cache=False).logits


class Generator(Writer):
    """Hugging Face's `generate`, with its cache."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        transformers.logging.set_verbosity_error()
        self._model = text_model(self.config, self.weights()).eval()

    @torch.inference_mode()
    def write(self, length: int) -> list[int]:
        settings = transformers.GenerationConfig(
            max_new_tokens=length,
            min_new_tokens=length,
            do_sample=False,
            suppress_tokens=self.banned,
            pad_token_id=0,
            bos_token_id=2,
            eos_token_id=3,
        )
        ids = torch.tensor([self.prompt])
        found = self._model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)
        return found[0, len(self.prompt) :].tolist()
