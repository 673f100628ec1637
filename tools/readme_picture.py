"""Records the moving picture of README.md: its commands in a terminal, then the page of the last one.

.venv/bin/python -m tools.readme_picture [--out docs/regard.webp]

Every command runs as it is typed, and every line is its own output. The title bar says how much faster the
training is shown; the seconds until the other commands answer, and what `regard demo` prints after its third
date, are left out. The page is the one at the address in the terminal. Takes two minutes more than
`regard demo`. Needs a chromium, Debian's or playwright's own.
"""

import argparse
import base64
import io
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from math import ceil
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Locator, Page, sync_playwright
from rich.text import Text

from benchmarks.look_chromium import OPTIONS, chromium
from tools.terminal_recording import (
    BACKGROUND,
    FOREGROUND,
    ROWS,
    Recording,
    folded,
    html_of,
    record,
    running,
)

PICTURE = Path(__file__).parents[1] / "docs" / "regard.webp"
DEMO = "regard demo"
TRANSLATE = 'regard translate "Where is the station?"'
LOOK = 'regard look "Where is the station?"'
COMMANDS = (DEMO, TRANSLATE, LOOK)
DESCRIPTION = 0x010E  # the field of EXIF that has the text of the terminal

WIDTH, BAR, HEIGHT = 1000, 38, 676  # pixels: the window, its title bar, the area below it
TRAINING = 3.0  # seconds that `regard demo` takes in the picture until it prints its alignments
TICK = 0.09  # seconds between two frames of a terminal or a pointer that moves

STYLE = f"""
* {{ box-sizing: border-box; margin: 0; }}
body {{ width: {WIDTH}px; background: transparent; }}
.window {{ position: relative; height: {BAR + HEIGHT}px; overflow: hidden;
  border: 1px solid #4a5368; border-radius: 10px; background: rgb{BACKGROUND}; }}
.bar {{ height: {BAR - 1}px; display: flex; align-items: center; gap: 8px; padding: 0 14px;
  background: #2a303d; font: 15px "DejaVu Sans", sans-serif; color: #b3bccb; }}
.bar i {{ width: 12px; height: 12px; border-radius: 50%; background: #566078; }}
.bar span {{ flex: 1; margin-left: 14px; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }}
.bar span.address {{ padding: 3px 14px; border-radius: 12px; background: #1b1f28; }}
.bar b {{ color: #f0be5a; font-weight: 400; }}
pre {{ padding: 8px 24px; font: 17.5px/22px "DejaVu Sans Mono", monospace; color: rgb{FOREGROUND}; }}
img {{ display: block; }}
svg {{ position: absolute; width: 30px; height: 30px; filter: drop-shadow(0 1px 2px rgb(0 0 0 / .5)); }}
"""
POINTER = (
    '<path d="M3 1v22l5.6-5.4 3.6 8.6 4.3-1.8-3.6-8.4h7.7z" fill="#111" stroke="#fff" stroke-width="1.6"/>'
)


@dataclass(frozen=True)
class Frame:
    """A picture of the whole window, and for how many seconds it is shown."""

    image: Image.Image
    seconds: float


class Stage:
    """Draws the window on a page of its own, with a terminal or a page of a browser in it."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def terminal(self, rows: list[Text], note: str = "") -> Image.Image:
        """The last rows that have room, with a note at the right of the title bar."""
        return self._draw("<span>Terminal</span>", note, f"<pre>{html_of(rows[-ROWS:])}</pre>")

    def browser(self, address: str, png: bytes, pointer: tuple[float, float]) -> Image.Image:
        """A screenshot of a page, with its address and the mouse's pointer."""
        x, y = pointer
        body = (
            f'<img src="data:image/png;base64,{base64.b64encode(png).decode()}">'
            f'<svg viewBox="0 0 30 30" style="left:{x - 3}px;top:{y + BAR - 2}px">{POINTER}</svg>'
        )
        return self._draw(f'<span class="address">{escape(address)}</span>', "", body)

    def _draw(self, title: str, note: str, body: str) -> Image.Image:
        bar = f'<div class="bar"><i></i><i></i><i></i>{title}<b>{escape(note)}</b></div>'
        self._page.set_content(f'<style>{STYLE}</style><div class="window">{bar}{body}</div>')
        png = self._page.screenshot(omit_background=True)
        return Image.open(io.BytesIO(png)).convert("RGBA")


