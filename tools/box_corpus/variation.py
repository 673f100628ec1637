"""Variants of a pair of Tatoeba: other names, cities and numbers, capitals, punctuation."""

import random
import re

from tools.box_corpus.names import Names
from tools.box_corpus.pairs import Pair

GERMAN_NAMES = {"Mary": ("Maria", "Mary", "Marie")}  # of others it is the English one
MONTHS = re.compile(r"January|February|March|April|May|June|July|August|September|October|November|December")
NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


class Variation:
    """Draws a variant of a pair of Tatoeba."""

    def __init__(
        self, names: Names, draw: random.Random, *, exchanged: float = 0.4, capitals: float = 0.07
    ) -> None:
        self.names, self.draw = names, draw
        self.share, self.capitals = exchanged, capitals

    def exchanged(self, pair: Pair) -> Pair:
        """Sometimes another name, city or number on both sides."""
        source, target = pair
        if self.draw.random() < self.share:
            source, target = self._persons(source, target)
        if self.draw.random() < 0.6:
            source, target = self._cities(source, target)
        if self.draw.random() < 0.7:
            source, target = self._numbers(source, target)
        return source, target

    def written(self, pair: Pair) -> Pair:
        """Sometimes other capitals or punctuation in the source; German is answered as it is written."""
        source, target = pair
        chance = self.draw.random()
        if chance < self.capitals:
            source = source.upper()
        elif chance < 0.14:
            source = source.lower()
        elif chance < 0.19:
            source, target = source.rstrip(".!?"), target.rstrip(".!?")
            if self.draw.random() < 0.5:
                source = source.lower()
        elif chance < 0.20:
            source, target = self._louder(source, target)
        elif chance < 0.21:
            source = self._mistyped(source)
        if self.draw.random() < 0.06:
            source = source.replace("'", "’")
            source = re.sub(r'"([^"]*)"', r"“\1”", source)
        return source, target

    def _persons(self, source: str, target: str) -> Pair:
        men, women = self.names.lists["persons_m"], self.names.lists["persons_w"]
        for english in (men[0], women[0], *men[1:], *women[1:]):
            if english not in source:
                continue
            man, germans = english in men, GERMAN_NAMES.get(english, (english,))
            german = next((name for name in germans if re.search(rf"\b{name}s?\b", target)), None)
            if german is None or not re.search(rf"\b{english}\b", source):
                continue
            owns = re.search(rf"\b{german}s\b", target)
            name = self.names.person(man)
            while (owns and name[-1] in "sxzß") or name in target:
                name = self.names.person(man)
            source = re.sub(rf"\b{english}\b", name, source)
            target = re.sub(rf"\b{german}(s?)\b", rf"{name}\1", target)
        return source, target

    def _cities(self, source: str, target: str) -> Pair:
        for city in self.names.lists["exchanged_cities"]:
            if re.search(rf"\b{city}\b", source) and re.search(rf"\b{city}\b", target):
                other = self.names.city()
                return re.sub(rf"\b{city}\b", other, source), re.sub(rf"\b{city}\b", other, target)
        return source, target

    def _numbers(self, source: str, target: str) -> Pair:
        found = NUMBER.findall(source)
        if not found or sorted(found) != sorted(NUMBER.findall(target)) or len(set(found)) < len(found):
            return source, target
        if re.search(r"\d[A-Za-z]|[ap]\.m\.|\b1\b", source):
            return source, target
        other = {number: self._number(number, source) for number in found}
        return NUMBER.sub(lambda at: other[at[0]], source), NUMBER.sub(lambda at: other[at[0]], target)

    def _number(self, number: str, source: str) -> str:
        if re.fullmatch(r"\d?\d:\d\d", number):
            return f"{self.draw.randint(1, 12)}:{self.draw.randint(0, 59):02}"
        if not number.isdecimal() or number[0] == "0":
            return number
        if len(number) <= 2 and (MONTHS.search(source) or "o'clock" in source):
            return str(self.draw.randint(2, 12))
        if len(number) == 4 and number[0] in "12":
            return str(self.draw.randint(1200, 2040))
        return str(self.draw.randint(max(2, 10 ** (len(number) - 1)), 10 ** len(number) - 1))

    def _louder(self, source: str, target: str) -> Pair:
        if not source.endswith((".", "!")) or not target.endswith((".", "!")):
            return source, target
        return source[:-1] + "!" * self.draw.randint(2, 4), target[:-1] + "!"

    def _mistyped(self, source: str) -> str:
        if len(source) < 12:
            return source
        at = self.draw.randrange(2, len(source) - 2)
        if self.draw.random() < 0.5:
            return source[:at] + source[at + 1 :]
        return source[:at] + source[at + 1] + source[at] + source[at + 2 :]
