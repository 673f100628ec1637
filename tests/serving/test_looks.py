"""`/look` in `regard serve`: the page of `regard look`, from a process of its own."""

import asyncio
import http.client
import json
import multiprocessing
import os
import signal
import time
from multiprocessing.forkserver import _forkserver, ensure_running
from types import SimpleNamespace

import pytest

from regard.errors import DataError, UserError
from regard.serving.engine import Engine
from regard.serving.http_error import HttpProblem
from regard.serving.look_process import LookProcess
from regard.serving.looks import AT_ONCE, Looks
from regard.serving.models import Slot
from regard.serving.run import ServeOptions, service_of
from regard.verbs.look import Looker, LookRequest
from regard.verbs.shared.runtime import Runtime
from regard.verbs.views.files import json_text, npy_bytes
from tests.serving.asking import ask, post
from tests.serving.made_models import MadeModel, Runner
from tests.warm_process import FORKS, IMPORTED

TEXT = "A man is sitting."


@pytest.fixture(scope="module")
def looking(serving, decoder_folder):
    return serving({"chars": decoder_folder(), "other": decoder_folder()})


class WarmContext:
    """Starts processes as forks of one that has imported PyTorch, with whose end they end.

    Processes of "spawn" import it first, for some seconds each. Neither have the connections of this one.
    """

    def __init__(self):
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(IMPORTED)
        self.Pipe = self._context.Pipe

    def Process(self, *, args, **settings):  # noqa: N802
        ensure_running()
        *others, parent = args
        assert parent == os.getpid()
        return self._context.Process(args=(*others, _forkserver._forkserver_pid), **settings)


@pytest.fixture
def warm(monkeypatch):
    """Looks begin in such processes, where the system has them."""
    if FORKS:
        begun = SimpleNamespace(get_context=lambda method: WarmContext())
        monkeypatch.setattr("regard.serving.look_process.multiprocessing", begun)


def process_of(server, name="chars"):
    return server.service.looks._processes[name][1]._process


@pytest.mark.parametrize(
    ("path", "target"), [("/look", "look/chars/"), ("/look/", "chars/"), ("/look/other", "other/")]
)
def test_an_address_without_its_end_leads_to_a_page(looking, path, target):
    found = ask(looking, "GET", path)
    assert (found.status, found.headers["Location"]) == (303, target)


def test_the_page_and_its_files_are_those_of_look(looking, warm):
    page = ask(looking, "GET", "/look/chars/")
    assert page.status == 200
    assert b"regard" in page.content
    assert page.headers["Content-Type"].startswith("text/html")
    assert page.headers["Content-Security-Policy"]
    assert ask(looking, "GET", "/look/chars/regard.js").status == 200
    assert ask(looking, "GET", "/look/chars/api/look").json is None


def test_a_look_is_that_of_the_verb(looking, decoder_folder, warm):
    made = post(looking, "/look/chars/api/look", {"text": TEXT})
    assert made.status == 200
    look = Looker(decoder_folder()).look(TEXT)
    assert made.json["summary"] == json.loads(json_text(look.summary))
    path = next(each for each in look.paths() if "attention" in each)
    found = ask(looking, "GET", f"/look/chars/api/look/{made.json['id']}/{path}")
    expected = look.get(path)
    assert found.content == (
        npy_bytes(expected) if hasattr(expected, "shape") else json_text(expected).encode()
    )


def test_an_answer_comes_token_by_token(looking, decoder_folder, warm):
    found = post(looking, "/look/chars/api/stream", {"text": TEXT})
    assert found.headers["Content-Type"] == "application/x-ndjson"
    tokens = [json.loads(line) for line in found.content.splitlines()]
    assert tokens == [token.to_dict() for token in Looker(decoder_folder()).stream(LookRequest(text=TEXT))]
    assert tokens


