"""Where the processes of a run find each other: a store of theirs, new each time that they start."""

import os
import secrets
import socket
import time
from datetime import timedelta

from torch.distributed import Store, TCPStore  # pyright: ignore[reportPrivateImportUsage]
from torch.distributed.rendezvous import rendezvous

from regard.distributed.rank import Rank

MEETING = timedelta(minutes=2)  # until all have started
TRY = timedelta(seconds=3)  # for the store that was named last to answer
NAMED = "regard/meeting"  # in torchrun's store, the port of the first process's and its mark; there, the mark


def shared_store(place: Rank) -> Store:
    """The store that all share; each process of the run calls this.

    torchrun's own store outlives its restarts, and holds where the processes of the last attempt listened
    (pytorch/pytorch#135712; the count of restarts is no help, it differs from machine to machine). So the
    first process brings one of its own, and the others ask until that answers.
    """
    shared, _, _ = next(iter(rendezvous(place.meeting, place.rank, place.size, timeout=MEETING)))
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True" or not place.is_started_by_torchrun:
        return shared
    host = os.environ["MASTER_ADDR"]
    if place.rank == 0:
        own = TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=MEETING)
        mark = secrets.token_hex(8)
        own.set(NAMED, mark)
        shared.set(NAMED, f"{own.port} {mark}")
        return own
    return _answering(shared, host)


def _answering(shared: Store, host: str) -> Store:
    deadline = time.monotonic() + MEETING.total_seconds()
    while True:
        port, mark = shared.get(NAMED).decode().split()
        try:
            socket.create_connection((host, int(port)), TRY.total_seconds()).close()  # torch is loud about it
            store = TCPStore(host, int(port), is_master=False, timeout=TRY)
            if store.get(NAMED).decode() == mark:
                store.set_timeout(MEETING)
                return store
        except (OSError, RuntimeError):  # nobody listens there any more
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)
