"""The OpenAPI document has the fields that the server reads, and the answers that it gives."""

import re
import secrets
from urllib.parse import urlencode

import msgspec
import pytest

from regard.serving import openapi
from regard.serving.answer_types import ANSWERS, TEXT_ANSWERS
from regard.serving.dialects.deepl import IMPOSSIBLE, TAG_FIELDS
from regard.serving.dialects.dialect import JSON
from regard.serving.dialects.openai_audio import GRANULARITIES, NEUTRAL, TRANSLATIONS
from regard.serving.form_fields import FORMS, MULTIPART, URLENCODED
from regard.serving.glossaries import GlossaryStore
from regard.serving.run import dialects
from tests.serving.asking import ask, post, recorded
from tests.whisper_folder import noise

TEXT = "Where is the station?"
FIELDS = {  # of each name a value that the server takes
    "q": TEXT,
    "source": "en",
    "target": "de",
    "text": TEXT,
    "source_lang": "EN",
    "target_lang": "DE",
    "name": "stations",
    "entries": "station\tBahnhof",
    "entries_format": "tsv",
    "format": "text",
    "s": "a",
    "alternatives": "1",
    "api_key": "a",
    "formality": "default",
    "tag_handling": "html",
    "ignore_tags": "x",
    "splitting_tags": "y",
    "non_splitting_tags": "z",
    "outline_detection": "1",
    "split_sentences": "1",
    "model_type": "latency_optimized",
    "filename": "a.txt",
    "preserve_formatting": "1",
    "show_billed_characters": "1",
    "enable_beta_languages": "1",
    "model": "whisper",
    "language": "de",
    "response_format": "verbose_json",
    "timestamp_granularities[]": "segment",
}
SPEECH = "/v1/audio/"


@pytest.fixture(scope="module")
def document(included):
    return ask(included, "GET", "/openapi.json").json


def sent(server, path, fields, *, multipart=False):
    """The answer to a form; one with a file has parts."""
    if not multipart:
        return ask(server, "POST", path, raw=urlencode(fields).encode(), headers={"Content-Type": URLENCODED})
    boundary = secrets.token_hex(8)
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"'.encode()
        + (b'; filename="a.txt"' if name == "file" else b"")
        + b"\r\n\r\n%b\r\n" % (value if isinstance(value, bytes) else value.encode())
        for name, value in fields.items()
    ]
    headers = {"Content-Type": f"{MULTIPART}; boundary={boundary}"}
    return ask(server, "POST", path, raw=b"".join([*parts, f"--{boundary}--\r\n".encode()]), headers=headers)


@pytest.fixture(scope="module")
def kept(included):
    """A document that is kept: its id and its key."""
    fields = {"file": TEXT, "target_lang": "DE"}
    return sent(included, "/v2/document", fields, multipart=True).json


def schema_of(document, path):
    content = document["paths"][path.replace("{}", "{name}")]["post"]["requestBody"]["content"]
    schemas = [each["schema"] for each in content.values()]
    assert all(each == schemas[0] for each in schemas)
    return set(content), schemas[0]