class Terminal:
    """The rows above the prompt, and the frames of the commands typed one after the other."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._above: list[Text] = []

    def type(self, command: str) -> Iterator[Frame]:
        """The command appears at the prompt, two characters a frame."""
        for end in range(0, len(command) + 2, 2):
            yield self._frame([prompt(command[:end], cursor=True)], TICK / 2)
        yield self._frame([prompt(command, cursor=True)], 0.3)
        self._above.append(prompt(command))

    def play(self, recording: Recording, until: float, seconds: float) -> Iterator[Frame]:
        """The output until a time, as it came, in so many seconds; the title bar names how much faster."""
        faster = ceil(until / seconds)
        note = f"shown {faster} times as fast"
        for number in range(1, ceil(until / faster / TICK) + 1):
            yield self._frame(folded(recording.lines(min(number * TICK * faster, until))), TICK, note)

    def show(self, lines: list[str], seconds: float) -> Frame:
        """Lines of the output, standing still."""
        return self._frame(folded(lines), seconds)

    def end(self, recording: Recording) -> None:
        """The next prompt is below this output."""
        self._above += folded(recording.lines())

    def clear(self) -> None:
        """As after `clear`: the next prompt is at the top."""
        self._above = []

    def _frame(self, rows: list[Text], seconds: float, note: str = "") -> Frame:
        return Frame(self._stage.terminal([*self._above, *rows], note), seconds)


def prompt(command: str, *, cursor: bool = False) -> Text:
    """A line with a prompt that names neither user nor machine nor folder."""
    return Text.assemble(("$ ", "bold green"), (command, "bold bright_white"), ("█" if cursor else "", ""))


def demo(terminal: Terminal, recording: Recording) -> Iterator[Frame]:
    """`regard demo`: its training, shown faster, then the alignments of its first three dates."""
    lines = recording.lines()
    dates = [number for number, line in enumerate(lines) if line.endswith(("(right)", "(wrong)"))]
    trained = next(at for at, _ in recording.pieces if len(recording.lines(at)) > dates[0])
    before = max(at for at, _ in recording.pieces if at < trained)
    yield from terminal.type(DEMO)
    yield from terminal.play(recording, before, TRAINING)
    yield terminal.show(lines[: dates[1] - 1], 1.9)
    yield terminal.show(lines[: dates[3] - 1], 0.9)


class Visitor:
    """A pointer on the page that `regard look` serves: it moves, points and clicks as a person does."""

    def __init__(self, stage: Stage, page: Page) -> None:
        self._stage, self._page = stage, page
        self._at = (640.0, 430.0)

    def open(self, address: str) -> Frame:
        """The page as it opens."""
        self._page.goto(address)
        self._page.locator("main .body").wait_for()
        self._page.mouse.move(*self._at)
        self._page.wait_for_timeout(1500)
        return self.look(1.0)

    def click(self, link: str, seconds: float) -> Iterator[Frame]:
        """Move to a link in the list of views and click it."""
        target = self._page.locator("nav.views").get_by_role("link", name=link, exact=True)
        yield from self.point(target, 0.35)
        self._page.mouse.click(*self._at)
        self._page.locator(f"main:not([aria-busy]) > .body.of-{link.lower()}").wait_for()
        self._page.wait_for_timeout(600)
        yield self.look(seconds)

    def point(self, target: Locator, seconds: float, steps: int = 6) -> Iterator[Frame]:
        """Move to the middle of an element, in steps, and stay there."""
        box = target.bounding_box()
        if box is None:
            raise RuntimeError(f"{target} is not on the page")
        (x, y), goal = self._at, (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        for step in range(1, steps + 1):
            share = (step / steps) ** 2 * (3 - 2 * step / steps)  # slow, fast, slow
            self._at = (x + (goal[0] - x) * share, y + (goal[1] - y) * share)
            self._page.mouse.move(*self._at)
            yield self.look(seconds if step == steps else TICK / 1.5)

    def look(self, seconds: float) -> Frame:
        """The page as it is now."""
        png = self._page.screenshot()
        return Frame(self._stage.browser(self._page.url, png, self._at), seconds)


def page_of_look(visitor: Visitor, page: Page, address: str) -> Iterator[Frame]:
    """The answer, the alignment with the pointer on two words, the heads with the pointer on one."""
    yield visitor.open(address)
    yield from visitor.click("Alignment", 0.6)
    for word in ("station", "Bahnhof"):
        yield from visitor.point(named(page, word), 1.0)
    yield from visitor.click("Heads", 0.6)
    yield from visitor.point(named(page, "Bahnhof"), 2.0)


def named(page: Page, word: str) -> Locator:
    """The name of a token in the chart."""
    return page.locator("main .drawing svg text").filter(has_text=re.compile(rf"{word}$")).first


def frames(
    browser: Browser, demonstration: Recording, translation: Recording, folder: Path
) -> Iterator[Frame]:
    """All frames; `regard look` is started when they come to it, and serves its page."""
    stage = Stage(browser.new_page(viewport={"width": WIDTH, "height": BAR + HEIGHT}))
    terminal = Terminal(stage)
    yield from demo(terminal, demonstration)
    terminal.clear()
    yield from terminal.type(TRANSLATE)
    yield terminal.show(translation.lines(), 1.3)
    terminal.end(translation)
    yield from terminal.type(LOOK)
    with running(LOOK, folder, "Ctrl-C stops the server") as server:
        yield terminal.show(server.lines(), 1.0)
        page = browser.new_page(
            viewport={"width": WIDTH - 2, "height": HEIGHT - 1}, color_scheme="light", reduced_motion="reduce"
        )
        yield from page_of_look(Visitor(stage, page), page, address_in(server))


def address_in(server: Recording) -> str:
    """The address that `regard look` has printed."""
    found = re.search(r"http://\S+/", "\n".join(server.lines()))
    assert found is not None
    return found[0]


def save(shown: list[Frame], transcript: list[str], out: Path) -> None:
    """An animated WebP that repeats for ever; its EXIF has what is typed, and the translation."""
    exif = Image.Exif()
    exif[DESCRIPTION] = "\n".join(transcript)
    first, *others = joined(shown)
    first.image.save(
        out, "WEBP", save_all=True, append_images=[frame.image for frame in others], loop=0, exif=exif,
        duration=[round(1000 * frame.seconds) for frame in (first, *others)],
        lossless=True, method=6, minimize_size=True,
    )  # fmt: skip


def joined(shown: list[Frame]) -> list[Frame]:
    """The same with each run of equal frames as one."""
    kept: list[Frame] = []
    for frame in shown:
        if kept and frame.image.tobytes() == kept[-1].image.tobytes():
            kept[-1] = Frame(frame.image, kept[-1].seconds + frame.seconds)
        else:
            kept.append(frame)
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=PICTURE, help="the file")
    out = parser.parse_args().out
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=OPTIONS)
        folder = Path(name)
        demonstration, translation = record(DEMO, folder), record(TRANSLATE, folder)
        shown = list(frames(browser, demonstration, translation, folder))
        browser.close()
    transcript = [f"$ {DEMO}", f"$ {TRANSLATE}", *translation.lines(), f"$ {LOOK}"]
    save(shown, transcript, out)
    seconds = sum(frame.seconds for frame in shown)
    print(f"{out}: {out.stat().st_size / 1000:.0f} kB, {seconds:.1f} seconds")


if __name__ == "__main__":
    main()
