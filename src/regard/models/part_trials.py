"""Trials of registered parts: does an attention use its mask, do positions begin at their start?

`build_model` calls `refuse_unusable_parts` once. Each registered part is called with a few random states:
what it must not depend on is changed, and its output must stay the same. What it must depend on is changed
too. The trial leaves the random states and the part as they were. A model that is read from a file is not
tried: its weights have no values yet, and those that it was trained to may be odd.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from regard.errors import ConfigError
from regard.layers.attention import OutputError, SelfAttention
from regard.models.attention_trial import try_attention
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.encoder_only import EncoderOnly
from regard.models.model import Model
from regard.models.position_trials import try_added, try_bias, try_rotation
from regard.models.registered import mark_of, registered_parts
from regard.models.trial_state import Masks, changes_input, ignores_input, is_of_any_device, unchanged
from regard.registry import naming_failures


def refuse_unusable_parts(model: Model) -> None:
    """Raise a ConfigError if a registered part of a new model ignores what it has to use, or shares weights.

    A part that fails in its trial for want of a GPU is not judged.
    """
    _refuse_shared_weights(model)
    for part in model.modules():
        if (mark := mark_of(part)) is not None and mark.sizes:
            with unchanged(part):
                for sizes in mark.sizes:
                    _try_states(part, mark.what, sizes)
    names = registered_parts(model.config)
    for masks, stack in _stacks(model):
        attention = next((each for each in stack.modules() if isinstance(each, SelfAttention)), None)
        trials: list[tuple[Any, Callable[..., ConfigError | None]]] = []
        if "positions" in names:
            trials.append((getattr(getattr(stack, "input", None), "positions", None), try_added))
            trials.append((getattr(stack, "position_bias", None), try_bias))
            trials.append((attention and attention.rotary, try_rotation))
        if "attention" in names:
            trials.append((attention, try_attention))
        for part, trial in trials:
            if part is not None and (found := _outcome(part, trial, model, masks)) is not None:
                raise found


def _outcome(
    part: nn.Module, trial: Callable[..., ConfigError | None], model: Model, masks: Masks
) -> ConfigError | None:
    """The error that a trial has found; None if there is none, or the part could not be tried."""
    mark = mark_of(part)
    assert mark is not None
    try:
        with unchanged(part):
            return trial(part, model.config, masks)
    except ConfigError:
        raise
    except OutputError as error:
        hint = "return the weighted values alone, one vector for each query"
        return ConfigError(f"{mark.what}: {error}", hint)
    except Exception as error:
        if is_of_any_device(error):
            with naming_failures(
                mark.what, part, "it is tried with a few states when a model is built", kind=ConfigError
            ):
                raise
        return None


def _refuse_shared_weights(model: Model) -> None:
    """Raise a ConfigError if a function gave the same weights for several parts of a model.

    Where a model itself uses one part twice, that part was made once.
    """
    owned: set[int] = set()
    for part in model.modules():
        if (mark := mark_of(part)) is None:
            continue
        own = {id(each) for each in _own_tensors(part)}
        if (own and mark.times > 1) or own & owned:
            raise ConfigError(
                f"{mark.what} has the same weights each time it is made, which layers or models would share",
                "make a new module in each call",
            )
        owned |= own


def _own_tensors(part: nn.Module) -> list[Any]:
    """The parameters and saved buffers of a part, without those of registered parts in it."""
    modules = part.named_modules(remove_duplicate=False)
    inner = tuple(f"{name}." for name, each in modules if name and mark_of(each) is not None)
    return [each for name, each in part.state_dict(keep_vars=True).items() if not name.startswith(inner)]


def _stacks(model: Model) -> Iterator[tuple[Masks, nn.Module]]:
    """The stacks that get masks. A model of images has none, so that its parts may ignore them."""
    match model:
        case EncoderDecoder():
            yield "padding", model.encoder
            yield "causal", model.decoder
        case EncoderOnly():
            yield "padding", model.encoder
        case DecoderOnly():
            yield "causal", model
        case _:
            return


def _try_states(made: nn.Module, what: str, sizes: tuple[int, ...]) -> None:
    """Raise a ConfigError if a part cannot be called, or changes the shape of states.

    Or if it mixes positions, the last axis but one, ignores the states or writes into them, or gives NaN.
    """
    states = torch.linspace(-1.0, 1.0, math.prod(sizes)).reshape(sizes)
    other = states.clone()
    other[..., -1, :] = 10 * torch.arange(1.0, sizes[-1] + 1)
    before = states.clone()
    try:
        found, changed = made(states), made(other)
    except Exception as error:
        raise ConfigError(
            f"{what} fails for states of {[*sizes]}: {type(error).__name__}: {error}",
            f"it is called with states of {len(sizes)} axes" + (", too" if len(sizes) > 3 else ""),
        ) from error
    shape = [*found.shape] if isinstance(found, torch.Tensor) else type(found).__name__
    if shape != [*sizes]:
        raise ConfigError(f"{what} gives {shape} for states of {[*sizes]}", "give the same shape")
    if not torch.equal(states, before):
        raise changes_input(what)
    if found.dtype != states.dtype:
        raise ConfigError(f"{what} gives {found.dtype} for {states.dtype}", "return the type of the input")
    with torch.enable_grad():
        has_gradient = made(states.clone().requires_grad_()).requires_grad
    if not has_gradient:
        raise ConfigError(
            f"{what} has no gradient, so that neither it nor what comes before it is trained by it",
            "compute without detach(), torch.no_grad(), rounding and comparisons",
        )
    if found.isnan().any():
        raise ConfigError(f"{what} gives NaN for states from -1 to 1", "give a number for each state")
    if torch.equal(found[..., -1, :], changed[..., -1, :]):
        raise ignores_input(what)
    if not torch.allclose(found[..., :-1, :], changed[..., :-1, :], rtol=1e-3, atol=1e-5, equal_nan=True):
        raise ConfigError(
            f"{what} gives a position another output if others change",
            "compute each position by itself: a text would depend on padding, and a token on those after it",
        )