@pytest.mark.parametrize("path", FORMS)
def test_a_form_has_the_fields_that_the_server_knows(document, included, transcribing, kept, path):
    server = transcribing if path.startswith(SPEECH) else included
    kinds, schema = schema_of(document, path)
    assert kinds == {MULTIPART} if "file" in schema["properties"] else kinds > {URLENCODED, MULTIPART}
    asked = path.replace("{}", kept["document_id"])
    refused = sent(server, asked, {"unknown": "1"}, multipart=MULTIPART in kinds)
    assert refused.status == 400
    [known] = re.findall(r"known: ([\w, \[\]]+)", refused.content.decode())
    impossible = NEUTRAL if server is transcribing else IMPOSSIBLE
    assert set(known.split(", ")) - {*impossible} == set(schema["properties"])
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    "path",
    [pytest.param(each, marks=pytest.mark.nightly) if each == TRANSLATIONS else each for each in FORMS],
)
def test_a_form_needs_what_is_required_and_takes_the_rest(document, included, transcribing, kept, path):
    _, schema = schema_of(document, path)
    several = "file" in schema["properties"]
    speaks = path.startswith(SPEECH)
    server, file = (transcribing, recorded(noise(0.4)).read()) if speaks else (included, TEXT)
    values = {**FIELDS, **kept, "file": file}
    least = {name: values[name] for name in schema["required"]}
    asked = path.replace("{}", kept["document_id"])
    wanted = 403 if path == "/suggest" else 201 if path == "/v2/glossaries" else 200
    for multipart in (True,) if several else (False, True):
        assert sent(server, asked, least, multipart=multipart).status == wanted
    for name in {*least} - ({"model"} if speaks else set()):  # without it the model that transcribes is taken
        others = {other: value for other, value in least.items() if other != name}
        if path != "/suggest":  # it is refused whatever is sent
            assert sent(server, asked, others, multipart=several).status in (400, 404, 415), name
    for name in {*schema["properties"]} - {*least, "glossary_id", "glossary_ids"}:
        more = {**least, name: values[name]}
        if name in TAG_FIELDS:
            more["tag_handling"] = "html"
        if name == GRANULARITIES:
            assert sent(server, asked, more, multipart=several).status == 400
            more["response_format"] = "verbose_json"
        assert sent(server, asked, more, multipart=several).status == wanted, name
    for name, field in schema["properties"].items():
        allowed = (200,) if server is transcribing else (wanted, 400)
        for value in field.get("enum", ()):
            assert sent(server, asked, {**least, name: value}, multipart=several).status in allowed, value
        if "enum" in field:
            assert sent(server, asked, {**least, name: "!"}, multipart=several).status == 400


def test_every_route_of_a_form_is_described(included):
    routes = [route for each in dialects(included.service.glossaries) for route in each.routes()]
    assert {route.path for route in routes if route.form} == set(FORMS)
    described = {*ANSWERS, *TEXT_ANSWERS}
    assert described <= {(route.method, route.path) for route in routes}


def answers(server, folder_server, transcribing, kept):
    """Answers of routes with a type, by method and path."""
    chat = {"model": "en-de", "messages": [{"role": "user", "content": TEXT}], "logprobs": True, "n": 2}
    text = {"model": "en-de", "prompt": TEXT, "logprobs": 0}
    embeddings = {"model": "vectors", "input": ["a film", "the cat"]}
    libretranslate = {"q": [TEXT, TEXT], "source": "auto", "target": "de", "alternatives": 1}
    entries = {"source_lang": "en", "target_lang": "de", "entries": FIELDS["entries"]}
    glossary = {"name": "stations", "dictionaries": [entries]}
    single = post(server, "/v2/glossaries", {"name": "stations", **entries})
    several = post(server, "/v3/glossaries", glossary)
    one, all_of_it = (
        f"/v2/glossaries/{single.json['glossary_id']}",
        f"/v3/glossaries/{several.json['glossary_id']}",
    )
    file = sent(server, "/translate_file", {"file": TEXT, "source": "en", "target": "de"}, multipart=True)
    state = f"/v2/document/{kept['document_id']}"
    key = {"document_key": kept["document_key"]}
    download = "/download_file/" + file.json["translatedFileUrl"].rpartition("/")[2]
    pair = "?source_lang=en&target_lang=de"
    return {
        ("GET", "/v1/models"): [ask(server, "GET", "/v1/models")],
        ("GET", "/v1/models/{}"): [ask(server, "GET", "/v1/models/en-de")],
        ("POST", "/v1/completions"): [
            post(server, "/v1/completions", text),
            post(server, "/v1/completions", {**text, "logprobs": None, "max_tokens": 2}),
        ],
        ("POST", "/v1/chat/completions"): [
            post(server, "/v1/chat/completions", chat),
            post(server, "/v1/chat/completions", {**chat, "logprobs": None}),
        ],
        ("POST", "/v1/embeddings"): [
            post(folder_server, "/v1/embeddings", {**embeddings, "encoding_format": kind})
            for kind in ("float", "base64")
        ],
        **{
            ("POST", f"/v1/audio/{path}"): [
                sent(
                    transcribing,
                    f"/v1/audio/{path}",
                    {"file": recorded().read(), "model": "whisper", "response_format": form},
                    multipart=True,
                )
                for form in ("json", "verbose_json")
            ]
            for path in ("transcriptions", "translations")
        },
        ("POST", "/translate"): [
            post(server, "/translate", libretranslate),
            post(server, "/translate", {**libretranslate, "q": TEXT}),
            post(server, "/translate", {"q": TEXT, "source": "en", "target": "de"}),
        ],
        ("POST", "/detect"): [post(server, "/detect", {"q": TEXT})],
        ("POST", "/translate_file"): [file],
        ("GET", "/languages"): [ask(server, "GET", "/languages")],
        ("GET", "/frontend/settings"): [ask(server, "GET", "/frontend/settings")],
        ("POST", "/v2/translate"): [post(server, "/v2/translate", {"text": [TEXT], "target_lang": "DE"})],
        ("GET", "/v2/languages"): [
            ask(server, "GET", f"/v2/languages?type={kind}") for kind in ("source", "target")
        ],
        ("GET", "/v2/usage"): [ask(server, "GET", "/v2/usage")],
        ("POST", "/v2/document"): [
            sent(server, "/v2/document", {"file": TEXT, "target_lang": "DE"}, multipart=True)
        ],
        ("POST", "/v2/document/{}"): [post(server, state, key)],
        ("GET", "/v2/glossary-language-pairs"): [ask(server, "GET", "/v2/glossary-language-pairs")],
        ("GET", "/v2/glossaries"): [ask(server, "GET", "/v2/glossaries")],
        ("POST", "/v2/glossaries"): [single],
        ("GET", "/v2/glossaries/{}"): [ask(server, "GET", one)],
        ("GET", "/v3/glossaries"): [ask(server, "GET", "/v3/glossaries")],
        ("POST", "/v3/glossaries"): [several],
        ("GET", "/v3/glossaries/{}"): [ask(server, "GET", all_of_it)],
        ("PATCH", "/v3/glossaries/{}"): [ask(server, "PATCH", all_of_it, {"name": "other"})],
        ("GET", "/v3/glossaries/{}/entries"): [ask(server, "GET", f"{all_of_it}/entries{pair}")],
        ("PUT", "/v3/glossaries/{}/dictionaries"): [ask(server, "PUT", f"{all_of_it}/dictionaries", entries)],
        ("GET", "/download_file/{}"): [ask(server, "GET", download)],
        ("GET", "/metrics"): [ask(server, "GET", "/metrics")],
        ("GET", "/v2/glossaries/{}/entries"): [ask(server, "GET", f"{one}/entries")],
        ("POST", "/v2/document/{}/result"): [post(server, f"{state}/result", key)],
    }


