"""The server answers its own page and nobody else, and whatever it is sent, it answers in JSON."""

import http.client
import io
import json
import os
import queue
import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from regard.errors import DataError, UserError
from regard.serving import browser_ticket, local
from regard.serving.local import MAX_BODY_BYTES, LocalServer
from regard.serving.look_store import LookStore
from regard.verbs.look import Looker, LookRequest

ENCODER = "encoder.blocks.0.self_attention"


@pytest.fixture(scope="module")
def server(untrained):
    looker = Looker(untrained, device="cpu")
    with LocalServer(LookStore(looker, LookRequest(text="1 2 3"))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def ask(server):
    """A request to the server, as its page sends it unless other headers are given.

    `token`: what stands before the path; of a header with several values each is sent.
    """

    def asked(method, path, body=None, *, raw=None, token=None, **headers):
        path = (f"/{server.token}" if token is None else token) + path
        content = json.dumps(body).encode() if body is not None else raw
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        sent = {"Host": f"127.0.0.1:{server.port}", "Origin": f"http://127.0.0.1:{server.port}"}
        if content is not None:
            sent |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
        for name, value in {**sent, **{each.replace("_", "-"): it for each, it in headers.items()}}.items():
            for each in value if isinstance(value, list) else [value]:
                if each is not None:
                    connection.putheader(name, each)
        connection.endheaders(content)
        answer = connection.getresponse()
        held = answer.read()
        connection.close()
        return answer.status, answer.headers, held

    return asked


def error_of(answer):
    """The error and the hint of a refusal."""
    status, headers, content = answer
    assert headers["Content-Type"] == "application/json"
    assert b"Traceback" not in content
    refusal = json.loads(content)
    assert set(refusal) == {"error", "hint"}
    return status, refusal["error"]


PATHS = [
    ("GET", "/", None),
    ("GET", "/regard.js", None),
    ("GET", "/api/look", None),
    ("POST", "/api/look", {"text": "1"}),
    ("POST", "/api/stream", {"text": "1"}),
]


@pytest.mark.parametrize(("method", "path", "body"), PATHS)
def test_a_request_without_the_token_is_refused(ask, server, method, path, body):
    """Other users of the machine reach the port, but get neither the page nor a Look nor the token."""
    for token in (
        "",
        "/",
        "/other",
        f"/{server.token[:-1]}",
        f"/{server.token}x",
        "/%00",
        f"/x/{server.token}",
    ):
        answer = ask(method, path, body, token=token)
        assert error_of(answer)[0] == 403
        assert server.token.encode() not in answer[2]
        assert server.token not in str(answer[1])
    assert ask(method, path, body)[0] == 200
    assert len(server.token) >= 20


def test_each_server_has_a_token_of_its_own(server):
    with LocalServer(server.looks) as other:
        assert other.token != server.token
        assert other.url == f"http://127.0.0.1:{other.port}/{other.token}/"


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1:80", "localhost", "[::1]:9000"])
def test_a_forwarded_port_works_with_the_token(ask, host):
    for method, path, body in PATHS:
        assert ask(method, path, body, Host=host, Origin=f"http://{host}")[0] == 200
        assert error_of(ask(method, path, body, Host=host, Origin=f"http://{host}", token=""))[0] == 403
    assert error_of(ask("GET", "/", Host=host, Origin="http://localhost:1"))[0] == 403


def test_an_address_without_its_last_slash_leads_to_the_page(ask, server):
    status, headers, content = ask("GET", "")
    assert (status, headers["Location"], content) == (303, f"/{server.token}/", b"")


def test_a_link_opens_the_page_and_nothing_else(ask):
    """One in a mail or in a web terminal: the browser says that another site led here."""
    followed = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "document", "Origin": None}
    assert ask("GET", "/", **followed)[0] == 200
    assert error_of(ask("GET", "/api/look", **followed))[0] == 403
    assert error_of(ask("GET", "/", **{**followed, "Sec_Fetch_Dest": "iframe"}))[0] == 403
    assert error_of(ask("POST", "/", {"text": "1"}, **followed))[0] == 404


