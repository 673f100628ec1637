"""Chooses the number of CPU threads for training: the one with which updates are fastest now.

Small matrix products gain little from a second thread. On a machine that runs other programs the threads
wait for each other at every product, and one thread may be several times as fast as two.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

import torch

# On two busy cores (AMD EPYC, Zen 5), a model of 1.5 M parameters trained on 450 to 2,000 target tokens a
# second with two threads and on 5,000 to 10,000 with one; on idle cores on 15,000 and 10,000.
ROUNDS = 5
SECONDS = 3.0  # after which no further round begins
MARGIN = 1.1  # a smaller number of threads is taken if it is slower by this factor at most


def choose_threads(update: Callable[[], object], most: int) -> int:
    """The number of threads, a power of two or `most`, with which `update` is fastest on this machine now."""
    counts = sorted({*(2**power for power in range(most.bit_length())), most})
    if most == 1:
        return 1
    seconds: dict[int, list[float]] = {count: [] for count in counts}
    update()  # allocates memory and compiles kernels
    started = time.perf_counter()
    for number in range(ROUNDS):
        if number and time.perf_counter() - started >= SECONDS:
            break
        for count, measured in seconds.items():
            with threads(count):
                begun = time.perf_counter()
                update()
                measured.append(time.perf_counter() - begun)
    medians = {count: median(measured) for count, measured in seconds.items()}
    return next(count for count in counts if medians[count] <= MARGIN * min(medians.values()))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """A context in which PyTorch has `count` threads; the previous number is restored afterwards."""
    with unchanged_threads():
        torch.set_num_threads(count)
        yield


@contextmanager
def unchanged_threads() -> Iterator[None]:
    """A context after which PyTorch has as many threads as before, whatever is set within."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