def test_answers_have_the_fields_of_their_types_and_no_others(
    included, serving, transcribing, encoder_folder, kept
):
    vectors = serving({"vectors": encoder_folder("classification", ("a", "b"))})
    found = answers(included, vectors, transcribing, kept)
    assert set(found) == {*ANSWERS, *TEXT_ANSWERS}
    for route, given in found.items():
        for each in given:
            assert each.status in (200, 201), (route, each.content)
            if route in ANSWERS:
                value = msgspec.convert(each.json, ANSWERS[route])
                assert msgspec.to_builtins(value) == each.json, route
            else:
                assert each.headers["content-type"].startswith(TEXT_ANSWERS[route]), route


def test_links_lead_from_what_was_made_to_its_operations(document):
    operations = {
        operation["operationId"] for path in document["paths"].values() for operation in path.values()
    }
    made = {
        path: answer["links"]
        for path, methods in document["paths"].items()
        for answer in methods.get("post", {"responses": {}})["responses"].values()
        if "links" in answer
    }
    assert {path: len(links) for path, links in made.items()} == {
        "/v2/document": 2,
        "/v2/glossaries": 3,
        "/v3/glossaries": 6,
    }
    assert {link["operationId"] for links in made.values() for link in links.values()} <= operations
    key = {"document_key": "$response.body#/document_key"}
    for path, links in made.items():
        name, body = ("document_id", key) if path == "/v2/document" else ("glossary_id", None)
        for link in links.values():
            assert link["parameters"] == {"name": f"$response.body#/{name}"}
            assert link.get("requestBody") == body


def test_the_document_names_every_operation(document):
    paths = document["paths"]
    assert {"/api/v1/translate", "/v1/chat/completions", "/translate", "/v2/translate", "/metrics"} <= set(
        paths
    )
    fields = document["components"]["schemas"]["TranslateRequest"]["properties"]
    assert fields["beam_size"]["anyOf"][0]["maximum"] == 1000
    assert "draft_model" not in fields


def test_the_document_has_the_operations_that_answer_in_events(document):
    found = {
        path
        for path, methods in document["paths"].items()
        for operation in methods.values()
        if "text/event-stream" in operation["responses"].get("200", {}).get("content", ())
    }
    assert found == {f"/api/v1/{verb}" for verb in ("translate", "generate")} | {
        "/v1/completions",
        "/v1/chat/completions",
    }


