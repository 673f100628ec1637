"""Makes the training corpus of the model in the box: Tatoeba's training pairs, varied, and made sentences.

.venv/bin/python -m tools.box_corpus runs/box-corpus

Everything comes from Tatoeba's training part (CC BY 2.0) and from tools/box_texts/, which was written for
this. The same seed gives the same two files, train.en and train.de. Each of `--passes` draws goes through
all pairs of Tatoeba: most stay as they are, of some the names, cities and numbers are exchanged, the source
is in capitals or lower case, its punctuation differs, or several stand in a line. Then come sentences made
of templates, made captions, and a dictionary that is aligned out of the pairs themselves.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from regard.data.catalogue import find
from regard.data.corpus import read_lines
from tools.box_dictionary import aligned_dictionary
from tools.box_drawing import Captions, Names, Templates

Pair = tuple[str, str]

# A person's name in the English and the ones that Tatoeba's Germans gave it; True: a man's
PERSONS: dict[str, tuple[bool, tuple[str, ...]]] = {
    "Tom": (True, ("Tom",)),
    "Mary": (False, ("Maria", "Mary", "Marie")),
    **{name: (True, (name,)) for name in "John Ken Jim Bob Bill Mike Jack Taro Tony George Jackson".split()},
    **{name: (False, (name,)) for name in "Kate Lucy Alice Jane Nancy Emily Linda Meg Yumi Maria".split()},
}
CITIES = """Boston London Paris Chicago Osaka Kobe Nagoya Yokohama Berlin Sydney Madrid Barcelona Honolulu Toronto
Miami Detroit Bangkok Sapporo Amsterdam Oslo Dublin""".split()
MONTHS = re.compile(r"January|February|March|April|May|June|July|August|September|October|November|December")
NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
ODD = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u00ad": None, "\u200b": None})
LONG = 11  # words; pairs of so many stand twice in every second pass, for most of Tatoeba is short


class Variation:
    """Draws a variant of a pair of Tatoeba."""

    def __init__(self, names: Names, draw: random.Random) -> None:
        self.names, self.draw = names, draw

    def exchanged(self, pair: Pair) -> Pair:
        """Sometimes another name, city or number on both sides."""
        source, target = pair
        if self.draw.random() < 0.4:
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
        if chance < 0.07:
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
        for english, (man, germans) in PERSONS.items():
            if english not in source:
                continue
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
        for city in CITIES:
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
        least_first = {number: self._number(number, source) for number in found}
        return tuple(NUMBER.sub(lambda at: least_first[at[0]], side) for side in (source, target))  # type: ignore[return-value]

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


def cleaned(source: str, target: str) -> Pair:
    """Plain spaces, and German quotation marks around what is quoted in German."""
    source, target = source.translate(ODD).strip(), target.translate(ODD).strip()
    if target.count('"') == 2:
        target = re.sub(r'"([^"]*)"', r"„\1“", target)
    return source, target


def one_pass(pairs: list[Pair], varied: Variation, draw: random.Random, number: int) -> Iterator[Pair]:
    """Every pair once, alone or in a line with others; long ones twice where the number is odd."""
    order = [pair for pair in pairs for _ in range(1 + (number % 2 and pair[0].count(" ") + 1 >= LONG))]
    draw.shuffle(order)
    at = 0
    while at < len(order):
        together = 1 if draw.random() > 0.06 else draw.choice((2, 2, 2, 3, 3, 4))
        group = [varied.exchanged(pair) for pair in order[at : at + together]]
        yield varied.written((" ".join(source for source, _ in group), " ".join(target for _, target in group)))
        at += together


def word_in_a_form(pair: Pair, draw: random.Random) -> Pair:
    """A word of the dictionary as people type it."""
    source, target = pair
    chance = draw.random()
    if chance < 0.5:
        return source, target
    capital = source[:1].upper() + source[1:], target[:1].upper() + target[1:]
    if chance < 0.7:
        return capital
    if chance < 0.85:
        return f"{capital[0]}.", f"{capital[1]}."
    return (source.upper(), target) if chance < 0.95 else (f"{source}?", f"{target}?")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="the folder for train.en and train.de")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--passes", type=int, default=4, help="draws over all pairs of Tatoeba")
    parser.add_argument("--templates", type=int, default=8000, help="sentences of templates in a pass")
    parser.add_argument("--captions", type=int, default=6000, help="made captions in a pass")
    asked = parser.parse_args()
    sides = [list(read_lines(find(f"tatoeba_en_de:train.{side}.gz"))) for side in ("en", "de")]
    pairs = [cleaned(*pair) for pair in zip(*sides, strict=True)]
    draw = random.Random(asked.seed)
    names = Names.load(draw)
    varied, templates, captions = Variation(names, draw), Templates.load(names, draw), Captions.load(draw)
    dictionary = aligned_dictionary(pairs)
    asked.out.mkdir(parents=True, exist_ok=True)
    count = Counter[str]()
    with (
        (asked.out / "train.en").open("w", encoding="utf-8", newline="\n") as sources,
        (asked.out / "train.de").open("w", encoding="utf-8", newline="\n") as targets,
    ):

        def write(kind: str, pair: Pair) -> None:
            sources.write(f"{pair[0]}\n")
            targets.write(f"{pair[1]}\n")
            count[f"{kind} lines"] += 1
            count[f"{kind} words"] += pair[1].count(" ") + 1

        for number in range(asked.passes):
            for pair in one_pass(pairs, varied, draw, number):
                write("Tatoeba", pair)
            for _ in range(asked.templates):
                write("templates", varied.written(templates.pair()))
            for _ in range(asked.captions):
                write("captions", varied.written(captions.pair()))
            for pair in dictionary:
                write("dictionary", word_in_a_form(pair, draw))
    print(f"{len(dictionary):,} words in the dictionary")
    for kind, found in count.items():
        print(f"{kind}: {found:,}")


if __name__ == "__main__":
    main()
