"""Sentences that describe what can be seen, made of the parts in captions.toml."""

import random
import tomllib
from pathlib import Path

from tools.box_corpus.pairs import Pair, parsed

TEXTS = Path(__file__).with_name("captions.toml")


class Captions:
    """Sentences that describe what can be seen: who, in what clothes, does what, where."""

    def __init__(self, table: dict[str, list[str]], draw: random.Random) -> None:
        self.table, self.draw = table, draw

    @classmethod
    def load(cls, draw: random.Random) -> "Captions":
        return cls(tomllib.loads(TEXTS.read_text("utf-8")), draw)

    def pair(self) -> Pair:
        draw = self.draw
        animal, several = draw.random() < 0.2, draw.random() < 0.35
        subjects = ("animals" if animal else "singular", "animals_plural" if animal else "plural")[several]
        who, wer = self._one(subjects)
        if not animal and draw.random() < 0.45:
            wearing, tracht = self._clothes(several)
            who, wer = f"{who} {wearing}", f"{wer} {tracht}"
        if draw.random() < 0.08:
            where, wo = self._one("places")
            return self._sentence(f"{who} {where}", f"{wer} {wo}")
        act, verbs = self._one("animal_acts" if animal else "acts")
        verbs, _, prefix = verbs.partition("~")
        verb = verbs.split(",")[_is_plural(wer, several)].strip()
        moves = act in ("walking", "running", "riding a bike", "riding a horse") and draw.random() < 0.4
        where, wo = self._one("ways" if moves else "places") if draw.random() < 0.8 else ("", "")
        is_ = draw.choice(("are", "are", "") if several else ("is", "is", "is", ""))
        german = f"{verb} {prefix.strip()}{wo}" if wo.startswith(",") else f"{verb} {wo} {prefix}"
        return self._sentence(f"{who} {is_} {act} {where}", f"{wer} {german}")

    def _one(self, name: str) -> Pair:
        return parsed(self.draw.choice(self.table[name]))

    def _clothes(self, several: bool) -> Pair:
        plural = several or self.draw.random() < 0.2
        english, gender, german = self.draw.choice(self.table["wear_plural" if plural else "wear"]).rsplit(
            " ", 2
        )
        shade, farbe = "", ""
        if self.draw.random() < 0.75:
            shade, stem = self.draw.choice(self.table["shades"]).split()
            farbe = ("dunkl" if stem == "dunkel" else stem) + "en"
        article = "" if plural else ("an" if (shade or english)[0] in "aeo" else "a")
        ein = {"p": "", "f": "einer"}.get(gender, "einem")
        worn = self.draw.choice(("in", "in", "wearing"))
        return f"{worn} {article} {shade} {english}", f"in {ein} {farbe} {german}"

    def _sentence(self, english: str, german: str) -> Pair:
        sides = (" ".join(side.split()).replace(" ,", ",") for side in (english, german))
        one, other = (f"{side[0].upper()}{side[1:]}." for side in sides)
        return one, other


def _is_plural(german: str, several: bool) -> bool:
    """False for a group too: it is one in German."""
    return several and not german.startswith(("eine Gruppe", "eine Menschenmenge"))
