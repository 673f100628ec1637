"""Records attention and hidden states while a model runs, without changing its outputs.

Each chosen attention gets a kernel that calls the original one and stores its inputs and output; afterwards
it has the original again. Outputs stay the same to the bit with one exception: the fast decoding step of a
decoder bypasses its modules, so a recorded decoder takes the plain step, which differs in the last bits
(1e-6).
"""

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from typing import Any, get_args

from torch import nn

from regard.errors import ConfigError
from regard.inspection.decoder_calls import decoder_calls, pass_number
from regard.inspection.names_given import (
    NOT_OURS,
    attention_hint,
    module_hint,
    part_hint,
    refuse_other_module,
    refuse_other_names,
    refuse_unnamed_heads,
)
from regard.inspection.numbers_given import refuse_other_count, refuse_other_indices
from regard.inspection.own_thread import in_this_thread
from regard.inspection.passes import SequenceName, attention_sites, refuse_shared_modules, sequence_of
from regard.inspection.recording import Recorded, Recording
from regard.inspection.recording_kernels import (
    FLOAT32_BYTES,
    MemoryBudget,
    call_bytes,
    output_hook,
    recording_kernel,
)
from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.block import DecoderBlock, EncoderBlock
from regard.layers.kernels import exchanged, has_own_kernel, softcap_of
from regard.layers.recurrent import RecurrentLayer, SourceAttention
from regard.models.conformer import ConformerBlock
from regard.models.model import Model

DEFAULT_LIMIT_BYTES = 2**30
PartsToRecord = Collection[Recorded] | Mapping[str, Collection[Recorded]]  # of all attentions, or by name


def attentions(model: nn.Module) -> dict[str, MultiHeadAttention | SourceAttention]:
    """The attention modules of a model that can be recorded, by name."""
    refuse_other_module(model)
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention | SourceAttention)
    }


def blocks(model: nn.Module) -> list[str]:
    """The names of a model's blocks in the order of computation."""
    refuse_other_module(model)
    kinds = EncoderBlock | DecoderBlock | ConformerBlock | RecurrentLayer
    return [name for name, module in model.named_modules() if isinstance(module, kinds)]


@contextmanager
def record_model(
    model: nn.Module,
    names: Collection[str] | None = None,
    *,
    parts: PartsToRecord = ("weights",),
    heads: Mapping[str, Sequence[int]] | None = None,
    hidden: Collection[str] = (),
    logits: bool = False,
    limit: int = DEFAULT_LIMIT_BYTES,
    require_weights: bool = True,
) -> Iterator[Recording]:
    """Record, inside the `with`, these `parts` of the attentions `names`, or of all attentions.

    `parts` by name are those of the attentions that it names, and only these are recorded; no `names` then.
    A recording is that of one thread: calls of the model in other threads are not recorded. It is that of one
    pass, or of one text that a decoder reads step by step with a cache; `clear` it before the next one.

    `heads` limits the attentions it names to some heads. `hidden` names blocks (or any modules with one
    vector per position) whose outputs are stored; `logits` stores the model's output. A recording never
    holds more than `limit` bytes; `recording_bytes` computes its size in advance.

    The attention of a recurrent decoder has one head with scores, weights, values, mask and output, but no
    queries and keys.

    For an attention with a kernel that is not one of regard's (an own `attend`), weights are what that
    kernel gives for one-hot values, and scores are not known. If its output is not a weighted mean of the
    values, that is an error, or with `require_weights` False it has no weights and
    `Recording.no_weights` gives the reason.

    Raises:
        ConfigError: a name, part or head is unknown, scores are not known, or two of its blocks or attentions
            are one module; inside the `with`, the recording exceeds `limit`, or an attention is not a
            weighted mean of its values.
    """
    refuse_shared_modules(model)
    chosen = _chosen(model, names, parts)
    refuse_unknown(model, chosen, parts, heads or {}, hidden)
    if not (chosen or hidden or logits or isinstance(model, Model)):
        raise ConfigError(f"a {type(model).__name__} has no attentions to record", f"give {NOT_OURS}")
    recording = Recording(
        heads={name: _heads_of(name, module, heads or {}) for name, module in chosen.items()},
        parts=() if isinstance(parts, Mapping) else tuple(parts),
        parts_by_name=_by_name(parts),
        self_attentions=frozenset(
            name for name, module in chosen.items() if isinstance(module, SelfAttention)
        ),
        softcaps={name: cap for name, module in chosen.items() if (cap := softcap_of(module)) is not None},
        own_kernels=frozenset(name for name, module in chosen.items() if has_own_kernel(module)),
    )
    _refuse_unknown_scores(chosen, recording)
    modules = dict(model.named_modules())
    outputs = {name: modules[name] for name in hidden}
    if logits:
        outputs["logits"] = modules.get("output", model)
    recording.calls_by_module = {name: [] for name in chosen}
    recording.outputs_by_module = {name: [] for name in outputs}
    with ExitStack() as undo:
        number = partial(pass_number, model, undo.enter_context(decoder_calls(model)))
        budget = MemoryBudget(recording, limit, pass_number=number, require_weights=require_weights)
        for name, module in chosen.items():
            undo.enter_context(exchanged(module, recording_kernel(name, module, budget)))
        for name, module in outputs.items():
            undo.callback(module.register_forward_hook(in_this_thread(output_hook(name, budget))).remove)
        yield recording


