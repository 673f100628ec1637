"""A pool of one-threaded processes that share batches, with one model in memory.

Small matrix products gain little from a second thread, and often wait for it; batches do not wait.
"""

import gc
import multiprocessing
import os
import signal
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import torch
import torch.multiprocessing  # lets multiprocessing share tensors without a copy

from regard.errors import RunError
from regard.parent_process import end_with
from regard.stop_signals import on_stop

Item = TypeVar("Item")
Result = TypeVar("Result")
AHEAD = 2  # jobs queued for each worker, so that it need not wait

_call: Callable[[Any], Any] | None = None  # the function that a worker calls


class DecodingPool(Generic[Item, Result]):
    """`size` processes, this one among them, that call `call` on jobs.

    On Linux the workers are forks: they share the memory of `call`, such as a model, and start at once.
    Elsewhere they are new interpreters, which a script must allow for (`if __name__ == "__main__"`).
    """

    def __init__(self, call: Callable[[Item], Result], size: int) -> None:
        self.call, self.size = call, size
        context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
        self._workers = ProcessPoolExecutor(size - 1, context, _begin, (call, os.getpid()))
        with warnings.catch_warnings(), uncollected():
            # Python 3.12 warns of forks in a process with threads. PyTorch's idle threads hold no lock, and
            # a worker uses one thread.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._workers.submit(int)  # starts the workers

    def map(self, jobs: Sequence[Item], answered: Callable[[int], None] | None = None) -> list[Result]:
        """The answer to each job, in order; an exception in a worker is raised here.

        `answered` is called with the place of each finished job.

        Raises:
            RunError: a worker died.
        """
        answers: dict[int, Result] = {}
        waiting, running = deque(range(len(jobs))), dict[Future[Result], int]()
        try:
            with one_thread():
                while waiting or running:
                    while waiting and len(running) < AHEAD * (self.size - 1):
                        place = waiting.popleft()
                        running[self._workers.submit(_work, jobs[place])] = place
                    if waiting:
                        place = waiting.popleft()
                        answers[place] = self.call(jobs[place])
                        if answered:
                            answered(place)
                    else:
                        wait(running, return_when=FIRST_COMPLETED)
                    for future in [each for each in running if each.done()]:
                        place = running.pop(future)
                        answers[place] = future.result()
                        if answered:
                            answered(place)
        except BrokenProcessPool as error:
            raise RunError(
                "a worker died before it had answered", "if memory ran out, use --workers 1"
            ) from error
        finally:
            for future in running:  # none, unless an exception was raised
                future.cancel()
        return [answers[place] for place in range(len(jobs))]

    def close(self) -> None:
        """Stop the workers after their current jobs."""
        self._workers.shutdown(wait=False, cancel_futures=True)


@contextmanager
def uncollected() -> Iterator[None]:
    """A context in which forks never collect the objects that exist now.

    A finaliser in a fork may wait forever for a lock that a thread of this process held at that moment. Those
    of `ProcessPoolExecutor` do: a worker hung when it collected the executor of an earlier pool. Memory that
    is not collected also stays shared.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread in this process; restored afterwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _begin(call: Callable[[Any], Any], parent: int) -> None:
    global _call
    _call = call
    end_with(parent)
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    on_stop(signal.SIG_DFL)  # the parent's handler would print a traceback from each worker


def _work(job: Any) -> Any:
    assert _call is not None
    return _call(job)
