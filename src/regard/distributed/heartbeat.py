"""Signs of life between the processes of a run: if one is lost, the others end within seconds.

If a process is killed, the system closes its connections and the others notice at once. If a machine loses
its power or its network, nothing is closed, and the others would wait in PyTorch for hours. Each process
counts up in the shared store; the first watches all others, and these watch the first.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.distributed import FileStore  # pyright: ignore[reportPrivateImportUsage]

from regard.distributed.group import Group

INTERVAL = 2.0  # seconds between two signs of life
SILENCE = 20.0  # seconds without one after which a process counts as lost
LEFT = 2**40  # added to the count of a process that needs no watching any more
KEY = "regard/alive"  # the beginning of the keys in the store


@contextmanager
def heartbeat(group: Group, warn: Callable[[str], None]) -> Iterator[None]:
    """A context in which this process ends, after a warning, if another one is lost.

    torchrun starts its processes again. Those of `regard train --workers` are on one machine and need no
    watching.
    """
    if group.size == 1 or isinstance(group.store, FileStore):
        yield
        return
    signs = _SignsOfLife(group)
    stopped = threading.Event()
    threads = [
        threading.Thread(target=signs.beat, args=(stopped,), name="heartbeat", daemon=True),
        threading.Thread(target=signs.watch, args=(stopped, warn), name="heartbeat watch", daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        threads[0].join(INTERVAL)


class _SignsOfLife:
    """The signs of life of this process, and when the last one of each watched process was seen."""

    def __init__(self, group: Group) -> None:
        self._store: Any = group.store.clone()  # a connection of its own: a store does one thing at a time
        self._rank = group.rank
        watched = range(1, group.size) if group.is_first else range(1)
        self._counts = dict.fromkeys(watched, 0)
        self._seen = dict.fromkeys(watched, time.monotonic())

    def beat(self, stopped: threading.Event) -> None:
        """Gives signs of life, and looks for those of others, until stopped or the store is gone."""
        try:
            while not stopped.wait(INTERVAL):
                self._store.add(f"{KEY}/{self._rank}", 1)
                for rank, count in self._counts.items():
                    now = self._store.add(f"{KEY}/{rank}", 0)
                    if now != count or now >= LEFT:
                        self._counts[rank], self._seen[rank] = now, time.monotonic()
            self._store.add(f"{KEY}/{self._rank}", LEFT)
        except RuntimeError:  # the process that has the store has ended
            return

    def watch(self, stopped: threading.Event, warn: Callable[[str], None]) -> None:
        """Ends this process if another is silent. The other thread may be waiting for a lost store."""
        while not stopped.wait(INTERVAL):
            for rank, seen in self._seen.items():
                if self._counts[rank] < LEFT and time.monotonic() - seen > SILENCE:
                    warn(f"process {rank} has given no sign of life for {SILENCE:.0f} seconds: this one ends")
                    os._exit(1)
