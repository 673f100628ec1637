"""LibreTranslate's own client, and what else its server answers."""

import asyncio
import http.client
import json
import re
import threading
import urllib.error
from urllib.parse import urlencode, urlsplit

import pytest
from libretranslatepy import LibreTranslateAPI

from regard.serving.dialects import libretranslate, pairs
from regard.serving.dialects.dialect import Call
from regard.serving.dialects.libretranslate import LEAST, SHOWN, UNKNOWN_BYTES, LibreTranslateDialect, _scheme
from regard.serving.http_error import HttpProblem
from regard.serving.keys import ApiKeys
from regard.serving.limits import ServerLimits
from regard.serving.request import ServedRequest
from regard.verbs.generation.translated_document import document_lines
from regard.verbs.shared.sentence_splitting import edges
from regard.verbs.translate import Translator
from tests.serving import asking
from tests.serving.asking import ask, post
from tests.serving.made_models import request_of, service_with

TEXT = "Thank you. See you tomorrow!"
FRENCH = "Où est la gare la plus proche, s'il vous plaît ?"


@pytest.fixture(scope="module")
def client(included):
    return LibreTranslateAPI(included.url)


@pytest.fixture(scope="module")
def translated():
    return Translator(n_best=3, threads=1)


def form(server, path, fields, **headers):
    sent = {"Content-Type": "application/x-www-form-urlencoded", **headers}
    return ask(server, "POST", path, raw=urlencode(fields, doseq=True).encode(), headers=sent)


def test_its_client_translates_detects_and_lists_languages(client, translated):
    [wanted] = Translator(asking.included(), threads=1).texts([TEXT])
    assert client.translate(TEXT, "en", "de") == wanted.text
    assert client.translate(TEXT, "auto", "de") == wanted.text
    assert client.detect("Wo ist der nächste Bahnhof, bitte?")[0]["language"] == "de"
    assert client.languages() == [{"code": "en", "name": "English", "targets": ["de"]}]


def test_its_client_gets_the_errors_of_its_server(client):
    with pytest.raises(urllib.error.HTTPError) as refused:
        client.translate(TEXT, "zz", "de")
    assert refused.value.code == 400
    assert json.loads(refused.value.read())["error"].startswith("zz is not supported")


def test_lists_alternatives_and_detected_languages(included, translated):
    body = {"q": [TEXT, "How are you?"], "source": "auto", "target": "de", "alternatives": 2.0}
    answer = post(included, "/translate", body).json
    wanted = list(translated.texts(body["q"]))
    assert answer["translatedText"] == [each.text for each in wanted]
    assert answer["alternatives"] == [[one.text for one in each.candidates[1:]] for each in wanted]
    assert [each["language"] for each in answer["detectedLanguage"]] == ["en", "en"]
    one = post(included, "/translate", {**body, "q": "How are you?"}).json
    assert one["translatedText"] == answer["translatedText"][1]
    assert one["alternatives"] == answer["alternatives"][1]


@pytest.mark.parametrize("source", ["auto", "en"])
def test_no_texts_have_no_translations(included, source):
    answer = post(included, "/translate", {"q": [], "source": source, "target": "de"})
    assert (answer.status, answer.json["translatedText"]) == (200, [])


def test_a_form_and_json_have_the_same_answer(included):
    body = {"q": TEXT, "source": "en", "target": "de"}
    assert form(included, "/translate", body).json == post(included, "/translate", body).json
    several = {**body, "q": ["Yes.", "No."]}
    assert form(included, "/translate", several).json == post(included, "/translate", several).json


def test_html_that_is_not_to_be_translated_stays_within_its_sentence_and_between_others(included):
    kept = '<span translate="no">good <b>dog</b></span>'
    pages = [f"I have {kept} brothers.", f"<p>Thank you.</p>{kept}<p>Good night.</p>"]
    body = {"q": pages, "source": "en", "target": "de", "format": "html"}
    found = post(included, "/translate", body).json["translatedText"]
    own = Translator(asking.included(), threads=1).texts(["I have 42 brothers.", "Thank you.", "Good night."])
    whole, one, other = (each.text for each in own)
    assert found == [whole.replace("42", kept), f"<p>{one}</p>{kept}<p>{other}</p>"]


