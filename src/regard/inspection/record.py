"""Listens to a model while it works, and changes nothing of what it does.

A telling kernel stands in for the one of each chosen attention and goes on with it; all others keep theirs.
What is computed stays the same to the bit, but for one case: a decoder's step has a fast form
(`fast/decoding_step.py`) that passes by the modules, and who is listened to goes the long way, which ends in
other last bits (1e-6).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import ConfigError, did_you_mean
from regard.inspection.passes import SequenceName, places, sequence_of
from regard.inspection.recording import ModuleCall, Recorded, Recording
from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.block import DecoderBlock, EncoderBlock
from regard.layers.recurrent import RecurrentLayer, SourceAttention
from regard.layers.scaled_dot_product import attention_scores, masked_softmax
from regard.models.conformer import ConformerBlock
from regard.models.model import Model

Attend = Callable[..., Tensor]  # with the signature that the attention's own has
LIMIT = 2**30  # bytes: all that a recording may hold unless somebody says otherwise


def attentions(model: nn.Module) -> dict[str, MultiHeadAttention | SourceAttention]:
    """The attentions of a model that can be listened to, by name."""
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention | SourceAttention)
    }


def blocks(model: nn.Module) -> list[str]:
    """The names of a model's blocks, in the order in which data walks through them."""
    kinds = EncoderBlock | DecoderBlock | ConformerBlock | RecurrentLayer
    return [name for name, module in model.named_modules() if isinstance(module, kinds)]


@contextmanager
def record(
    model: nn.Module,
    names: Collection[str] | None = None,
    *,
    parts: Collection[Recorded] = ("weights",),
    heads: Mapping[str, Sequence[int]] | None = None,
    hidden: Collection[str] = (),
    logits: bool = False,
    limit: int = LIMIT,
) -> Iterator[Recording]:
    """Records inside the `with`: these `parts` of the attentions called `names`, or of all attentions.

    Of an attention named in `heads` only those heads. `hidden` names blocks (or any modules that give one
    vector a position) whose outputs are kept; `logits` keeps what the model gives. A recording never holds
    more than `limit` bytes; `recording_bytes` says before how many it will.

    The attention of a recurrent decoder has scores, weights, values, masks and what is mixed, of one head;
    no queries and keys.

    Raises:
        ConfigError: a name that there is not; inside the `with`, more than `limit` bytes.
    """
    chosen = _chosen(model, names)
    _refuse_unknown(model, chosen, heads or {}, hidden)
    recording = Recording(
        heads={name: _heads_of(name, module, heads or {}) for name, module in chosen.items()},
        parts=tuple(parts),
        growing=frozenset(name for name, module in chosen.items() if isinstance(module, SelfAttention)),
    )
    room = _MemoryBudget(recording, limit)
    usual: dict[str, Attend] = {name: module.attend for name, module in chosen.items()}
    modules = dict(model.named_modules())
    outputs = {name: modules[name] for name in hidden}
    if logits:
        outputs["logits"] = modules.get("output", model)
    recording.heard = {name: [] for name in (*chosen, *outputs)}
    hooks = []
    try:
        for name, module in chosen.items():
            module.attend = _telling(name, module, room, tuple(parts))
        for name, module in outputs.items():
            hooks.append(module.register_forward_hook(_hearing(name, room)))
        yield recording
    finally:
        for name, module in chosen.items():
            module.attend = usual[name]
        for hook in hooks:
            hook.remove()


@contextmanager
def record_attention(model: nn.Module, names: Sequence[str] | None = None) -> Iterator[Recording]:
    """The weights alone, of all attentions or of those of these `names`, whatever memory that takes."""
    known = None if names is None else [name for name in attentions(model) if name in names]
    with record(model, known, limit=2**63) as recording:
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
    """The most bytes that `record` will hold of one pass of sequences of these lengths, in float32.

    A recording holds less where there is no mask or bias, or heads and rows share one.
    """
    config: Any = model.config
    chosen = _chosen(model, names)
    _refuse_unknown(model, chosen, heads or {}, hidden)
    total = 0
    for place in places(model):
        if place.name in chosen:
            module = chosen[place.name]
            width = module.d_head if isinstance(module, MultiHeadAttention) else config.d_memory
            rows, columns = lengths[place.rows], lengths[place.columns]
            count = len(_heads_of(place.name, module, heads or {}))
            total += _bytes(parts, batch_size, count, rows, columns, columns, width)
    for name in hidden:
        length = max(lengths.values()) if "." not in name else lengths[sequence_of(model, name)]
        total += batch_size * length * config.d_model * 4
    if logits:
        output = getattr(model, "output", None)
        classes = output.out_features if isinstance(output, nn.Linear) else _most_classes(config)
        total += batch_size * lengths.get("read", max(lengths.values())) * classes * 4
    return total


def _most_classes(config: Any) -> int:
    """How wide the answer of an encoder's head can be at most."""
    return max(getattr(config, name, 0) for name in ("vocab_size", "num_labels", "d_model"))


def _bytes(
    parts: Collection[str],
    batch_size: int,
    heads: int,
    rows: int,
    columns: int,
    new_columns: int,
    width: int,
    itemsize: int = 4,
) -> int:
    """What these parts of one call take at most."""
    area = rows * columns
    sizes = {"query": rows * width, "mixed": rows * width, "mask": area / itemsize}
    sizes |= dict.fromkeys(("key", "value"), new_columns * width)
    sizes |= dict.fromkeys(("bias", "scores", "weights"), area)
    return batch_size * heads * int(sum(sizes[part] for part in parts) * itemsize)


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


