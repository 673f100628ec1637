"""The base class of all models."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import nn


class Model(nn.Module, ABC):
    """A module with a `config` and its own initialisation; inputs and outputs depend on the kind of model."""

    config: Any  # a subclass of ModelConfig

    @property
    def device(self) -> torch.device:
        """The device of the model's parameters."""
        return next(self.parameters()).device

    @abstractmethod
    def initialise(self, generator: torch.Generator) -> None:
        """Initialise all weights randomly, from `generator` alone."""
