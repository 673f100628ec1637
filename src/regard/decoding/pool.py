"""Processes of one thread beside this one that share its batches, with one model in memory.

Small products gain little from a second thread, and wait for it often; sentences need not wait for each
other.
"""

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
import torch.multiprocessing  # teaches multiprocessing to give tensors to others without a copy

from regard.errors import RunError
from regard.parent_process import end_with
from regard.stop_signals import on_stop

Job = TypeVar("Job")
Answer = TypeVar("Answer")
AHEAD = 2  # jobs a worker has at hand, so that it need not wait for the next

_call: Callable[[Any], Any] | None = None  # what a worker was started for


class DecodingPool(Generic[Job, Answer]):
    """`size` processes, this one among them, that call `call` on jobs.

    On Linux the others are forks: what `call` holds, such as a model, they read where it stands, and they
    start at once. Elsewhere they are fresh interpreters, which a script must be ready for
    (`if __name__ == "__main__"`).
    """

    def __init__(self, call: Callable[[Job], Answer], size: int) -> None:
        self.call, self.size = call, size
        context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
        self._others = ProcessPoolExecutor(size - 1, context, _begin, (call, os.getpid()))
        with warnings.catch_warnings():
            # Python 3.12 warns of forks beside threads. Those here are PyTorch's idle ones, which hold no
            # lock, and a worker uses one thread.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._others.submit(int)  # starts them

    def map(self, jobs: Sequence[Job], answered: Callable[[int], None] | None = None) -> list[Answer]:
        """The answer to each job, in order; what a job raises in a worker is raised here.

        `answered` is called with the place of each job when its answer is there.

        Raises:
            RunError: a worker is gone.
        """
        answers: dict[int, Answer] = {}
        waiting, running = deque(range(len(jobs))), dict[Future[Answer], int]()
        try:
            with one_thread():
                while waiting or running:
                    while waiting and len(running) < AHEAD * (self.size - 1):
                        place = waiting.popleft()
                        running[self._others.submit(_work, jobs[place])] = place
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
                "a worker ended before it had answered", "where memory ran out, give --workers 1"
            ) from error
        finally:
            for future in running:  # none, but where something was raised
                future.cancel()
        return [answers[place] for place in range(len(jobs))]

    def close(self) -> None:
        """Let the others end; they finish what they work on."""
        self._others.shutdown(wait=False, cancel_futures=True)


@contextmanager
def one_thread() -> Iterator[None]:
    """This process has the one core that the others leave it."""
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    on_stop(signal.SIG_DFL)  # a fork has that one's handler, which raises: a traceback from each worker


def _work(job: Any) -> Any:
    assert _call is not None
    return _call(job)
