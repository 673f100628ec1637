"""Where the time of a training step and of a decoding step goes, on one core.

    python -m benchmarks.profile [--quick] [--updates N] [--sentences N]

The workloads of `train` and `decode`, measured by PyTorch's profiler. The self time of each operation is
added to its kind. The rest of the processor's time is spent between operations, in Python and in PyTorch's
dispatcher.
"""

import argparse
import ctypes
import signal
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.common import program
from benchmarks.common.results import Result, Table
from benchmarks.common.roof import peak_of

PLANNED = (  # in the order of their numbers in plan.c
    *("embed", "linear", "norm", "activate", "rotate", "attend_to_self", "attend_to_memory", "add"),
)
KERNELS = (  # of fast/native/
    *("linear", "top_candidates", "attend_to_memory", "norm", "activate"),
    *("add_dropped", "post_norm", "post_norm_backward", "relu_dropped", "relu_dropped_backward"),
    *("activate_dropped", "activate_dropped_backward", "rms_norm", "rms_norm_backward", "rotate_positions"),
    *("attention_forward", "attention_backward", "cross_entropy"),
)
PRODUCTS = (
    "aten::mm",
    "aten::addmm",
    "aten::addmm_",
    "aten::bmm",
    "aten::baddbmm",
    "linear",
    "top_candidates",
)
LOSS = "loss: softmax over the vocabulary, label smoothing"
WITHIN = {  # an enclosing operation -> the kind of the operations inside it
    "Optimizer.step": "Adam",
    "aten::_foreach_norm": "norm of the gradient",
    "aten::linalg_vector_norm": "norm of the gradient",
    "aten::linear_cross_entropy": LOSS,
    "LinearCrossEntropy": LOSS,
    "GeneratedBackwardFor_torch_nn__linear_cross_entropy": LOSS,
    "autograd::engine::evaluate_function: AddmmBackward": "gradients of biases",
    "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad": "gradients added up",
    "aten::scaled_dot_product_attention": "attention",
    "aten::_scaled_dot_product": "attention",
    "aten::softmax": "softmax of the attention",
    "aten::log_softmax": "log-softmax over the vocabulary",
    "aten::layer_norm": "norms",
    "aten::native_layer_norm": "norms",
    "aten::relu": "relu",
    "aten::threshold_backward": "relu",
    "aten::embedding": "embeddings",
    "aten::topk": "choice of tokens",
    "aten::max": "choice of tokens",
    "aten::amax": "choice of tokens",
    "aten::sort": "choice of tokens",
    "aten::gather": "choice of tokens",
    "aten::index_select": "cache",
    "aten::index_copy_": "cache",
    "attend_to": "attention",
    "norm": "norms",
    "rms_norm": "norms",
    "rotate_positions": "rotary positions",
    "activate": "activations",
    "add_dropped": "residuals with dropout",
    "post_norm": "residuals with dropout and norm",
    "relu_dropped": "relu",
    "attention_forward": "attention",
    "attention_backward": "attention",
    "cross_entropy": LOSS,
}
COLUMNS = {
    "kind": ("what", ""),
    "ms": ("ms", ".1f"),
    "share": ("share", ".1%"),
    "calls": ("operations", ",.0f"),
    "gflops": ("GFLOP/s", ".0f"),
}
ELSE, BETWEEN = "other operations element by element", "between the operations: Python and the way to them"


def main() -> None:
    program.limit_threads()
    parser = program.argument_parser(__doc__)
    parser.add_argument("--updates", type=int, default=4, help="updates of the training [default: 4]")
    parser.add_argument(
        "--sentences", type=int, default=320, help="sentences to decode, 32 at a time [default: 320]"
    )
    program.run(profile, parser)


def profile(options: argparse.Namespace) -> Result:
    from benchmarks.work.pairs import trained_model

    updates, sentences = (1, 32) if options.quick else (options.updates, options.sentences)
    settings = {"updates": updates, "sentences": sentences, "threads": 1}
    result = Result(part="profile", settings=settings)
    roof = peak_of(1)
    model = None if options.quick else trained_model(options.threads)
    _show_kernels()
    taken, gflop = _training(updates, small=options.quick)
    result.tables.append(_table("one training step", taken, gflop / updates, updates, roof))
    for beam in (1, 5):
        taken, gflop, steps = _decoding(model, sentences, beam)
        name = "greedy" if beam == 1 else f"beam {beam}"
        result.tables.append(_table(f"one decoding step, {name}", taken, gflop / steps, steps, roof))
    return result


