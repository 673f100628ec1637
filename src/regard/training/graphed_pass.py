"""Forward and backward passes by the replay of a CUDA graph, where batches have one shape.

A pass of a small model is some hundred short kernels, which some processors launch more slowly than a GPU
runs them. Rows of running text have one length, and pairs without padding have few sizes, so a pass is
recorded for each of the first `MOST` that come often, and replayed. Other batches run as they are.
"""

import warnings
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from regard.data.batch import Batch, RowBatch
from regard.data.packed_pairs import PackedPairs
from regard.fast.dropout_seeds import SeedCounter, SeedMemory
from regard.fast.unchanged import own_names

DEVICES = ("cuda",)
RECENT = 512  # batches; a pass is recorded if `OFTEN` of them had its shape
OFTEN = 3  # recording costs as much as four passes
MOST = 64  # passes that are recorded
ROOM, MORE_ROOM = (
    3.0,
    1.5,
)  # times the memory of a pass that must be free for the first recorded one, for more
TOLERANCE = 0.01  # of a gradient, relative, where kernels themselves have no fixed order of sums
BESIDE_ALL = 0.1  # of the norm of all gradients: what counts as a gradient's size, if that is smaller
PLAIN = (
    int,
    float,
    bool,
    str,
    type(None),
    FunctionType,
    BuiltinFunctionType,
    partial,
)  # attributes that are compared
Pass = Callable[[Any], Tensor]


