"""The registry of models, and how a model is built from its config."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
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
from regard.models.image_text import ImageText, ImageTextConfig
from regard.models.model import Model
from regard.models.part_trials import refuse_unusable_parts
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.models.speech_to_text import SpeechToText, SpeechToTextConfig
from regard.models.translation_metric import TranslationMetric, TranslationMetricConfig
from regard.models.vision import VisionConfig, VisionTransformer
from regard.registry import Registry, refuse_other_arguments

Built = TypeVar("Built", bound=Model)

# kind -> config class and model class
_OWN = {
    config.kind: (config, model)
    for config, model in (
        (EncoderDecoderConfig, EncoderDecoder),
        (EncoderOnlyConfig, EncoderOnly),
        (DecoderOnlyConfig, DecoderOnly),
        (RecurrentConfig, Recurrent),
        (VisionConfig, VisionTransformer),
        (ConformerConfig, Conformer),
        (SpeechToTextConfig, SpeechToText),
        (GraphConfig, GraphAttentionNetwork),
        (GraphTransformerConfig, GraphTransformer),
        (TranslationMetricConfig, TranslationMetric),
        (ImageTextConfig, ImageText),
    )
}
MODELS: Registry[tuple[type[ModelConfig], type[Model]]] = Registry(
    "model", _OWN, how="register_model of regard.models"
)


def register_model(config: type[ModelConfig]) -> Callable[[type[Built]], type[Built]]:
    """Make a model known by its config's `kind`, for `[model] kind` of a recipe and for model folders.

        @register_model(MyConfig)
        class MyModel(Model): ...

    The model is built with its config alone, and `initialise(generator)` gives all weights their first
    values, random ones from `generator` alone. What else it needs depends on the task:

    - A translation trains and decodes a `SequenceToSequence`. Training calls `encode`, `decoder_states` and
      `project`; searches call `encode` and `start`, then `extend` for each token, and `select` of the cache.
      Neither calls `forward`: `regard score` and `regard look` do. The config has `src_vocab_size`,
      `tgt_vocab_size`, `pad_id` and `generates = True`.
    - A classification of nodes calls the model with features and edges, as `GraphAttentionNetwork`, from
      which it inherits, with a subclass of its config.
    - Other tasks of regard train one kind of model each. Your own task (`register_task`) trains what its
      recipe names, and calls what its objective calls.

    Raises:
        UserError: regard has a model of this kind, or the class cannot be called with a config.
    """
    register = MODELS.register(config.kind)

    def add(model: type[Built]) -> type[Built]:
        refuse_other_arguments(model, f"the model {config.kind!r}", ("config",))
        register((config, model))
        return model

    return add


def config_class(kind: str) -> type[ModelConfig]:
    """The config class of a kind of model."""
    if kind not in MODELS:
        raise ConfigError(f"there is no kind of model {kind!r}", MODELS.hint(kind))
    return MODELS[kind][0]


def is_registered(config: ModelConfig) -> bool:
    """True if the model's kind is a registered one, none of regard's own."""
    return config.kind not in MODELS.own


def base_kind(config: ModelConfig) -> str | None:
    """The kind of regard's own that a model is of, or inherits from; None if it inherits from none."""
    if not is_registered(config):
        return config.kind
    model = MODELS[config.kind][1]
    for kind, (own_config, own_model) in MODELS.own.items():
        if isinstance(config, own_config) and isinstance(model, type) and issubclass(model, own_model):
            return kind
    return None


def build_model(config: ModelConfig, seed: int | None = None) -> Model:
    """The model of `config` with random weights from `seed` alone; None takes a random seed.

    Raises:
        ConfigError: a registered part cannot be used, shares its weights with another, or ignores what it has
            to use: masks, positions.
    """
    generator = torch.Generator()
    generator.manual_seed(seed) if seed is not None else generator.seed()
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):  # PyTorch's layers initialise themselves
        torch.default_generator.manual_seed(generator.initial_seed())  # and so do registered parts
        model = MODELS[config.kind][1](config)
        refuse_unusable_parts(model)
    model.initialise(generator)
    return model


def build_uninitialised(config: ModelConfig) -> Model:
    """The model of `config` with uninitialised weights, to be loaded from a file."""
    with _SkipInitialisation(), torch.device("cpu"):
        return MODELS[config.kind][1](config)


def count_config_parameters(config: ModelConfig) -> int:
    """The number of parameters of the model of `config`, computed without allocating its weights.

    Raises:
        RuntimeError: the model is too large to be counted.
    """
    return count_parameters(outline(config))


def outline(config: ModelConfig) -> Model:
    """The model of `config` with weights that have shapes, but no memory.

    Raises:
        RuntimeError: the model is too large to be described.
    """
    with _MetaWeights():
        return MODELS[config.kind][1](config)


def resized_weights(config: ModelConfig, **sizes: int) -> set[str]:
    """The names of the weights that have another shape, or are missing, with other `sizes` in `config`."""
    own, other = (_weight_shapes(each) for each in (config, dataclasses.replace(config, **sizes)))
    return {name for name, shape in own.items() if other.get(name) != shape}


def _weight_shapes(config: ModelConfig) -> dict[str, torch.Size]:
    """The shape of each weight; no memory is allocated."""
    with torch.device("meta"):
        return {name: tensor.shape for name, tensor in MODELS[config.kind][1](config).state_dict().items()}


class _SkipInitialisation(TorchFunctionMode):
    """Skips the initialisation of parameters, which took half of the loading time of GPT-2.

    Other tensors have their first values, as a table of random numbers that a registered part does not save.
    """

    INITIALISERS = frozenset(
        {Tensor.normal_, Tensor.uniform_, nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_}
    )

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in self.INITIALISERS:
            tensor = args[0] if args else (kwargs or {})["tensor"]
            if isinstance(tensor, nn.Parameter):
                return tensor
        return func(*args, **(kwargs or {}))


class _MetaWeights(_SkipInitialisation):
    """Creates weights on the device "meta", without memory; large position tables raise a RuntimeError.

    Building the whole model on "meta" would import PyTorch's compiler, which takes seconds.
    """

    ALLOCATORS = frozenset({torch.empty, torch.zeros, torch.ones})
    MAX_ELEMENTS = 10**7

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in self.ALLOCATORS:
            kwargs["device"] = "meta"
        elif func is torch.arange and max(map(abs, args[:2])) > self.MAX_ELEMENTS:
            raise RuntimeError(f"a count to {args[:2]} is too long")
        elif func is Tensor.div and isinstance(args[1], Tensor):
            shape = np.broadcast_shapes(args[0].shape, args[1].shape)  # torch's imports its compiler
            if math.prod(shape) > self.MAX_ELEMENTS:
                raise RuntimeError(f"a table of {tuple(shape)} is too large")
        return super().__torch_function__(func, types, args, kwargs)


def count_parameters(model: nn.Module) -> int:
    """The number of parameters; tied weights count once."""
    return sum(parameter.numel() for parameter in model.parameters())
