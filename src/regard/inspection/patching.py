"""Activation patching: a part of one run is replaced by what another run had there (Vig et al. 2020).

If the answer then changes towards that of the other run, the part holds what made the difference. Meng et
al. 2022 ("causal tracing") restore the states of a clean run in a corrupted one in this way; Wang et al. 2023
patch single heads.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.inspection.decoder_calls import (
    DecoderCall,
    decoder_calls,
    is_of_decoder,
    refuse_cached_calls,
    refuse_calls,
)
from regard.inspection.names_given import attention_hint, module_hint
from regard.inspection.numbers_given import refuse_other_indices
from regard.inspection.own_thread import in_this_thread
from regard.inspection.passes import refuse_shared_modules
from regard.inspection.record import blocks
from regard.layers.attention import MultiHeadAttention
from regard.layers.kernels import Attend, around, current_attend, exchanged
from regard.models.decoder_only import DecoderOnly
from regard.models.recurrent import Recurrent

RECURRENT = "the steps of a recurrent decoder cannot be patched", "patch a forced pass, or the encoder"
BEFORE_BLOCKS = (
    "{} is called before the positions of a rolling context window are known",
    "patch a block, or decode a shorter text or with max_context = 0, which has no such window",
)


@dataclass(frozen=True, kw_only=True)
class Patch:
    """What replaces the output of a module, or the outputs of heads.

    `value` is what another run had there: `recording.hidden(module)`, [len, width], or with `heads` the
    outputs of all heads of an attention before its output projection, `recording.head_output(module)`,
    [heads, len, d_value]; with `row=None` they have a batch axis in front. At `positions` (rows; None: all)
    the model gets it instead of its own.

    The value may also have as many rows as `positions`, in their order: so the state of one position is put
    at another. A single vector needs no axis for its position. Of heads it may have those of `heads` alone.
    """

    module: str  # a block, or any module with one vector per position; with `heads` an attention
    value: Float[Tensor, "*axes len width"]
    heads: Sequence[int] | None = None
    positions: Sequence[int] | None = None


@contextmanager
def patched(model: nn.Module, *patches: Patch) -> Iterator[None]:
    """A context in which the model computes with these values instead of its own, in this thread.

    `patches` of one module apply in their order. While a Transformer decodes with a cache, positions are
    those of the text, the beginning token or the prompt included, and all hypotheses get the same value. In a
    rolling context window a position is patched in each window that reads it.
    Positions that decoding does not reach are not patched. Of other models a pass must have all positions
    at once, as forced ones do.

    Raises:
        ConfigError: the model has no such module, head or position, or none is named, or two of its blocks or
            attentions are one module; inside the `with`, the shape of a value is not that of what it
            replaces, or decoding goes beyond a value that has no `positions`, or is that of a recurrent
            model; at its end, a module was not called, although the part of the model that it is in was.
    """
    refuse_shared_modules(model)
    modules = dict(model.named_modules())
    patches = tuple(_refuse_unknown(model, modules, each) for each in patches)
    with ExitStack() as undo:
        call = undo.enter_context(decoder_calls(model))
        called = [undo.enter_context(_calls(model, each)) for each in patches]
        for each in patches:
            module, calls = modules[each.module], call if is_of_decoder(model, each.module) else None
            if calls is not None and isinstance(model, Recurrent):
                undo.enter_context(refuse_cached_calls(model, *RECURRENT))
            if isinstance(model, DecoderOnly) and each.module.partition(".")[0] == "input":
                message, hint = BEFORE_BLOCKS
                undo.enter_context(
                    refuse_calls(model, lambda call: call.first > 0, message.format(each.module), hint)
                )
            if each.heads is None:
                hook = in_this_thread(_output_hook(each, calls))
                undo.callback(module.register_forward_hook(hook).remove)
            else:
                undo.enter_context(exchanged(module, _patched_kernel(current_attend(module), each, calls)))
        yield
        for each, seen in zip(patches, called, strict=True):
            if seen.part and not seen.module:
                name = repr(each.module) if each.module else "the model as a whole"
                raise ConfigError(
                    f"{name} was never called, so it was not patched",
                    "patch a block or an attention, which every pass and every step call",
                )


@dataclass
class _Calls:
    """True for what was called: a module, and the part of the model that it is in."""

    part: bool = False
    module: bool = False


@contextmanager
def _calls(model: nn.Module, patch: Patch) -> Iterator[_Calls]:
    """A context in which calls of the patched module are noted, in this thread."""
    seen, modules = _Calls(), dict(model.named_modules())
    first = patch.module.partition(".")[0]
    parts = [modules[first]] if first else [*model.children()]
    of_lists = [each for part in parts if isinstance(part, nn.ModuleList) for each in part]

    def note(name: str) -> Any:
        def hook(module: nn.Module, inputs: Any) -> None:
            setattr(seen, name, True)

        return in_this_thread(hook)

    with ExitStack() as undo:
        for part in (*parts, *of_lists):
            undo.callback(part.register_forward_pre_hook(note("part")).remove)
        undo.callback(modules[patch.module].register_forward_pre_hook(note("module")).remove)
        yield seen


def _refuse_unknown(model: nn.Module, modules: dict[str, nn.Module], patch: Patch) -> Patch:
    """The patch, with tuples of numbers; a ConfigError if the model or the value lacks one."""
    name = patch.module
    if not isinstance(patch.value, Tensor):
        raise ConfigError(
            f"the value for {name} is a {type(patch.value).__name__}, not a tensor",
            "give what a recording has, or torch.as_tensor(...)",
        )
    value, positions = patch.value, None
    if patch.positions is not None:
        positions = refuse_other_indices(f"the value for {name}", "positions", patch.positions, None)
    if value.dim() == (1 if patch.heads is None else 2) and len(positions or ()) == 1:
        patch = replace(patch, value=value.unsqueeze(-2))
    if patch.value.dim() < 2:
        raise ConfigError(
            f"the value for {name} has no axis for positions: its shape is {[*patch.value.shape]}",
            "give it as [len, width], or with `heads` as [heads, len, d_value]",
        )
    length, heads = patch.value.size(-2), None
    if patch.heads is None and name not in modules:
        raise ConfigError(f"the model has no module {name!r}", module_hint(model, name, blocks(model)))
    if patch.heads is not None:
        found = [each for each, module in modules.items() if isinstance(module, MultiHeadAttention)]
        if name not in found:
            hint = attention_hint(model, name, found)
            raise ConfigError(f"the model has no attention {name!r} with heads", hint)
        count = cast(MultiHeadAttention, modules[name]).num_heads
        heads = refuse_other_indices(name, "heads", patch.heads, count)
    if positions is not None:
        _refuse_other_rows(name, positions, length)
    return replace(patch, heads=heads, positions=positions)


def _refuse_other_rows(name: str, positions: tuple[int, ...], length: int) -> None:
    """Raise a ConfigError if a value of `length` rows has neither these rows nor as many.

    Or if it has both, in another order.
    """
    if len(positions) != length:
        refuse_other_indices(f"the value for {name}", "positions", positions, length)
    elif sorted(positions) == list(range(length)) and list(positions) != sorted(positions):
        raise ConfigError(
            f"the value for {name} has one row for each of the positions {[*positions]}, in this order or by"
            " their number",
            "name the positions in ascending order",
        )


def _row_of(patch: Patch, position: int) -> int:
    """The row of the value that belongs at a position."""
    if patch.positions is not None and len(patch.positions) == patch.value.size(-2):
        return patch.positions.index(position)
    return position


def _output_hook(patch: Patch, call: DecoderCall | None) -> Any:
    """A forward hook that replaces the output of a module, or the first of several."""

    def hook(module: nn.Module, inputs: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (_replaced(patch, output[0], call), *output[1:])
        return _replaced(patch, output, call)

    return hook


def _patched_kernel(original: Attend, patch: Patch, call: DecoderCall | None) -> Attend:
    """The kernel `original`, whose output for some heads is replaced."""

    def attend(*inputs: Any) -> Tensor:
        output, heads = original(*inputs), list(patch.heads or ())
        replaced = _replaced(patch, output, call)
        result = output.clone()
        result[:, heads] = replaced[:, heads]
        return result

    return around(original, attend)


def _replaced(patch: Patch, output: Any, call: DecoderCall | None) -> Tensor:
    """The output of a module with the value of a patch at its positions; `call`: of the decoder it is in.

    Raises:
        ConfigError: the value does not fit.
    """
    if not isinstance(output, Tensor) or output.dim() < 2:
        raise ConfigError(
            f"the output of {patch.module} has no vector for each position", "patch a block or an attention"
        )
    value = patch.value.to(output)
    while value.dim() < output.dim():
        value = value[None]
    value = _of_all_heads(patch, value, output)
    step = call if call is not None and call.cached else None
    pairs = _pairs_of_pass(patch, output.size(-2)) if step is None else _pairs_of_step(patch, step)
    own, other = [*output.shape], [*value.shape]
    fits = len(own) == len(other) and own[1:-2] == other[1:-2] and own[-1] == other[-1]
    fits = fits and (other[0] == 1 or (other[0] == own[0] and step is None))
    if not fits or pairs is None or (step is not None and own[-2] != step.length):
        raise ConfigError(
            f"the value for {patch.module} has the shape {other}, and its output in this call {own}",
            _hint_for_shape(patch, own, other),
        )
    here, there = [place for place, _ in pairs], [position for _, position in pairs]
    result = output.clone()
    result[..., here, :] = value[..., there, :].expand_as(result[..., here, :])
    return result


def _of_all_heads(patch: Patch, value: Tensor, output: Tensor) -> Tensor:
    """The value of the named heads alone, among the outputs of all; any other value as it is."""
    if patch.heads is None or value.dim() != output.dim() or value.size(-1) != output.size(-1):
        return value
    heads, count = list(patch.heads), output.size(1)
    if value.size(1) == count or value.size(1) != len(heads):
        return value
    found = value.new_zeros(value.size(0), count, *value.shape[2:])
    found[:, heads] = value
    return found


def _hint_for_shape(patch: Patch, own: Sequence[int], other: Sequence[int]) -> str:
    if patch.heads is not None and (len(own) != len(other) or own[-1] != other[-1]):
        return "record `head_output`: with `heads` the value is [heads, len, d_value]"
    if patch.heads is not None and own[1] != other[1]:
        return f"give the output of all {own[1]} heads, or of the {len(patch.heads)} named"
    if len(own) != len(other) or own[-1] != other[-1]:
        return f"give vectors of width {own[-1]}, as a recording of this module has them"
    if other[0] not in (1, own[0]):
        return "give one value for all rows of the batch, or one for each"
    return "patch a whole pass of equal length, or the positions that both have"


def _pairs_of_pass(patch: Patch, length: int) -> list[tuple[int, int]] | None:
    """Rows of an output and the rows of the value that replace them; None if there are not both."""
    if patch.positions is None:
        return [(row, row) for row in range(length)] if patch.value.size(-2) == length else None
    if max(patch.positions, default=0) >= length:
        return None
    return [(position, _row_of(patch, position)) for position in patch.positions]


def _pairs_of_step(patch: Patch, call: DecoderCall) -> list[tuple[int, int]]:
    """The same in a call that continues a cache.

    Raises:
        ConfigError: the value has no `positions` and ends before this call does.
    """
    end = call.start + call.length
    if patch.positions is None and end > (length := patch.value.size(-2)):
        raise ConfigError(
            f"decoding has reached position {end - 1}, and the value for {patch.module} ends before: it has"
            f" {length} positions",
            "name its `positions`, or record a text that is as long",
        )
    positions = range(call.start, end) if patch.positions is None else patch.positions
    read = [position for position in positions if call.start <= position < end]
    return [(position - call.start, _row_of(patch, position)) for position in read]
