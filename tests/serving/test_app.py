"""Who may ask, what is refused, and what is logged and counted, whatever the dialect."""

import asyncio
import json
import socket
import threading
import time
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest

from regard.errors import FolderError, RunError, UserError
from regard.serving.access_log import AccessLog
from regard.serving.app import App, _variable_part
from regard.serving.keys import ApiKeys, read_keys
from regard.serving.run import ModelServer, ServeOptions, dialects, service_of
from regard.serving.scheduler import QueueFull
from tests.serving.asking import ask, post
from tests.serving.conftest import Lines
from tests.serving.made_models import request_of, service_with

KEY = "0123456789abcdef01234567"
CANARY = "canary-5f1e"
POST = b"POST /api/v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
PATHS = ["/api/v1/models", "/v1/models", "/v2/languages", "/metrics"]


@pytest.fixture(scope="module")
def locked(serving, tmp_path_factory):
    """A server with keys."""
    file = tmp_path_factory.mktemp("keys") / "keys.txt"
    file.write_text(f"# ours\n{KEY}\n\n{KEY[::-1]}\n")
    return serving(api_keys=file)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "given", [None, "", "Bearer", "Bearer wrong", f"Basic {KEY}", f"Bearer {KEY}x", "Bearer é"]
)
def test_without_a_known_key_nothing_is_answered(locked, path, given):
    headers = {} if given is None else {"Authorization": given.encode("utf-8").decode("latin-1")}
    answer = ask(locked, "GET", path, headers=headers)
    assert answer.status in (401, 403)
    assert (answer.headers.get("www-authenticate") == "Bearer") == (answer.status == 401)


@pytest.mark.parametrize("path", PATHS)
def test_each_key_opens_every_dialect(locked, path):
    for key in (KEY, KEY[::-1]):
        assert ask(locked, "GET", path, headers={"Authorization": f"Bearer {key}"}).status == 200
    assert ask(locked, "GET", path, headers={"Authorization": f"DeepL-Auth-Key {KEY}"}).status == 200


def test_health_and_the_page_need_no_key(locked):
    pages = ("/", "/docs", "/openapi.json", "/page/page.js")
    for path in ("/health", "/health/ready", *pages, "/languages", "/frontend/settings"):
        assert ask(locked, "GET", path).status == 200
    assert ask(locked, "GET", "/download_file/none").status == 404, "its name is as good as a key"


def test_two_keys_in_one_request_are_refused(locked):
    with socket.create_connection(("127.0.0.1", locked.port)) as connection:
        keys = f"Authorization: Bearer {KEY}\r\n" * 2
        connection.sendall(f"GET /api/v1/models HTTP/1.1\r\nHost: localhost\r\n{keys}\r\n".encode())
        assert b" 401 " in connection.recv(200)


def test_keys_are_limited_each_by_itself():
    keys = ApiKeys([KEY, KEY[::-1]], per_minute=2)
    for key in (KEY, KEY, KEY[::-1]):
        keys.check(key)
    with pytest.raises(UserError.__mro__[1], match="too many requests") as refused:
        keys.check(KEY)
    assert refused.value.status == 429
    assert 1 <= refused.value.retry_after <= 31
    keys.check(KEY[::-1])


def test_no_key_is_kept_in_memory():
    keys = ApiKeys([KEY])
    assert KEY not in repr(vars(keys))
    assert KEY.encode() not in b"".join(keys._hashes)


def test_a_file_of_keys_is_checked(tmp_path):
    file = tmp_path / "keys"
    for content, error in (
        (b"", UserError),
        (b"# none\n", UserError),
        (b"short\n", UserError),
        (b"\xff" * 20, FolderError),
        (b"k" * 48 + b"\n" + b"#" * 1_000_000, UserError),
    ):
        file.write_bytes(content)
        with pytest.raises(error):
            read_keys(file)
    with pytest.raises(FolderError):
        read_keys(tmp_path / "missing")