def _training(updates: int, *, small: bool) -> tuple[Any, float]:
    """The profile of so many updates, and the GFLOPs of their products."""
    from benchmarks.training.steps import trainer_of
    from benchmarks.work import pairs
    from regard.distributed.group import SINGLE
    from regard.errors import Interrupted

    task = pairs.training_task("paper", small=small)
    watch, calls, warm_up = _Watch(), 0, 3

    def between() -> int | None:
        nonlocal calls
        calls += 1
        if calls == warm_up:
            watch.start()
        if calls < warm_up + updates:
            return None
        watch.stop()
        return signal.SIGTERM

    with tempfile.TemporaryDirectory() as folder, suppress(Interrupted):
        trainer_of(task, SINGLE, Path(folder) / "run", between).train()
    batches = iter(task.loader(SINGLE))
    seen = [next(batches) for _ in range(warm_up + updates)][warm_up - 1 : -1]
    return watch, sum(pairs.flop(task.config, batch) for batch in seen) / 1e9


def _decoding(model: Path | None, sentences: int, beam: int) -> tuple[Any, float, int]:
    """The same for so many sentences, encoder included, and the number of decoding steps."""
    from benchmarks.decoding.prepared import prepared
    from benchmarks.decoding.regard_decoder import Regard
    from benchmarks.work.pairs import shape_of

    work = prepared(model)
    contender = Regard(sentences=str(work.path))
    batches = [range(first, min(first + 32, sentences)) for first in range(0, sentences, 32)]
    contender.decode(batches[0], beam, None)
    watch = _Watch()
    watch.start()
    found = [contender.decode(batch, beam, None) for batch in batches]
    watch.stop()
    ids = [each for batch in found for each in batch]
    lengths = [(len(contender.sentences.ids[place]) + 1, len(each) + 1) for place, each in enumerate(ids)]
    steps = sum(max(len(each) + 1 for each in batch) for batch in found)
    return watch, shape_of(contender.config).decoding(lengths, beam) / 1e9, steps


def _show_kernels() -> None:
    """Report the C kernels to PyTorch's profiler; those of a plan one by one."""
    import torch

    from regard.fast.native import (
        activation,
        activation_training,
        attention,
        attention_training,
        cross_entropy,
        kernels,
        linear,
        norm,
        plan,
        residual,
        rms_norm_training,
        rotary,
        rotary_training,
    )

    known = kernels.kernel

    def seen(name: str) -> Callable[..., Any]:
        kernel = known(name)

        def called(*given: Any) -> None:
            with torch.profiler.record_function(name):
                kernel(*given)

        return called if name in KERNELS else kernel

    def one_by_one(name: str) -> Callable[..., Any]:
        run_plan = known(name)

        def called(calls: Any, count: int, run: int) -> int:
            failed = 0
            for number in range(count):
                with torch.profiler.record_function(PLANNED[calls[number].kind]):
                    failed |= run_plan(ctypes.byref(calls[number]), 1, run)
            return failed

        return called

    trained = (
        *(activation_training, attention_training, cross_entropy, residual),
        *(rms_norm_training, rotary_training),
    )
    for room in (activation, attention, linear, norm, rotary, *trained):
        room.kernel = seen  # type: ignore[assignment]
    plan.kernel = one_by_one  # type: ignore[assignment]


class _Watch:
    """PyTorch's profiler, together with the process's processor time."""

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)
        self._profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        self.seconds = 0.0

    def start(self) -> None:
        import time

        self._profiler.start()
        self._clock: Callable[[], float] = time.perf_counter
        self._began = self._clock()

    def stop(self) -> None:
        self.seconds = self._clock() - self._began
        self._profiler.stop()

    def kinds(self) -> dict[str, tuple[float, int]]:
        """Seconds and operations of each kind."""
        found: dict[str, tuple[float, int]] = {}
        for event in self._profiler.events():
            seconds, calls = found.get(kind := _kind(event), (0.0, 0))
            found[kind] = (seconds + event.self_cpu_time_total / 1e6, calls + 1)
        return found


def _kind(event: Any) -> str:
    if event.name in PRODUCTS:
        return "matrix products"
    while event is not None:
        for beginning, kind in WITHIN.items():
            if event.name.startswith(beginning):
                return kind
        event = event.cpu_parent
    return ELSE


def _table(title: str, watch: _Watch, gflop: float, steps: int, roof: float) -> Table:
    kinds = watch.kinds()
    table = Table(title=title, columns=COLUMNS)
    kinds[BETWEEN] = (max(0.0, watch.seconds - sum(seconds for seconds, _ in kinds.values())), 0)
    for kind, (seconds, calls) in sorted(kinds.items(), key=lambda item: -item[1][0]):
        row = {"kind": kind, "ms": 1000 * seconds / steps, "share": seconds / watch.seconds}
        row["calls"] = calls / steps if calls else None
        if kind == "matrix products":
            row["gflops"] = gflop * steps / seconds
        table.rows.append(row)
    table.notes.append(
        f"{1000 * watch.seconds / steps:.1f} ms in all, with the profiler's own cost; products by formula:"
        f" {gflop:.2f} GFLOP, at the peak of {roof:.0f} GFLOP/s {1000 * gflop / roof:.1f} ms"
    )
    return table


if __name__ == "__main__":
    main()