def test_a_look_counts_until_its_last_part_is_sent(looking, monkeypatch, warm):
    looks = looking.service.looks
    counted = []
    monkeypatch.setattr(
        "regard.serving.looks._parts",
        lambda response: (counted.append(looks._now) or part for part in [b"a", b"b"]),
    )
    assert post(looking, "/look/chars/api/stream", {"text": TEXT}).content == b"ab"
    assert counted == [1, 1]
    for _ in range(500):
        if not looks._now:
            break
        time.sleep(0.01)
    assert looks._now == 0
    monkeypatch.setattr("regard.serving.looks.AT_ONCE", 0)
    refused = post(looking, "/look/chars/api/stream", {"text": TEXT})
    assert (refused.status, refused.headers["Retry-After"]) == (429, "2")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/look/unknown/", 404),
        ("/look/chars/..%2f..%2fapi/look", 404),
        ("/look/chars/../other/page.js", 404),
        ("/look/chars/nothing.js", 404),
    ],
)
def test_there_is_nothing_at_other_paths(looking, path, status, warm):
    found = ask(looking, "GET", path)
    assert found.status == status
    assert "error" in found.json


def test_pages_of_other_sites_get_no_look(looking, warm):
    found = post(looking, "/look/chars/api/look", {"text": TEXT}, headers={"Origin": "http://evil.example"})
    assert found.status == 403


def test_what_is_not_json_or_too_long_is_refused(looking, warm):
    assert ask(looking, "POST", "/look/chars/api/look", raw=b"{").status == 400
    assert ask(looking, "POST", "/look/chars/api/look", raw=b"x" * 300_000).status == 413
    assert post(looking, "/look/chars/api/look", {"text": "a" * 100_000}).status == 400


def test_a_process_that_has_died_is_begun_again(looking, warm):
    assert ask(looking, "GET", "/look/chars/").status == 200
    os.kill(process_of(looking).pid, signal.SIGKILL)
    process_of(looking).join(10)
    assert ask(looking, "GET", "/look/chars/").status == 200


def test_a_model_that_is_loaded_again_gets_another_process(looking, warm):
    assert ask(looking, "GET", "/look/other/").status == 200
    before, engine = process_of(looking, "other").pid, looking.service.models.slots["other"].engine
    looking.loop.call_soon_threadsafe(looking.server.reload)
    for _ in range(500):
        if looking.service.models.slots["other"].engine is not engine:
            break
        time.sleep(0.02)
    assert ask(looking, "GET", "/look/other/").status == 200
    assert process_of(looking, "other").pid != before


def test_the_processes_end_with_the_server(decoder_folder):
    from tests.serving.conftest import Running

    with Running(ServeOptions(models=[f"chars={decoder_folder()}"], port=0, workers=0)) as server:
        assert ask(server, "GET", "/look/chars/").status == 200
        process = process_of(server)
    process.join(10)
    assert not process.is_alive()


def test_the_list_of_models_has_the_paths_of_their_pages(looking, serving, decoder_folder):
    models = ask(looking, "GET", "/api/v1/models").json["models"]
    assert [each["look"] for each in models] == ["/look/chars/", "/look/other/"]
    without = serving({"chars": decoder_folder()}, look=False)
    assert ask(without, "GET", "/api/v1/models").json["models"][0]["look"] is None
    found = ask(without, "GET", "/look/chars/")
    assert (found.status, "--look" in found.json["hint"]) == (404, True)


@pytest.mark.parametrize(
    ("options", "has"),
    [
        ({}, True),
        ({"host": "0.0.0.0", "open": True}, False),
        ({"host": "0.0.0.0", "open": True, "look": True}, True),
        ({"look": False}, False),
    ],
)
def test_only_a_server_of_this_machine_has_looks_by_itself(options, has):
    assert (service_of(ServeOptions(**options)).looks is not None) == has


def test_a_server_with_keys_has_none(tmp_path):
    keys = tmp_path / "keys.txt"
    keys.write_text("k" * 32 + "\n")
    assert service_of(ServeOptions(api_keys=keys)).looks is None
    with pytest.raises(UserError, match="--look with --api-keys"):
        service_of(ServeOptions(api_keys=keys, look=True))