def test_keys_are_read_after_a_byte_order_mark_and_a_short_one_is_named_by_its_line(tmp_path):
    file = tmp_path / "keys"
    file.write_bytes(b"\xef\xbb\xbf" + KEY.encode() + b"\r\n\n# of the shop\n" + KEY[::-1].encode())
    assert read_keys(file) == [KEY, KEY[::-1]]
    file.write_text(f"# one\n{KEY}\nshort\n")
    with pytest.raises(UserError, match="keys:3: a key of 5 characters"):
        read_keys(file)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.org"])
def test_another_host_needs_keys_or_an_open_door(host, tmp_path):
    with pytest.raises(UserError, match="lets other machines use this server"):
        service_of(ServeOptions(host=host))
    assert service_of(ServeOptions(host=host, open=True)).public
    keys = tmp_path / "keys"
    keys.write_text(KEY)
    assert service_of(ServeOptions(host=host, api_keys=keys)).keys.required


def test_other_names_of_this_machine_and_pages_of_other_sites_are_refused(included):
    for headers in (
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ):
        answer = post(included, "/api/v1/translate", {"text": "a"}, headers=headers)
        assert answer.status == 403
        assert "access-control-allow-origin" not in answer.headers
    own = f"127.0.0.1:{included.port}"
    assert (
        post(included, "/api/v1/translate", {"text": "a"}, headers={"Origin": f"http://{own}"}).status == 200
    )


def test_a_server_with_keys_may_have_any_name_behind_a_proxy(locked):
    headers = {"Authorization": f"Bearer {KEY}", "Host": "translate.example.org"}
    assert ask(locked, "GET", "/api/v1/models", headers=headers).status == 200
    own = {**headers, "Origin": "https://translate.example.org"}
    assert ask(locked, "GET", "/api/v1/models", headers=own).status == 200
    other = {**headers, "Origin": "https://evil.example"}
    assert ask(locked, "GET", "/api/v1/models", headers=other).status == 403


def test_a_large_body_is_refused_before_it_is_read(included):
    for path in ("/api/v1/translate", "/v1/completions", "/translate", "/v2/translate"):
        answer = ask(included, "POST", path, raw=b'{"text": "' + b"a" * 1_100_000 + b'"}')
        assert answer.status == 413
        assert answer.headers["Connection"] == "close"


def test_a_large_chunked_body_is_refused_too(included):
    with socket.create_connection(("127.0.0.1", included.port)) as connection:
        connection.sendall(
            b"POST /api/v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        chunk = b"a" * 100_000
        with suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(30):
                connection.sendall(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        with suppress(ConnectionResetError):
            assert b" 413 " in connection.recv(1000)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/translate", {"error"}),
        ("/api/v1/translate", {"error", "hint", "parameter", "request_id"}),
        ("/v1/models", {"error"}),
        ("/v2/translate", {"message", "detail"}),
    ],
)
def test_many_headers_are_refused_in_the_shape_of_the_dialect(included, path, fields):
    with socket.create_connection(("127.0.0.1", included.port)) as connection:
        lines = "".join(f"X-{number}: {number}\r\n" for number in range(10_000))
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
        with suppress(ConnectionResetError):
            answer = connection.recv(1000)
            assert b" 400 " in answer
            assert set(json.loads(answer.partition(b"\r\n\r\n")[2])) == fields


def test_long_headers_are_refused_in_however_many_parts_they_come(included):
    most = included.service.limits.header_bytes
    assert ask(included, "GET", "/health", headers={"X-Long": "x" * (most - 1_000)}).status == 200
    answer = ask(included, "GET", "/health", headers={"X-Long": "x" * (most + 1)})
    assert (answer.status, f"more than {most:,}" in answer.json["error"]) == (431, True)


def test_what_is_not_http_is_refused(included):
    with socket.create_connection(("127.0.0.1", included.port)) as connection:
        connection.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert b" 400 " in connection.recv(1000)


