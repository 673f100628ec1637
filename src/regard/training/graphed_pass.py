"""Forward and backward passes by the replay of a CUDA graph, where batches have one shape.

A pass of a small model is some hundred short kernels, which some processors launch more slowly than a GPU
runs them. Rows of running text have one length, so a pass is recorded once and replayed. Batches of sentences
have other shapes each time, and run as they are.
"""

import warnings
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.batch import Batch, RowBatch
from regard.fast.dropout_seeds import SeedCounter, SeedMemory
from regard.fast.supported import is_known_in_training

DEVICES = ("cuda",)
SHARE = 0.4  # of the memory that passes may need, if one is recorded: it has memory of its own
IN_A_ROW = 3  # batches of one shape, of which the last is recorded: that costs as much as three passes
LOSS_TOLERANCE, GRADIENT_TOLERANCE = 1e-3, 0.02  # relative
Pass = Callable[[Any], Tensor]


class GraphedPass:
    """A function that adds a batch's gradients to the weights' `grad`, recorded and replayed if it can be.

    A recorded pass computes what the function computes, with the same random numbers. It is recorded when
    some batches in a row had one shape, and used if its first replay gives what the pass itself has given.
    If weights, modules or hooks change, it starts again.
    """

    def __init__(self, model: nn.Module, run: Pass) -> None:
        """`run` must depend on the model, the batch and random numbers alone, and return a tensor."""
        self._model, self._run, self._device = model, run, next(model.parameters()).device
        self._may_record = self._device.type in DEVICES
        self._state: Hashable = None
        self._in_a_row = 0  # batches with this state
        self._seeds = SeedCounter()
        self._recorded: Recorded | None = None

    def __call__(self, batch: Batch) -> Tensor:
        """What the function returns; the next call may overwrite it."""
        state = self._state_with(batch)
        if state is None or state != self._state:
            self._state, self._in_a_row, self._recorded = state, 0, None
        self._in_a_row += 1
        if state is None or self._in_a_row < IN_A_ROW:
            with self._seeds.used():
                return self._run(batch)
        assert isinstance(batch, RowBatch)
        if self._recorded is None:
            self._recorded = Recorded(self._run, batch, list(self._model.parameters()), self._seeds.count)
        try:
            return self._recorded(batch)
        except NotRecorded as error:
            warnings.warn(f"each update is launched operation by operation: {error}", stacklevel=2)
            self._may_record, self._recorded = False, None
            return error.result

    def _state_with(self, batch: Batch) -> Hashable:
        """All that a recorded pass depends on, but for the numbers; None if it cannot be recorded."""
        if not self._may_record or not isinstance(batch, RowBatch) or not is_known_in_training(self._model):
            return None
        if not has_room(self._device):
            return None
        modules = list(self._model.modules())
        weights = {
            id(each): each for module in modules for each in module._parameters.values() if each is not None
        }
        if any(each._backward_hooks or each._post_accumulate_grad_hooks for each in weights.values()):
            return None
        buffers = [each for module in modules for each in module._buffers.values() if each is not None]
        return (
            type(batch),
            tuple((name, each.shape, each.dtype) for name, each in tensors_of(batch).items()),
            tuple((key, each.data_ptr(), each.requires_grad) for key, each in weights.items()),
            tuple(each.data_ptr() for each in buffers),
            tuple(map(id, modules)),
        )


class NotRecorded(Exception):
    """A pass could not be recorded; the gradients are those of the pass as it is."""

    def __init__(self, reason: str, result: Tensor) -> None:
        super().__init__(reason)
        self.result = result


