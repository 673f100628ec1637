"""Kernels that store what an attention receives and computes, within a limit of memory."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.inspection.kernel_weights import weights_by_kernel
from regard.inspection.recording import OTHER_PARTS, ModuleCall, Recorded, Recording
from regard.layers.attention import MultiHeadAttention
from regard.layers.kernels import Attend, around, current_attend, kernel_of
from regard.layers.recurrent import SourceAttention
from regard.layers.scaled_dot_product import attention_scores, masked_softmax

FLOAT32_BYTES = 4


class MemoryBudget:
    """Stores calls in a recording of at most `limit` bytes.

    An attention that is not a weighted mean is an error; without `require_weights` it is stored without them.
    `pass_number` gives the number of the pass in which a module is called, by its name and the number of its
    calls before; None: that is not known.
    """

    def __init__(
        self,
        recording: Recording,
        limit: int,
        *,
        pass_number: Callable[[str, int], int | None],
        require_weights: bool = True,
    ) -> None:
        self.recording, self.limit, self.require_weights = recording, limit, require_weights
        self.pass_number = pass_number

    def reserve(self, count: int) -> None:
        """Raise a ConfigError if `count` more bytes would exceed the limit."""
        if self.recording.bytes_held + count > self.limit:
            raise ConfigError(
                f"this recording would hold {(self.recording.bytes_held + count) / 2**20:,.0f} MiB,"
                f" more than its limit of {self.limit / 2**20:,.0f} MiB",
                "record fewer layers, heads or parts, or a shorter text; or raise the limit",
            )

    def store(self, name: str, rows: int, columns: int, parts: dict[str, Tensor]) -> None:
        """Append a call of the module `name`; decoding steps with equal keys and values share one copy.

        All steps of a cross-attention have the keys and values of the same source.
        """
        calls = self.recording.calls_by_module[name]
        for part in ("key", "value"):
            if calls and part in parts and name not in self.recording.self_attentions:
                previous = calls[-1].parts[part]
                if previous.shape == parts[part].shape and torch.equal(previous, parts[part]):
                    parts[part] = previous
        shared = {id(tensor) for call in calls[-1:] for tensor in call.parts.values()}
        self.recording.bytes_held += sum(
            tensor.nbytes for tensor in parts.values() if id(tensor) not in shared
        )
        number = self.pass_number(name, len(calls))
        if number is None:  # a self-attention that continues a cache has more columns
            begins = name in self.recording.self_attentions and rows == columns
            number = (calls[-1].pass_number if calls else 0) + begins
        calls.append(ModuleCall(len(self.recording.events), rows, columns, parts, number))

    def store_output(self, name: str, hidden: Float[Tensor, "batch heads rows width"]) -> None:
        """Append an output of the module `name`."""
        self.recording.bytes_held += hidden.nbytes
        calls = self.recording.outputs_by_module[name]
        number = self.pass_number(name, len(calls)) or 0
        time, rows, width = len(self.recording.events), hidden.size(2), hidden.size(3)
        calls.append(ModuleCall(time, rows, width, {"hidden": hidden}, number))


@dataclass(frozen=True, kw_only=True)
class _Call:
    """What a kernel received and computed; `own_weights` computes the weights of one that is not regard's."""

    query: Float[Tensor, "batch heads tgt_len d_head"]
    key: Float[Tensor, "batch kv_heads src_len d_head"]
    value: Float[Tensor, "batch kv_heads src_len d_value"]
    mask: Tensor | None
    bias: Tensor | None
    output: Float[Tensor, "batch heads tgt_len d_value"]
    own_weights: Callable[[], Tensor | None] | None

    def of_heads(self, heads: list[int]) -> "_Call":
        """Copies of the tensors of these query heads; several may share a head of keys and values."""
        num_heads = self.query.size(1)
        kv_heads = [head * self.key.size(1) // num_heads for head in heads]
        own = self.own_weights
        return _Call(  # indexing by a list copies
            query=self.query[:, heads],
            key=self.key[:, kv_heads],
            value=self.value[:, kv_heads],
            mask=None if self.mask is None else _select_heads(self.mask, heads),
            bias=None if self.bias is None else _select_heads(self.bias, heads),
            output=self.output[:, heads],
            own_weights=None
            if own is None
            else lambda: None if (found := own()) is None else found[:, heads],
        )


def recording_kernel(name: str, module: MultiHeadAttention | SourceAttention, budget: MemoryBudget) -> Attend:
    """A kernel that calls the kernel of `module` and stores its inputs and output."""
    parts = budget.recording.parts_of(name)
    original = current_attend(module)
    kernel = kernel_of(module)
    is_own = name in budget.recording.own_kernels

    def own_weights(mix: Callable[[Tensor], Tensor], value: Tensor) -> Callable[[], Tensor | None] | None:
        return partial(_own_weights, budget, name, mix, value) if is_own else None

    if isinstance(module, SourceAttention):

        def source_attend(scores: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
            head_output = original(scores, values, mask)
            own = own_weights(lambda each: kernel(scores, each, mask), values)
            with torch.no_grad():
                _store_source_attention(budget, name, parts, own, scores, values, mask, head_output)
            return head_output

        return around(original, source_attend)

    def attend(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        position_bias: Tensor | None = None,
        dropout: float = 0.0,
    ) -> Tensor:
        output = original(query, key, value, mask, position_bias, dropout)
        own = own_weights(lambda each: kernel(query, key, each, mask, position_bias, 0.0), value)
        call = _Call(
            query=query, key=key, value=value, mask=mask, bias=position_bias, output=output, own_weights=own
        )
        with torch.no_grad():
            _store_heads(budget, name, parts, call)
        return output

    return around(original, attend)


def _own_weights(
    budget: MemoryBudget, name: str, mix: Callable[[Tensor], Tensor], value: Tensor
) -> Tensor | None:
    """The weights of a kernel that is not one of regard's; None if it has none and they are not required.

    Raises:
        ConfigError: its output is not a weighted mean of the values.
    """
    if name in budget.recording.no_weights:
        return None
    try:
        return weights_by_kernel(mix, value)
    except ValueError as error:
        if budget.require_weights:
            raise ConfigError(
                f"{name} has no weights to record: its attention is not a weighted mean of the values",
                OTHER_PARTS,
            ) from error
        budget.recording.no_weights[name] = "its attention is not a weighted mean of the values"
        return None


def _store_heads(budget: MemoryBudget, name: str, parts: tuple[Recorded, ...], call: _Call) -> None:
    """Store the parts of one call.

    They are copies, because a cache reuses its memory. Of a self-attention only the keys and values of new
    positions are stored; earlier calls have the others.
    """
    heads = list(budget.recording.heads[name])
    batch_size, _, rows, width = call.query.shape
    columns = call.key.size(2)
    new = rows if name in budget.recording.self_attentions else columns
    budget.reserve(
        call_bytes(
            parts, batch_size, len(heads), rows, columns,
            width=width, new_columns=new, itemsize=call.query.element_size(),
        )
    )  # fmt: skip
    of = call.of_heads(heads)
    tensors: dict[str, Callable[[], Tensor | None]] = {
        "query": lambda: of.query,
        "key": lambda: of.key[:, :, columns - new :].contiguous(),
        "value": lambda: of.value[:, :, columns - new :].contiguous(),
        "head_output": lambda: of.output,
    }
    if of.mask is not None:
        tensors["mask"] = of.mask.clone
    if of.bias is not None:
        tensors["bias"] = of.bias.clone
    if of.own_weights is not None:
        tensors["weights"] = of.own_weights
    elif "scores" in parts or "weights" in parts:
        scores = attention_scores(of.query, of.key, of.bias, budget.recording.softcaps.get(name))
        tensors["scores"] = lambda: scores
        tensors["weights"] = lambda: masked_softmax(scores, of.mask)
    made = {part: tensors[part]() for part in parts if part in tensors}
    budget.store(name, rows, columns, {part: each for part, each in made.items() if each is not None})


def _store_source_attention(
    budget: MemoryBudget,
    name: str,
    parts: tuple[Recorded, ...],
    own_weights: Callable[[], Tensor | None] | None,
    scores: Tensor,
    values: Tensor,
    mask: Tensor | None,
    head_output: Tensor,
) -> None:
    """Store copies of the parts of one call, with an axis for the only head."""
    batch_size, rows, columns = scores.shape
    budget.reserve(
        call_bytes(parts, batch_size, 1, rows, columns, width=values.size(2), itemsize=scores.element_size())
    )
    weights = None
    if "weights" in parts:
        weights = masked_softmax(scores, mask) if own_weights is None else own_weights()
    tensors: dict[str, Tensor | None] = {
        "scores": scores,
        "weights": weights,
        "value": values,
        "mask": mask,
        "head_output": head_output,
    }
    stored = {part: tensor for part in parts if (tensor := tensors.get(part)) is not None}
    budget.store(name, rows, columns, {part: tensor[:, None].clone() for part, tensor in stored.items()})


def _select_heads(tensor: Tensor, heads: list[int]) -> Tensor:
    """These heads of a mask or bias [batch, heads, rows, columns]; unchanged if all heads share it."""
    return tensor if tensor.size(1) == 1 else tensor[:, heads]


def output_hook(name: str, budget: MemoryBudget) -> Callable[..., None]:
    """A forward hook that stores the output of a module, or the first of several."""

    def hook(module: nn.Module, inputs: Any, output: Any) -> None:
        tensor: Tensor = output[0] if isinstance(output, tuple) else output
        budget.reserve(tensor.nbytes)
        hidden = tensor.detach().clone()
        while hidden.dim() < 4:  # [batch, len, width] -> [batch, 1, len, width], the axes of attentions
            hidden = hidden[:, None]
        budget.store_output(name, hidden)

    return hook


def call_bytes(
    parts: Collection[Recorded],
    batch_size: int,
    num_heads: int,
    rows: int,
    columns: int,
    *,
    width: int,
    new_columns: int | None = None,
    itemsize: int = FLOAT32_BYTES,
) -> int:
    """An upper bound for the bytes of these parts of one call of an attention.

    `width`: features of a query, key or value. `new_columns`: those whose keys and values are stored; None:
    all.
    """
    area = rows * columns
    stored = columns if new_columns is None else new_columns
    sizes = {"query": rows * width * itemsize, "head_output": rows * width * itemsize, "mask": area}
    sizes |= dict.fromkeys(("key", "value"), stored * width * itemsize)
    sizes |= dict.fromkeys(("bias", "scores", "weights"), area * itemsize)
    return batch_size * num_heads * sum(sizes[part] for part in parts)
