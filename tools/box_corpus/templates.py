"""Sentences of templates (templates.txt), and the numbers, prices, times and addresses in them."""

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.box_corpus.names import Names
from tools.box_corpus.pairs import Pair, parsed

TEXTS = Path(__file__).parent
# What German writes otherwise, each by a method of its name
WRITTEN = ["price", "dec", "huge", "timepm", "timeam", "address", "street", "date", "daydate", "daymonth"]
WRITTEN += ["weekdays", "ordinal", "color"]
PLAIN = str.maketrans("äöüßéáèêçñøłşı", "aousaeeecnolsi")  # in e-mail addresses
SLOT = re.compile(r"\{([a-z]+)(\d?)\}")


class Templates:
    """Pairs of sentences with slots, and what goes into each slot."""

    def __init__(self, pairs: list[Pair], names: Names, draw: random.Random) -> None:
        self.pairs, self.names, self.draw = pairs, names, draw
        self.values: dict[str, Callable[[], Pair]] = {
            **{slot: self._same(make) for slot, make in self._copied().items()},
            **{slot: getattr(self, f"_{slot}") for slot in WRITTEN},
            "things": lambda: names.translated("things"),
            "weekday": lambda: names.translated("weekdays"),
            "month": lambda: names.translated("months"),
            "few": lambda: names.translated("few"),
            "nationality": lambda: names.translated("nationalities"),
        }
        self.values["colore"] = self.values["color"]

    @classmethod
    def load(
        cls, names: Names, draw: random.Random, files: Sequence[str] = ("templates.txt",)
    ) -> "Templates":
        lines = [line for file in files for line in (TEXTS / file).read_text("utf-8").splitlines()]
        return cls([parsed(line) for line in lines if line and line[0] != "#"], names, draw)

    def pair(self) -> Pair:
        """A sentence of a template; those with slots are drawn three times as often."""
        source, target = self.draw.choice(self.pairs)
        if "{" not in source and self.draw.random() < 0.65:
            return self.pair()
        return self.filled(source, target)

    def filled(self, source: str, target: str) -> Pair:
        drawn: dict[str, Pair] = {}
        for slot in SLOT.finditer(source):
            kind = slot[1] + slot[2]
            value = self.values[slot[1]]()
            while value in drawn.values():
                value = self.values[slot[1]]()
            drawn[kind] = value
        drawn |= {"colore": drawn["color"]} if "color" in drawn else {}
        english = SLOT.sub(lambda at: drawn[at[1] + at[2]][0], source)
        return english, SLOT.sub(lambda at: drawn[at[1] + at[2]][1], target)

    def _same(self, make: Callable[[], str]) -> Callable[[], Pair]:
        return lambda: (value := make(), value)

    def _copied(self) -> dict[str, Callable[[], str]]:
        draw, names = self.draw, self.names
        return {
            "name": names.first,
            "full": names.full,
            "last": names.last,
            "city": names.city,
            "int": lambda: str(draw.choice((draw.randint(2, 20), draw.randint(2, 99), draw.randint(2, 999)))),
            "big": lambda: str(draw.randint(10 ** draw.randint(1, 3), 10 ** draw.randint(4, 5) - 1)),
            "digit": lambda: str(draw.randint(2, 19)),
            "hour": lambda: str(draw.randint(2, 12)),
            "time": lambda: f"{draw.randint(0, 23)}:{draw.randint(0, 59):02}",
            "year": lambda: str(draw.randint(*draw.choice(((1900, 2035), (1400, 2035))))),
            "room": lambda: str(draw.randint(2, 999)),
            "flight": lambda: f"{self._letters(2)}{draw.choice(('', ' '))}{draw.randint(10, 9999)}",
            "code": self._code,
            "phone": self._phone,
            "email": self._email,
            "url": self._url,
            "deaddress": self._german_address,
        }

    def _letters(self, count: int) -> str:
        return "".join(self.draw.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(count))

    def _digits(self, count: int) -> str:
        return "".join(self.draw.choice("0123456789") for _ in range(count))

    def _code(self) -> str:
        shape = self.draw.choice(("{l}-{d}", "{d}-{d2}", "{l}{d}", "{d}{l}", "{d}", "#{d}"))
        count = self.draw.randint(2, 5)
        return shape.format(
            l=self._letters(self.draw.randint(1, 3)), d=self._digits(count), d2=self._digits(3)
        )

    def _phone(self) -> str:
        digits = self._digits
        return self.draw.choice(
            (
                f"+49 {self.draw.randint(30, 899)} {digits(7)}",
                f"0{digits(3)} {digits(6)}",
                f"555-{digits(4)}",
                f"({digits(3)}) {digits(3)}-{digits(4)}",
                f"{digits(3)}-{digits(3)}-{digits(4)}",
                f"0{digits(2)}/{digits(7)}",
                f"+1 {digits(3)} {digits(3)} {digits(4)}",
                digits(9),
                f"+44 20 {digits(4)} {digits(4)}",
            )
        )

    def _email(self) -> str:
        one, other = self.names.first().lower(), self.names.last().lower()
        user = self.draw.choice(
            (
                one,
                f"{one}.{other}",
                f"{one[0]}.{other}",
                f"{one}{self._digits(2)}",
                f"{one}_{other}",
                "info",
                "office",
            )
        )
        return f"{user.translate(PLAIN)}@{self._domain()}"

    def _domain(self) -> str:
        """Of the list, of a made name, or a plain word, which is not translated here."""
        if self.draw.random() < 0.4:
            return self.names.one("domains")
        plain = bool(self.names.words) and self.draw.random() < 0.5
        name = self.names.word() if plain else self.names.made().lower().translate(PLAIN)
        return f"{name}.{self.draw.choice(('com', 'com', 'de', 'org', 'net', 'io'))}"

    def _url(self) -> str:
        start = self.draw.choice(("www.", "www.", "https://", "https://www.", "http://", ""))
        if self.names.words and start == "https://" and self.draw.random() < 0.6:
            start += f"{self.names.word()}."
        end = self.draw.choice(("", "", "", "/help", "/news", f"/{self._digits(3)}", f"/{self._digits(2)}"))
        return start + self._domain() + end

    def _german_address(self) -> str:
        street, number = self.names.german_street(), self.draw.randint(1, 150)
        return f"{street} {number}, {self._digits(5)} {self.names.city()}"

    def _street(self) -> Pair:
        name = f"{self._street_name()} {self.names.one('kinds_of_street')}"
        return name, name

    def _street_name(self) -> str:
        if self.names.words and self.draw.random() < 0.25:
            return self.names.word().capitalize()
        return self.names.last() if self.draw.random() < 0.4 else self.names.one("streets")

    def _address(self) -> Pair:
        number = str(self.draw.randint(1, 999)) + self.draw.choice(("", "", "", "", "A", "b"))
        street = self._street()[0]
        return f"{number} {street}", f"{street} {number}"

    def _dec(self) -> Pair:
        value = f"{self.draw.randint(0, 199)}.{self._digits(self.draw.choice((1, 1, 2)))}"
        return value, value.replace(".", ",")

    def _huge(self) -> Pair:
        value = self.draw.randint(1000, 10 ** self.draw.randint(4, 7))
        return f"{value:,}", f"{value:,}".replace(",", ".")

    def _price(self) -> Pair:
        english, german = self.draw.choice((("$", "Dollar"), ("$", "Dollar"), ("€", "Euro"), ("£", "Pfund")))
        words = {"$": "dollars", "€": "euros", "£": "pounds"}
        kind = self.draw.random()
        if kind < 0.55:
            value = f"{self.draw.randint(0, 300)}.{self._digits(2)}"
        elif kind < 0.9:
            value = str(self.draw.choice((self.draw.randint(2, 99), self.draw.randint(2, 999))))
        else:
            value = f"{self.draw.randint(1000, 99999):,}"
        value_de = value.translate(str.maketrans(".,", ",."))
        written = f"{value} {words[english]}" if self.draw.random() < 0.35 else f"{english}{value}"
        if english == "€" and self.draw.random() < 0.2:
            written = f"{value} €"
        return written, f"{value_de} {german}"

    def _clock(self, first: int, last: int, half: str, add: int) -> Pair:
        hour, minute = self.draw.randint(first, last), self.draw.randint(0, 59)
        if self.draw.random() < 0.25:
            return f"{hour} {half}", f"{hour + add} Uhr"
        return f"{hour}:{minute:02} {half}", f"{hour + add}:{minute:02} Uhr"

    def _timepm(self) -> Pair:
        return self._clock(1, 11, self.draw.choice(("p.m.", "pm", "PM")), 12)

    def _timeam(self) -> Pair:
        return self._clock(1, 11, self.draw.choice(("a.m.", "am", "AM")), 0)

    def _daymonth(self) -> Pair:
        english, german = self.names.translated("months")
        day = self.draw.randint(1, 28)
        suffix = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd"}.get(day, "th")
        written = self.draw.choice((f"{english} {day}", f"{english} {day}{suffix}", f"{day} {english}"))
        return written, f"{day}. {german}"

    def _date(self) -> Pair:
        (english, german), year = self._daymonth(), self.draw.randint(1700, 2035)
        comma = "" if english[0].isdigit() else ","
        return f"{english}{comma} {year}", f"{german} {year}"

    def _daydate(self) -> Pair:
        (day, tag), (english, german) = self.names.translated("weekdays"), self._daymonth()
        return f"{day}, {english}", f"{tag}, der {german}"

    def _weekdays(self) -> Pair:
        english, german = self.names.translated("weekdays")
        return f"{english}s", f"{german.lower()}s"

    def _ordinal(self) -> Pair:
        return self.names.translated("ordinals")

    def _color(self) -> Pair:
        return self.names.translated("colors")
