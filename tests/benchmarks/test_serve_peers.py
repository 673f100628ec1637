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


def test_what_a_server_reached_is_counted_for_one_client_and_for_many():
    first, other = (
        serve_peers.Peer(name=name, port=0, path="", body=str, text=str)
        for name in ("`regard serve`", "FastAPI, a call of CTranslate2 for each request")
    )
    for peer, rate in ((first, 100.0), (other, 200.0)):
        for clients in peer.rates:
            peer.rates[clients] += [rate, rate]
            peer.times[clients] += [0.010, 0.020, 0.030]
    found = serve_peers.figures(other, first, 0.985)
    assert found["equal"] == 0.985
    assert found["one"] == {"rate": 200.0, "ratio": 2.0, "p50_ms": 20.0, "p99_ms": 30.0}
    assert found["many"] == found["one"]
    assert serve_peers.row(other, first, 0.985).endswith("| 200.0 | 2.00 | 20, 30 ms | 98.5 % |")
