"""Records attention and hidden states while a model runs, without changing its outputs.

Each chosen attention gets a kernel that calls the original one and stores its inputs and output; afterwards
it has the original again. Outputs stay the same to the bit with one exception: the fast decoding step of a
decoder bypasses its modules, so a recorded decoder takes the plain step, which differs in the last bits
(1e-6).
"""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, get_args

import torch
from torch import Tensor, nn

from regard.errors import ConfigError, did_you_mean
from regard.inspection.passes import SequenceName, attention_sites, sequence_of
from regard.inspection.recording import ModuleCall, Recorded, Recording
from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.block import DecoderBlock, EncoderBlock
from regard.layers.recurrent import RecurrentLayer, SourceAttention
from regard.layers.scaled_dot_product import attention_scores, masked_softmax
from regard.models.conformer import ConformerBlock
from regard.models.model import Model

Attend = Callable[..., Tensor]  # a kernel, which takes the arguments of the attention's own
DEFAULT_LIMIT_BYTES = 2**30
FLOAT32_BYTES = 4


def attentions(model: nn.Module) -> dict[str, MultiHeadAttention | SourceAttention]:
    """The attention modules of a model that can be recorded, by name."""
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention | SourceAttention)
    }


def blocks(model: nn.Module) -> list[str]:
    """The names of a model's blocks in the order of computation."""
    kinds = EncoderBlock | DecoderBlock | ConformerBlock | RecurrentLayer
    return [name for name, module in model.named_modules() if isinstance(module, kinds)]


@contextmanager
def record_model(
    model: nn.Module,
    names: Collection[str] | None = None,
    *,
    parts: Collection[Recorded] = ("weights",),
    heads: Mapping[str, Sequence[int]] | None = None,
    hidden: Collection[str] = (),
    logits: bool = False,
    limit: int = DEFAULT_LIMIT_BYTES,
) -> Iterator[Recording]:
    """Record, inside the `with`, these `parts` of the attentions `names`, or of all attentions.

    `heads` limits the attentions it names to some heads. `hidden` names blocks (or any modules with one
    vector per position) whose outputs are stored; `logits` stores the model's output. A recording never
    holds more than `limit` bytes; `recording_bytes` computes its size in advance.

    The attention of a recurrent decoder has one head with scores, weights, values, mask and output, but no
    queries and keys.

    Raises:
        ConfigError: a name, part or head is unknown; inside the `with`, the recording exceeds `limit`.
    """
    chosen = _chosen(model, names)
    refuse_unknown(model, chosen, parts, heads or {}, hidden)
    recording = Recording(
        heads={name: _heads_of(name, module, heads or {}) for name, module in chosen.items()},
        parts=tuple(parts),
        self_attentions=frozenset(
            name for name, module in chosen.items() if isinstance(module, SelfAttention)
        ),
        softcaps={
            name: module.softcap
            for name, module in chosen.items()
            if isinstance(module, MultiHeadAttention) and module.softcap is not None
        },
    )
    budget = _MemoryBudget(recording, limit)
    original: dict[str, Attend] = {name: module.attend for name, module in chosen.items()}
    modules = dict(model.named_modules())
    outputs = {name: modules[name] for name in hidden}
    if logits:
        outputs["logits"] = modules.get("output", model)
    recording.calls_by_module = {name: [] for name in (*chosen, *outputs)}
    hooks = []
    try:
        for name, module in chosen.items():
            module.attend = _recording_kernel(name, module, budget, tuple(parts))
        for name, module in outputs.items():
            hooks.append(module.register_forward_hook(_output_hook(name, budget)))
        yield recording
    finally:
        for name, module in chosen.items():
            module.attend = original[name]
        for hook in hooks:
            hook.remove()


@contextmanager
def record_attention(model: nn.Module, names: Sequence[str] | None = None) -> Iterator[Recording]:
    """Record the weights of all attentions, or of those in `names`, without a limit.

    Raises:
        ConfigError: a name is unknown.
    """
    with record_model(model, names, limit=sys.maxsize) as recording:
        yield recording


