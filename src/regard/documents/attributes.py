"""The texts in attributes of HTML: what an image shows, titles, descriptions, the labels of fields."""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from regard.documents.markup import ATTRIBUTE, NAME, is_translated, items_of
from regard.documents.tag_rules import HTML_RULES, RAW, TagRules

TAG = re.compile(r"""<[^"'>]*(?:(?:"[^"]*"|'[^']*')[^"'>]*)*>""")  # a value may have a >
NAMES = frozenset({"alt", "title", "placeholder", "aria-label", "aria-description", "aria-placeholder"})
LABELLED = frozenset({"option", "optgroup", "track"})  # whose `label` is shown
BUTTONS = frozenset({"button", "submit", "reset"})  # inputs whose `value` is shown
DESCRIPTIONS = frozenset({  # metadata whose `content` is text
    "description", "og:title", "og:description", "twitter:title", "twitter:description",
})  # fmt: skip


@dataclass(frozen=True)
class _Value:
    """The value of an attribute: its characters in the page, quotes excluded, and the quote around it."""

    begin: int
    end: int
    quote: str
    text: str


class Attributes:
    """A page of HTML; `texts` are those in its attributes, `lines` those in which they stand, from 1."""

    def __init__(self, source: str, rules: TagRules = HTML_RULES) -> None:
        self._source = source
        self._values = [*_values(source, rules)]
        self.texts = [each.text.strip() for each in self._values]
        begins = [0, *(each.begin for each in self._values)]
        breaks = (source.count("\n", *between) for between in pairwise(begins))
        self.lines = [1 + number for number in accumulate(breaks)]

    def filled(self, translations: Sequence[str]) -> str:
        """The page with these texts."""
        found, place = "", 0
        for value, translation in zip(self._values, translations, strict=True):
            quote = value.quote or '"'
            written = html.escape(translation, quote=False).replace(quote, f"&#{ord(quote)};")
            own = quote if not value.quote else ""
            found += self._source[place : value.begin] + own + written + own
            place = value.end
        return found + self._source[place:]


def _values(source: str, rules: TagRules) -> Iterator[_Value]:
    """The values to translate."""
    place = 0
    for item in items_of(source, rules):
        is_raw = item.kind == "kept" and item.name in RAW and item.name not in rules.ignored
        if (item.kind in ("opening", "empty") or is_raw) and is_translated(_tag(item.source)) is not False:
            yield from _of_tag(item.source, item.name, place)
        place += len(item.source)


def _tag(source: str) -> str:
    """The tag with which an item begins."""
    found = TAG.match(source)
    return source if found is None else found[0]


def _of_tag(tag: str, name: str, place: int) -> Iterator[_Value]:
    """The values of a tag, or of the one with which a raw element begins, at this place of the page."""
    begins = NAME.match(tag)
    found: dict[str, _Value] = {}
    start = begins.end() if begins else len(tag)
    while start < len(tag) and tag[start] != ">":
        attribute = ATTRIBUTE.match(tag, start)
        if attribute is None:
            start += 1
            continue
        start = max(attribute.end(), start + 1)
        group = next((each for each in (2, 3, 4) if attribute[each] is not None), 0)
        if group:
            begin, end = attribute.span(group)
            text = html.unescape(attribute[group])
            quote = {2: '"', 3: "'"}.get(group, "")
            found.setdefault(attribute[1].lower(), _Value(place + begin, place + end, quote, text))
    shown = NAMES | _shown(name, {key: each.text.strip().lower() for key, each in found.items()})
    for key, value in found.items():
        if key in shown and any(map(str.isalpha, value.text)):
            yield value


def _shown(name: str, attributes: dict[str, str]) -> set[str]:
    """The other attributes of a tag that are shown as text."""
    if name in LABELLED:
        return {"label"}
    if name == "input" and attributes.get("type") in BUTTONS:
        return {"value"}
    if name == "meta" and DESCRIPTIONS & {attributes.get("name"), attributes.get("property")}:
        return {"content"}
    return set()
