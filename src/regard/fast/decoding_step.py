"""The fast decoding step of a model: one new token for each row by one call of a plan of kernels.

For few rows a step is some hundred small operations; half of its time is spent in Python between modules.
Here a model of known parts (`supported.py`) is converted once to a plan (`decoder.py`, `encoder.py`) with
copies of its weights in the layout of the kernels. The output of a row does not depend on its batch, to the
bit. On a GPU a step is a CUDA graph (`graphed_step.py`), whose last bits depend on the number of rows. All
other models, and all models on a CPU without kernels in C, decode by their own `extend`.
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import ClassVar

from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.fast.decoder import PlannedDecoder
from regard.fast.encoder import Start
from regard.fast.graphed_step import GraphedStep
from regard.fast.int8 import Int8Linear, to_int8
from regard.fast.largest import CandidateTensors
from regard.fast.native import kernels
from regard.fast.native.linear import PackedLinear
from regard.fast.native.plan import UnsupportedPart
from regard.fast.native.search import SearchState, StepsTaken
from regard.fast.row_layers import row_linear
from regard.fast.slot_cache import SlotCache
from regard.fast.supported import why_not_here, why_unsupported
from regard.fast.unchanged import any_module_is_hooked, class_is_unchanged, has_hooks, own_names
from regard.layers.cache import DecoderCache, StackCache
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder


@dataclass(frozen=True)
class DecodingStep:
    """Last ids of the rows, and a cache -> logits of the next ids; each row of the cache grows by one."""

    decoder: PlannedDecoder
    output: PackedLinear | Callable[[Float[Tensor, "rows d_model"]], Float[Tensor, "rows vocab"]]
    start: Start | None  # sources and their lengths -> a cache; None if the model has no encoder
    window: int | None
    pads: ClassVar[bool] = False  # True if memory is taken for each row as for the longest

    def slots(self, cache: StackCache | DecoderCache | SlotCache, rows: int) -> SlotCache:
        """`cache`, of `rows` rows, converted to this step's kind; the argument must not be used any more."""
        return cache if isinstance(cache, SlotCache) else SlotCache.of(cache, self.window, rows)

    def __call__(self, ids: Int64[Tensor, " rows"], cache: SlotCache) -> Float[Tensor, "rows vocab"]:
        """The logits of the next ids."""
        return self.output(self.decoder(ids, cache))

    @property
    def has_top_candidates(self) -> bool:
        """True if it can find the most likely ids without storing the log-probabilities of all ids."""
        return isinstance(self.output, PackedLinear)

    def top_candidates(
        self, ids: Int64[Tensor, " rows"], cache: SlotCache, size: int, asked: Int64[Tensor, " rows"]
    ) -> CandidateTensors:
        """The `size` most likely next ids of each row, and the log-probability of its id in `asked`.

        Log-probabilities and ids are in descending order; of equal ones the lower id comes first.
        """
        assert isinstance(self.output, PackedLinear)
        return self.output.top_candidates(self.decoder(ids, cache), size, asked)

    def run_steps(self, state: SearchState, cache: SlotCache, steps: int) -> StepsTaken | None:
        """Continue a search by several steps at once; None if it cannot. See `PlannedDecoder.run_steps`."""
        if not isinstance(self.output, PackedLinear):
            return None
        return self.decoder.run_steps(self.output, state, cache, steps)


COMPARED = frozenset({bool, int, float, str, tuple})  # settings of these types are compared by value
FastStep = DecodingStep | GraphedStep
Fingerprint = list[object]

# A step must not refer to its model, which would then never be freed.
_steps: "weakref.WeakKeyDictionary[nn.Module, tuple[Fingerprint, FastStep | str]]" = (
    weakref.WeakKeyDictionary()
)


def fast_step(model: nn.Module) -> FastStep | None:
    """The fast step of `model`, built once for its weights and parts as they are now; None if it has none."""
    found = _found(model)
    return None if isinstance(found, str) else found


def forget_step(model: nn.Module) -> None:
    """Free the fast step of `model`: its copies of weights, and on a GPU its caches and graphs."""
    _steps.pop(model, None)


def why_plain(model: nn.Module) -> str | None:
    """Why `model` decodes by its own `extend`; None if it has a fast step."""
    found = _found(model)
    return found if isinstance(found, str) else None


def quantise_model(model: nn.Module) -> int:
    """Convert linear layers of `model` to int8 where this makes decoding faster; returns their number.

    If the kernels of this machine support int8, all layers of a plan are converted; otherwise only the output
    layer, which is called after the plan. In a model that decodes by its own `extend`, the large layers are.
    """
    if fast_step(model) is None:
        return to_int8(model)
    if kernels.has_int8():
        return to_int8(model, least=0)
    assert isinstance(model, EncoderDecoder | DecoderOnly)
    return to_int8(model, names=("output",))


def _found(model: nn.Module) -> FastStep | str:
    """The step, or why there is none."""
    known = _steps.get(model)
    if known is not None and not any_module_is_hooked() and known[0] == fingerprint(model):
        return known[1]  # a model that is the same is still on its device
    if why_not_here(model) is not None or any_module_is_hooked():
        return why_unsupported(model) or "unknown"
    current = fingerprint(model)
    found = _build(model)
    if fingerprint(model) == current:  # else another thread began or ended a recording meanwhile
        _steps[model] = current, found
    return found


def _build(model: nn.Module) -> FastStep | str:
    assert isinstance(model, EncoderDecoder | DecoderOnly)
    if reason := why_unsupported(model):
        return reason
    if model.device.type != "cpu":
        return GraphedStep(model)
    has_kernel = not isinstance(model.output, Int8Linear) or kernels.has_int8()
    try:
        output = row_linear(model.output) if has_kernel else model.output
        if isinstance(model, EncoderDecoder):
            return DecodingStep(PlannedDecoder(model.decoder, output), output, Start(model), None)
        return DecodingStep(PlannedDecoder(model, output), output, None, model.config.windows[0])
    except UnsupportedPart as reason:
        return str(reason)


def fingerprint(model: nn.Module) -> Fingerprint:
    """A value that changes whenever weights, settings, methods, hooks or parts of the model change.

    It is computed before each batch, so it reads the modules' attributes directly: `modules()` and
    `parameters()` took a twentieth of the time of a single sentence. Settings are compared by value, all else
    by identity.
    """
    found: Fingerprint = []
    waiting, kinds = [model], set()
    while waiting:
        module = waiting.pop()
        kinds.add(type(module))
        attributes = module.__dict__
        found += type(module), id(module), has_hooks(module), module.training
        settings = [attributes[name] for name in own_names(module)]
        found.extend([value if type(value) in COMPARED else _setting(value) for value in settings])
        for weight in (*module._parameters.values(), *module._buffers.values()):
            if weight is not None:
                found += weight.data_ptr(), weight._version
        waiting.extend(part for part in module._modules.values() if part is not None)
    found.extend(sorted(kind.__qualname__ for kind in kinds if not class_is_unchanged(kind)))
    return found


def _setting(value: object) -> object:
    """A value that changes with the attribute, which is not compared by value; it refers to no model."""
    is_held = isinstance(value, FunctionType) and value.__closure__ is None
    return value if is_held else id(value)
