"""Cost of an update by sentence length, with equally many tokens: regard's step and the plain one."""

import time
from abc import ABC, abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.convert.to_torch import transformer_weights
from benchmarks.training.plain import Translator
from regard.data.batch import PairBatch
from regard.fast.training import fuse
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.training.objective import CrossEntropy

SIZES = {"src_vocab_size": 8000, "tgt_vocab_size": 8000}
SMOOTHING = 0.1


class Step(ABC):
    """Gradients and one Adam update, on sentences of equal length."""

    def __init__(self, *, threads: int, dropout: str, tokens: int) -> None:
        torch.set_num_threads(threads)
        rate = 0.1 if dropout == "everywhere" else 0.0
        table = {"preset": "small", "attention_dropout": rate, "activation_dropout": rate}
        self.config = EncoderDecoderConfig.from_table(table, **SIZES)
        self.model = self.make().train()
        self._tokens = tokens
        self._optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)

    @abstractmethod
    def make(self) -> nn.Module: ...

    @abstractmethod
    def loss(self, batch: PairBatch) -> Tensor:
        """The mean over all target tokens."""

    def round(self, *, length: int) -> dict[str, Any]:
        batch = batch_of(max(1, self._tokens // length), length)
        began = time.perf_counter()
        self._optimizer.zero_grad(set_to_none=True)
        self.loss(batch).backward()
        self._optimizer.step()
        return {"seconds": time.perf_counter() - began, "steps": 1}


class Regard(Step):
    """regard's model with its fused forms, as the trainer has it, and its objective."""

    def make(self) -> nn.Module:
        model = build_model(self.config, seed=1)
        fuse(model)
        return model

    def loss(self, batch: PairBatch) -> Tensor:
        return CrossEntropy(smoothing=SMOOTHING)(self.model, batch).total / batch.num_targets  # type: ignore[arg-type]


class Plain(Step):
    """torch.nn.Transformer, as in `benchmarks/training/plain.py`."""

    def make(self) -> nn.Module:
        model = Translator(self.config)
        model.load_state_dict(transformer_weights(self.config, build_model(self.config, seed=1).state_dict()))
        return model

    def loss(self, batch: PairBatch) -> Tensor:
        logits = self.model(batch).flatten(0, 1)
        return F.cross_entropy(logits, batch.labels.flatten(), label_smoothing=SMOOTHING)


def batch_of(rows: int, length: int) -> PairBatch:
    """Pairs of random ids, source and target of equal length, without padding."""
    draw = torch.Generator().manual_seed(1)
    lengths = torch.full((rows,), length)
    return PairBatch(
        src_ids=torch.randint(4, 8000, (rows, length), generator=draw),
        src_lengths=lengths,
        tgt_ids=torch.randint(4, 8000, (rows, length + 1), generator=draw),
        tgt_lengths=lengths + 1,
        lines=torch.arange(1, rows + 1),
    )
