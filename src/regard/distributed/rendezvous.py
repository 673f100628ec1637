"""Rendezvous of the processes of a run: a new shared store for each start."""

import os
import secrets
import socket
import time
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from torch.distributed import FileStore, Store, TCPStore  # pyright: ignore[reportPrivateImportUsage]
from torch.distributed.rendezvous import rendezvous

from regard.distributed.rank import Rank
from regard.errors import RunError

RENDEZVOUS_TIMEOUT = timedelta(minutes=2)  # until all processes have started
CONNECTION_TIMEOUT = timedelta(seconds=3)  # until a store answers
STORE_KEY = (
    "regard/meeting"  # the key for port and token of the first process's store, and in it for the token
)


def shared_store(process: Rank) -> Store:
    """The key-value store that all processes share; each process calls this.

    torchrun's store survives its restarts and still has the addresses of the last attempt
    (pytorch/pytorch#135712; the restart count does not help, it differs between machines). So the first
    process creates a new store, and the others retry until it answers.

    Raises:
        RunError: the store is a file whose folder is gone, because its process has ended.
    """
    if not process.is_started_by_torchrun:
        return _file_store(process)
    shared, _, _ = next(
        iter(rendezvous(process.rendezvous_url, process.rank, process.size, timeout=RENDEZVOUS_TIMEOUT))
    )
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return shared
    host = os.environ["MASTER_ADDR"]
    if process.rank == 0:
        own = TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=RENDEZVOUS_TIMEOUT)
        token = secrets.token_hex(8)
        own.set(STORE_KEY, token)
        shared.set(STORE_KEY, f"{own.port} {token}")
        return own
    return _connect(shared, host)


def _file_store(process: Rank) -> FileStore:
    """A store in the file of the rendezvous URL, which torch itself would not unquote."""
    path = Path(url2pathname(urlsplit(process.rendezvous_url).path))
    if not path.parent.is_dir():  # torch would wait for it for minutes, and hold the lock of the interpreter
        raise RunError("the process that started this one has ended", "give the same command again")
    return FileStore(str(path), process.size)


def _connect(shared: Store, host: str) -> Store:
    """The first process's store, when it answers with the right token."""
    deadline = time.monotonic() + RENDEZVOUS_TIMEOUT.total_seconds()
    while True:
        port, token = shared.get(STORE_KEY).decode().split()
        try:
            socket.create_connection(
                (host, int(port)), CONNECTION_TIMEOUT.total_seconds()
            ).close()  # torch would log a failure
            store = TCPStore(host, int(port), is_master=False, timeout=CONNECTION_TIMEOUT)
            if store.get(STORE_KEY).decode() == token:
                store.set_timeout(RENDEZVOUS_TIMEOUT)
                return store
        except (OSError, RuntimeError):  # a store of an earlier attempt
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)
