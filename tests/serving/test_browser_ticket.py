"""A ticket is taken from connections of this user alone, by the kernel's list of sockets."""

import os

import pytest

from regard.serving import browser_ticket
from regard.serving.browser_ticket import Ticket, is_of_this_user

HEADING = "sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode"
CLIENT, ADDRESS = ("127.0.0.1", 40_000), "0100007F:9C40"
SERVER = "0100007F:1F90"
OTHERS = 54_321


def line(local: str, remote: str, owner: int) -> str:
    return f"0: {local} {remote} 01 00000000:00000000 00:00000000 00000000 {owner} 0 1"


@pytest.fixture
def sockets(tmp_path, monkeypatch):
    """Writes the list of sockets of IPv4, and of IPv6 where one is given."""
    files = [tmp_path / "tcp", tmp_path / "tcp6"]
    monkeypatch.setattr(browser_ticket, "SOCKETS", tuple(map(str, files)))
    monkeypatch.setattr(os, "getuid", lambda: 1000, raising=False)

    def write(*tables: list[str]) -> None:
        for file, lines in zip(files, tables, strict=False):
            file.write_text("\n".join([HEADING, *lines]) + "\n", "ascii")

    return write


@pytest.mark.parametrize(("owner", "ours"), [(1000, True), (0, True), (OTHERS, False)])
def test_the_owner_is_that_of_the_client_s_end(sockets, owner, ours):
    """Its other end, at the server, is this user's always."""
    sockets([line(SERVER, ADDRESS, OTHERS if ours else 1000), line(ADDRESS, SERVER, owner)])
    assert is_of_this_user(CLIENT) is ours


def test_a_client_over_ipv4_mapped_ipv6_is_found(sockets):
    sockets([], [line(f"0000000000000000FFFF0000{ADDRESS}", SERVER, 1000)])
    assert is_of_this_user(CLIENT)


def test_one_of_two_owners_who_is_another_user_is_enough_to_refuse(sockets):
    sockets([line(ADDRESS, SERVER, 1000), line(ADDRESS, SERVER, OTHERS)])
    assert not is_of_this_user(CLIENT)


def test_two_owners_who_may_read_the_page_are_enough(sockets):
    sockets([line(ADDRESS, SERVER, 1000), line(ADDRESS, SERVER, browser_ticket.ROOT)])
    assert is_of_this_user(CLIENT)


def test_a_connection_that_is_not_listed_has_no_owner(sockets):
    sockets([line(SERVER, ADDRESS, 1000)])
    assert not is_of_this_user(CLIENT)


def test_where_the_kernel_lists_no_sockets_the_ticket_is_enough(tmp_path, monkeypatch):
    monkeypatch.setattr(browser_ticket, "SOCKETS", (str(tmp_path / "none"),))
    ticket = Ticket()
    assert not ticket.redeem("another", CLIENT)
    assert ticket.redeem(ticket.name, CLIENT)
    assert not ticket.redeem(ticket.name, CLIENT), "once"