def test_a_ticket_leads_this_user_to_the_page_once(server, ask, monkeypatch):
    """The browser's command line, which all users of a machine may read, holds it in place of the token."""
    path = urlsplit(server.url_for_browser).path
    assert server.token not in server.url_for_browser
    opened = {"Origin": None, "Sec_Fetch_Site": "none", "token": ""}
    assert error_of(ask("GET", "/open/other", **opened))[0] == 403
    if Path("/proc/net/tcp").exists():
        monkeypatch.setattr(browser_ticket, "ROOT", -1)
        monkeypatch.setattr(os, "getuid", lambda: 123_456_789)
        assert error_of(ask("GET", path, **opened))[0] == 403, "another user"
        monkeypatch.undo()
    status, headers, _ = ask("GET", path, **opened)
    assert (status, headers["Location"]) == (303, f"/{server.token}/")
    answer = ask("GET", path, **opened)
    assert error_of(answer)[0] == 403
    assert server.token.encode() not in answer[2]


@pytest.mark.parametrize(
    ("text", "problem"), [("1 " * 600, "more than 512"), ("", "text is empty"), (" \n", "text is empty")]
)
def test_an_invalid_first_text_is_refused_before_anything_is_served(untrained, monkeypatch, text, problem):
    monkeypatch.setattr(local, "LocalServer", None)
    with pytest.raises(DataError, match=problem) as refusal:
        local.serve(Looker(untrained, device="cpu"), LookRequest(text=text), browser=False)
    assert refusal.value.hint


@pytest.mark.parametrize(
    ("text", "problem"),
    [("99999999", "no such file"), ("images.npz:99999999", "has no image"), ("", "no image is named")],
)
def test_an_invalid_first_image_is_refused_before_anything_is_served(
    vision_folder, monkeypatch, text, problem
):
    monkeypatch.setattr(local, "LocalServer", None)
    folder = vision_folder()
    monkeypatch.chdir(folder.parent)
    with pytest.raises(DataError, match=problem) as refusal:
        local.serve(Looker(folder, device="cpu"), LookRequest(text=text), browser=False)
    assert refusal.value.hint


def test_answers_are_not_held_back_and_their_threads_end_with_the_server(ask, monkeypatch):
    """Nagle's algorithm would wait 40 ms between headers and content."""
    seen, usual = [], local.Handler._get

    def get(self):
        seen.append(self.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        seen.append(threading.current_thread().daemon)
        usual(self)

    monkeypatch.setattr(local.Handler, "_get", get)
    assert ask("GET", "/api/look")[0] == 200
    assert all(seen)
    assert len(seen) == 2


def test_a_server_can_be_started_again_on_its_port_at_once(server):
    with LocalServer(server.looks) as first:
        port = first.port
        threading.Thread(target=first.serve_forever, daemon=True).start()
        with socket.create_connection(("127.0.0.1", port), timeout=20) as channel:
            channel.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")  # without the token
            assert b"403" in b"".join(iter(lambda: channel.recv(65_536), b"")), "the server closes first"
        first.shutdown()
    with LocalServer(server.looks, port) as again:
        assert again.port == port


def test_a_port_that_is_taken_is_refused_by_its_number(untrained, server):
    with pytest.raises(UserError, match=f"port {server.port}: Address already in use") as refusal:
        local.serve(Looker(untrained, device="cpu"), port=server.port, browser=False)
    assert "--port 0" in refusal.value.hint


@pytest.mark.parametrize("browser", [True, False])
def test_a_browser_is_opened_where_one_is_asked_for(untrained, monkeypatch, browser):
    opened, notes = queue.SimpleQueue(), []
    monkeypatch.setattr(local.console, "note", notes.append)
    monkeypatch.setattr(
        local.webbrowser, "open", lambda url: opened.put((url, threading.current_thread().daemon))
    )

    def serve_forever(self):
        assert notes == [f"the page is at {self.url}; Ctrl-C stops the server"]
        assert self.port > 1023, "a free port, which needs no rights"
        if browser:
            assert opened.get(timeout=30) == (self.url_for_browser, True), "a daemon: Ctrl-C ends all"
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalServer, "serve_forever", serve_forever)
    options = {} if browser else {"browser": False}
    local.serve(Looker(untrained, device="cpu"), LookRequest(text="1 2 3"), **options)
    assert opened.empty()


