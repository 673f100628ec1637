"""The page of an exported model, in a browser without a network: it answers as regard does."""

import functools
import http.server
import threading
import time

import pytest

import regard
from tests.browser.visit import Visit, file_address
from tests.exports.engine_models import WORDS

pytestmark = pytest.mark.usefixtures("engine")
SENTENCES = [
    "A man is sleeping.", "Two dogs run across the field.", "Where is the station, please?", "Thank you.",
    "A group of people stand in front of an igloo.", "The child is eating 3 red apples!",
    "Ich bin müde – „sehr“.",
]  # fmt: skip
HOSTILE = "</textarea><script>window.ran = 1</script> <img src=x onerror='window.ran = 1'>"
STATE = "() => document.getElementById('state').textContent"


class PageVisit(Visit):
    """The page of a model."""

    def open(self, fragment=""):
        self.page.goto(self.address + fragment)
        self.wait("ready", "the model cannot be loaded")
        assert self.state.startswith("ready"), self.state
        return self

    @property
    def state(self):
        return self.page.text_content("#state")

    def wait(self, *beginnings):
        """Until the state begins like one of these."""
        self.page.wait_for_function(
            f"(all) => all.some((each) => ({STATE})().startsWith(each))", arg=beginnings, timeout=120_000
        )

    def ask(self, text, *ends, **fields):
        """The answer to a text."""
        self.page.fill("#text", text)
        for name, value in fields.items():
            self.page.fill(f"#{name}", str(value))
        self.page.click("#send")
        self.wait("answered", *ends)
        return self.page.text_content("#answer")


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Nothing."""


@pytest.fixture(scope="module")
def address():
    """Serves a folder as `python -m http.server` does; gives its address."""
    servers = []

    @functools.cache
    def served(folder):
        handler = functools.partial(QuietHandler, directory=folder)
        servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}/"

    yield served
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def page(new_page):
    def opened(address, **settings):
        found = new_page(**{"viewport": {"width": 1000, "height": 800}, **settings})
        return PageVisit(found, address).open()

    return opened


def loop_in(folder):
    from regard.exports.onnx_process import loop_of

    return loop_of(folder).Model(folder, 1)


def test_the_page_translates_each_line_as_the_loop_in_python(page, address, page_folder):
    _, folder = page_folder("encoder_decoder")
    visit, loop = page(address(folder)), loop_in(folder)
    lines = ["ba de", "", "mi gi fa ba", " ".join(WORDS)]
    for size in (1, 4):
        answer = visit.ask("\n".join(lines), beam=size)
        assert answer.split("\n") == [loop.generate(line, size) if line else "" for line in lines]
    assert " %" in visit.state
    visit.assert_quiet()


def test_the_page_continues_a_text_stops_and_refuses(page, address, page_folder):
    _, folder = page_folder("decoder_only")
    visit, loop = page(address(folder)), loop_in(folder)
    assert visit.texts("#send") == ["Continue"]
    assert visit.ask("ba de") == loop.generate("ba de")
    assert visit.ask("ba de", length=3, beam=2) == loop.generate("ba de", 2, 3)
    visit.page.evaluate("() => { document.getElementById('text').value = 'a\\ud800'; }")
    visit.page.click("#send")
    visit.wait("the text has half of a character")
    assert "failed" in visit.page.get_attribute("#state", "class")
    visit.page.fill("#text", " ")
    visit.page.click("#send")
    assert visit.state == "there is no text yet"
    visit.assert_quiet()


def test_a_search_can_be_stopped(page, address, page_folder):
    _, folder = page_folder("decoder_only")
    visit = page(address(folder))
    visit.page.fill("#text", "ba de")
    visit.page.fill("#length", "61")
    visit.page.fill("#beam", "16")
    visit.page.evaluate(
        "() => { document.getElementById('send').click(); document.getElementById('stop').click(); }"
    )
    visit.wait("stopped")
    assert visit.ask("ba de", length=2)
    visit.assert_quiet()


def test_one_file_opens_from_disk(page, page_folder):
    _, folder = page_folder("encoder_decoder")
    visit = page(file_address(folder / "page.html"), offline=True)
    assert visit.ask("mi gi fa", beam=3) == loop_in(folder).generate("mi gi fa", 3)
    visit.assert_quiet()


def test_the_page_of_a_folder_says_that_it_wants_a_server(new_page, page_folder):
    _, folder = page_folder("encoder_decoder")
    page = new_page({"width": 1000, "height": 800})
    page.goto(file_address(folder / "index.html"))
    assert "python -m http.server" in page.text_content("#state")


def test_a_file_that_is_missing_is_named(page, address, page_folder, tmp_path):
    import shutil

    _, folder = page_folder("encoder_decoder")
    shutil.copytree(folder, tmp_path / "lacking", ignore=shutil.ignore_patterns("decoder.onnx"))
    with pytest.raises(
        AssertionError, match=r"the model cannot be loaded: decoder.onnx: the server answers 404"
    ):
        page(address(tmp_path / "lacking"))


def test_a_text_is_never_markup_and_the_keyboard_sends_it(page, address, page_folder):
    _, folder = page_folder("encoder_decoder")
    visit = page(address(folder))
    visit.page.focus("#text")
    visit.page.keyboard.insert_text(HOSTILE)
    visit.page.keyboard.press("Control+Enter")
    visit.wait("answered")
    with visit.page.expect_download() as download:
        visit.page.click("#download")
    assert download.value.path().read_text("utf-8") == visit.texts("#answer")[0] + "\n"
    visit.assert_quiet()


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, marks=pytest.mark.nightly),
        pytest.param({"color_scheme": "dark"}, marks=pytest.mark.nightly),
        {"color_scheme": "dark", "viewport": {"width": 320, "height": 640}},
    ],
)
def test_it_is_accessible(page, address, page_folder, settings):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    _, folder = page_folder("decoder_only")
    visit = page(address(folder), **settings)
    visit.ask("ba " * 30, length=3)
    results = axe.Axe().run(
        visit.page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
    )
    assert results.violations_count == 0, results.generate_report()
    width = visit.page.evaluate("() => document.documentElement.scrollWidth")
    assert width <= visit.page.viewport_size["width"]


@pytest.mark.nightly
def test_the_included_model_answers_as_regard_does(page, address, tmp_path, capsys):
    out = tmp_path / "out"
    regard.export("en-de", to="web", out=out, quantization="float16", one_file=True)
    expected = regard.translate(SENTENCES, early_stopping=True)
    for name, where in (("folder", address(out)), ("one file", file_address(out / "page.html"))):
        begun = time.perf_counter()
        visit = page(where)
        seconds = time.perf_counter() - begun
        assert visit.ask("\n".join(SENTENCES)).split("\n") == expected
        with capsys.disabled():
            print(f"{name}: ready after {seconds:.1f} s; {visit.state}")
        visit.assert_quiet()
