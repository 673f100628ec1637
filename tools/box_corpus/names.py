"""Names of people, places and streets: from lists, or made of syllables, parts of words or pieces."""

import random
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.box_corpus.pairs import Pair, parsed

TEXTS = Path(__file__).with_name("names.toml")


@dataclass(frozen=True)
class Names:
    """Names of people and places: from the lists, or made of syllables, parts of words or pieces."""

    lists: dict[str, list[str]]
    draw: random.Random
    words: tuple[str, ...] = ()  # English ones; `spliced` joins parts of them
    nouns: tuple[str, ...] = ()  # German ones, for streets
    starts: tuple[str, ...] = ()  # pieces of a tokeniser's vocabulary that begin a word in a capital
    ends: tuple[str, ...] = ()  # pieces that continue a word
    share_made: float = 0.35
    share_spliced: float = 0.0  # of the names that are made: half of it of pieces, where there are any

    @classmethod
    def load(cls, draw: random.Random, **settings: Any) -> "Names":
        table = tomllib.loads(TEXTS.read_text("utf-8"))
        return cls({name: text.split() for name, text in table.items()}, draw, **settings)

    def one(self, name: str) -> str:
        return self.draw.choice(self.lists[name])

    def translated(self, name: str) -> Pair:
        """One of a list of words with their German."""
        return parsed(self.one(name), "=")

    def made(self) -> str:
        """An invented name."""
        if self.draw.random() < self.share_spliced:
            return self.pieced() if self.starts and self.draw.random() < 0.5 else self.spliced()
        syllables = self.draw.choice((1, 2, 2, 2, 3))
        text = self.one("starts")
        for number in range(syllables):
            text += self.one("vowels")
            if number + 1 < syllables:
                text += self.one("middles")
        return text + self.one("ends").strip("-")

    def spliced(self) -> str:
        """The start of one word and the end of another, so any pieces of the vocabulary come together."""
        one, other = self.word(), self.word()
        start, end = self.draw.randint(2, 5), self.draw.randint(2, 6)
        return (one[:start] + other[-end:]).capitalize()

    def pieced(self) -> str:
        """Pieces of the vocabulary, each as likely as any other, so that rare ones are copied too."""
        ends = self.draw.choices(self.ends, k=self.draw.choice((0, 1, 1, 1, 2)))
        return self.draw.choice(self.starts) + "".join(ends)

    def word(self) -> str:
        return self.draw.choice(self.words)

    def first(self, man: bool | None = None) -> str:
        if self.draw.random() < self.share_made:
            return self.made()
        if man is None:
            man = self.draw.random() < 0.5
        return self.one("men" if man else "women")

    def last(self) -> str:
        return self.made() if self.draw.random() < self.share_made + 0.05 else self.one("surnames")

    def person(self, man: bool | None = None) -> str:
        """A first name, sometimes with a surname."""
        return self.full(man) if self.draw.random() < 0.15 else self.first(man)

    def full(self, man: bool | None = None) -> str:
        middle = f" {self.draw.choice('ABCDEFGHJKLMPRSTW')}." if self.draw.random() < 0.1 else ""
        double = f"-{self.one('surnames')}" if self.draw.random() < 0.05 else ""
        return f"{self.first(man)}{middle} {self.last()}{double}"

    def city(self) -> str:
        return self.made() if self.draw.random() < self.share_made - 0.1 else self.one("cities")

    def german_street(self) -> str:
        """One of the list, or a made one: a noun and a kind of street in one word."""
        if not self.nouns or self.draw.random() < 0.4:
            return self.one("german_streets")
        return self.draw.choice(self.nouns) + self.one("german_kinds_of_street")
