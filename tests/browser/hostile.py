"""Texts that pages have been broken with: as tokens, labels and names they have to stay text.

Whichever of them runs calls `alert` or sets `window.ran`; the tests watch both.
"""

import json
import re
from pathlib import Path

HOSTILE: list[str] = json.loads(Path(__file__).with_suffix(".json").read_text("ascii"))

UNSEEN = re.compile(  # what no page may show as it is: it is not seen, or it steers what is around it
    "[\x00-\x1f\x7f-\x9f\u00a0\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufeff\ufff9-\ufffb\ufffe\uffff\U0001fffe\ud800-\udfff\U000e0000-\U000e007f]"
)
GLYPH = "(?:⟨[^⟩]+⟩|[⏎⇥⍽]|\ufffd{1,3})"


def as_shown(text: str) -> re.Pattern[str]:
    """How a token has to be seen: each of its characters, or, of one that is not seen, something for it."""
    if text == "":
        return re.compile("∅")
    if text in ("\u200c", "\u200d"):  # a joiner by itself
        return re.compile(GLYPH)
    inner = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    after = len(text) - before - len(inner)
    middle = "".join(GLYPH if UNSEEN.match(character) else re.escape(character) for character in inner)
    return re.compile("␣" * before + middle + "␣" * after)