def recording_bytes(
    model: Model,
    lengths: Mapping[SequenceName, int],
    names: Collection[str] | None = None,
    *,
    parts: Collection[Recorded] = ("weights",),
    heads: Mapping[str, Sequence[int]] | None = None,
    hidden: Collection[str] = (),
    logits: bool = False,
    batch_size: int = 1,
) -> int:
    """An upper bound for the bytes of a recording of one pass with these sequence lengths, in float32.

    A recording is smaller if there is no mask or bias, or if heads and rows share one. A linear layer in
    `hidden` counts with its own width, any other module with `d_model`, the width of a block.

    Raises:
        ConfigError: a name, part or head is unknown.
    """
    config: Any = model.config
    chosen = _chosen(model, names)
    refuse_unknown(model, chosen, parts, heads or {}, hidden)
    total = 0
    for site in attention_sites(model):
        if site.name in chosen:
            module = chosen[site.name]
            width = module.d_head if isinstance(module, MultiHeadAttention) else config.d_memory
            rows, columns = lengths[site.rows], lengths[site.columns]
            num_heads = len(_heads_of(site.name, module, heads or {}))
            total += _call_bytes(parts, batch_size, num_heads, rows, columns, width=width)
    longest = max(lengths.values())
    block_names = set(blocks(model))
    for name in hidden:
        module = model.get_submodule(name)
        # of other modules it is not known which sequence they read
        length = lengths[sequence_of(model, name)] if name in block_names else longest
        width = module.out_features if isinstance(module, nn.Linear) else config.d_model
        total += batch_size * length * width * FLOAT32_BYTES
    if logits:
        output = getattr(model, "output", None)
        width = output.out_features if isinstance(output, nn.Linear) else _max_output_width(config)
        total += batch_size * lengths.get("read", longest) * width * FLOAT32_BYTES
    return total


def _max_output_width(config: Any) -> int:
    """An upper bound for the output width of an encoder's head."""
    return max(getattr(config, name, 0) for name in ("vocab_size", "num_labels", "d_model"))