def test_html_keeps_its_tags_and_translates_the_texts_between(included):
    script = "<!-- <b>x</b> --><script>var a = 'Thank you.';</script>"
    page = f"<p class='a'>Thank you.</p>{script} <b>Yes &amp; no</b>\n"
    body = {"q": page, "source": "en", "target": "de", "format": "html"}
    answer = post(included, "/translate", body).json["translatedText"]
    first, second = (
        each.text for each in Translator(asking.included(), threads=1).texts(["Thank you.", "Yes & no"])
    )
    assert answer == page.replace("<p class='a'>Thank you.", f"<p class='a'>{first}").replace(
        "Yes &amp; no", second.replace("&", "&amp;")
    )


def test_a_page_has_the_translation_that_it_has_as_a_file(included):
    page = (
        '<p title="Thank you.">I have <b>two</b> brothers. <img alt="The dog"></p>\n<input placeholder=Yes>\n'
    )
    body = {"q": page, "source": "en", "target": "de", "format": "html"}
    translator = Translator(asking.included(), threads=1)
    wanted = "".join(document_lines(translator, page, "html", "page"))
    assert 'title="Danke."' in wanted
    assert post(included, "/translate", body).json["translatedText"] == wanted


def test_a_sentence_with_inline_tags_is_translated_as_a_whole(included):
    page = "<p>I have <b id='a'>two</b> <a href='b?c&d'>brothers</a>.</p><p>Where is <i>he?</i></p>"
    body = {"q": page, "source": "en", "target": "de", "format": "html"}
    answer = post(included, "/translate", body).json["translatedText"]
    first, second = (
        each.text
        for each in Translator(asking.included(), threads=1).texts(["I have two brothers.", "Where is he?"])
    )
    assert re.sub("<[^>]*>", "", answer.replace("</p><p>", "|")) == f"{first}|{second}"
    assert sorted(re.findall("<[^>]*>", answer)) == sorted(re.findall("<[^>]*>", page))
    assert "<b id='a'>zwei</b> <a href='b?c&d'>Brüder</a>" in answer


def test_too_many_texts_are_refused_before_a_language_is_detected(included, monkeypatch):
    monkeypatch.setattr(pairs, "detected_among", None)
    assert post(included, "/translate", {"q": ["a"] * 129, "source": "auto", "target": "de"}).status == 413


def test_languages_of_long_texts_are_detected_beside_the_event_loop(included, monkeypatch):
    detected, threads = pairs.detected_among, []

    def noted(*arguments):
        threads.append(threading.current_thread())
        return detected(*arguments)

    monkeypatch.setattr(pairs, "detected_among", noted)
    for length in (pairs.AT_ONCE + 1, pairs.AT_ONCE):
        post(included, "/translate", {"q": " " * length, "source": "auto", "target": "de"})
    assert [thread is included.thread for thread in threads] == [False, True]


def file_form(parts):
    boundary = "limit"
    raw = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"'
        + (f'; filename="{file}"\r\nContent-Type: text/plain' if file else "")
        + f"\r\n\r\n{value}\r\n"
        for name, file, value in parts
    )
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    return {"raw": (raw + f"--{boundary}--\r\n").encode(), "headers": headers}


PARTS = [("source", None, "en"), ("target", None, "de"), ("file", "../../a.txt", TEXT)]


def test_a_text_file_is_translated_and_fetched_once_or_more(included):
    answer = ask(included, "POST", "/translate_file", **file_form(PARTS))
    path = urlsplit(answer.json["translatedFileUrl"]).path
    [wanted] = Translator(asking.included(), threads=1).texts([TEXT])
    for _ in range(2):
        assert ask(included, "GET", path).content.decode() == wanted.text
    assert ask(included, "GET", "/download_file/..%2f..%2fetc%2fpasswd").status == 404
    for wrong in (("file", "a.pdf", TEXT), ("alternatives", None, "1")):
        assert ask(included, "POST", "/translate_file", **file_form([*PARTS[:2], wrong])).status == 400


@pytest.mark.parametrize(
    "content", ["Hi.\r\n\r\n", "Thank you.\r\nHi.\r\n", "\n Hi. \n\r\nYes.\r\n\n", "\r\n"]
)
def test_a_translated_text_and_file_have_each_line_end_and_space_of_theirs(included, content):
    wanted = content
    for line in filter(None, map(str.strip, content.splitlines())):
        [found] = Translator(asking.included(), threads=1).texts([line])
        wanted = wanted.replace(line, found.text)
    answer = ask(included, "POST", "/translate_file", **file_form([*PARTS[:2], ("file", "a.txt", content)]))
    path = urlsplit(answer.json["translatedFileUrl"]).path
    assert ask(included, "GET", path).content.decode() == wanted
    body = {"q": content, "source": "en", "target": "de", "alternatives": 1}
    answer = post(included, "/translate", body).json
    assert answer["translatedText"] == wanted
    assert all(edges(each) == edges(content) for each in answer["alternatives"])