def _refuse_unknown(
    model: nn.Module,
    chosen: Mapping[str, MultiHeadAttention | SourceAttention],
    heads: Mapping[str, Sequence[int]],
    hidden: Collection[str],
) -> None:
    for name, numbers in heads.items():
        if name not in chosen:
            raise ConfigError(f"heads of {name!r} are asked for, but it is not recorded", "name it too")
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
    """Where what is heard is put, as long as there is room."""

    def __init__(self, recording: Recording, limit: int) -> None:
        self.recording, self.limit = recording, limit

    def reserve(self, count: int) -> None:
        """Before so many bytes are held too."""
        if self.recording.bytes_held + count > self.limit:
            raise ConfigError(
                f"this recording would hold {(self.recording.bytes_held + count) / 2**20:,.0f} MiB,"
                f" more than the {self.limit / 2**20:,.0f} MiB that it may",
                "record fewer layers, heads or parts, or a shorter text; or raise its limit",
            )

    def keep(self, name: str, rows: int, columns: int, parts: dict[str, Tensor]) -> None:
        calls = self.recording.heard[name]
        for part in ("key", "value"):  # a memory that is looked at again is the same: it is held once
            if calls and part in parts and name not in self.recording.growing:
                before = calls[-1].parts[part]
                if before.shape == parts[part].shape and torch.equal(before, parts[part]):
                    parts[part] = before
        held = {id(part) for call in calls[-1:] for part in call.parts.values()}
        self.recording.bytes_held += sum(part.nbytes for part in parts.values() if id(part) not in held)
        calls.append(ModuleCall(len(self.recording.events), rows, columns, parts))


def _telling(
    name: str, module: MultiHeadAttention | SourceAttention, room: _MemoryBudget, parts: tuple[Recorded, ...]
) -> Attend:
    """The kernel that `module` has, which also tells what it was given and what it gave."""
    usual: Attend = module.attend
    heads = list(room.recording.heads[name])
    if isinstance(module, SourceAttention):

        def of_states(scores: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
            mixed = usual(scores, values, mask)
            with torch.no_grad():
                _keep_states(room, name, parts, scores, values, mask, mixed)
            return mixed

        return of_states

    def of_heads(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        position_bias: Tensor | None = None,
        dropout: float = 0.0,
    ) -> Tensor:
        mixed = usual(query, key, value, mask, position_bias, dropout)
        with torch.no_grad():
            _keep_heads(room, name, parts, heads, query, key, value, mask, position_bias, mixed)
        return mixed

    return of_heads


def _keep_heads(
    room: _MemoryBudget,
    name: str,
    parts: tuple[Recorded, ...],
    heads: list[int],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    mixed: Tensor,
) -> None:
    """Copies, since a cache goes on to use its room; of a self-attention only the keys that are new."""
    batch, num_heads, rows, width = query.shape
    columns = key.size(2)
    new = rows if name in room.recording.growing else columns
    room.reserve(_bytes(parts, batch, len(heads), rows, columns, new, width, query.element_size()))
    shared = [head * key.size(1) // num_heads for head in heads]
    query, key, value, mixed = query[:, heads], key[:, shared], value[:, shared], mixed[:, heads]
    given = {"mask": mask, "bias": bias}
    given = {part: _of(each, heads) for part, each in given.items() if each is not None}
    found: dict[str, Callable[[], Tensor]] = {
        "query": lambda: query,
        "key": lambda: key[:, :, columns - new :].contiguous(),
        "value": lambda: value[:, :, columns - new :].contiguous(),
        "mixed": lambda: mixed,
        **{part: each.clone for part, each in given.items()},
    }
    if "scores" in parts or "weights" in parts:
        scores = attention_scores(query, key, given.get("bias"))
        found["scores"] = lambda: scores
        found["weights"] = lambda: masked_softmax(scores, given.get("mask"))
    room.keep(name, rows, columns, {part: found[part]() for part in parts if part in found})


def _keep_states(
    room: _MemoryBudget,
    name: str,
    parts: tuple[Recorded, ...],
    scores: Tensor,
    values: Tensor,
    mask: Tensor | None,
    mixed: Tensor,
) -> None:
    batch, rows, columns = scores.shape
    room.reserve(_bytes(parts, batch, 1, rows, columns, columns, values.size(2), scores.element_size()))
    found: dict[str, Tensor | None] = {
        "scores": scores,
        "weights": masked_softmax(scores, mask) if "weights" in parts else None,
        "value": values,
        "mask": mask,
        "mixed": mixed,
    }
    kept = {part: found.get(part) for part in parts}
    room.keep(
        name, rows, columns, {part: each[:, None].clone() for part, each in kept.items() if each is not None}
    )


def _of(each: Tensor, heads: list[int]) -> Tensor:
    """A mask or bias of these heads, if it has heads."""
    return each if each.size(1) == 1 else each[:, heads]


def _hearing(name: str, room: _MemoryBudget) -> Callable[..., None]:
    """A hook that keeps what a module gives."""

    def hear(module: nn.Module, given: Any, output: Any) -> None:
        found = output[0] if isinstance(output, tuple) else output
        room.reserve(found.nbytes)
        found = found.detach().clone()
        while found.dim() < 4:
            found = found[:, None]
        room.keep(name, found.size(2), found.size(3), {"hidden": found})

    return hear
