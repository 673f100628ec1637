"""In a notebook without widgets the page lives in a frame, and its views can be walked through."""

import http.server
import threading
from functools import partial

import pytest


@pytest.fixture
def notebook(tmp_path, lookers):
    """A page of some server that holds the frame, as a notebook would."""
    looker, *_ = lookers["encoder_decoder"]
    shown = looker.look("Where is the station?")._repr_html_()
    page = f"<!doctype html><meta charset=utf-8><title>notebook</title>{shown}"
    (tmp_path / "index.html").write_text(page, "utf-8")
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=tmp_path))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_the_frame_of_a_notebook_changes_its_view(new_page, notebook):
    page = new_page({"width": 1280, "height": 720})
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(notebook)
    frame = page.frames[1]
    frame.wait_for_selector("h2:has-text('Answer'), h1:has-text('Answer')")
    frame.get_by_text("Matrix", exact=True).first.click()
    frame.wait_for_selector(".stage svg, .stage canvas")
    assert page.url == notebook
    assert problems == []