def _call_bytes(
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


def _chosen(
    model: nn.Module, names: Collection[str] | None
) -> dict[str, MultiHeadAttention | SourceAttention]:
    found = attentions(model)
    for name in names or ():
        if name not in found:
            raise ConfigError(f"the model has no attention {name!r}", did_you_mean(name, found))
    return found if names is None else {name: found[name] for name in found if name in names}


def _heads_of(
    name: str, module: MultiHeadAttention | SourceAttention, heads: Mapping[str, Sequence[int]]
) -> tuple[int, ...]:
    return tuple(heads.get(name, range(_num_heads(module))))


def _num_heads(module: MultiHeadAttention | SourceAttention) -> int:
    return module.num_heads if isinstance(module, MultiHeadAttention) else 1


def refuse_unknown(
    model: nn.Module,
    chosen: Mapping[str, MultiHeadAttention | SourceAttention],
    parts: Collection[str],
    heads: Mapping[str, Sequence[int]],
    hidden: Collection[str],
) -> None:
    """Raise a ConfigError for a part, head or module that there is not."""
    known = get_args(Recorded)
    for part in parts:
        if part not in known:
            raise ConfigError(f"an attention has no part {part!r} to record", did_you_mean(part, known))
    for name, numbers in heads.items():
        if name not in chosen:
            raise ConfigError(f"heads of {name!r} are chosen, but it is not recorded", "add it to `names`")
        count = _num_heads(chosen[name])
        if any(not 0 <= number < count for number in numbers):
            raise ConfigError(
                f"{name} has no heads {list(numbers)}: it has {count}", f"heads are 0 to {count - 1}"
            )
    modules = dict(model.named_modules())
    for name in hidden:
        if name not in modules:
            raise ConfigError(f"the model has no module {name!r}", did_you_mean(name, blocks(model)))


class _MemoryBudget:
    """Stores calls in a recording of at most `limit` bytes."""

    def __init__(self, recording: Recording, limit: int) -> None:
        self.recording, self.limit = recording, limit

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
        calls.append(ModuleCall(len(self.recording.events), rows, columns, parts))


def _recording_kernel(
    name: str,
    module: MultiHeadAttention | SourceAttention,
    budget: _MemoryBudget,
    parts: tuple[Recorded, ...],
) -> Attend:
    """A kernel that calls the kernel of `module` and stores its inputs and output."""
    original: Attend = module.attend
    heads = list(budget.recording.heads[name])
    if isinstance(module, SourceAttention):

        def source_attend(scores: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
            head_output = original(scores, values, mask)
            with torch.no_grad():
                _store_source_attention(budget, name, parts, scores, values, mask, head_output)
            return head_output

        return source_attend

    def attend(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        position_bias: Tensor | None = None,
        dropout: float = 0.0,
    ) -> Tensor:
        head_output = original(query, key, value, mask, position_bias, dropout)
        with torch.no_grad():
            _store_heads(budget, name, parts, heads, query, key, value, mask, position_bias, head_output)
        return head_output

    return attend


def _store_heads(
    budget: _MemoryBudget,
    name: str,
    parts: tuple[Recorded, ...],
    heads: list[int],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    head_output: Tensor,
) -> None:
    """Store the parts of one call.

    They are copies, because a cache reuses its memory. Of a self-attention only the keys and values of new
    positions are stored; earlier calls have the others.
    """
    batch_size, num_heads, rows, width = query.shape
    columns = key.size(2)
    new = rows if name in budget.recording.self_attentions else columns
    budget.reserve(
        _call_bytes(
            parts, batch_size, len(heads), rows, columns,
            width=width, new_columns=new, itemsize=query.element_size(),
        )
    )  # fmt: skip
    kv_heads = [head * key.size(1) // num_heads for head in heads]  # several query heads may share one
    query, key, value = query[:, heads], key[:, kv_heads], value[:, kv_heads]  # indexing by a list copies
    head_output = head_output[:, heads]
    mask = None if mask is None else _select_heads(mask, heads)
    bias = None if bias is None else _select_heads(bias, heads)
    tensors: dict[str, Callable[[], Tensor]] = {
        "query": lambda: query,
        "key": lambda: key[:, :, columns - new :].contiguous(),
        "value": lambda: value[:, :, columns - new :].contiguous(),
        "head_output": lambda: head_output,
    }
    if mask is not None:
        tensors["mask"] = mask.clone
    if bias is not None:
        tensors["bias"] = bias.clone
    if "scores" in parts or "weights" in parts:
        scores = attention_scores(query, key, bias, budget.recording.softcaps.get(name))
        tensors["scores"] = lambda: scores
        tensors["weights"] = lambda: masked_softmax(scores, mask)
    budget.store(name, rows, columns, {part: tensors[part]() for part in parts if part in tensors})


def _store_source_attention(
    budget: _MemoryBudget,
    name: str,
    parts: tuple[Recorded, ...],
    scores: Tensor,
    values: Tensor,
    mask: Tensor | None,
    head_output: Tensor,
) -> None:
    """Store copies of the parts of one call, with an axis for the only head."""
    batch_size, rows, columns = scores.shape
    budget.reserve(
        _call_bytes(parts, batch_size, 1, rows, columns, width=values.size(2), itemsize=scores.element_size())
    )
    tensors: dict[str, Tensor | None] = {
        "scores": scores,
        "weights": masked_softmax(scores, mask) if "weights" in parts else None,
        "value": values,
        "mask": mask,
        "head_output": head_output,
    }
    stored = {part: tensor for part in parts if (tensor := tensors.get(part)) is not None}
    budget.store(name, rows, columns, {part: tensor[:, None].clone() for part, tensor in stored.items()})


def _select_heads(tensor: Tensor, heads: list[int]) -> Tensor:
    """These heads of a mask or bias [batch, heads, rows, columns]; unchanged if all heads share it."""
    return tensor if tensor.size(1) == 1 else tensor[:, heads]


def _output_hook(name: str, budget: _MemoryBudget) -> Callable[..., None]:
    """A forward hook that stores the output of a module, or the first of several."""

    def hook(module: nn.Module, inputs: Any, output: Any) -> None:
        tensor: Tensor = output[0] if isinstance(output, tuple) else output
        budget.reserve(tensor.nbytes)
        hidden = tensor.detach().clone()
        while hidden.dim() < 4:  # [batch, len, width] -> [batch, 1, len, width], the axes of attentions
            hidden = hidden[:, None]
        budget.store(name, hidden.size(2), hidden.size(3), {"hidden": hidden})

    return hook