@contextmanager
def record_attention(model: nn.Module, names: Sequence[str] | None = None) -> Iterator[Recording]:
    """Record the weights of all attentions, or of those in `names`, without a limit.

    Raises:
        ConfigError: a name is unknown; inside the `with`, an attention is not a weighted mean of its values.
    """
    with record_model(model, names, limit=sys.maxsize) as recording:
        yield recording


def recording_bytes(
    model: Model,
    lengths: Mapping[SequenceName, int],
    names: Collection[str] | None = None,
    *,
    parts: PartsToRecord = ("weights",),
    heads: Mapping[str, Sequence[int]] | None = None,
    hidden: Collection[str] = (),
    logits: bool = False,
    batch_size: int = 1,
) -> int:
    """An upper bound for the bytes of a recording of one pass with these sequence lengths, in float32.

    A recording is smaller if there is no mask or bias, or if heads and rows share one. A linear layer in
    `hidden` counts with its own width, any other module with `d_model`, the width of a block.

    Raises:
        ConfigError: a name, part or head is unknown, or a length is missing.
    """
    refuse_other_module(model)
    config: Any = model.config
    chosen = _chosen(model, names, parts)
    refuse_unknown(model, chosen, parts, heads or {}, hidden)
    needed = {name for site in attention_sites(model) for name in (site.rows, site.columns)}
    if missing := sorted(needed - {*lengths}):
        raise ConfigError(f"the length of {missing[0]!r} is missing", f"give {', '.join(sorted(needed))}")
    for name, length in lengths.items():
        refuse_other_count(f"the length of {name!r}", length, "give the number of its tokens")
    total = 0
    parts_of = _by_name(parts) if isinstance(parts, Mapping) else dict.fromkeys(chosen, tuple(parts))
    for site in attention_sites(model):
        if site.name in chosen:
            module = chosen[site.name]
            width = module.d_head if isinstance(module, MultiHeadAttention) else config.d_memory
            rows, columns = lengths[site.rows], lengths[site.columns]
            num_heads = len(_heads_of(site.name, module, heads or {}))
            total += call_bytes(parts_of[site.name], batch_size, num_heads, rows, columns, width=width)
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


def _by_name(parts: PartsToRecord) -> dict[str, tuple[Recorded, ...]]:
    """The parts of single attentions; none if all have the same."""
    return {name: tuple(each) for name, each in parts.items()} if isinstance(parts, Mapping) else {}


def _chosen(
    model: nn.Module, names: Collection[str] | None, parts: PartsToRecord
) -> dict[str, MultiHeadAttention | SourceAttention]:
    found = attentions(model)
    if isinstance(parts, Mapping):
        if names is not None:
            raise ConfigError("`parts` names the attentions already", "leave `names` out")
        names = parts.keys()
    if names is not None:
        names = refuse_other_names("names", names, next(iter(found), "blocks.0.self_attention"))
    for name in names or ():
        if name not in found:
            raise ConfigError(f"the model has no attention {name!r}", attention_hint(model, name, found))
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
    each_parts = [*parts.values()] if isinstance(parts, Mapping) else [parts]
    for part in chain.from_iterable(refuse_other_names("parts", each, "weights") for each in each_parts):
        if part not in known:
            raise ConfigError(f"an attention has no part {part!r} to record", part_hint(part, known))
    refuse_unnamed_heads(heads, next(iter(chosen), "blocks.0.self_attention"))
    for name, numbers in heads.items():
        if name not in chosen:
            raise ConfigError(f"heads of {name!r} are chosen, but it is not recorded", "add it to `names`")
        count = _num_heads(chosen[name])
        refuse_other_indices(name, "heads", numbers, count, needs_one=False)
    modules = dict(model.named_modules())
    for name in refuse_other_names("hidden", hidden, "blocks.0"):
        if name not in modules:
            hint = module_hint(model, name, blocks(model))
            raise ConfigError(f"the model has no module {name!r}", hint)


def _refuse_unknown_scores(
    chosen: Mapping[str, MultiHeadAttention | SourceAttention], recording: Recording
) -> None:
    """Raise a ConfigError if scores are to be recorded of a kernel that may compute others."""
    for name, module in chosen.items():
        # a source attention gives scores to its kernel
        has_other = name in recording.own_kernels and isinstance(module, MultiHeadAttention)
        if has_other and "scores" in recording.parts_of(name):
            raise ConfigError(
                f"the scores of {name} are not known: its attention kernel is not one of regard's",
                "record its weights",
            )
