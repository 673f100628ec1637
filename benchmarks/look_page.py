"""The page of `regard look` in a real browser: first paint, hovering, sliders, 512 tokens that move.

Chromium, controlled by playwright (the extra `dev`), loads the page from a server on this machine. The cost
of a pointer or slider event is the time of its handlers and of the layout after them; frames are counted.
"""

import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchmarks.common.results import Table
from benchmarks.common.unfit import Unfit
from benchmarks.look_chromium import MISSING, OPTIONS, chromium

if TYPE_CHECKING:
    from regard.verbs.look import Looker

WORDS, MANY = 40, 512  # tokens a side: drawn as elements, and on a canvas
FRAME, SECOND = 16.0, 1000.0
COLUMNS = {
    "name": ("in the browser", ""),
    "median": ("ms, median", ".1f"),
    "most": ("longest", ".1f"),
    "bar": ("at most", ".0f"),
    "note": ("", ""),
}
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"
HOVER = """(selector) => {
  const field = document.querySelector(selector), box = field.getBoundingClientRect(), taken = [];
  for (let i = 0; i < 120; i++) {
    const x = box.left + box.width * (0.25 + 0.5 * ((i * 37) % 120) / 120);
    const y = box.top + box.height * (0.35 + 0.5 * ((i * 53) % 120) / 120);
    const began = performance.now();
    (document.elementFromPoint(x, y) ?? field).dispatchEvent(
      new PointerEvent("pointermove", { clientX: x, clientY: y, bubbles: true }));
    document.body.getBoundingClientRect();
    taken.push(performance.now() - began);
  }
  return taken;
}"""
SLIDE = """() => {
  const taken = [];
  for (const input of document.querySelectorAll("input[type=range]")) {
    const least = Number(input.min), most = Number(input.max);
    for (let i = 0; i < 40; i++) {
      input.value = String(least + (most - least) * i / 40);
      const began = performance.now();
      input.dispatchEvent(new Event("input", { bubbles: true }));
      document.body.getBoundingClientRect();
      taken.push(performance.now() - began);
    }
  }
  return taken;
}"""
PAN = """async (selector) => {
  const field = document.querySelector(selector), box = field.getBoundingClientRect();
  const at = (type, x, y) => field.dispatchEvent(new PointerEvent(type, {
    clientX: x, clientY: y, bubbles: true, pointerId: 1, isPrimary: true,
    buttons: type === "pointerup" ? 0 : 1 }));
  const middle = { x: box.left + box.width / 2, y: box.top + box.height / 2 };
  for (let i = 0; i < 6; i++) field.dispatchEvent(new WheelEvent("wheel", {
    clientX: middle.x, clientY: middle.y, deltaY: -120, ctrlKey: true, bubbles: true, cancelable: true }));
  at("pointerdown", middle.x, middle.y);
  const times = [];
  for (let i = 0; i < 120; i++) {
    at("pointermove", middle.x + 80 * Math.sin(i / 9), middle.y + 80 * Math.cos(i / 7));
    if (i % 10 === 0) field.dispatchEvent(new WheelEvent("wheel", {
      clientX: middle.x, clientY: middle.y, deltaY: i % 20 ? 60 : -60, ctrlKey: true, bubbles: true,
      cancelable: true }));
    times.push(await new Promise(requestAnimationFrame));
  }
  at("pointerup", middle.x, middle.y);
  return times.slice(1).map((time, i) => time - times[i]);
}"""


def in_browser(looker: "Looker", count: int) -> Table:
    """The table of all measurements; the page is loaded `count` times.

    Raises:
        Unfit: there is no browser here.
    """
    table = Table(title="the page in chromium", columns=COLUMNS)
    with _page() as page:
        with _served(looker, WORDS) as address:
            paints = []
            for _ in range(count):
                page.goto(address)
                page.wait_for_selector("main h1, main h2")
                paints.append(page.evaluate(PAINT))
            table.rows.append(_row("first paint, with a look to show", paints, SECOND))
            asked: list[str] = []
            _open(page, address, "matrix")
            page.on("request", lambda request: asked.append(request.url))
            hovered = page.evaluate(HOVER, ".stage")
            note = f"{len(asked)} requests meanwhile"
            table.rows.append(_row(f"hovering over a matrix of {WORDS} tokens", hovered, FRAME, note))
            _open(page, address, "sampler")
            table.rows.append(_row("temperature, top-k, top-p moved", page.evaluate(SLIDE), FRAME))
        with _served(looker, MANY) as address:
            _open(page, address, "matrix")
            hovered = page.evaluate(HOVER, ".stage")
            table.rows.append(_row(f"hovering over a matrix of {MANY} tokens", hovered, FRAME))
            frames = page.evaluate(PAN, ".stage")
            rate = f"{1000 / statistics.mean(frames):.0f} frames a second; 30 asked"
            table.rows.append(_row(f"{MANY} tokens dragged and zoomed, a frame", frames, 1000 / 30, rate))
    return table


@contextmanager
def _page() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise Unfit("playwright is not installed") from None
    if chromium() is None:
        raise Unfit(MISSING)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=OPTIONS)
        yield browser.new_page(viewport={"width": 1280, "height": 900})
        browser.close()


@contextmanager
def _served(looker: "Looker", tokens: int) -> Iterator[str]:
    """The address of a Look at a text of so many tokens, with a copy of the text as its forced answer."""
    from regard.serving.local import LocalServer
    from regard.serving.look_store import LookStore
    from regard.verbs.look import LookRequest

    tokenizer = looker.loaded.tokenizers.source
    ids = (tokenizer.encode("Where is the station of the town?") * tokens)[: tokens - 1]
    text = tokenizer.decode(ids)
    with LocalServer(LookStore(looker, LookRequest(text=text, target=text))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.url
        server.shutdown()


def _open(page: Any, address: str, view: str) -> None:
    page.goto("about:blank")
    page.goto(f"{address}#view={view}")
    page.wait_for_selector("main figure")
    page.wait_for_timeout(300)


def _row(name: str, taken: list[float], bar: float, note: str = "") -> dict[str, Any]:
    return {"name": name, "median": statistics.median(taken), "most": max(taken), "bar": bar, "note": note}
