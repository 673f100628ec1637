"""Activation patching: a part of one run is replaced by what another run had there (Vig et al. 2020).

If the answer then changes towards that of the other run, the part holds what made the difference. Meng et
al. 2022 ("causal tracing") restore the states of a clean run in a corrupted one in this way; Wang et al. 2023
patch single heads.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, cast

from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import ConfigError, did_you_mean
from regard.inspection.own_thread import in_this_thread
from regard.inspection.record import blocks
from regard.layers.attention import MultiHeadAttention
from regard.layers.kernels import Attend, around, current_attend, exchanged


@dataclass(frozen=True, kw_only=True)
class Patch:
    """What replaces the output of a module, or the outputs of heads.

    `value` is what another run had there: `recording.hidden(module)`, [len, width], or with `heads` the
    outputs of all heads of an attention before its output projection, `recording.head_output(module)`,
    [heads, len, d_value]; with `row=None` they have a batch axis in front. At `positions` (rows; None: all)
    the model gets it instead of its own.
    """

    module: str  # a block, or any module with one vector per position; with `heads` an attention
    value: Float[Tensor, "*axes len width"]
    heads: Sequence[int] | None = None
    positions: Sequence[int] | None = None


@contextmanager
def patched(model: nn.Module, *patches: Patch) -> Iterator[None]:
    """A context in which the model computes with these values instead of its own, in this thread.

    `patches` of one module apply in their order. A pass must have all positions at once, as forced ones do:
    not the steps of decoding with a cache.

    Raises:
        ConfigError: the model has no such module, head or position; inside the `with`, the shape of a value
            is not that of what it replaces.
    """
    modules = dict(model.named_modules())
    for each in patches:
        _refuse_unknown(model, modules, each)
    with ExitStack() as undo:
        for each in patches:
            module = modules[each.module]
            if each.heads is None:
                hook = in_this_thread(_output_hook(each))
                undo.callback(module.register_forward_hook(hook).remove)
            else:
                undo.enter_context(exchanged(module, _patched_kernel(current_attend(module), each)))
        yield


def _refuse_unknown(model: nn.Module, modules: dict[str, nn.Module], patch: Patch) -> None:
    name, length = patch.module, patch.value.size(-2)
    if patch.heads is None and name not in modules:
        raise ConfigError(f"the model has no module {name!r}", did_you_mean(name, blocks(model)))
    if patch.heads is not None:
        found = [each for each, module in modules.items() if isinstance(module, MultiHeadAttention)]
        if name not in found:
            raise ConfigError(f"the model has no attention {name!r} with heads", did_you_mean(name, found))
        count = cast(MultiHeadAttention, modules[name]).num_heads
        if any(not 0 <= head < count for head in patch.heads):
            raise ConfigError(
                f"{name} has no heads {[*patch.heads]}: it has {count}", f"heads are 0 to {count - 1}"
            )
    positions = [*(patch.positions or ())]
    if any(not 0 <= position < length for position in positions):
        raise ConfigError(
            f"the value for {name} has no positions {positions}: it has {length}",
            f"positions are 0 to {length - 1}",
        )


def _output_hook(patch: Patch) -> Any:
    """A forward hook that replaces the output of a module, or the first of several."""

    def hook(module: nn.Module, inputs: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (_replaced(patch, output[0]), *output[1:])
        return _replaced(patch, output)

    return hook


def _patched_kernel(original: Attend, patch: Patch) -> Attend:
    """The kernel `original`, whose output for some heads is replaced."""

    def attend(*inputs: Any) -> Tensor:
        output, heads = original(*inputs), list(patch.heads or ())
        replaced = _replaced(patch, output)
        result = output.clone()
        result[:, heads] = replaced[:, heads]
        return result

    return around(original, attend)


def _replaced(patch: Patch, output: Tensor) -> Tensor:
    """The output of a module with the value of a patch at its positions.

    Raises:
        ConfigError: the value does not fit.
    """
    value = patch.value.to(output)
    while value.dim() < output.dim():
        value = value[None]
    own, other = [*output.shape], [*value.shape]
    chosen = slice(None) if patch.positions is None else list(patch.positions)
    fits = len(own) == len(other) and other[0] in (1, own[0]) and own[1:-2] == other[1:-2]
    reaches = own[-2] == other[-2] if patch.positions is None else max(patch.positions, default=0) < own[-2]
    if not (fits and reaches and own[-1] == other[-1]):
        raise ConfigError(
            f"the value for {patch.module} has the shape {other}, and its output in this call {own}",
            "patch a whole pass of equal length, or the positions that both have",
        )
    result = output.clone()
    result[..., chosen, :] = value[..., chosen, :].expand_as(result[..., chosen, :])
    return result
