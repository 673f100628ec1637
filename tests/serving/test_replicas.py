"""Two servers behind the proxies of deploy/: a client finds the files and glossaries that it made."""

import http.client
import json
import sys
from contextlib import ExitStack
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from tests.serving.dialects.test_libretranslate import PARTS, file_form
from tests.serving.proxies import DEPLOY, NAME, Caddy, Nginx

KEY = "a-key-of-these-tests-1234"
CLIENTS = [f"127.0.0.{number}" for number in range(2, 26)]  # addresses of this machine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is an address on Linux alone")


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A file with one key."""
    file = tmp_path_factory.mktemp("keys") / "keys.txt"
    file.write_text(f"{KEY}\n")
    return file


@pytest.fixture(scope="module")
def replicas(serving, keys):
    """Two servers with a key; the name of a model that is not loaded tells them apart."""
    return [
        serving({"en-de": "en-de", name: "en-de"}, api_keys=keys, lazy=True) for name in ("first", "second")
    ]


@pytest.fixture(scope="module", params=[Nginx, Caddy])
def proxy(request, replicas, tmp_path_factory):
    """A proxy with its file of deploy/, before the two servers."""
    made = request.param(tmp_path_factory.mktemp("proxy"), [each.port for each in replicas])
    made.configure((DEPLOY / made.FILE).read_text("utf-8"))
    with made:
        yield made


def ask(proxy, client, method, path, body=None, *, raw=None, headers=None):
    """The answer of a proxy to a client with this address."""
    address = {"timeout": 60, "source_address": (client, 0)}
    context = proxy.context()
    with ExitStack() as stack:
        if context is None:
            connection = http.client.HTTPConnection("127.0.0.1", proxy.port, **address)
        else:
            connection = http.client.HTTPSConnection("127.0.0.1", proxy.port, context=context, **address)
            connection.connect = lambda: _connect(connection, context)
        stack.callback(connection.close)
        sent = {"Host": f"{NAME}:{proxy.port}", "Authorization": f"Bearer {KEY}", **(headers or {})}
        if body is not None:
            raw, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        connection.request(method, path, raw, sent)
        answer = connection.getresponse()
        return SimpleNamespace(status=answer.status, content=answer.read())


def _connect(connection, context):
    """Connect to this machine, and expect the certificate of `NAME`."""
    http.client.HTTPConnection.connect(connection)
    connection.sock = context.wrap_socket(connection.sock, server_hostname=NAME)


def test_both_replicas_have_clients_and_each_client_has_one(proxy):
    found = {
        client: {ask(proxy, client, "GET", "/v1/models").content for _ in range(4)} for client in CLIENTS
    }
    assert all(len(answers) == 1 for answers in found.values())
    assert len(set.union(*found.values())) == 2


@pytest.mark.parametrize("client", CLIENTS[:2])
def test_a_client_fetches_its_files_and_uses_its_glossaries(proxy, client):
    answer = ask(proxy, client, "POST", "/translate_file", **file_form(PARTS))
    address = urlsplit(json.loads(answer.content)["translatedFileUrl"])
    assert (address.scheme, address.netloc) == (
        "http" if proxy.context() is None else "https",
        f"{NAME}:{proxy.port}",
    )
    document = ask(proxy, client, "POST", "/v2/document", **file_form(deepl(PARTS)))
    made = json.loads(document.content)
    words = {
        "source_lang": "en",
        "target_lang": "de",
        "entries": "station\tHaltestelle",
        "entries_format": "tsv",
    }
    glossary = ask(proxy, client, "POST", "/v2/glossaries", {"name": "words", **words})
    identifier = json.loads(glossary.content)["glossary_id"]
    asked = {"text": ["Where is the station?"], "source_lang": "en", "target_lang": "de"}
    for _ in range(3):
        assert ask(proxy, client, "GET", address.path).status == 200
        key = {"document_key": made["document_key"]}
        assert ask(proxy, client, "POST", f"/v2/document/{made['document_id']}", key).status == 200
        translated = ask(proxy, client, "POST", "/v2/translate", {**asked, "glossary_id": identifier})
        assert "altestelle" in translated.content.decode()


def deepl(parts):
    """The parts of LibreTranslate's form under DeepL's names."""
    names = {"source": "source_lang", "target": "target_lang"}
    return [(names.get(name, name), *more) for name, *more in parts]


def test_metrics_are_for_the_inner_network(proxy):
    assert ask(proxy, CLIENTS[0], "GET", "/metrics").status == 404


@pytest.mark.parametrize("kind", [Nginx, Caddy])
def test_clients_of_a_replica_that_ends_get_the_other_one(kind, serving, keys, tmp_path):
    servers = [serving(api_keys=keys, lazy=True) for _ in range(2)]
    proxy = kind(tmp_path, [each.port for each in servers])
    proxy.configure((DEPLOY / proxy.FILE).read_text("utf-8"))
    with proxy:
        servers[0].stop()
        servers[0].thread.join(30)
        for client in CLIENTS[:8]:
            assert ask(proxy, client, "GET", "/v1/models").status == 200
            assert ask(proxy, client, "POST", "/detect", {"q": "Where is the station?"}).status == 200
