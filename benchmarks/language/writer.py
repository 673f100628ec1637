"""The base class of contenders in text generation: greedy, token by token."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.common.unfit import Unfit
from benchmarks.training.steps import SEED
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.weights.model_folder import load_model

LOUDER = 20.0


class Writer(ABC):
    """A contender in generation. The file `work` has the model, the prompt, and the banned tokens."""

    def __init__(self, *, work: str, threads: int, **others: Any) -> None:
        torch.set_num_threads(threads)
        self.work = json.loads(Path(work).read_text("utf-8"))
        self.config = DecoderOnlyConfig.from_dict(self.work["config"])
        self.prompt: list[int] = self.work["prompt"]
        self.banned: list[int] = self.work["banned"]

    @abstractmethod
    def write(self, length: int) -> list[int]:
        """`length` tokens after the prompt: always the most probable token that is not banned."""

    def weights(self) -> Mapping[str, Tensor]:
        return weights_of(self.config, self.work["model"])

    def round(self, *, length: int) -> dict[str, Any]:
        began = time.perf_counter()
        said = self.write(length)
        return {"seconds": time.perf_counter() - began, "tokens": len(said), "said": said}

    def write_all(self, prompts: list[list[int]], length: int) -> list[list[int]]:
        """`length` tokens after each prompt, as `write` does."""
        raise Unfit("it has no batches of prompts")

    def prompts(self, *, lengths: list[int], length: int) -> dict[str, Any]:
        """As `round`, for prompts of these lengths."""
        count = len(self.work["vocabulary"]) - len(self.banned)
        asked = [
            [len(self.banned) + (31 * row + 7 * place) % count for place in range(size)]
            for row, size in enumerate(lengths)
        ]
        began, processor = time.perf_counter(), time.process_time()
        said = self.write_all(asked, length)
        return {
            "seconds": time.perf_counter() - began,
            "processor": time.process_time() - processor,
            "tokens": sum(map(len, said)),
            "said": said,
        }


def weights_of(config: DecoderOnlyConfig, model: str | None) -> Mapping[str, Tensor]:
    """The weights of a trained model; without one, random weights with larger positional embeddings.

    Otherwise a random model would repeat one token for ever, and wrong positions would not be noticed.
    """
    if model is not None:
        return load_model(model).model.state_dict()
    weights = build_model(config, seed=SEED).state_dict()
    if "input.positions.weight" in weights:
        weights["input.positions.weight"] = weights["input.positions.weight"] * LOUDER
    return weights