class Recorded:
    """A pass in the memory of a GPU: run once more as it is, then recorded, and compared with that run."""

    def __init__(self, run: Pass, batch: RowBatch, weights: list[nn.Parameter], seeds: int) -> None:
        self._run, self._weights = run, weights
        self._inputs = {name: each.clone() for name, each in tensors_of(batch).items()}
        self._batch = replace(batch, **self._inputs)
        self._device = weights[0].device
        self._seeds = SeedMemory(seeds, self._device)
        self._stream = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None
        self._replay: Callable[[], None] | None = None
        self._result: Tensor = torch.empty(0)
        self._gradients: list[Tensor | None] = [None] * len(weights)

    def __call__(self, batch: RowBatch) -> Tensor:
        """What the function returns.

        Raises:
            NotRecorded: the GPU refused to record it, or a replay gives other numbers.
        """
        for name, each in tensors_of(batch).items():
            self._inputs[name].copy_(each, non_blocking=True)
        before = [
            # not in the memory that this pass overwrites
            gradient.clone() if gradient is not None and gradient is own else gradient
            for gradient, own in zip((each.grad for each in self._weights), self._gradients, strict=True)
        ]
        self._seeds.draw()
        try:
            if self._replay is None:
                self._replay = self._record()
            else:
                self._replay()
        finally:
            for weight, gradient, old in zip(self._weights, self._gradients, before, strict=True):
                weight.grad = gradient if old is None else old if gradient is None else old.add_(gradient)
        return self._result

    def _record(self) -> Callable[[], None]:
        """The pass as it is, then its recording, which is replayed with the same random numbers."""
        before = _generator_state(self._device)
        self._on_stream(self._pass)  # where matrix products then have their workspace
        after, result, gradients = _generator_state(self._device), self._result, self._gradients
        replay, problem = None, "a replay of it gives other numbers"
        try:
            replay = capture(self._pass, self._stream)
            _set_generator_state(self._device, before)
            replay()
            if are_close(self._result, result, self._gradients, gradients):
                problem = None
        except RuntimeError as error:
            problem = next(iter(str(error).splitlines()), type(error).__name__)
        _set_generator_state(self._device, after)
        if replay is None or problem is not None:
            self._result, self._gradients = result, gradients
            raise NotRecorded(problem or "", result)
        return replay

    def _pass(self) -> None:
        """One pass, whose gradients are not added to others."""
        for weight in self._weights:
            weight.grad = None
        with self._seeds.used():
            self._result = self._run(self._batch)
        self._gradients = [weight.grad for weight in self._weights]

    def _on_stream(self, run: Callable[[], None]) -> None:
        if self._stream is None:
            run()
            return
        here = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            run()
        here.wait_stream(self._stream)


def capture(run: Callable[[], None], stream: torch.cuda.Stream | None) -> Callable[[], None]:
    """Records `run` on this stream, which does not run it; returns what runs it again and again."""
    assert stream is not None
    graph, here = torch.cuda.CUDAGraph(), torch.cuda.current_stream(stream.device)
    stream.wait_stream(here)
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            run()
        finally:
            graph.capture_end()
    here.wait_stream(stream)
    return graph.replay


def are_close(
    result: Tensor, other_result: Tensor, gradients: list[Tensor | None], others: list[Tensor | None]
) -> bool:
    """True if two passes gave the same numbers, up to the order of sums: some kernels have none."""
    if not torch.allclose(result, other_result, rtol=LOSS_TOLERANCE, atol=0, equal_nan=True):
        return False
    if any((one is None) != (two is None) for one, two in zip(gradients, others, strict=True)):
        return False
    found = [each for each in gradients if each is not None]
    expected = [each for each in others if each is not None]
    differences = torch.stack([(one - two).norm() for one, two in zip(found, expected, strict=True)])
    sizes = torch.stack([each.norm() for each in expected])
    allowed = GRADIENT_TOLERANCE * (sizes + sizes.norm() / 10)
    return bool((differences <= allowed).all()) or not bool(sizes.isfinite().all())


def _generator_state(device: torch.device) -> Tensor | None:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else None


def _set_generator_state(device: torch.device, state: Tensor | None) -> None:
    if state is not None:
        torch.cuda.set_rng_state(state, device)


def has_room(device: torch.device) -> bool:
    """True if a pass may have memory of its own, beside that of others."""
    if device.type != "cuda":
        return True
    total = torch.cuda.get_device_properties(device).total_memory
    return torch.cuda.max_memory_allocated(device) < SHARE * total


def tensors_of(batch: RowBatch) -> dict[str, Tensor]:
    """All tensors of a batch by the names of its fields."""
    targets = {} if batch.targets is None else {"targets": batch.targets}
    return {**batch.tensors(), **targets}
