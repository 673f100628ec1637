"""Forward and backward passes by the replay of a CUDA graph, where batches have one shape.

A pass of a small model is some hundred short kernels, which some processors launch more slowly than a GPU
runs them. Rows of running text have one length, so a pass is recorded once and replayed. Batches of sentences
have other shapes each time, and run as they are.
"""

import warnings
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import replace
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.batch import Batch, RowBatch
from regard.fast.dropout_seeds import SeedCounter, SeedMemory
from regard.fast.supported import is_known_in_training

DEVICES = ("cuda",)
IN_A_ROW = 3  # batches of one shape, of which the last is recorded: that costs as much as four passes
ROOM = 3.0  # times the memory of a pass that must be free: a recorded one has memory of its own
TOLERANCE = 0.01  # of a gradient, relative, where kernels themselves have no fixed order of sums
PLAIN = (int, float, bool, str, type(None), FunctionType, BuiltinFunctionType)  # attributes that are compared
Pass = Callable[[Any], Tensor]


class GraphedPass:
    """Adds the gradients of batches to the weights' `grad` by a function, recorded and replayed if it can be.

    The function depends on the model, the batch, random numbers and `state` alone, and returns a tensor. A
    recorded pass computes what it computes, with the same random numbers. It is recorded when some batches in
    a row had one shape, and used if its first replay gives what the pass itself has given. If weights,
    modules or settings change, it starts again.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model, self._device = model, next(model.parameters()).device
        self._may_record = self._device.type in DEVICES
        self._state: Hashable = None  # of the recorded pass, or of the last batch
        self._shape: Hashable = None  # of the last batch
        self._in_a_row = 0  # batches of this shape
        self._seeds = SeedCounter()
        self._recorded: Recorded | None = None

    def __call__(self, run: Pass, batch: Batch, state: Hashable = None) -> Tensor:
        """What `run(batch)` returns; the next call may overwrite it."""
        if not self._may_record or not isinstance(batch, RowBatch) or batch.targets is None:
            return run(batch)  # without places of targets the pass waits for the GPU
        whole, shape = _state_of(self._model, state), _shape_of(batch)
        if whole is None or whole != self._state:
            self._state, self._in_a_row, self._recorded = whole, 0, None
        self._in_a_row = self._in_a_row + 1 if shape == self._shape else 1
        self._shape = shape
        if self._recorded is not None and self._recorded.shape == shape:
            return self._recorded(run, batch)
        if whole is None or self._in_a_row < IN_A_ROW:
            with self._seeds.used():
                return run(batch)
        return self._first(run, batch, shape)

    def _first(self, run: Pass, batch: RowBatch, shape: Hashable) -> Tensor:
        """The pass of a batch, which is recorded by the way."""
        self._recorded = None
        if not has_room(self._device):
            self._may_record = False
            return run(batch)
        recorded = Recorded(batch, shape, list(self._model.parameters()), self._seeds.count)
        try:
            result = recorded(run, batch)
        except NotRecorded as error:
            return self._stop(str(error), error.result)
        except torch.OutOfMemoryError:
            self._may_record = False  # so that the next try has all memory
            raise
        self._recorded = recorded
        return result

    def _stop(self, reason: str, result: Tensor) -> Tensor:
        self._may_record = False
        warnings.warn(f"the operations of an update are launched one by one: {reason}", stacklevel=4)
        return result


def _shape_of(batch: RowBatch) -> Hashable:
    return type(batch), tuple((name, each.shape, each.dtype) for name, each in tensors_of(batch).items())


def _state_of(model: nn.Module, state: Hashable) -> Hashable:
    """All that a recorded pass depends on, but for the batch; None if it cannot be recorded."""
    if not is_known_in_training(model):
        return None
    modules = list(model.modules())
    weights = {
        id(each): each for module in modules for each in module._parameters.values() if each is not None
    }
    if any(each._backward_hooks or each._post_accumulate_grad_hooks for each in weights.values()):
        return None
    return (
        state,
        tuple((key, each.data_ptr(), each.requires_grad) for key, each in weights.items()),
        tuple(each.data_ptr() for module in modules for each in module._buffers.values() if each is not None),
        tuple(map(id, modules)),
        tuple(value for module in modules for value in vars(module).values() if isinstance(value, PLAIN)),
        (torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled()),
    )


class NotRecorded(Exception):
    """A pass could not be recorded; the gradients are those of the pass as it is."""

    def __init__(self, reason: str, result: Tensor) -> None:
        super().__init__(reason)
        self.result = result


class Recorded:
    """A pass in the memory of a GPU: run once more as it is, then recorded, and compared with that run."""

    def __init__(self, batch: RowBatch, shape: Hashable, weights: list[nn.Parameter], seeds: int) -> None:
        self.shape, self._weights = shape, weights
        self._inputs = {name: each.clone() for name, each in tensors_of(batch).items()}
        self._batch = replace(batch, **self._inputs)
        self._device = weights[0].device
        self._seeds = SeedMemory(seeds, self._device)
        self._stream = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None
        self._replay: Callable[[], None] | None = None
        self._result: Tensor = torch.empty(0)
        self._gradients: list[Tensor | None] = [None] * len(weights)

    def __call__(self, run: Pass, batch: RowBatch) -> Tensor:
        """What `run(batch)` returns; at the first call it runs, and is recorded.

        Raises:
            NotRecorded: the GPU refused to record it, or a replay gives other numbers.
        """
        for name, each in tensors_of(batch).items():
            self._inputs[name].copy_(each, non_blocking=True)
        before = [_kept(each.grad, own) for each, own in zip(self._weights, self._gradients, strict=True)]
        self._seeds.draw()
        try:
            if self._replay is None:
                self._replay = self._record(run)
            else:
                self._replay()
        finally:
            for weight, gradient, old in zip(self._weights, self._gradients, before, strict=True):
                weight.grad = gradient if old is None else old if gradient is None else old.add_(gradient)
        return self._result

    def _record(self, run: Pass) -> Callable[[], None]:
        """The pass as it is, then its recording, which is replayed with the same random numbers."""
        before = _generator_state(self._device)
        result, gradients = self._run(run)
        after = _generator_state(self._device)
        replay, problem = None, "it has another number of dropouts each time"
        try:
            if self._seeds.are_all_read:
                replay, self._result, self._gradients = self._capture(run)
                _set_generator_state(self._device, before)
                replay()
                problem = self._difference(run, before, result, gradients)
        except Exception as error:  # noqa: BLE001, the pass itself has run; kernels can fail in many ways
            replay, problem = None, next(iter(str(error).splitlines()), type(error).__name__)
            _new_generator(self._device)
        _set_generator_state(self._device, after)
        if replay is None or problem is not None:
            self._result, self._gradients = result, gradients
            raise NotRecorded(problem or "", result)
        return replay

    def _difference(
        self, run: Pass, generator: Tensor | None, result: Tensor, gradients: list[Tensor | None]
    ) -> str | None:
        """How a replay differs from the pass; None if it does not, or no more than the pass from itself."""
        here = self._result, *self._gradients
        if are_equal(here, (result, *gradients)):
            return None
        _set_generator_state(self._device, generator)
        again, others = self._run(run)
        if not are_equal((again, *others), (result, *gradients)) and are_close(here, (result, *gradients)):
            return None
        return "a replay of it gives other numbers"

    def _pass(self, run: Pass) -> tuple[Tensor, list[Tensor | None]]:
        """One pass, whose gradients are not added to others."""
        for weight in self._weights:
            weight.grad = None
        with self._seeds.used():
            result = run(self._batch)
        return result, [weight.grad for weight in self._weights]

    def _run(self, run: Pass) -> tuple[Tensor, list[Tensor | None]]:
        """One pass on the stream of the recording, where matrix products then have their workspace."""
        if self._stream is None:
            return self._pass(run)
        here = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            found = self._pass(run)
        here.wait_stream(self._stream)
        return found

    def _capture(self, run: Pass) -> tuple[Callable[[], None], Tensor, list[Tensor | None]]:
        found = list[tuple[Tensor, list[Tensor | None]]]()
        replay = capture(lambda: found.append(self._pass(run)), self._stream)
        return replay, *found[-1]


def capture(run: Callable[[], None], stream: torch.cuda.Stream | None) -> Callable[[], None]:
    """Records `run` on this stream, which does not run it; returns what runs it again and again."""
    assert stream is not None
    graph, here = torch.cuda.CUDAGraph(), torch.cuda.current_stream(stream.device)
    torch.cuda.empty_cache()  # memory that is held cannot be given back while a graph is recorded
    stream.wait_stream(here)
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            run()
        except BaseException:
            with suppress(RuntimeError):  # the first error says more
                graph.capture_end()
            raise
        graph.capture_end()
    here.wait_stream(stream)
    return graph.replay


def _kept(gradient: Tensor | None, own: Tensor | None) -> Tensor | None:
    """The sum of earlier passes, not in the memory that the next one overwrites."""
    if gradient is None or own is None:
        return gradient
    is_own = gradient.untyped_storage().data_ptr() == own.untyped_storage().data_ptr()
    return gradient.clone() if is_own else gradient


def are_equal(found: tuple[Tensor | None, ...], expected: tuple[Tensor | None, ...]) -> bool:
    """True if all tensors are equal to the bit."""
    return all(
        one is two if one is None or two is None else torch.equal(one, two)
        for one, two in zip(found, expected, strict=True)
    )


def are_close(found: tuple[Tensor | None, ...], expected: tuple[Tensor | None, ...]) -> bool:
    """True if all tensors are finite, and equal up to `TOLERANCE` of their norm or a little of all norms."""
    if any((one is None) != (two is None) for one, two in zip(found, expected, strict=True)):
        return False
    pairs = [
        (one, two) for one, two in zip(found, expected, strict=True) if one is not None and two is not None
    ]
    sizes = torch.stack([two.norm() for _, two in pairs])
    differences = torch.stack([(one - two).norm() for one, two in pairs])
    return bool((differences <= TOLERANCE * (sizes + sizes[1:].norm() / 10)).all())


def _generator_state(device: torch.device) -> Tensor | None:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else None


def _set_generator_state(device: torch.device, state: Tensor | None) -> None:
    if state is not None:
        torch.cuda.set_rng_state(state, device)


def _new_generator(device: torch.device) -> None:
    """Gives the device's generator a new state: a recording that failed leaves it in the old one."""
    if device.type == "cuda":
        generator = torch.cuda.default_generators[
            torch.cuda.current_device() if device.index is None else device.index
        ]
        generator.graphsafe_set_state(torch.Generator(device).graphsafe_get_state())


def has_room(device: torch.device) -> bool:
    """True if a pass may have memory of its own, beside that of others."""
    if device.type != "cuda":
        return True
    torch.cuda.empty_cache()
    needed = torch.cuda.max_memory_allocated(device) - torch.cuda.memory_allocated(device)
    return ROOM * needed < torch.cuda.mem_get_info(device)[0]


def tensors_of(batch: RowBatch) -> dict[str, Tensor]:
    """All tensors of a batch by the names of its fields."""
    targets = {} if batch.targets is None else {"targets": batch.targets}
    return {**batch.tensors(), **targets}
