"""The page of `regard serve`: it answers, asks only its server, and can be used without a mouse."""

import asyncio
import threading
import time

import pytest

from tests.browser.visit import Visit

HOSTILE = [
    "</textarea><script>window.ran = 1</script>",
    "<img src=x onerror='window.ran = 1'>",
    "\u202eabc\u2066",
    "javascript:window.ran=1",
]


@pytest.fixture(scope="module")
def address(decoder_folder):
    from regard.serving.access_log import AccessLog
    from regard.serving.run import ModelServer, ServeOptions, bound, service_of
    from regard.verbs.shared.included_models import included_model

    service = service_of(
        ServeOptions(workers=0, models=[f"en-de={included_model()}", f"chars={decoder_folder()}"])
    )
    service.log = AccessLog()
    socket = bound("127.0.0.1", 0)
    server = ModelServer(service, [socket])
    loops = []

    async def main():
        loops.append(asyncio.get_running_loop())
        await server.load_models()
        await server.run_until_stopped()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.02)
    yield f"http://127.0.0.1:{socket.getsockname()[1]}/"
    loops[0].call_soon_threadsafe(server.stop)
    thread.join(30)


class ServeVisit(Visit):
    def open(self, fragment=""):
        self.page.goto(self.address + fragment)
        self.page.wait_for_selector("#model option", state="attached")
        return self


@pytest.fixture
def page(new_page, address):
    def opened(**settings):
        found = new_page(**{"viewport": {"width": 1000, "height": 800}, **settings})
        return ServeVisit(found, address).open()

    return opened


def translated(visit, text):
    visit.page.fill("#text", text)
    visit.page.click("#send")
    visit.page.wait_for_function("() => document.getElementById('state').textContent.startsWith('answered')")


def test_it_translates_and_shows_candidates_with_their_confidence(page):
    visit = page()
    translated(visit, "Where is the station?")
    assert visit.texts("#answer") == ["Wo ist der Bahnhof?"]
    assert len(visit.texts("#candidates li")) == 3
    assert all(each.strip().endswith("%") for each in visit.texts("#candidates .confidence"))
    assert len(visit.texts("#tokens tr")) == 5
    visit.assert_quiet()


def marked(visit, side, kind):
    return visit.texts(f"#{side}-words .word.{kind}")


def test_a_word_shows_its_sources_and_its_confidence(page):
    visit = page()
    translated(visit, "Where is the station? Thank you.")
    assert visit.texts("#target-words .word") == ["Wo", "ist", "der", "Bahnhof", "?", "Danke", "."]
    visit.page.hover("#target-words .word:nth-of-type(4)")
    assert (marked(visit, "target", "pointed"), marked(visit, "source", "linked")) == (
        ["Bahnhof"],
        ["station"],
    )
    about = visit.texts("#word")[0]
    assert about.startswith("Bahnhof (")
    assert about.endswith(" %): from station")
    visit.page.hover("#source-words .word:nth-of-type(4)")
    assert (marked(visit, "source", "pointed"), marked(visit, "target", "linked")) == (
        ["station"],
        ["Bahnhof"],
    )
    visit.page.hover("h1")
    assert marked(visit, "target", "linked") == marked(visit, "source", "pointed") == []
    assert visit.texts("#word") == [""]
    visit.assert_quiet()


def test_the_words_are_reached_by_keyboard(page):
    visit = page()
    translated(visit, "Where is the station?")
    visit.page.focus("#download")
    for key, word, source in [
        ("Tab", "Where", []),
        ("Tab", "Wo", ["Where"]),
        ("ArrowRight", "ist", ["is"]),
        ("End", "?", ["?"]),
        ("ArrowRight", "?", ["?"]),
        ("ArrowLeft", "Bahnhof", ["station"]),
        ("Home", "Wo", ["Where"]),
    ]:
        visit.page.keyboard.press(key)
        assert visit.page.evaluate("() => document.activeElement.textContent") == word, key
        assert marked(visit, "source", "linked") == source, key
    assert visit.page.get_attribute("#target-words .word:nth-of-type(1)", "aria-selected") == "true"
    visit.assert_quiet()


