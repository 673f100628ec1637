"""Opens the page in a browser, without the page's token on a command line.

On Linux every user of a machine reads the command lines of all. So the browser is given a ticket instead: an
address that leads to the page once, for the user who started the server.
"""

import os
import secrets
import socket
import struct
import threading
from pathlib import Path

SOCKETS = ("/proc/net/tcp", "/proc/net/tcp6")
LOCAL, OWNER = 1, 7  # fields of a line of those: an address and port, the number of a user
ROOT = 0  # reads everything anyway


class Ticket:
    """Leads one browser to the page, once."""

    def __init__(self) -> None:
        self.name = secrets.token_urlsafe(16)
        self._lock, self._used = threading.Lock(), False

    def taken(self, name: str, client: tuple[str, int]) -> bool:
        """Whether `name` is this ticket, not yet used, in the hands of this very user; it is used then."""
        if not secrets.compare_digest(name.encode(), self.name.encode()) or not is_of_this_user(client):
            return False
        with self._lock:
            first, self._used = not self._used, True
        return first


def is_of_this_user(client: tuple[str, int]) -> bool:
    """Whether a connection from this address of this machine is of the user who runs this process, or root.

    Only Linux tells. Windows hides command lines from other users; macOS starts the browser without one.
    """
    tables = [Path(each) for each in SOCKETS if Path(each).exists()]
    if not tables:
        return True
    owners = {owner for table in tables for owner in _owners(table, client)}
    return bool(owners) and owners <= {os.getuid(), ROOT}


def _owners(table: Path, client: tuple[str, int]) -> list[int]:
    """Those whose sockets have this address, over IPv4 or over IPv6 that stands for it."""
    [number] = struct.unpack("=I", socket.inet_aton(client[0]))
    address = f"{number:08X}:{client[1]:04X}"
    lines = (line.split() for line in table.read_text("ascii").splitlines()[1:])
    return [int(fields[OWNER]) for fields in lines if fields[LOCAL].endswith(address)]