@pytest.fixture(scope="module")
def impatient(serving, untrained):
    """A server that waits for nobody."""
    limits = {"header_seconds": 0.3, "body_seconds": 0.4, "write_seconds": 0.5, "connections": 20}
    return serving({"digits": untrained}, limits=limits)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /health",
        POST + b"Content-Length: 99\r\n\r\n{",
    ],
    ids=["nothing", "headers", "body"],
)
def test_a_slow_client_is_cut_off(impatient, sent):
    with socket.create_connection(("127.0.0.1", impatient.port), timeout=10) as connection:
        connection.sendall(sent)
        begun = time.monotonic()
        content = b""
        while part := connection.recv(1000):
            content += part
        assert time.monotonic() - begun < 5
        assert b" 408 " in content


def test_dripping_clients_do_not_hold_up_others(impatient):
    dripping = [socket.create_connection(("127.0.0.1", impatient.port)) for _ in range(10)]
    for each in dripping:
        each.sendall(b"G")
    assert ask(impatient, "GET", "/health").status == 200
    time.sleep(1)
    assert len(impatient.server.server_state.connections) <= 1
    for each in dripping:
        each.close()


def test_too_many_connections_are_refused(impatient):
    held = [socket.create_connection(("127.0.0.1", impatient.port)) for _ in range(25)]
    assert any(b" 503 " in each.recv(100) for each in held[-5:])
    for each in held:
        each.close()


def test_the_log_and_the_metrics_hold_no_text_and_no_key(locked):
    headers = {"Authorization": f"Bearer {KEY}", "X-Request-Id": "mine-1"}
    answer = post(locked, "/api/v1/translate", {"text": CANARY}, headers=headers)
    assert answer.headers["X-Request-Id"] == "mine-1"
    post(locked, "/api/v1/translate", {"text": CANARY, "wrong": CANARY}, headers=headers)
    ask(locked, "GET", f"/{CANARY}?{CANARY}", headers={"Authorization": f"Bearer {CANARY}"})
    metrics = ask(locked, "GET", "/metrics", headers=headers).content.decode()
    lines = "\n".join(locked.log.lines)
    for secret in (CANARY, KEY):
        assert secret not in metrics
        assert secret not in lines
    [logged] = [
        json.loads(line) for line in locked.log.lines if "mine-1" in line and '"status": 200' in line
    ][:1]
    assert logged["route"] == "/api/v1/translate"
    assert logged["characters"] == len(CANARY)
    assert 'regard_requests_total{route="/api/v1/translate",status="200"}' in metrics
    assert 'regard_batch_rows_count{model="en-de"}' in metrics


def test_a_streamed_answer_is_counted_like_another(serving, untrained):
    """Its tokens, its wait in the queue, and the time to its first part."""
    counted = {}
    for stream in (False, True):
        server = serving({"digits": untrained})
        post(server, "/api/v1/translate", {"text": "1 2 3", "stream": stream})
        logged = json.loads(server.log.wait_for("/api/v1/translate"))
        counted[stream] = logged["output_tokens"]
        assert logged["queue_ms"] >= 0
        assert ("first_part_ms" in logged) is stream
        metrics = ask(server, "GET", "/metrics").content.decode()
        assert f'regard_output_tokens_total{{model="digits"}} {counted[stream]}.0' in metrics
        assert 'regard_queue_seconds_count{model="digits"} 1.0' in metrics
        assert ('regard_first_part_seconds_count{model="digits"} 1.0' in metrics) is stream
    assert counted[True] == counted[False] > 0


def test_texts_are_logged_if_that_is_asked_for(serving, untrained):
    server = serving({"digits": untrained}, log_texts=True)
    post(server, "/api/v1/translate", {"text": "1 2 3"})
    assert json.loads(server.log.wait_for("/api/v1/translate"))["content"] == ["1 2 3"]


