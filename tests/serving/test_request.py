"""A request on its way: its id, how long it may take, its body and its size, a client that leaves."""

import asyncio
from dataclasses import replace

import pytest

from regard.serving.http_error import HttpProblem
from regard.serving.limits import ServerLimits
from regard.serving.request import ClientGone
from tests.serving.made_models import request_of

LIMITS = ServerLimits(body_bytes=10, upload_bytes=200, body_seconds=0.05)
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def refused(awaited):
    with pytest.raises(HttpProblem) as caught:
        asyncio.run(awaited)
    return caught.value


@pytest.mark.parametrize("given", ["mine-1", "a.b_c", "x" * 64])
def test_a_request_keeps_the_id_that_its_client_gave(given):
    assert request_of(headers={"X-Request-Id": given}).id == given


@pytest.mark.parametrize("given", ["", "x" * 65, "a b", "a\tb", "a/b"])
def test_another_id_is_replaced_by_one_that_nobody_has(given):
    one, other = (request_of(headers={"X-Request-Id": given}).id for _ in range(2))
    assert one != other
    assert len(one) == 16


@pytest.mark.parametrize(
    ("given", "seconds"), [(None, 120.0), ("5", 5.0), ("0.125", 0.125), ("0", 0.0), ("999999", 120.0)]
)
def test_an_answer_may_take_what_its_client_waits_and_no_more_than_the_server_does(given, seconds):
    headers = {} if given is None else {"X-Timeout": given}
    assert request_of(headers=headers).timeout_seconds(ServerLimits()) == seconds


@pytest.mark.parametrize("given", ["", "1e3", "-1", "1234567", "1.2345", "1.", ".5", "nan", "5 "])
def test_a_time_that_is_no_number_of_seconds_is_refused(given):
    with pytest.raises(HttpProblem, match="X-Timeout is not a number") as caught:
        request_of(headers={"X-Timeout": given}).timeout_seconds(ServerLimits())
    assert (caught.value.status, caught.value.parameter) == (400, "X-Timeout")


def test_a_body_may_be_as_large_as_its_limit_in_all_parts_together():
    assert asyncio.run(request_of(b"12345", b"", b"67890").body(LIMITS)) == b"1234567890"
    found = refused(request_of(b"12345", b"67890", b"1").body(LIMITS))
    assert (found.status, found.code) == (413, "too_large")
    assert "more than 10 bytes" in found.message


def test_a_body_that_never_ends_is_refused_and_a_client_that_leaves_gets_nothing():
    for read in ("body", "form"):
        found = refused(getattr(request_of(b"1", headers=FORM, ends=False), read)(LIMITS))
        assert (found.status, found.code) == (408, "timeout")
    with pytest.raises(ClientGone):
        asyncio.run(request_of(b"1", disconnects=True).body(LIMITS))
    with pytest.raises(ClientGone):
        asyncio.run(request_of(b"1", disconnects=True, headers=FORM).form(LIMITS))


def test_a_form_may_be_as_large_as_an_upload_in_all_parts_together():
    parts = [b"q=" + b"a" * 98, b"&", b"b=" + b"c" * 97]
    limits = replace(LIMITS, body_bytes=100)  # of each field
    form = asyncio.run(request_of(*parts, headers=FORM).form(limits))
    assert (len(form["q"]), len(form["b"])) == (98, 97)
    assert refused(request_of(*parts, b"d", headers=FORM).form(limits)).status == 413


@pytest.mark.parametrize("fields", [200, 201])
def test_a_form_has_at_most_200_fields(fields):
    body = b"&".join(b"a=1" for _ in range(fields))
    form = request_of(body, headers=FORM).form(ServerLimits())
    if fields == 200:
        assert len(asyncio.run(form).getlist("a")) == 200
    else:
        assert refused(form).message == "the body is not a form"


@pytest.mark.parametrize("files", [1, 2])
def test_a_form_has_at_most_one_file(files):
    part = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\na\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=x"}

    async def read():
        request = request_of(part * files + b"--x--\r\n", headers=headers)
        try:
            return await (await request.form(ServerLimits()))["file"].read()
        finally:
            await request.close()

    if files == 1:
        assert asyncio.run(read()) == b"a"
    else:
        assert refused(read()).message == "the body is not a form"


def test_what_is_awaited_is_given_up_when_the_client_leaves():
    stopped = []

    async def work():
        try:
            await asyncio.Future()
        finally:
            stopped.append(True)

    async def main():
        with pytest.raises(ClientGone):
            await request_of(disconnects=True).or_gone(work())
        await asyncio.sleep(0)
        assert stopped

    asyncio.run(main())


def test_a_client_that_sends_more_has_not_left():
    async def work():
        await asyncio.sleep(0.01)
        return 7

    async def main():
        found = await request_of(b"more", b"still more").or_gone(work())
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "no task waits for the next message"
        return found

    assert asyncio.run(main()) == 7


def test_an_error_while_a_client_waits_is_that_of_the_work():
    async def work():
        raise KeyError("x")

    async def main():
        await request_of().or_gone(work())

    with pytest.raises(KeyError):
        asyncio.run(main())


@pytest.mark.parametrize("encoding", ["gzip", "BR", "gzip, identity", "x" * 99])
def test_a_body_that_is_compressed_is_refused_by_the_name_of_its_compression(encoding):
    given = request_of(headers={"Content-Type": "application/json", "Content-Encoding": encoding})
    with pytest.raises(HttpProblem, match=f"{encoding[:20]}' is not supported") as caught:
        given.content_type()
    assert (caught.value.status, caught.value.code) == (415, "unsupported_encoding")


@pytest.mark.parametrize("encoding", ["identity", "Identity", ""])
def test_a_body_that_is_not_compressed_may_say_so(encoding):
    given = request_of(headers={"Content-Type": "application/json", "Content-Encoding": encoding})
    assert given.content_type() == "application/json"


@pytest.mark.parametrize("charset", ["iso-8859-1", '"utf-16"', "x" * 99, ""])
def test_a_body_in_another_charset_than_utf_8_is_refused(charset):
    given = request_of(headers={"Content-Type": f"application/x-www-form-urlencoded; charset={charset}"})
    with pytest.raises(HttpProblem, match="is not supported") as caught:
        given.content_type()
    assert (caught.value.status, caught.value.code) == (415, "unsupported_charset")
    assert len(caught.value.message) < 80


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        ("application/json", "application/json"),
        ('Application/JSON ; charset="UTF-8"', "application/json"),
        ("multipart/form-data; boundary=x; charset=us-ascii", "multipart/form-data"),
        ("json", "text/plain"),
        (None, ""),
    ],
)
def test_the_type_of_a_body_is_that_of_its_header(header, kind):
    assert request_of(headers={} if header is None else {"Content-Type": header}).content_type() == kind