def test_the_page_and_its_modules_are_handed_out(ask):
    status, headers, content = ask("GET", "/")
    assert status == 200
    assert headers["Content-Type"].startswith("text/html")
    assert b"<script" in content
    assert ask("GET", "/resources.js")[1]["Content-Type"].startswith("text/javascript")
    status, headers, nothing = ask("HEAD", "/")
    assert (status, nothing, int(headers["Content-Length"])) == (200, b"", len(content))


def test_every_answer_has_the_headers_that_keep_a_page_to_itself(ask):
    for path in ("/", "/api/look", "/nothing"):
        headers = ask("GET", path)[1]
        policy = headers["Content-Security-Policy"]
        for rule in ("default-src 'none'", "script-src 'self'", "require-trusted-types-for 'script'"):
            assert rule in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "Access-Control-Allow-Origin" not in headers


def test_a_look_is_made_and_its_resources_are_handed_out(ask, server):
    first = json.loads(ask("GET", "/api/look")[2])
    assert first["summary"]["text"] == "1 2 3"
    assert json.loads(ask("GET", "/api/look")[2])["id"] == first["id"]
    status, _, content = ask("POST", "/api/look", {"text": "3 4", "prefix": None, "beam_size": 1})
    made = json.loads(content)
    assert status == 200
    assert made["summary"]["text"] == "3 4"
    status, headers, content = ask("GET", f"/api/look/{made['id']}/alignment")
    assert headers["Content-Type"] == "application/octet-stream"
    found = np.load(io.BytesIO(content), allow_pickle=False)
    np.testing.assert_array_equal(found, server.looks.get(made["id"], "alignment"))
    steps = json.loads(ask("GET", f"/api/look/{made['id']}/steps")[2])
    assert len(steps) == len(made["summary"]["sequences"]["written"]["ids"])
    assert json.loads(ask("GET", f"/api/look/{made['id']}/attention%2Fx")[2])["error"]


def test_an_answer_is_streamed_token_by_token(ask):
    status, headers, content = ask("POST", "/api/stream", {"text": "1 2 3"})
    assert status == 200
    assert headers["Content-Type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in content.splitlines()]
    assert all(set(line) == {"token", "id", "log_prob"} for line in lines)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": "localhost.evil.example"},
        {"Host": None},
        {"Host": ["evil.example", "localhost"]},
        {"Host": ["localhost", "evil.example"]},
        {"Host": ["localhost", "localhost"]},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_requests_of_other_sites_are_refused(ask, headers):
    for method, path, body in PATHS:
        assert error_of(ask(method, path, body, **headers))[0] == 403


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "evil.example@localhost", ""])
def test_a_name_that_leads_to_this_machine_is_not_enough(ask, host):
    """DNS rebinding: to the browser the page and the server have the same origin."""
    for method, path, body in PATHS:
        for origin in (None, f"http://{host}"):
            headers = {"Host": host, "Origin": origin, "Sec_Fetch_Site": "same-origin"}
            assert error_of(ask(method, path, body, **headers)) == (
                403,
                "the Host header does not name this machine",
            )
    two = ["localhost:80", "localhost:80"]
    assert error_of(ask("GET", "/api/look", Host=two, Origin="http://localhost:80"))[0] == 403