def test_a_client_that_leaves_costs_nothing_more(serving, decoder_folder):
    server = serving({"chars": decoder_folder()})
    runner = server.service.models.default.engine.runner
    body = json.dumps(
        {"prompt": "To be", "stream": True, "min_new_tokens": 4096, "max_new_tokens": 4096}
    ).encode()
    head = POST.replace(b"translate", b"generate") + f"Content-Length: {len(body)}\r\n\r\n".encode()
    for _ in range(10):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(head + body)
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
    ends = time.monotonic() + 10
    while (runner.busy or server.service.in_flight) and time.monotonic() < ends:
        time.sleep(0.01)
    assert not runner.busy
    assert server.service.in_flight == 0
    assert post(server, "/api/v1/generate", {"prompt": "To be", "max_new_tokens": 3}).status == 200


def test_a_full_queue_answers_429_and_the_others_are_exact(serving, untrained):
    from regard.serving.scheduler import QueueLimits

    server = serving({"digits": untrained}, limits={"queue": QueueLimits(requests=4)})
    texts = [" ".join(str((number * 7 + place) % 10) for place in range(8)) for number in range(40)]
    alone = [post(server, "/api/v1/translate", {"text": text}).json["translations"] for text in texts]
    answers = [None] * len(texts)

    def asked(place):
        answers[place] = post(server, "/api/v1/translate", {"text": texts[place]})

    threads = [threading.Thread(target=asked, args=(place,)) for place in range(len(texts))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert {each.status for each in answers} <= {200, 429}
    for answer, wanted in zip(answers, alone, strict=True):
        if answer.status == 200:
            assert answer.json["translations"] == wanted
        else:
            assert int(answer.headers["Retry-After"]) >= 1


def test_answers_under_load_are_those_given_alone_to_the_bit(included):
    texts = [
        "Where is the station?",
        "Thank you.",
        "I have three cats and a dog.",
        "No!",
        "He said that it would rain.",
    ]
    bodies = [
        {"text": text, **more}
        for text in texts
        for more in ({}, {"beam_size": 2}, {"n_best": 3}, {"sample": True, "seed": 3}, {"max_new_tokens": 4})
    ]
    alone = [post(included, "/api/v1/translate", body).content for body in bodies]
    found = [None] * (3 * len(bodies))

    def asked(first):
        for place in range(first, len(found), 8):
            found[place] = post(included, "/api/v1/translate", bodies[place % len(bodies)]).content

    threads = [threading.Thread(target=asked, args=(first,)) for first in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == 3 * alone


def test_a_server_that_ends_answers_what_it_accepted_and_refuses_the_rest(serving, decoder_folder):
    server = serving({"chars": decoder_folder()})
    found = []

    def asked():
        body = {"prompt": "To be", "min_new_tokens": 300, "max_new_tokens": 300}
        found.append(post(server, "/api/v1/generate", body))

    threads = [threading.Thread(target=asked) for _ in range(4)]
    for each in threads:
        each.start()
    while server.service.in_flight < 4:
        time.sleep(0.001)
    server.stop()
    while not server.service.draining:
        time.sleep(0.001)
    assert ask(server, "GET", "/health/ready").status == 503
    late = post(server, "/api/v1/generate", {"prompt": "late"})
    assert (late.status, late.headers["Connection"]) == (503, "close")
    for each in threads:
        each.join()
    assert [each.status for each in found] == [200] * 4
    server.thread.join(30)
    assert not server.thread.is_alive()
    assert not server.server.lost


def test_a_second_signal_ends_at_once_and_what_is_lost_gets_the_503_of_its_dialect(serving, decoder_folder):
    server = serving({"chars": decoder_folder()})
    found = []
    body = {"prompt": "To be", "min_new_tokens": 4000, "max_new_tokens": 4000}
    thread = threading.Thread(target=lambda: found.append(post(server, "/api/v1/generate", body)))
    thread.start()
    while not server.service.models.busy:
        time.sleep(0.001)
    server.stop()
    server.stop()
    thread.join(30)
    server.thread.join(30)
    assert (found[0].status, found[0].json["error"]) == (503, "the server is ending")
    assert found[0].headers["Retry-After"] == "5"
    assert server.server.lost


@pytest.mark.parametrize(
    ("template", "path", "part"),
    [("/v1/models/{}", "/v1/models/a", "a"), ("/v1/models/{}", "/v1/models/a/b", "a/b"),
     ("/v1/models/{}", "/v1/models/", ""), ("/v1/models/{}", "/v1/model/a", ""),
     ("/v1/models/{}", "/v1/completions/a", ""), ("/v2/document/{}/result", "/v2/document/abcdefgh", ""),
     ("/v2/document/{}/result", "/v2/document/a/result", "a"),
     ("/v2/document/{}/result", "/v2/document/a/b/result", ""),
     ("/v2/document/{}/result", "/v2/document/result", ""),
     ("/v2/document/{}/result", "/v2/document/a", "")],
)  # fmt: skip
def test_the_variable_part_of_a_path_may_have_a_slash_at_the_end_only(template, path, part):
    assert _variable_part(template, path) == part


@pytest.fixture(scope="module")
def app():
    """All dialects, with a model that is not loaded."""
    service = service_with({"en-de": None})
    return App(service, dialects(service.glossaries))


def called(app, method, path, headers=None, body=()):
    """The status, the headers and the body of an answer."""
    sent, request = [], request_of(*body, headers={"Host": "localhost", **(headers or {})})
    scope = {**request.http.scope, "method": method, "path": path}

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, request._receive, send))
    fields = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], fields, b"".join(each["body"] for each in sent[1:])


