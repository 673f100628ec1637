"""Takes the pictures of the documentation from the real page, with the included model.

.venv/bin/python -m tools.screenshots [--out docs/pictures]

Needs a chromium, Debian's or playwright's own.
"""

import argparse
import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from benchmarks.look_chromium import OPTIONS, chromium
from regard.serving.local import LocalServer
from regard.serving.look_store import LookStore
from regard.verbs.look import Looker, LookRequest

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
SENTENCE = "Where is the station?"
COLOURS = 256  # of a picture's palette


def nothing(page: Page) -> None:
    """The page as it opens."""


def rank_by_a_pair(page: Page) -> None:
    """Rank the heads by their weight from "station" to "Bahnhof"."""
    choose(page, "Which head …", "attends from one word to another")
    choose(page, "from (written)", "Bahnhof")
    choose(page, "to", "station")


def open_the_first(page: Page) -> None:
    """The same, then choose the head that is ranked first, and the cell."""
    rank_by_a_pair(page)
    page.locator(".tile").first.click()


def choose(page: Page, control: str, word: str) -> None:
    """Choose the option that shows this word in the list of this name."""
    named = page.locator("label.field").filter(has=page.get_by_text(control, exact=True)).locator("select")
    option = named.locator("option").filter(has_text=word).first
    option.wait_for(state="attached")
    named.select_option(value=option.get_attribute("value"))


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture: what the address selects, what is then done on the page, how large its window is."""

    name: str
    state: dict[str, str]
    act: Callable[[Page], None] = nothing
    width: int = 1240
    height: int


PAIR = {"part": "cross", "layer": "0", "head": "1", "row": "3", "column": "3"}  # Bahnhof, station
ALL = [
    Picture(name="alignment", state={"view": "alignment"}, height=610),
    Picture(name="all-heads", state={"view": "grid"}, height=950),
    Picture(name="ranked", state={"view": "grid"}, act=rank_by_a_pair, height=770),
    Picture(name="head", state={"view": "grid"}, act=open_the_first, height=980),
    Picture(name="arithmetic", state={"view": "arithmetic", **PAIR}, height=760),
    Picture(name="ablation", state={"view": "ablation"}, height=640),
]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=PICTURES, help="the folder for the pictures")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with served(SENTENCE) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=OPTIONS)
        for picture in ALL:
            page = browser.new_page(
                viewport={"width": picture.width, "height": picture.height},
                color_scheme="light",
                reduced_motion="reduce",
            )
            page.goto(f"{url}#{urlencode(picture.state)}")
            page.locator("main figure").first.wait_for()
            picture.act(page)
            page.wait_for_timeout(1500)
            file = out / f"{picture.name}.png"
            file.write_bytes(smaller(page.screenshot()))
            print(f"{file}: {file.stat().st_size / 1000:.0f} kB")
            page.close()
        browser.close()


@contextmanager
def served(text: str) -> Iterator[str]:
    """The address of a page that shows what the included model does with `text`."""
    server = LocalServer(LookStore(Looker(), LookRequest(text=text)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.url
    finally:
        server.shutdown()
        server.server_close()


def smaller(png: bytes) -> bytes:
    """The same picture with a palette; a screenshot has few colours, so none is seen to change."""
    out = io.BytesIO()
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    main()
