"""eole, the successor of OpenNMT-py, in the plain loop.

It is pre-norm. If the work is post-norm, its weights differ: it has one more norm at the end of each stack.
"""

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.common.unfit import Unfit
from benchmarks.convert.to_eole import pair_model, vocabularies_of
from benchmarks.training.loop import Loop


class Eole(Loop):
    """Its model as it is built for training."""

    def make(self, config: Any, weights: dict[str, Tensor]) -> nn.Module:
        pieces = [f"<{number}>" for number in range(config.tgt_vocab_size)]
        vocabularies = vocabularies_of(pieces)
        try:
            return pair_model(config, weights, vocabularies)
        except Unfit:
            self.same_weights = False
            return pair_model(config, None, vocabularies, like=True)

    def logits(self, batch: Any) -> Tensor:
        """Logits; eole's decoder drops the last target token, so the target is passed with one more."""
        end = torch.zeros_like(batch.tgt_input[:, :1])
        target = torch.cat([batch.tgt_input, end], dim=1)
        found = self.model(batch.src_ids, target, batch.src_lengths)
        return self.model.generator(found.dec_out)
