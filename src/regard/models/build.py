"""A config -> a model with fresh weights; and the list of all models."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.errors import ConfigError
from regard.models.config import ModelConfig
from regard.models.conformer import Conformer, ConformerConfig
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from regard.models.encoder_only import EncoderOnly, EncoderOnlyConfig
from regard.models.graph import (
    GraphAttentionNetwork,
    GraphConfig,
    GraphTransformer,
    GraphTransformerConfig,
)
from regard.models.model import Model
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.models.vision import VisionConfig, VisionTransformer
from regard.registry import Registry

Built = TypeVar("Built", bound=Model)

# kind -> its settings and its class
_OWN = {
    config.kind: (config, model)
    for config, model in (
        (EncoderDecoderConfig, EncoderDecoder),
        (EncoderOnlyConfig, EncoderOnly),
        (DecoderOnlyConfig, DecoderOnly),
        (RecurrentConfig, Recurrent),
        (VisionConfig, VisionTransformer),
        (ConformerConfig, Conformer),
        (GraphConfig, GraphAttentionNetwork),
        (GraphTransformerConfig, GraphTransformer),
    )
}
MODELS: Registry[tuple[type[ModelConfig], type[Model]]] = Registry(
    "model", _OWN, how="register_model of regard.models"
)


def register_model(config: type[ModelConfig]) -> Callable[[type[Built]], type[Built]]:
    """Make a model known by its config's `kind`, for `[model] kind` of a recipe and for model folders.

        @register_model(MyConfig)
        class MyModel(Model): ...

    The model is built with its config alone, and `initialise(generator)` draws its weights.

    Raises:
        UserError: regard has a model of this kind.
    """
    register = MODELS.register(config.kind)

    def add(model: type[Built]) -> type[Built]:
        register((config, model))
        return model

    return add


def config_class(kind: str) -> type[ModelConfig]:
    """The settings of the models of this kind."""
    if kind not in MODELS:
        raise ConfigError(f"no kind of model {kind!r}", MODELS.hint(kind))
    return MODELS[kind][0]


def build(config: ModelConfig, seed: int | None = None) -> Model:
    """The model of `config`, its weights drawn with `seed` (None: with a new one) and nothing else's."""
    generator = torch.Generator()
    generator.manual_seed(seed) if seed is not None else generator.seed()
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):  # PyTorch's layers draw on their own
        model = MODELS[config.kind][1](config)
    model.initialise(generator)
    return model


def build_unfilled(config: ModelConfig) -> Model:
    """The model of `config` with whatever lies in memory as its weights: they are about to be restored."""
    with _NothingDrawn(), torch.device("cpu"):
        return MODELS[config.kind][1](config)


def parameters_of(config: ModelConfig) -> int:
    """`count_parameters` of the model of `config`, found without making its weights.

    Raises:
        RuntimeError: it is too big to be counted.
    """
    with _NothingMade():
        return count_parameters(MODELS[config.kind][1](config))


class _NothingDrawn(TorchFunctionMode):
    """Draws leave weights as they are: they took half of the time in which a GPT-2 of 124 M was loaded."""

    DRAWS = frozenset(
        {Tensor.normal_, Tensor.uniform_, nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_}
    )

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in self.DRAWS:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


class _NothingMade(_NothingDrawn):
    """Weights have a shape and no memory; tables of positions are small, or the model counts as too big.

    On PyTorch's device "meta" as a whole a count would import its compiler: seconds.
    """

    WEIGHTS = frozenset({torch.empty, torch.zeros, torch.ones})
    MOST = 10**7

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in self.WEIGHTS:
            kwargs["device"] = "meta"
        elif func is torch.arange and max(map(abs, args[:2])) > self.MOST:
            raise RuntimeError(f"a count to {args[:2]} is too long")
        elif func is Tensor.div and isinstance(args[1], Tensor):
            shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
            if math.prod(shape) > self.MOST:
                raise RuntimeError(f"a table of {tuple(shape)} is too large")
        return super().__torch_function__(func, types, args, kwargs)


def count_parameters(model: Model) -> int:
    """How many numbers are learned; what is tied counts once."""
    return sum(parameter.numel() for parameter in model.parameters())