@pytest.mark.parametrize(
    ("said", "scheme"), [("https", "https"), ("HTTPS", "https"), ("ftp", "http"), (None, "http")]
)
def test_the_address_of_a_file_has_the_scheme_that_a_proxy_on_this_machine_says(included, said, scheme):
    asked = file_form(PARTS)
    asked["headers"] |= {"X-Forwarded-Proto": said} if said else {}
    answer = ask(included, "POST", "/translate_file", **asked)
    assert urlsplit(answer.json["translatedFileUrl"]).scheme == scheme


def test_what_another_machine_says_of_the_scheme_is_not_believed():
    async def receive():
        return {}

    for host, scheme in (("127.0.0.1", "https"), ("::1", "https"), ("192.0.2.1", "http"), ("name", "http")):
        headers = [(b"x-forwarded-proto", b"https"), (b"host", b"a")]
        scope = {"type": "http", "scheme": "http", "client": (host, 1), "headers": headers}
        scope |= {"method": "GET", "path": "/", "query_string": b"", "server": ("a", 80)}
        assert _scheme(ServedRequest(scope, receive)) == scheme


MISTAKES = [
    ({"source": "en", "target": "de"}, "Invalid request: missing q parameter"),
    ({"q": "a", "target": "de"}, "Invalid request: missing source parameter"),
    ({"q": "a", "source": "en"}, "Invalid request: missing target parameter"),
    ({"q": "a", "source": "en", "target": "zz"}, "zz is not supported"),
    ({"q": [], "source": "zz", "target": "de"}, "zz is not supported"),
    ({"q": "a", "source": "de", "target": "de"}, "de is not supported as a source"),
    ({"q": ["Yes.", FRENCH], "source": "auto", "target": "de"}, "text 2 is taken for fr"),
    (
        {"q": "a", "source": "en", "target": "de", "alternatives": "many"},
        "alternatives must be a whole number",
    ),
    ({"q": "a", "source": "en", "target": "de", "alternatives": 10**6}, "alternatives must be from 0"),
    ({"q": "a", "source": "en", "target": "de", "format": "pdf"}, "format 'pdf' is not supported"),
    (
        {"q": "a", "source": "en", "target": "de", "format": "html", "alternatives": 1},
        "alternatives of HTML are not supported",
    ),
    ({"q": "a", "source": "en", "target": "de", "no_such": 1}, "there is no field no_such"),
    ({"q": 3, "source": "en", "target": "de"}, "q must be a text"),
    ({"q": [["a"]], "source": "en", "target": "de"}, "q must be a text"),
    ({"q": "a", "source": ["en"], "target": "de"}, "source must be a text"),
]


@pytest.mark.parametrize(("body", "message"), MISTAKES, ids=lambda value: str(value)[:50])
def test_a_mistake_is_named(included, body, message):
    answer = post(included, "/translate", body)
    assert answer.status == 400
    assert list(answer.json) == ["error"]
    assert answer.json["error"].startswith(message)


def test_other_bodies_are_refused(included):
    for raw in (b"", b"{", b"[]", b'{"q": NaN}', b"\xff"):
        assert ask(included, "POST", "/translate", raw=raw).status == 400
    plain = ask(included, "POST", "/translate", raw=b"q=a", headers={"Content-Type": "text/plain"})
    assert plain.status == 415
    broken = ask(included, "POST", "/translate", raw=b"x", headers={"Content-Type": "multipart/form-data"})
    assert broken.status == 400
    assert list(broken.json) == ["error"]


def test_suggestions_are_refused_and_the_settings_say_so(included):
    body = {"q": "a", "s": "b", "source": "en", "target": "de"}
    assert post(included, "/suggest", body).status == 403
    settings = ask(included, "GET", "/frontend/settings").json
    assert (settings["suggestions"], settings["filesTranslation"]) == (False, True)
    assert ask(included, "GET", "/health").json == {"status": "ok"}


@pytest.mark.parametrize(
    ("model", "source", "target"), [("en-de", "English", "German"), ("chat", "auto", "English")]
)
def test_the_settings_have_the_languages_of_the_first_model(model, source, target):
    call = Call(service=service_with({model: None}), request=request_of())
    found = json.loads(asyncio.run(LibreTranslateDialect().settings(call)).body)["language"]
    assert (found["source"]["name"], found["target"]["name"]) == (source, target)