def test_a_request_without_an_origin_is_no_page_of_another_site(ask):
    assert ask("GET", "/api/look", Origin=None)[0] == 200


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"text": ""}, "empty"),
        ({"text": "1 " * 600}, "more than 512"),
        ({"text": "\ud800"}, "surrogate"),
        ({"text": 3}, "text must be a string"),
        ({}, "text is missing"),
        ({"text": "1", "beams": 3}, "unknown key beams"),
        ({"text": "1", "beam_size": True}, "beam_size"),
        ({"text": "1", "prefix_ids": [1.5]}, "prefix_ids"),
        ({"text": "1", "changes": {"heads": {"nowhere": [0]}}}, "no attention 'nowhere'"),
        ({"text": "1", "changes": {"heads": {ENCODER: [2]}}}, f"{ENCODER} has no heads [2]"),
        ({"text": "1", "changes": {"heads": {ENCODER: [-1]}}}, f"{ENCODER} has no heads [-1]"),
        ({"text": "1", "changes": {"heads": {ENCODER: [10**30]}}}, "no head"),
        ({"text": "1", "changes": {"layers": ["encoder.blocks.1"]}}, "no layer"),
        ({"text": "1", "changes": {"tokens": [-1]}}, "the text has no tokens [-1]"),
        ({"text": "1", "changes": {"tokens": [2]}}, "there is no token at position 2"),
        ({"text": "1", "changes": {"tokens": [10**12]}}, f"there is no token at position {10**12}"),
        ({"text": "1", "changes": {"tokens": [10**30]}}, "is too large an integer"),
        ([1, 2], "not a JSON object"),
        ("text", "not a JSON object"),
        (None, "not a JSON object"),
    ],
)
def test_what_cannot_be_looked_at_is_refused_with_a_reason(ask, body, message):
    for path in ("/api/look", "/api/stream"):
        status, error = error_of(ask("POST", path, raw=json.dumps(body).encode()))
        assert status == 400
        assert message in error


def test_a_body_that_is_no_json_or_too_much_is_refused(ask):
    for raw in (b"{", b"[" * 100_000, b"\xff\xfe", b""):
        assert error_of(ask("POST", "/api/look", raw=raw)) == (400, "the body is not JSON")
    for length in (str(MAX_BODY_BYTES + 1), "9" * 10, "9" * 5000):
        assert error_of(ask("POST", "/api/look", raw=b" ", Content_Length=length))[0] == 413
    assert error_of(ask("POST", "/api/look", raw=b"{}", Content_Length="many"))[0] == 411
    assert error_of(ask("POST", "/api/look", raw=b"{}", Content_Type="text/plain"))[0] == 415
    assert (
        error_of(ask("POST", "/api/look", raw=b"{}", Transfer_Encoding="chunked", Content_Length=None))[0]
        == 411
    )


def test_the_largest_body_is_read(ask):
    raw = b'{"text": "1"}'
    assert ask("POST", "/api/look", raw=raw.ljust(MAX_BODY_BYTES))[0] == 200
    assert ask("POST", "/api/look", raw=raw, Content_Length=f"{len(raw):09}")[0] == 200


def answers(server, *requests):
    """All that the server sends on one connection; the last request asks to close it."""
    lines = [f"{line}\r\nHost: 127.0.0.1:{server.port}\r\n{more}" for line, more in requests]
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as channel:
        channel.sendall("".join(lines).encode())
        return b"".join(iter(lambda: channel.recv(65_536), b""))


def test_several_requests_of_one_connection_have_one_answer_each(server):
    page = f"GET /{server.token}/api/look HTTP/1.1"
    redirected = f"GET /{server.token} HTTP/1.1"
    found = answers(server, (redirected, "\r\n"), (page, "\r\n"), (page, "Connection: close\r\n\r\n"))
    assert [part.split()[0] for part in found.split(b"HTTP/1.1 ")[1:]] == [b"303", b"200", b"200"]


