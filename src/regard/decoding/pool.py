"""A pool of single-threaded processes that share batches, with one model in memory.

Small matrix products gain little from a second thread, and often wait for it. Batches are independent, so
processes that decode one each do not wait.
"""

import gc
import multiprocessing
import os
import signal
import sys
import threading
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
JOBS_PER_WORKER = 2  # submitted at a time: one that it works on, and the next one

_call: Callable[[Any], Any] | None = None  # in a worker: what it calls on jobs


class DecodingPool(Generic[Item, Result]):
    """`size` processes (2 or more), this one among them, that call `call` on jobs.

    On Linux the workers are forks: they share the memory of `call`, such as a model, and start at once.
    Elsewhere they are new interpreters, which a script must allow for (`if __name__ == "__main__"`).

    If a worker is killed by SIGKILL, as the system does when memory runs out, this process continues alone;
    `warn` is called with the reason.
    """

    def __init__(
        self, call: Callable[[Item], Result], size: int, *, warn: Callable[[str], None] = warnings.warn
    ) -> None:
        self.call, self.size, self._warn = call, size, warn
        context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
        self._workers = ProcessPoolExecutor(size - 1, context, _initialise_worker, (call, os.getpid()))
        with warnings.catch_warnings(), objects_kept_by_forks():
            # Python 3.12 warns of forks in a process with threads. PyTorch's idle threads hold no lock, and
            # a worker uses one thread.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._workers.submit(int)  # a job that does nothing: the first one starts the workers
        self._is_alone, self._ending = False, threading.Lock()

    def map(self, jobs: Sequence[Item], finished: Callable[[int], None] | None = None) -> list[Result]:
        """The result of each job, in order; an exception in a worker is raised here.

        `finished` is called with the index of each job when it is done.

        Raises:
            RunError: a worker died.
        """
        results: dict[int, Result] = {}

        def store(index: int, result: Result) -> None:
            results[index] = result
            if finished:
                finished(index)

        with one_thread():
            if not self._is_alone:
                self._share(jobs, store)
            for index in range(len(jobs)):
                if index not in results:
                    store(index, self.call(jobs[index]))
        return [results[index] for index in range(len(jobs))]

    def _share(self, jobs: Sequence[Item], store: Callable[[int, Result], None]) -> None:
        """Do the jobs, with the workers; if one is killed by SIGKILL, some jobs are left."""
        waiting, running = deque(range(len(jobs))), dict[Future[Result], int]()
        try:
            while waiting or running:
                while waiting and len(running) < JOBS_PER_WORKER * (self.size - 1):
                    index = waiting.popleft()
                    running[self._workers.submit(_work, jobs[index])] = index
                if waiting:
                    index = waiting.popleft()
                    store(index, self.call(jobs[index]))
                else:
                    wait(running, return_when=FIRST_COMPLETED)
                for future in [future for future in running if future.done()]:
                    store(running[future], future.result())
                    del running[future]
        except BrokenProcessPool as error:
            self._continue_alone(error)

    def _continue_alone(self, error: BrokenProcessPool) -> None:
        """Raise a RunError, unless a worker was killed by SIGKILL: then its job was not the cause."""
        with self._ending:
            if not self._is_alone:
                self._end(error)

    def _end(self, error: BrokenProcessPool) -> None:
        processes = [*(getattr(self._workers, "_processes", None) or {}).values()]
        self._workers.shutdown(wait=True)  # until the exit codes are known; it ends the others by SIGTERM
        codes = {each.exitcode for each in processes}
        names = {each.name for each in signal.Signals if -each in codes} - {"SIGTERM"}
        if names != {"SIGKILL"}:
            died = "".join(f" of {name}" for name in sorted(names))
            raise RunError(
                f"a worker died{died} before it had answered", "--workers 1 decodes in one process"
            ) from error
        self._is_alone = True
        self._warn(
            "a worker was killed, as the system does when memory runs out; one process continues alone"
        )

    def close(self) -> None:
        """Stop the workers after their current jobs."""
        self._workers.shutdown(wait=False)


@contextmanager
def objects_kept_by_forks() -> Iterator[None]:
    """A context in which forks are started that never garbage-collect the objects that exist now.

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
    """A context in which PyTorch uses one thread in this process."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _initialise_worker(call: Callable[[Any], Any], parent: int) -> None:
    """Prepare this process; `parent` is the id of the process with whose end it ends."""
    global _call
    _call = call
    end_with(parent)
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    on_stop(signal.SIG_DFL)  # the parent's handler would print a traceback from each worker


def _work(job: Any) -> Any:
    assert _call is not None
    return _call(job)
