"""What every model of the family is: a module with a config that can draw its own fresh weights."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import nn


class Model(nn.Module, ABC):
    """A module with a `config`; what it is called with and what it gives is its own business."""

    config: Any  # its own class of ModelConfig

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @abstractmethod
    def initialise(self, generator: torch.Generator) -> None:
        """Draw fresh weights, from `generator` alone."""