class GraphedPass:
    """Adds the gradients of batches to the weights' `grad` by a function, recorded and replayed if it can be.

    The function depends on the model, the batch, random numbers and `state` alone, and returns a tensor. The
    model is one that `is_known_in_training`. A recorded pass computes what the function computes, with the
    same random numbers. It is recorded when some of the last batches had one shape, and used if its first
    replay gives what the pass itself has given. If weights, modules or settings change, it starts again.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model, self._device = model, next(model.parameters()).device
        self._state: Hashable = None  # of the recorded passes, or of the last batch
        self._seeds = SeedCounter()
        self._start_again()

    def _start_again(self) -> None:
        self._limit = MOST if self._device.type in DEVICES else 0
        self._recent: deque[Hashable] = deque(maxlen=RECENT)  # shapes
        self._counts: dict[Hashable, int] = {}  # of random numbers that a pass of a shape draws
        self._recorded: dict[Hashable, Recorded] = {}  # by shape
        self._memory = RecordingMemory(self._device)

    def __call__(self, run: Pass, batch: Batch | PackedPairs, state: Hashable) -> Tensor:
        """What `run(batch)` returns; the next call may overwrite it."""
        if not self._limit or not _waits_for_nothing(batch):
            return run(batch)
        whole, shape = _state_of(self._model, state), _shape_of(batch)
        if whole is None or whole != self._state:
            self._state = whole
            self._start_again()
        self._recent.append(shape)
        if (recorded := self._recorded.get(shape)) is not None:
            with self._freed():
                return recorded(run, batch)
        if whole is None or not self._may_record(shape):
            return self._launched(run, batch, shape)
        return self._first(run, batch, shape)

    def _may_record(self, shape: Hashable) -> bool:
        is_frequent = self._recent.count(shape) >= OFTEN and shape in self._counts
        return is_frequent and len(self._recorded) < self._limit

    def _launched(self, run: Pass, batch: RowBatch | PackedPairs, shape: Hashable) -> Tensor:
        """The pass, operation by operation."""
        try:
            with self._freed(), self._seeds.used():
                return run(batch)
        finally:
            if len(self._counts) > 2 * RECENT:
                self._counts = {each: self._counts[each] for each in self._recent if each in self._counts}
            self._counts[shape] = self._seeds.count

    @contextmanager
    def _freed(self) -> Iterator[None]:
        """A context in which a lack of memory ends all recording, so that the next try has all memory."""
        try:
            yield
        except torch.OutOfMemoryError:
            self._stop()
            raise

    def _first(self, run: Pass, batch: RowBatch | PackedPairs, shape: Hashable) -> Tensor:
        """The pass of a batch, which is also recorded."""
        if not has_room(self._device, MORE_ROOM if self._recorded else ROOM):
            self._limit = len(self._recorded)
            return self._launched(run, batch, shape)
        weights = list(self._model.parameters())
        recorded = Recorded(batch, weights, self._counts[shape], self._memory)
        try:
            with self._freed():
                result = recorded(run, batch)
        except NotRecorded as error:
            self._stop()
            warnings.warn(f"the operations of an update are launched one by one: {error}", stacklevel=3)
            return error.result
        self._recorded[shape] = recorded
        return result

    def _stop(self) -> None:
        """Nothing is recorded any more."""
        self._start_again()
        self._limit = 0


def _waits_for_nothing(batch: Batch | PackedPairs) -> TypeGuard[RowBatch | PackedPairs]:
    """True if a pass needs no number of the batch on the host, such as how many labels count."""
    return isinstance(batch, PackedPairs) or (isinstance(batch, RowBatch) and batch.targets is not None)


def _shape_of(batch: RowBatch | PackedPairs) -> Hashable:
    shapes = tuple((name, each.shape, each.dtype) for name, each in tensors_of(batch).items())
    return type(batch), getattr(batch, "sizes", None), shapes


def _state_of(model: nn.Module, state: Hashable) -> Hashable:
    """All that a recorded pass depends on, but for the batch; None if it cannot be recorded."""
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
        tuple((id(module), type(module)) for module in modules),
        getattr(model, "config", None),
        tuple(
            value
            for module in modules
            for name in own_names(module)
            if isinstance(value := vars(module)[name], PLAIN)
        ),
        (torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled()),
    )


class NotRecorded(Exception):
    """A pass could not be recorded; the gradients are those of the pass as it is."""

    def __init__(self, reason: str, result: Tensor) -> None:
        super().__init__(reason)
        self.result = result


class RecordingMemory:
    """Where the passes of a model are recorded. They share all memory, as they never run at once.

    A pass may write anywhere in the pool, where the results of others have been, so the last operation of
    each copies its gradients out of it.
    """

    def __init__(self, device: torch.device) -> None:
        is_gpu = device.type == "cuda"
        self.device = device
        self.stream = torch.cuda.Stream(device) if is_gpu else None
        self.pool = torch.cuda.graph_pool_handle() if is_gpu else None
        self._gradients: list[Tensor | None] = []
        self._places = set[int]()  # of their storages

    def reserve(self, gradients: list[Tensor | None]) -> None:
        """Makes the tensors into which gradients like these are copied."""
        here = self._gradients or [None] * len(gradients)
        self._gradients = [
            torch.empty_like(each) if own is None and each is not None else own
            for own, each in zip(here, gradients, strict=True)
        ]
        self._places = {each.untyped_storage().data_ptr() for each in self._gradients if each is not None}

    def store(self, gradients: list[Tensor | None]) -> list[Tensor | None]:
        """Copies the gradients of a pass; returns the copies."""
        copies = [None if each is None else own for own, each in zip(self._gradients, gradients, strict=True)]
        used = [own for own in copies if own is not None]
        torch._foreach_copy_(used, [each for each in gradients if each is not None])  # pyright: ignore[reportPrivateImportUsage]
        return copies

    def holds(self, gradient: Tensor) -> bool:
        """True if the gradient is one of the copies."""
        return gradient.untyped_storage().data_ptr() in self._places


class Recorded:
    """A pass in the memory of a GPU: run once more as it is, then recorded, and compared with that run."""

    def __init__(
        self, batch: RowBatch | PackedPairs, weights: list[nn.Parameter], seeds: int, memory: RecordingMemory
    ) -> None:
        self._weights, self._memory, self._device = weights, memory, memory.device
        self._inputs = {name: each.clone() for name, each in tensors_of(batch).items()}
        self._batch = replace(batch, **self._inputs)
        self._seeds = SeedMemory(seeds, self._device)
        self._replay: Callable[[], None] | None = None
        self._result: Tensor = torch.empty(0)
        self._gradients: list[Tensor | None] = [None] * len(weights)

    def __call__(self, run: Pass, batch: RowBatch | PackedPairs) -> Tensor:
        """What `run(batch)` returns; at the first call it runs, and is recorded.

        Raises:
            NotRecorded: the GPU refused to record it, or a replay gives other numbers.
        """
        for name, each in tensors_of(batch).items():
            self._inputs[name].copy_(each)
        before = [self._kept(each.grad) for each in self._weights]
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
                self._memory.reserve(gradients)
                replay, self._result, self._gradients = self._capture(run)
                _set_generator_state(self._device, before)
                replay()
                problem = self._difference(run, before, result, gradients)
        except Exception as error:  # noqa: BLE001, the pass itself has run; kernels can fail in many ways
            problem = next(iter(str(error).splitlines()), type(error).__name__)
            _new_generator(self._device)
        _set_generator_state(self._device, after)
        if problem is not None:
            self._result, self._gradients = result, gradients
            raise NotRecorded(problem, result)
        assert replay is not None
        return replay

    def _kept(self, gradient: Tensor | None) -> Tensor | None:
        """The sum of earlier passes, not where this one overwrites it."""
        if gradient is None or not self._memory.holds(gradient):
            return gradient
        return gradient.clone()

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
        if self._memory.stream is None:
            return self._pass(run)
        here = torch.cuda.current_stream(self._device)
        self._memory.stream.wait_stream(here)
        with torch.cuda.stream(self._memory.stream):
            found = self._pass(run)
        here.wait_stream(self._memory.stream)
        return found

    def _capture(self, run: Pass) -> tuple[Callable[[], None], Tensor, list[Tensor | None]]:
        found = list[tuple[Tensor, list[Tensor | None]]]()

        def stored() -> None:
            result, gradients = self._pass(run)
            found.append((result, self._memory.store(gradients)))

        return capture(stored, self._memory), *found[-1]


def capture(run: Callable[[], None], memory: RecordingMemory) -> Callable[[], None]:
    """Records `run`, which does not run; returns what runs it again and again."""
    stream = memory.stream
    assert stream is not None
    graph, here = torch.cuda.CUDAGraph(), torch.cuda.current_stream(stream.device)
    torch.cuda.empty_cache()  # memory that is held cannot be given back while a graph is recorded
    stream.wait_stream(here)
    with torch.cuda.stream(stream):
        graph.capture_begin(memory.pool, capture_error_mode="thread_local")
        try:
            run()
        except BaseException:
            with suppress(RuntimeError):  # the first error says more
                graph.capture_end()
            raise
        graph.capture_end()
    here.wait_stream(stream)
    return graph.replay


def are_equal(found: tuple[Tensor | None, ...], expected: tuple[Tensor | None, ...]) -> bool:
    """True if all tensors are equal to the bit."""
    return all(
        one is two if one is None or two is None else _is_equal(one, two)
        for one, two in zip(found, expected, strict=True)
    )


def _is_equal(one: Tensor, two: Tensor) -> bool:
    """True if all numbers are equal, or not numbers in both."""
    return torch.equal(one, two) or bool(((one == two) | (one.isnan() & two.isnan())).all())


def are_close(found: tuple[Tensor | None, ...], expected: tuple[Tensor | None, ...]) -> bool:
    """True if all tensors are finite, and equal up to `TOLERANCE` of their norm or a little of all norms."""
    if [each is None for each in found] != [each is None for each in expected]:
        return False
    ones, twos = ([each for each in tensors if each is not None] for tensors in (found, expected))
    sizes = torch.stack([two.norm() for two in twos])
    differences = torch.stack([(one - two).norm() for one, two in zip(ones, twos, strict=True)])
    return bool((differences <= TOLERANCE * (sizes + BESIDE_ALL * sizes[1:].norm())).all())


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


def has_room(device: torch.device, factor: float) -> bool:
    """True if this many times the memory of a pass is free.

    The memory of a pass is estimated by the most that this process has used beyond what it uses now.
    """
    if device.type != "cuda":
        return True
    torch.cuda.empty_cache()
    needed = torch.cuda.max_memory_allocated(device) - torch.cuda.memory_allocated(device)
    return factor * needed < torch.cuda.mem_get_info(device)[0]


def tensors_of(batch: RowBatch | PackedPairs) -> dict[str, Tensor]:
    """All tensors of a batch by the names of its fields."""
    targets = getattr(batch, "targets", None)
    return batch.tensors() if targets is None else {**batch.tensors(), "targets": targets}