class Response(http.client.HTTPResponse):
    """A response in parts."""

    def __init__(self, *parts, chunked):
        self.parts, self.chunked, self.status, self.closed_too = [*parts], chunked, 200, False

    def getheader(self, name, default=None):
        return default

    def read(self):
        return b"".join(self.parts)

    def read1(self, most):
        part = self.parts.pop(0) if self.parts else b""
        if isinstance(part, Exception):
            raise part
        return part

    def close(self):
        self.closed_too = True


class Process(LookProcess):
    """A process that answers with what a test gives, or fails with it."""

    made, found, failure, alive = [], [], None, True

    def __init__(self, path, runtime):
        if self.failure:
            raise self.failure
        self.closed = False
        self.made.append(self)

    def open(self, method, path, body, seconds):
        found = self.found[-1]
        if isinstance(found, BaseException):
            raise found
        return found

    def close(self):
        self.closed = True


@pytest.fixture
def looks(monkeypatch):
    """Looks of such processes, and what asks for one."""
    monkeypatch.setattr("regard.serving.looks.LookProcess", Process)
    monkeypatch.setattr(Process, "made", [])
    made = Looks(Runtime())
    slot = Slot(name="a", path=None)

    def asked(found):
        Process.found = [found]
        return asyncio.run(made.answer(slot, "GET", "/", b"", 1.0))

    return made, slot, asked


@pytest.mark.parametrize(
    ("failure", "raised"),
    [
        (OSError("gone"), HttpProblem),
        (http.client.BadStatusLine("x"), HttpProblem),
        (KeyError("x"), KeyError),
    ],
    ids=["system", "http", "program"],
)
def test_a_look_that_fails_makes_room_for_the_next(looks, capsys, failure, raised):
    made, _, asked = looks
    for _ in range(AT_ONCE + 1):
        with pytest.raises(raised) as caught:
            asked(failure)
    if raised is HttpProblem:
        assert (caught.value.status, caught.value.code, caught.value.retry_after) == (503, "unavailable", 2)
        assert f"looks of a: {type(failure).__name__}: {failure}" in capsys.readouterr().err
    for _ in range(AT_ONCE + 1):
        found = asked(Response(b"a", b"b", chunked=False))
        assert (found.status, found.content_type, found.content) == (200, "application/json", b"ab")
    assert made._now == 0


def test_so_many_looks_are_computed_at_once_and_streamed_ones_until_they_are_closed(looks):
    _, _, asked = looks
    streams = [asked(Response(b"a", b"b", chunked=True)) for _ in range(AT_ONCE)]
    with pytest.raises(HttpProblem, match="too many looks") as caught:
        asked(Response(chunked=False))
    assert (caught.value.status, caught.value.code, caught.value.retry_after) == (429, "overloaded", 2)
    assert [*streams[0].content] == [b"a", b"b"]
    streams[0].close()
    assert asked(Response(b"c", chunked=False)).content == b"c"


def test_a_stream_that_breaks_off_ends_and_is_closed(looks):
    _, _, asked = looks
    response = Response(b"a", OSError("gone"), b"b", chunked=True)
    assert [*asked(response).content] == [b"a"]
    assert response.closed_too


def test_a_process_answers_until_it_dies_or_its_model_is_loaded_again(looks):
    made, slot, asked = looks
    for _ in range(2):
        asked(Response(chunked=False))
    assert len(Process.made) == 1
    slot.engine = Engine(MadeModel(), Runner())
    asked(Response(chunked=False))
    Process.made[-1].alive = False
    asked(Response(chunked=False))
    assert [each.closed for each in Process.made] == [True, True, False]
    made.close()
    assert [each.closed for each in Process.made] == [True, True, True]
    asked(Response(chunked=False))
    assert len(Process.made) == 4, "after an end it begins again"


def test_a_model_without_looks_is_refused_and_may_be_asked_again(looks, capsys):
    made, _, asked = looks
    Process.failure = DataError("no", "h")
    try:
        for _ in range(AT_ONCE + 1):
            with pytest.raises(HttpProblem, match="there are no looks of a") as caught:
                asked(Response(chunked=False))
    finally:
        Process.failure = None
    assert (caught.value.status, caught.value.code) == (503, "model_unavailable")
    assert "looks of a: no" in capsys.readouterr().err
    assert (made._now, made._processes) == (0, {})
