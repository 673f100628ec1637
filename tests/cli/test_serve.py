"""`regard serve` as a process: its start, its signals, its mistakes."""

import http.client
import json
import re
import signal
import sys
import threading

import pytest

from regard.cli import run
from regard.serving import run as serving_run
from tests.warm_process import run_python, start_python


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["--host", "0.0.0.0"], "lets other machines use this server", "--api-keys FILE"),
        (["--model", "a b=x"], "is not a name", "NAME=DIR"),
        (["--api-keys", "/no/such/file"], "No such file", "one API key a line"),
    ],
)
def test_a_mistake_is_one_line_and_a_hint(arguments, message, hint, capsys):
    assert run(["serve", "--port", "0", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert hint in error
    assert "Traceback" not in error


def test_a_model_that_is_not_there_is_one_line_and_a_hint():
    """In a process of its own: a test of the page may have left an event loop in this one."""
    done = run_python(["-m", "regard", "serve", "--port", "0", "--model", "no/such/folder"])
    assert done.returncode == 2
    assert "does not exist" in done.stderr
    assert "hint" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_process_serves_and_ends_with_0_when_it_has_answered(untrained):
    options = ["--port", "0", "--model", f"digits={untrained}", "--threads", "1"]
    process = start_python(["-m", "regard", "serve", *options])
    port = int(re.search(rb"http://127.0.0.1:(\d+)", process.stderr.readline())[1])
    statuses = []

    def asked():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = json.dumps({"text": ["1 2 3 4"] * 100})
        try:
            connection.request("POST", "/api/v1/translate", body, {"Content-Type": "application/json"})
            statuses.append(connection.getresponse().status)
        except (ConnectionError, http.client.HTTPException):  # it came too late
            pass
        finally:
            connection.close()

    while not statuses:
        asked()
    assert statuses == [200]
    process.send_signal(signal.SIGHUP)
    threads = [threading.Thread(target=asked) for _ in range(4)]
    for each in threads:
        each.start()
    process.send_signal(signal.SIGTERM)
    for each in threads:
        each.join()
    rest = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 0, rest
    assert set(statuses) <= {200, 503}
    logged = [json.loads(line)["status"] for line in rest.splitlines() if '"/api/v1/translate"' in line]
    assert sorted(logged) == sorted(statuses)
    assert "all accepted requests are answered" in rest


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signal")
def test_a_reload_during_the_start_does_not_stop_the_server(monkeypatch):
    before, seen = signal.getsignal(signal.SIGHUP), []
    monkeypatch.setattr(serving_run, "serve", lambda options: seen.append(signal.getsignal(signal.SIGHUP)))
    assert run(["serve", "--port", "0"]) == 0
    assert seen == [signal.SIG_IGN]
    assert signal.getsignal(signal.SIGHUP) == before