def test_tokens_make_up_words_however_tokenisers_write_them(page):
    visit = page()
    words = """async (tokens) => {
        const { wordsOf } = await import("/page/alignment.js");
        return wordsOf(tokens).map(({ text, space }) => (space ? "_" : "") + text);
    }"""
    for tokens, found in [
        ([" un", "glaub", "lich", ",", " Herr", "!"], ["_unglaublich", ",", "_Herr", "!"]),
        (["\u2581Das", "\u2581Haus", "es", "."], ["_Das", "_Hauses", "."]),
        (["\u0120didn", "'t"], ["_didn", "'t"]),
        (["un", "##glaub", "lich</w>", "ja</w>"], ["unglaublich", "_ja"]),
        (["\u6771\u4eac", "\u306b", "\u4f4f"], ["\u6771\u4eac", "\u306b", "\u4f4f"]),
        ([], []),
    ]:
        assert visit.page.evaluate(words, tokens) == found


def test_it_continues_a_prompt_and_gives_a_file(page):
    visit = page()
    visit.page.select_option("#model", "chars")
    assert visit.texts("#send") == ["Continue"]
    translated(visit, "To be")
    with visit.page.expect_download() as download:
        visit.page.click("#download")
    assert not visit.page.is_visible("#alignment")
    content = download.value.path().read_text("utf-8")
    assert content == visit.texts("#answer")[0] + "\n"
    visit.assert_quiet()


def test_it_is_used_by_keyboard(page):
    visit = page()
    visit.page.focus("#text")
    visit.page.keyboard.type("Thank you.")
    visit.page.keyboard.press("Control+Enter")
    visit.page.wait_for_selector("#candidates li")
    assert visit.texts("#answer") == ["Danke."]
    visit.assert_quiet()


def test_an_error_is_shown(page):
    visit = page()
    visit.page.evaluate("() => { document.getElementById('text').value = 'a'.repeat(200000); }")
    visit.page.click("#send")
    visit.page.wait_for_selector("#state.failed")
    assert "200,000 characters" in visit.texts("#state")[0]


@pytest.mark.parametrize(
    "text", [HOSTILE[0], *(pytest.param(each, marks=pytest.mark.nightly) for each in HOSTILE[1:])]
)
def test_a_text_is_never_markup(page, text):
    visit = page()
    translated(visit, text)
    visit.assert_quiet()
    assert visit.page.query_selector("#answer script, #candidates script, #candidates img") is None


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, marks=pytest.mark.nightly),
        pytest.param({"color_scheme": "dark"}, marks=pytest.mark.nightly),
        {"color_scheme": "dark", "viewport": {"width": 320, "height": 640}},
    ],
)
def test_it_is_accessible(page, settings):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    visit = page(**settings)
    translated(visit, "Where is the station?")
    visit.open_all()
    visit.page.focus("#target-words .word")
    results = axe.Axe().run(
        visit.page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
    )
    assert results.violations_count == 0, results.generate_report()
    width = visit.page.evaluate("() => document.documentElement.scrollWidth")
    assert width <= visit.page.viewport_size["width"]


def test_the_operations_are_listed(page):
    visit = page()
    visit.page.click("text=Operations")
    visit.page.wait_for_selector("article")
    assert "POST /api/v1/translate" in visit.texts("article h2")
    visit.open_all()
    assert "file" in visit.texts("article:has-text('POST /translate_file') li code")
    visit.assert_quiet()


def test_the_chosen_model_can_be_looked_into(page):
    visit = page()
    visit.page.select_option("#model", "chars")
    visit.page.fill("#text", "A man is")
    visit.page.click("text=Look inside")
    visit.page.wait_for_url("**/look/chars/**")
    visit.page.wait_for_selector("main:not([aria-busy]) > .body.of-answer .answer", timeout=20_000)
    assert visit.page.input_value("textarea") == "A man is"
    visit.assert_quiet()
