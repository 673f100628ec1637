"""Requests to a server under test, and the model whose answers are expected."""

import http.client
import io
import json
import struct
from functools import cache

from regard.verbs.load import load
from tests.whisper_folder import RATE, noise


@cache
def included():
    """The included model, loaded once for the tests that compare answers with those of Python."""
    return load()


class Answer:
    """A response, read to its end."""

    def __init__(self, response):
        self.status, self.headers, self.content = response.status, response.headers, response.read()

    @property
    def json(self):
        return json.loads(self.content)

    def events(self):
        """The data of each server-sent event."""
        return [part.removeprefix(b"data: ") for part in self.content.split(b"\n\n") if part]


def ask(server, method, path, body=None, *, raw=None, headers=None, timeout=60):
    """The answer to a request; `body` is sent as JSON, `raw` as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)
    try:
        content = raw if raw is not None else (None if body is None else json.dumps(body).encode())
        sent = {"Content-Type": "application/json"} if content is not None else {}
        connection.request(method, path, content, {**sent, **(headers or {})})
        return Answer(connection.getresponse())
    finally:
        connection.close()


def post(server, path, body, **more):
    """The answer to a POST of JSON."""
    return ask(server, "POST", path, body, **more)


def recorded(samples=None, rate=RATE, name="speech.wav"):
    """A WAV file of 32-bit floats, as it is uploaded; of noise by default."""
    samples = noise(1.6) if samples is None else samples
    data = samples.astype("<f4").tobytes()
    header = struct.pack("<HHIIHH", 3, 1, rate, 4 * rate, 4, 32)
    parts = b"WAVEfmt " + struct.pack("<I", 16) + header + b"data" + struct.pack("<I", len(data)) + data
    file = io.BytesIO(b"RIFF" + struct.pack("<I", len(parts)) + parts)
    file.name = name
    return file
