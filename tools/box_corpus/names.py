"""Names of people, places and streets: from the lists of names.toml, or made of syllables."""

import random
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tools.box_corpus.pairs import Pair, parsed

TEXTS = Path(__file__).with_name("names.toml")


@dataclass(frozen=True)
class Names:
    """Names of people and places: half of them from the lists, the rest made of syllables."""

    lists: dict[str, list[str]]
    draw: random.Random

    @classmethod
    def load(cls, draw: random.Random) -> "Names":
        table = tomllib.loads(TEXTS.read_text("utf-8"))
        return cls({name: text.split() for name, text in table.items()}, draw)

    def one(self, name: str) -> str:
        return self.draw.choice(self.lists[name])

    def translated(self, name: str) -> Pair:
        """One of a list of words with their German."""
        return parsed(self.one(name), "=")

    def made(self) -> str:
        """A name that nobody has."""
        syllables = self.draw.choice((1, 2, 2, 2, 3))
        text = self.one("starts")
        for number in range(syllables):
            text += self.one("vowels")
            if number + 1 < syllables:
                text += self.one("middles")
        return text + self.one("ends").strip("-")

    def first(self, man: bool | None = None) -> str:
        if self.draw.random() < 0.35:
            return self.made()
        if man is None:
            man = self.draw.random() < 0.5
        return self.one("men" if man else "women")

    def last(self) -> str:
        return self.made() if self.draw.random() < 0.4 else self.one("surnames")

    def person(self, man: bool | None = None) -> str:
        """A first name, sometimes with a surname."""
        return self.full(man) if self.draw.random() < 0.15 else self.first(man)

    def full(self, man: bool | None = None) -> str:
        middle = f" {self.draw.choice('ABCDEFGHJKLMPRSTW')}." if self.draw.random() < 0.1 else ""
        double = f"-{self.one('surnames')}" if self.draw.random() < 0.05 else ""
        return f"{self.first(man)}{middle} {self.last()}{double}"

    def city(self) -> str:
        return self.made() if self.draw.random() < 0.25 else self.one("cities")