def test_a_path_with_more_after_it_belongs_to_the_longer_operation(app):
    for path, found in (
        ("/v2/document/x", "/v2/document/{}"),
        ("/v2/document/x/result", "/v2/document/{}/result"),
        ("/v1/models/a/b", "/v1/models/{}"),
        ("/v1/models", "/v1/models"),
    ):
        method = "POST" if "document" in path else "GET"
        assert app._found(method, path)[1].path == found
    assert app._found("HEAD", "/health")[1].method == "GET"


@pytest.mark.parametrize(
    ("method", "path", "status", "fields"),
    [
        ("GET", "/v1/nothing", 404, {"error"}),
        ("GET", "/v2/nothing", 404, {"message", "detail"}),
        ("GET", "/v3", 404, {"message", "detail"}),
        ("GET", "/v1", 404, {"error"}),
        ("GET", "/v10/x", 404, {"error", "hint", "parameter", "request_id"}),
        ("PUT", "/v2/translate", 405, {"message", "detail"}),
        ("GET", "/translate", 405, {"error"}),
    ],
)
def test_an_unknown_path_is_refused_as_the_dialect_of_its_beginning_does(app, method, path, status, fields):
    found, headers, body = called(app, method, path)
    assert (found, set(json.loads(body))) == (status, fields)
    assert headers["x-content-type-options"] == "nosniff"


