"""Whatever the text, it stays text: as token, label, name of a model or file, in the page and in the file."""

import pytest

from tests.browser.fixture import Fixture
from tests.browser.hostile import HOSTILE, UNSEEN, as_shown
from tests.browser.visit import file_address

MODELS = {  # hostile names: the model's, and that of the file in which its page is saved
    "encoder_decoder": ("</title><script>alert(1)</script>\u202e\x00", "<img src=x onerror=alert(1)>"),
    "encoder_only": ('"><svg onload=alert(1)>', "javascript:alert(1)#&quot;' onload=alert(1)"),
}
TYPED = (
    "\u202etxt.exe ${alert(1)}",
    "</textarea><script>alert(1)</script>",
    "<img src=x onerror=alert(1)> {{7*7}}",
)


def made_up(kind):
    """A look whose every token, label and name is hostile."""
    if kind == "encoder_decoder":
        look = Fixture(kind, {"source": HOSTILE, "read": HOSTILE[-1:] + HOSTILE[:-1], "written": HOSTILE})
        look.summary["alignment"]["why"] = HOSTILE[0]
        look.documents["positions"]["note"] = HOSTILE[1]
    else:
        look = Fixture(kind, {"text": HOSTILE})
        labels = [{"label": text, "probability": 1 / len(HOSTILE)} for text in HOSTILE]
        look.summary["answer"] = {"labels": labels}
    look.summary["model"]["name"] = MODELS[kind][0]
    look.summary["text"] = " ".join(HOSTILE)
    look.summary["changes"]["layers"] = HOSTILE[:20]
    return look


@pytest.fixture(scope="module")
def hostile_addresses(serve, tmp_path_factory):
    """Where such looks are served, and where they are saved."""
    from regard.page.assets import one_file
    from regard.serving.look_store import LookStore

    class Held(LookStore):
        """One look, and a new one is the same."""

        def __init__(self, look):
            self.look = look

        def first(self):
            return {"id": "0", "summary": self.look.summary}

        def get(self, number, path):
            return {**self.look.documents, **self.look.arrays}[path]

    folder = tmp_path_factory.mktemp("hostile")
    found = {}
    for kind, (name, file_name) in MODELS.items():
        look = made_up(kind)
        page = one_file(look.summary, *look.bytes(), title=f"{look.summary['text']} {name}")
        file = folder / f"{file_name}.html"
        file.write_text(page, "utf-8")
        found[kind] = {"served": serve(Held(look)), "saved": file_address(file)}
    return found


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("encoder_decoder", "served"),
        pytest.param("encoder_only", "saved", marks=pytest.mark.nightly),
        pytest.param("encoder_decoder", "saved", marks=pytest.mark.nightly),
        pytest.param("encoder_only", "served", marks=pytest.mark.nightly),
    ],
)
def test_two_hundred_hostile_texts_stay_texts_in_every_view(visit, hostile_addresses, kind, place):
    assert len(HOSTILE) >= 200
    page_visit = visit(hostile_addresses[kind][place])
    for view in page_visit.views():
        page_visit.view(view)
        page_visit.open_all()
        assert [text for text in page_visit.pieces() if UNSEEN.search(text)] == [], view
        assert page_visit.strange() == [], view
        assert page_visit.page.query_selector_all("main [role=alert]") == [], view
    page_visit.assert_quiet()


@pytest.mark.parametrize("place", [pytest.param("served", marks=pytest.mark.nightly), "saved"])
def test_each_token_is_shown_as_it_is(visit, hostile_addresses, place):
    page_visit = visit(hostile_addresses["encoder_decoder"][place])
    for view, selector in (
        ("answer", ".answer .chip > bdi.token"),
        ("matrix", ".token-line .piece > bdi.token"),
    ):
        page_visit.view(view)
        shown = page_visit.texts(selector)
        assert len(shown) == len(HOSTILE) * (2 if view == "matrix" else 1)
        for text, found in zip(HOSTILE, shown[-len(HOSTILE) :], strict=True):
            assert as_shown(text).fullmatch(found), (text, found)


def test_each_label_is_shown_as_it_is(visit, hostile_addresses):
    page_visit = visit(hostile_addresses["encoder_only"]["saved"])
    page_visit.view("answer")
    page_visit.open_all()
    shown = page_visit.texts("table tbody th")
    for text, found in zip(HOSTILE, shown, strict=False):
        assert as_shown(text).fullmatch(found), (text, found)
    assert len(shown) >= 40


def test_drawings_and_tables_of_hostile_tokens_are_saved_whole(visit, hostile_addresses, tmp_path):
    """An SVG is read as XML, in which a control character or an open element would be an error."""
    import csv
    from xml.etree import ElementTree

    page_visit = visit(hostile_addresses["encoder_decoder"]["saved"])
    page_visit.view("answer")
    saved = {}
    for kind in ("SVG", "CSV", "PNG"):
        with page_visit.page.expect_download() as caught:
            page_visit.page.get_by_role("button", name=f"Save as {kind}").first.click()
        saved[kind] = tmp_path / f"saved.{kind}"
        caught.value.save_as(saved[kind])
    drawn = ElementTree.parse(saved["SVG"])
    assert {node.tag.rpartition("}")[2] for node in drawn.iter()} <= {
        "svg",
        "g",
        "rect",
        "line",
        "text",
        "title",
    }
    assert not [node for node in drawn.iter() for name in node.attrib if name.startswith("on")]
    assert saved["PNG"].read_bytes().startswith(b"\x89PNG")
    with saved["CSV"].open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "@", "+", "\t"))]
    page_visit.assert_quiet()


def test_what_is_typed_is_asked_and_shown_as_text(visit, addresses):
    """Through the text box and the real model, and as the fragment of a link."""
    from urllib.parse import quote

    page_visit = visit(addresses["decoder_only"])
    text = " ".join(TYPED)
    page_visit.page.fill("textarea", text)
    page_visit.page.click("button:has-text('Look')")
    page_visit.settled()
    assert page_visit.page.input_value("textarea") == text
    assert page_visit.strange() == []
    for fragment in (
        f"#view={quote(TYPED[2])}&part={quote(TYPED[1])}&head=__proto__&row=1e999&theme={quote(TYPED[2])}",
        f"#ask={quote(TYPED[1])}",
        '#ask={"text":"' + quote(TYPED[2]) + '"}&tour=<svg onload=alert(1)>',
        "#view=heads&shown=javascript:alert(1)&lines=Infinity&layer=-1",
    ):
        other = visit(addresses["decoder_only"], fragment)
        assert other.strange() == []
        other.assert_quiet()
    page_visit.assert_quiet()


def test_a_folder_and_a_file_with_hostile_names(visit, untrained, tmp_path):
    """The name of a model is that of its folder."""
    import shutil

    from regard.verbs.look import look

    folder = tmp_path / "<img src=x onerror=alert(1)>"
    shutil.copytree(untrained, folder)
    file = look("1 2 3", folder, device="cpu").to_html(tmp_path / '"><svg onload=alert(1)>#?.html')
    page_visit = visit(file_address(file))
    assert folder.name in page_visit.page.inner_text("h1")
    assert folder.name in page_visit.page.title()
    assert page_visit.strange() == []
    page_visit.assert_quiet()
