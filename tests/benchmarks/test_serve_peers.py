"""The servers beside which `regard serve` is measured are found, or named."""

import sys
from pathlib import Path

from benchmarks import serve_peers


def test_a_peer_without_its_packages_is_named_and_left_out(monkeypatch, capsys):
    monkeypatch.setattr(serve_peers, "NEEDED", {"fastapi": ("json", "no_such_package")})
    assert serve_peers.installed("fastapi", Path(sys.executable)) is None
    assert "fastapi is not measured" in (said := capsys.readouterr().out)
    assert "lacks no_such_package; make bench-serve-install" in said
    assert serve_peers.installed("fastapi", Path("no-such-python")) is None
    assert "lacks json, no_such_package" in capsys.readouterr().out


def test_a_peer_with_its_packages_is_measured(monkeypatch, capsys):
    monkeypatch.setattr(serve_peers, "NEEDED", {"fastapi": ("json",)})
    assert serve_peers.installed("fastapi", Path(sys.executable)) == Path(sys.executable)
    assert not capsys.readouterr().out