def test_whatever_fails_in_an_operation_is_answered_logged_and_counted(app, capsys, monkeypatch):
    def broken(error):
        async def handler(call):
            raise error

        return handler

    lines = Lines()
    monkeypatch.setattr(app.service, "log", AccessLog(lines))
    dialect, route = app._exact["/health"]["GET"]
    for error, status, said in (
        (KeyError("secret"), 500, "the server failed"),
        (QueueFull(7), 429, "too many requests"),
        (RunError("the model failed", "h"), 500, "the model failed"),
    ):
        handler = {"GET": (dialect, replace(route, handler=broken(error)))}
        monkeypatch.setitem(app._exact, "/health", handler)
        found, headers, body = called(app, "GET", "/health", {"X-Request-Id": "mine"})
        assert (found, headers["x-request-id"]) == (status, "mine")
        assert said in body.decode()
        assert b"secret" not in body
        assert (headers.get("Retry-After", headers.get("retry-after")) == "7") is (status == 429)
        logged = json.loads(lines.lines[-1])
        assert (logged["status"], logged["route"], logged["method"], logged["id"]) == (
            status,
            "/health",
            "GET",
            "mine",
        )
        assert not {"model", "texts", "characters", "output_tokens", "content", "queue_ms"} & set(logged)
    assert [line.removeprefix("warning: mine: ") for line in capsys.readouterr().err.splitlines()] == [
        "KeyError: 'secret'",
        "the server failed",
        "the model failed",
    ]
    registry = app.service.metrics.registry
    assert registry.get_sample_value("regard_rejected_requests_total", {"reason": "overloaded"}) == 1.0
    assert registry.get_sample_value("regard_requests_in_flight") == app.service.in_flight == 0
    labels = {"route": "/health", "status": "500"}
    assert registry.get_sample_value("regard_requests_total", labels) == 2.0


@pytest.mark.parametrize(
    ("method", "logged"), [("GET", "GET"), ("X" * 9, "X" * 9), ("X" * 10, "other"), ("a-b", "other")]
)
def test_a_method_that_nobody_knows_is_logged_if_it_is_a_short_word(app, method, logged, monkeypatch):
    lines = Lines()
    monkeypatch.setattr(app.service, "log", AccessLog(lines))
    called(app, method, "/nothing")
    [line] = map(json.loads, lines.lines)
    assert (line["method"], line["route"], line["status"]) == (logged, "none", 404)


SITE = "https://app.example.org"


@pytest.mark.parametrize(
    ("headers", "status"), [({}, 204), ({"X-Long": "x" * 100_000}, 431), ({"Host": "evil.example"}, 403)]
)
def test_the_question_of_a_browser_is_refused_where_its_request_would_be(app, monkeypatch, headers, status):
    monkeypatch.setattr(app.service, "origins", frozenset({SITE}))
    question = {"Origin": SITE, "Access-Control-Request-Method": "POST"}
    assert called(app, "OPTIONS", "/api/v1/translate", {**question, **headers})[0] == status


@pytest.mark.parametrize(("more", "status"), [(0, 200), (1, 431)])
def test_all_headers_together_may_be_as_long_as_the_limit(app, more, status):
    rest = len("host" + "localhost" + "x-long")
    headers = {"X-Long": "x" * (app.service.limits.header_bytes - rest + more)}
    assert called(app, "GET", "/health", headers)[0] == status


def test_a_server_that_is_ending_refuses_all_but_questions_about_itself(app, monkeypatch):
    monkeypatch.setattr(app.service, "draining", True)
    found, headers, body = called(app, "GET", "/api/v1/models")
    assert (found, headers["connection"], b"the server is ending" in body) == (503, "close", True)
    assert called(app, "GET", "/health")[0] == 200
    assert called(app, "GET", "/health/ready")[0] == 503
    counted = app.service.metrics.registry.get_sample_value
    assert counted("regard_rejected_requests_total", {"reason": "draining"}) == 1.0
    monkeypatch.setattr(app.service, "draining", False)
    assert "connection" not in called(app, "GET", "/api/v1/models")[1]


@pytest.mark.parametrize("held_up", [0.0, 10.0])
def test_a_loop_that_is_held_up_for_a_while_does_not_make_a_server_drop_what_it_answers(monkeypatch, held_up):
    service = service_with({"en-de": None})
    server, now, turns = ModelServer(service, []), [0.0], []

    async def sleep(seconds):
        turns.append(1)
        now[0] += 0.02 + held_up
        service.in_flight = int(len(turns) < 4)

    monkeypatch.setattr("regard.serving.run.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr("regard.serving.run.asyncio", SimpleNamespace(sleep=sleep))
    service.in_flight = 1
    asyncio.run(server._drain())
    assert len(turns) >= 4
    assert (server.should_exit, server.lost) == (True, False)
