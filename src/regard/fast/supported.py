"""Which models have a fast decoding step: an exact list of module types and settings.

Whatever is not on the list takes the plain form (`extend`): a subclass, a module with a hook, an overridden
or patched method, a parametrised weight, weights of several devices, on a CPU another dtype.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from regard.fast.dropout import FastDropout
from regard.fast.int8 import Int8Linear
from regard.fast.native import kernels
from regard.fast.training import PLAIN_FORMS, plain_attend, plain_type
from regard.fast.unchanged import any_module_is_hooked, class_is_unchanged, has_hooks, overrides
from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.block import (
    DecoderBlock,
    EncoderBlock,
    ParallelBlock,
    PostNorm,
    PreNorm,
    ReorderedNorm,
    SandwichNorm,
)
from regard.layers.embedding import TokenEmbedding
from regard.layers.feedforward import FeedForward, GatedFeedForward
from regard.layers.norm import RMSNorm
from regard.layers.positions import LearnedPositions, RotaryPositions, SinusoidalPositions
from regard.layers.scaled_dot_product import attention
from regard.layers.softcapped import SoftcappedLinear
from regard.layers.stacked import StackedLinear
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import Decoder, Encoder, EncoderDecoder
from regard.models.parts import InputEmbedding

SUPPORTED_MODELS = (EncoderDecoder, DecoderOnly)
SUPPORTED_TYPES = frozenset(
    {
        *(EncoderDecoder, DecoderOnly, Encoder, Decoder, InputEmbedding, EncoderBlock, DecoderBlock),
        *(PostNorm, PreNorm, SandwichNorm, SelfAttention, MultiHeadAttention, FeedForward, GatedFeedForward),
        *(TokenEmbedding, SinusoidalPositions, LearnedPositions, RotaryPositions, RMSNorm, StackedLinear),
        *(Int8Linear, nn.Linear, nn.LayerNorm, nn.Identity, nn.Dropout, nn.ModuleList),
    }
)
# a GPU runs the modules themselves, so that more of them are known; int8 is for CPUs
TYPES_ON_A_GPU = (SUPPORTED_TYPES | {ParallelBlock, ReorderedNorm, SoftcappedLinear}) - {Int8Linear}


def why_not_here(model: nn.Module) -> str | None:
    """Why `model` cannot have a fast step as a whole, where it is now; None if its parts decide."""
    if type(model) not in SUPPORTED_MODELS:
        return f"{type(model).__name__} is not a model that it knows"
    if model.training:
        return "the model is in training mode"
    device = _device(model)
    if device.type not in ("cpu", "cuda"):
        return f"it knows no device of the type {device.type}"
    if device.type == "cpu" and not kernels.available():
        return "this machine has no kernels in C"
    return None


def why_unsupported(model: nn.Module) -> str | None:
    """Why `model` cannot have a fast step; None if all its parts are known.

    Building the plan may still fail, for example if a known layer is used in place of another.
    """
    if reason := why_not_here(model):
        return reason
    if any_module_is_hooked():
        return "a hook of all modules is registered"
    device = _device(model)
    for name, module in model.named_modules():
        for reason in _reasons(module, device, is_output=name == "output"):
            return f"{name or 'the model'}: {reason}"
    return None


def is_known_in_training(model: nn.Module) -> bool:
    """True if `model` has its fused forms, and all its parts depend on inputs and weights alone.

    So they have no hooks, and are of known types that nobody changed.
    """
    modules = list(model.modules())
    kinds = {type(module) for module in modules}
    plain = {PLAIN_FORMS.get(kind, kind) for kind in kinds}
    return (
        type(model) in SUPPORTED_MODELS
        and kinds != plain
        and plain <= TYPES_ON_A_GPU
        and all(map(class_is_unchanged, kinds | plain))
        and not any_module_is_hooked()
        and all(module.training and not has_hooks(module) and not _is_replaced(module) for module in modules)
    )


def _is_replaced(module: nn.Module) -> bool:
    """True if the module itself has another method or attention, or is compiled."""
    has_other_attention = isinstance(module, MultiHeadAttention) and plain_attend(module) is not attention
    is_compiled = module._compiled_call_impl is not None
    return has_other_attention or is_compiled or bool(overrides(module))


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _reasons(module: nn.Module, device: torch.device, *, is_output: bool) -> Iterator[str]:
    """What is unsupported in a module, not counting its children."""
    kind = plain_type(module)
    on_cpu = device.type == "cpu"
    if kind not in (SUPPORTED_TYPES if on_cpu else TYPES_ON_A_GPU):
        yield f"{type(module).__name__} is not a type that it knows"
        return
    if has_hooks(module):
        yield "it has a hook"
    if changed := overrides(module):
        yield f"its {changed[0]} is overridden"
    if not class_is_unchanged(kind) or (kind is nn.Dropout and not class_is_unchanged(FastDropout)):
        yield f"a method of {kind.__name__} was replaced"
    yield from _settings(module)
    if on_cpu:
        yield from _settings_on_a_cpu(module, is_output=is_output)
    for name, tensor in (*module._parameters.items(), *module._buffers.items()):
        if tensor is not None and not _is_plain(tensor, device):
            yield f"its {name} is not a plain {'float32 ' if on_cpu else ''}tensor on {_article(device)}"


def _settings(module: nn.Module) -> Iterator[str]:
    if module.training and isinstance(module, nn.Dropout | MultiHeadAttention):
        yield "it is in training mode"
    if isinstance(module, MultiHeadAttention) and module.softcap is not None:
        yield "its scores are soft-capped"
    if isinstance(module, MultiHeadAttention) and plain_attend(module) is not attention:
        yield "its attend was exchanged"
    if isinstance(module, SelfAttention) and module.query_norm and module.qk_norm_width != "head":
        yield "queries and keys of all heads are normalised together"
    if isinstance(module, Encoder | Decoder | DecoderOnly) and module.position_bias is not None:
        yield "positions are a bias of scores"


def _settings_on_a_cpu(module: nn.Module, *, is_output: bool) -> Iterator[str]:
    if isinstance(module, DecoderOnly) and len({getattr(each, "window", None) for each in module.blocks}) > 1:
        yield "its layers have different windows"
    if isinstance(module, RotaryPositions) and module.rotary_dim != module.d_head:
        yield "its positions rotate a part of each head"
    if isinstance(module, Int8Linear) and not is_output and not kernels.has_int8():
        yield "the kernels of this machine have no int8"


def _is_plain(tensor: Tensor, device: torch.device) -> bool:
    return (
        type(tensor) in (Tensor, nn.Parameter)
        and tensor.device == device
        and (tensor.dtype == torch.float32 if device.type == "cpu" else tensor.is_floating_point())
        and tensor.layout == torch.strided
        and tensor.is_contiguous()
    )


def _article(device: torch.device) -> str:
    return "a CPU" if device.type == "cpu" else str(device)