def test_the_document_has_the_fields_of_addresses(document):
    paths = document["paths"]
    entries = paths["/v3/glossaries/{name}/entries"]["get"]["parameters"]
    assert [(each["name"], each["in"], each["required"]) for each in entries] == [
        ("name", "path", True),
        ("source_lang", "query", False),
        ("target_lang", "query", False),
    ]
    assert list(paths["/v2/glossaries"]["post"]["responses"])[:1] == ["201"]
    assert "content" not in paths["/v2/glossaries/{name}"]["delete"]["responses"]["204"]


@pytest.fixture(scope="module")
def routes():
    """The routes of all dialects, and the operation of each in the document."""
    found = dialects(GlossaryStore())
    paths = openapi.document(found, "regard", "1")["paths"]
    return [
        (route, paths[route.path.replace("{}", "{name}")][route.method.lower()])
        for dialect in found
        for route in dialect.routes()
    ]


def operation_of(routes, method, path):
    [found] = [operation for route, operation in routes if (route.method, route.path) == (method, path)]
    return found


def test_an_operation_takes_a_key_unless_it_is_open_and_a_body_where_one_is_read(routes):
    for route, operation in routes:
        assert ({"key": []} in operation["security"]) is not route.open, route.path
        body = operation.get("requestBody", {"required": False})
        assert body["required"] is (route.body is not None or route.form), route.path


def test_what_stands_in_an_address_is_not_empty(routes):
    parameters = [each for _, operation in routes for each in operation.get("parameters", ())]
    assert {each["schema"]["minLength"] for each in parameters} == {1}


def test_a_status_is_that_of_operations_which_can_have_it(routes):
    for route, operation in routes:
        statuses = set(operation["responses"])
        assert {"400", "401", "403", "404", "405", "503"} <= statuses, route.path
        assert ("413" in statuses) is (route.method in ("POST", "PUT", "PATCH")), route.path
        for status in (456, 501):
            assert (str(status) in statuses) is (status in route.statuses), route.path


@pytest.mark.parametrize(
    ("method", "path", "status", "media"),
    [
        ("POST", "/api/v1/translate", "200", {JSON, "text/event-stream"}),
        ("POST", "/api/v1/embed", "200", {JSON}),
        ("POST", "/v1/embeddings", "200", {JSON}),
        ("POST", "/v1/audio/transcriptions", "200", {JSON, "text/plain"}),
        ("GET", "/metrics", "200", {"text/plain"}),
        ("GET", "/", "200", {"*/*"}),
        ("GET", "/health/ready", "503", {JSON}),
    ],
)
def test_answers_have_the_content_types_that_are_sent(routes, method, path, status, media):
    assert set(operation_of(routes, method, path)["responses"][status]["content"]) == media


def schema_in(routes, method, path, status):
    """The name of the type of a JSON answer, or its schema; of one that is no JSON its schema."""
    [schema] = [
        each["schema"] for each in operation_of(routes, method, path)["responses"][status]["content"].values()
    ]
    return schema.get("$ref", "").rpartition("/")[2] or schema


@pytest.mark.parametrize(
    ("method", "path", "status", "expected"),
    [
        ("POST", "/api/v1/embed", "200", "EmbedResponse"),
        ("POST", "/api/v1/embed", "400", "ErrorResponse"),
        ("GET", "/health/ready", "200", "Health"),
        ("GET", "/health/ready", "503", "Health"),
        ("GET", "/health/ready", "404", "ErrorResponse"),
        ("POST", "/v1/embeddings", "400", "OpenAIError"),
        ("GET", "/metrics", "200", {"type": "string"}),
        ("GET", "/", "200", {}),
    ],
)
def test_answers_and_errors_have_their_types(routes, method, path, status, expected):
    assert schema_in(routes, method, path, status) == expected


@pytest.mark.parametrize(
    ("path", "status", "fields"),
    [
        ("/translate", "400", {"error"}),
        ("/v2/translate", "400", {"message", "detail"}),
        ("/v2/glossaries", "456", {"message", "detail"}),
    ],
)
def test_errors_have_the_fields_of_their_dialect(routes, path, status, fields):
    assert set(schema_in(routes, "POST", path, status)["properties"]) == fields