def test_what_follows_a_refused_request_is_not_read_as_another(server):
    """A body that was not read could hold a request, with any Host and Origin."""
    hidden = f"GET /{server.token}/api/look HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = f"Content-Type: text/plain\r\nContent-Length: {len(hidden)}\r\n\r\n{hidden}"
    found = answers(server, (f"POST /{server.token}/api/look HTTP/1.1", head))
    assert found.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close" in found
    assert found.split()[1] == b"415"


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/../pyproject.toml",
        "/%2e%2e/%2e%2e/assets.py",
        "/views/../../assets.py",
        "/api/look/none/steps",
        "/api/look/a/b/c/d",
        "//evil.example/",
    ],
)
def test_a_wrong_path_is_not_found(ask, path):
    assert error_of(ask("GET", path))[0] == 404


def test_other_methods_are_answered_in_json_too(ask):
    status, headers, content = ask("PUT", "/api/look", {"text": "1"})
    assert status == 501
    assert headers["Content-Type"] == "application/json"
    assert json.loads(content)["error"]
    assert error_of(ask("POST", "/", {"text": "1"}))[0] == 404


@pytest.mark.parametrize(
    ("error", "last", "warned"),
    [
        (None, [], []),
        (DataError("it is too long", "shorten it"), [{"error": "it is too long", "hint": "shorten it"}], []),
        (
            ZeroDivisionError("a secret"),
            [{"error": "the model failed: ZeroDivisionError"}],
            ["/api/stream: ZeroDivisionError: a secret"],
        ),
    ],
    ids=["none", "ours", "other"],
)
@pytest.mark.parametrize("count", [1, 3])
def test_each_token_is_a_line_and_what_fails_after_them_is_the_last(
    ask, server, monkeypatch, error, last, warned, count
):
    tokens, found = [{"token": str(number), "log_prob": -0.5} for number in range(count)], []

    def stream(body):
        yield from tokens
        if error:
            raise error

    monkeypatch.setattr(local.console, "warn", found.append)
    monkeypatch.setattr(server.looks, "stream", stream)
    status, _, content = ask("POST", "/api/stream", {"text": "1"})
    assert status == 200
    assert [json.loads(line) for line in content.splitlines()] == [*tokens, *last]
    assert found == warned


def test_an_answer_without_tokens_has_no_lines(ask, server, monkeypatch):
    monkeypatch.setattr(server.looks, "stream", lambda body: iter(()))
    status, _, content = ask("POST", "/api/stream", {"text": "1"})
    assert (status, content) == (200, b"")


@pytest.mark.parametrize(
    "line",
    [
        b'GET "x HTTP/1.1',
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1",
        b"BREW / HTTP/1.1",
        b"GET //[ HTTP/1.1",
        b"GET http://[ HTTP/1.1",
    ],
    ids=["quote", "long", "unknown", "bracket", "address"],
)
def test_what_is_no_request_is_refused_in_json_with_the_headers_of_all_answers(server, line):
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as channel:
        channel.sendall(line + f"\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: channel.recv(65_536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split()[1][:1] == b"4" or head.split()[1] == b"501"
    assert b"Content-Security-Policy" in head
    assert json.loads(body)["error"]


def test_an_internal_error_is_reported_without_its_traceback(ask, server, monkeypatch):
    def fails(body):
        raise ZeroDivisionError("a secret")

    warned = []
    monkeypatch.setattr(local.console, "warn", warned.append)
    monkeypatch.setattr(server.looks, "create", fails)
    status, error = error_of(ask("POST", "/api/look", {"text": "1"}))
    assert status == 500
    assert "secret" not in error
    assert warned == ["POST /api/look: ZeroDivisionError: a secret"], "the terminal says what failed"


def test_several_pages_at_once_take_turns_at_the_model(ask):
    found: list[dict] = []

    def asks(number: int) -> None:
        body = {"text": f"{number} 2 3", "changes": {"layers": ["encoder.blocks.0"]} if number % 2 else {}}
        found.append({number: json.loads(ask("POST", "/api/look", body)[2])["summary"]["answer"]})

    threads = [threading.Thread(target=asks, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = {number: answer for each in found for number, answer in each.items()}
    found.clear()
    for number in range(6):
        asks(number)
    assert together == {number: answer for each in found for number, answer in each.items()}