def call_of(body, **limits):
    """A call with this JSON."""
    request = request_of(json.dumps(body).encode(), headers={"Content-Type": "application/json"})
    return Call(service=service_with({"en-de": None}, ServerLimits(**limits)), request=request)


@pytest.mark.parametrize("least", [LEAST, LEAST / 2])
def test_the_most_probable_language_is_shown_and_few_others_if_they_are_probable(monkeypatch, least):
    languages = [("nl", 0.17654), *((code, least) for code in ("de", "af", "da", "sv"))]
    monkeypatch.setattr(libretranslate, "detected", lambda text: languages)
    found = json.loads(asyncio.run(LibreTranslateDialect().detect(call_of({"q": "a"}))).body)
    assert found[0] == {"confidence": 17.7, "language": "nl"}
    shown = SHOWN if least == LEAST else 1
    assert [each["language"] for each in found] == [code for code, _ in languages[:shown]]


@pytest.mark.parametrize(("alternatives", "ok"), [(-1, False), (0, True), (2, True), (3, False)])
def test_the_best_translation_and_its_alternatives_are_all_candidates(monkeypatch, alternatives, ok):
    async def translated(call, texts, sources, target, *, alternatives, rules):
        return [["a"] * (1 + alternatives)]

    monkeypatch.setattr(libretranslate, "translated", translated)
    body = {"q": "a", "source": "en", "target": "de", "alternatives": alternatives}
    asked = LibreTranslateDialect().translate(call_of(body, candidates=3))
    if ok:
        assert len(json.loads(asyncio.run(asked).body).get("alternatives", [])) == alternatives
        return
    with pytest.raises(HttpProblem, match="alternatives must be from 0 to 2"):
        asyncio.run(asked)


def test_languages_answers_a_get_with_a_form_s_content_type(included):
    connection = http.client.HTTPConnection("127.0.0.1", included.port)
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Content-Length": "0"}
    connection.request("GET", "/languages", headers=headers)
    assert connection.getresponse().status == 200
    connection.close()


def test_the_key_is_a_field(serving, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("0123456789abcdef01234567\n")
    server = serving(api_keys=keys)
    with pytest.raises(urllib.error.HTTPError, match="403"):
        LibreTranslateAPI(server.url, api_key="wrong").translate("Yes.", "en", "de")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        LibreTranslateAPI(server.url).translate("Yes.", "en", "de")
    known = LibreTranslateAPI(server.url, api_key="0123456789abcdef01234567")
    assert known.translate("Yes.", "en", "de")


def test_of_a_client_whose_key_is_not_in_a_header_only_a_small_body_is_read(serving, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("0123456789abcdef01234567\n")
    server = serving(api_keys=keys)
    body = {"q": "Yes.", "source": "en", "target": "zz", "api_key": "0123456789abcdef01234567"}
    large = {**body, "q": "a" * UNKNOWN_BYTES}
    refused = post(server, "/translate", large)
    assert (refused.status, "Authorization" in refused.json["error"]) == (413, True)
    assert form(server, "/translate", large).status == 413
    known = {"Authorization": "Bearer 0123456789abcdef01234567"}
    assert post(server, "/translate", large, headers=known).json["error"].startswith("zz is not supported")
    assert post(server, "/translate", body).json["error"].startswith("zz is not supported")
    unknown = {"Authorization": f"Bearer {'0' * 24}"}
    assert post(server, "/translate", body, headers=unknown).status == 403, "it is the one that counts"


@pytest.mark.parametrize(
    ("headers", "body", "status", "hint"),
    [
        ({"Content-Type": "text/plain"}, b"{}", 415, "JSON"),
        ({"Content-Type": "application/json"}, b" " * (UNKNOWN_BYTES + 1), 413, "Authorization: Bearer KEY"),
    ],
)
def test_a_body_before_its_key_is_known_has_its_own_limit_and_errors_as_usual(headers, body, status, hint):
    service = service_with({"en-de": None})
    service.keys = ApiKeys(["0123456789abcdef01234567"])
    call = Call(service=service, request=request_of(body, headers=headers))
    with pytest.raises(HttpProblem) as caught:
        asyncio.run(LibreTranslateDialect()._fields_after_key(call))
    assert caught.value.status == status
    assert hint in caught.value.hint
