"""Tickets that open the page in a browser without its token on a command line.

On Linux every user can read the command lines of all processes. So the browser gets a ticket instead: an
address that redirects to the page once, for the user who started the server.
"""

import os
import secrets
import socket
import struct
import threading
from pathlib import Path

SOCKETS = ("/proc/net/tcp", "/proc/net/tcp6")
LOCAL_FIELD, OWNER_FIELD = 1, 7  # fields of a line: local address and port, user id
ROOT = 0  # can read everything anyway


class Ticket:
    """Admits one browser to the page, once."""

    def __init__(self) -> None:
        self.name = secrets.token_urlsafe(16)
        self._lock, self._used = threading.Lock(), False

    def redeem(self, name: str, client: tuple[str, int]) -> bool:
        """Use the ticket: True if `name` is this ticket, unused, and the client belongs to this user."""
        if not secrets.compare_digest(name.encode(), self.name.encode()) or not is_of_this_user(client):
            return False
        with self._lock:
            first, self._used = not self._used, True
        return first


def is_of_this_user(client: tuple[str, int]) -> bool:
    """True if the connection from this local address belongs to this process's user or to root.

    Other systems than Linux cannot tell and need not: Windows hides command lines from other users, and
    macOS starts the browser without one.
    """
    tables = [Path(each) for each in SOCKETS if Path(each).exists()]
    if not tables:
        return True
    owners = {owner for table in tables for owner in _owners(table, client)}
    return bool(owners) and owners <= {os.getuid(), ROOT}


def _owners(table: Path, client: tuple[str, int]) -> list[int]:
    """The users whose sockets have this address, over IPv4 or IPv4-mapped IPv6."""
    [number] = struct.unpack("=I", socket.inet_aton(client[0]))
    address = f"{number:08X}:{client[1]:04X}"
    lines = (line.split() for line in table.read_text("ascii").splitlines()[1:])
    return [int(fields[OWNER_FIELD]) for fields in lines if fields[LOCAL_FIELD].endswith(address)]
