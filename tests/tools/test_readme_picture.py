"""The moving picture of README.md shows its commands, and what they print today."""

import re
import shlex
from pathlib import Path

import pytest
from PIL import Image

from regard.verbs.translate import translate
from tools.readme_picture import COMMANDS, DESCRIPTION, LOOK, PICTURE, TRANSLATE

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
MOST_BYTES = 1_000_000


@pytest.fixture(scope="module")
def picture():
    with Image.open(PICTURE) as opened:
        yield opened


def test_it_moves_repeats_and_is_small(picture):
    seconds = 0.0
    for number in range(picture.n_frames):
        picture.seek(number)
        picture.load()  # decodes the frame, and with it how long it is shown
        seconds += picture.info["duration"] / 1000
    assert picture.is_animated
    assert picture.info["loop"] == 0
    assert 900 <= picture.width <= 1100
    assert 12 <= seconds <= 20
    assert PICTURE.stat().st_size < MOST_BYTES


def test_the_readme_shows_it_before_its_first_commands():
    shown = README.index(f"]({PICTURE.relative_to(ROOT).as_posix()})")
    assert shown < README.index("```sh")


def test_what_is_typed_in_it_are_commands_of_the_readme(picture):
    blocks = re.findall(r"^```sh\n(.*?)^```", README, re.M | re.S)
    lines = [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]
    spans = re.findall(r"`([^`\n]+)`", README)
    transcript = picture.getexif()[DESCRIPTION].splitlines()
    typed = [line.removeprefix("$ ") for line in transcript if line.startswith("$ ")]
    assert tuple(typed) == COMMANDS
    assert set(typed) <= {*lines, *spans}


def test_the_translation_in_it_is_that_of_the_included_model(picture):
    transcript = picture.getexif()[DESCRIPTION].splitlines()
    text = shlex.split(TRANSLATE)[-1]
    answer = transcript[: transcript.index(f"$ {LOOK}")][-1]
    assert answer == translate(text)
