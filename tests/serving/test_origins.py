"""Pages of the sites that a server names may ask it, as browsers do; pages of others may not."""

import pytest

from regard.errors import UserError
from regard.serving.origins import allowed_origins
from regard.serving.run import ServeOptions, service_of
from tests.serving.asking import ask

KEY = "0123456789abcdef01234567"
APP = "https://app.example.org"
PATH = "/api/v1/models"
LISTED = "Access-Control-Request-Headers"
QUESTION = {"Access-Control-Request-Method": "POST", LISTED: "authorization"}


@pytest.fixture(scope="module")
def opened(serving, tmp_path_factory):
    """A server with keys, which pages of one site may ask."""
    file = tmp_path_factory.mktemp("keys") / "keys.txt"
    file.write_text(KEY)
    return serving(api_keys=file, allow_origins=[f"{APP}/"], lazy=True)


def cors(answer):
    return {
        name.lower().removeprefix("access-control-"): value
        for name, value in answer.headers.items()
        if name.lower().startswith("access-control-")
    }


def test_a_page_of_a_named_site_may_read_answers_and_errors(opened):
    headers = {"Origin": APP, "Authorization": f"Bearer {KEY}"}
    for path, given, status in ((PATH, headers, 200), (PATH, {"Origin": APP}, 401), ("/none", headers, 404)):
        answer = ask(opened, "GET", path, headers=given)
        assert answer.status == status
        assert cors(answer) == {"allow-origin": APP, "expose-headers": "retry-after, x-request-id"}
        assert answer.headers["vary"] == "origin"


def test_a_browser_asks_first_without_a_key(opened):
    answer = ask(opened, "OPTIONS", "/api/v1/translate", headers={**QUESTION, "Origin": APP})
    assert (answer.status, answer.content) == (204, b"")
    found = cors(answer)
    assert (found["allow-origin"], found["allow-methods"]) == (APP, "POST")
    assert found["allow-headers"] == "authorization"
    assert "allow-private-network" not in found
    for names in ("", "a\tb", "a" * 1001):
        asked = ask(opened, "OPTIONS", PATH, headers={**QUESTION, "Origin": APP, LISTED: names})
        assert "allow-headers" not in cors(asked)
    private = {**QUESTION, "Origin": APP, "Access-Control-Request-Private-Network": "true"}
    assert cors(ask(opened, "OPTIONS", PATH, headers=private))["allow-private-network"] == "true"


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (PATH, {**QUESTION, "Origin": "https://evil.example"}, 405),
        (PATH, {**QUESTION, "Origin": "null"}, 405),
        (PATH, QUESTION, 405),
        (PATH, {"Origin": APP}, 405),  # not the question of a browser
        ("/none", {**QUESTION, "Origin": APP}, 404),
    ],
)
def test_other_questions_are_not_answered(opened, path, headers, status):
    answer = ask(opened, "OPTIONS", path, headers=headers)
    assert answer.status == status
    assert "allow-methods" not in cors(answer)


@pytest.mark.parametrize("origin", ["https://evil.example", "http://app.example.org", "null"])
def test_pages_of_other_sites_are_still_refused(opened, origin):
    answer = ask(opened, "GET", PATH, headers={"Origin": origin, "Authorization": f"Bearer {KEY}"})
    assert answer.status == 403
    assert not cors(answer)


def test_all_may_ask_only_with_keys(tmp_path):
    with pytest.raises(UserError, match="lets each page that a browser opens use this server"):
        service_of(ServeOptions(allow_origins=["*"]))
    keys = tmp_path / "keys"
    keys.write_text(KEY)
    assert service_of(ServeOptions(allow_origins=["*"], api_keys=keys)).origins == {"*"}


@pytest.mark.parametrize(
    "wrong", ["app.example.org", "https://", "https://a.org/path", "https://*.a.org", "null"]
)
def test_what_is_no_origin_is_refused(wrong):
    with pytest.raises(UserError, match="is not an origin"):
        allowed_origins([wrong], has_keys=True)


def test_origins_are_compared_as_browsers_write_them():
    given = ["HTTPS://App.example.org/", "http://localhost:3000", "chrome-extension://abc"]
    expected = {"https://app.example.org", "http://localhost:3000", "chrome-extension://abc"}
    assert allowed_origins(given, has_keys=False) == expected
