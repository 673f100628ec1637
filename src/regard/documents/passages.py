"""Passages of HTML: texts with inline tags, between tags that split; each is translated as a whole."""

import html
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from regard.documents.inline_tags import Element, SpanLinks, with_tags
from regard.documents.placeholders import restored
from regard.documents.tag_rules import TagRules

# kept: as it is, and splits; placeholder: an element that is kept within a sentence
ItemKind = Literal["text", "opening", "closing", "empty", "kept", "placeholder"]
MOST_TAGS = 200  # of a passage, inline; where there are more, or more within each other, each tag splits
MOST_DEPTH = 32


@dataclass(frozen=True)
class Item:
    """A text, tag or comment as it is written; `name`: that of a tag, or the placeholder of an element."""

    source: str
    kind: ItemKind
    name: str = ""

    @property
    def text(self) -> str:
        if self.kind == "placeholder":
            return self.name
        return html.unescape(self.source) if self.kind == "text" else ""

    @property
    def is_tag(self) -> bool:
        return self.kind in ("opening", "closing", "empty")

    def splits(self, rules: TagRules, *, whole: bool) -> bool:
        """True if it parts what is before from what is after; without `whole` each tag does."""
        return self.kind == "kept" or (self.is_tag and (not whole or rules.splits(self.name)))


class Passage:
    """A text with inline tags, which are balanced; `text` is without them and without outer white space.

    `space`: how a no-break space at its ends is written if it was not written as itself.
    """

    def __init__(self, items: Sequence[Item], space: str = "&nbsp;") -> None:
        begin, end = _core(items)
        core = items[begin:end]
        self._before = "".join(item.source for item in items[:begin])
        self._after = "".join(item.source for item in items[end:])
        text, written = _text(core), "".join(item.source for item in core if item.kind == "text")
        self.text = text.strip()
        start = len(text) - len(text.lstrip())
        before, after = text[:start], text[start + len(self.text) :]
        self._before += before if written.startswith(before) else before.replace("\u00a0", space)
        self._after = (after if written.endswith(after) else after.replace("\u00a0", space)) + self._after
        self._root = _tree(core, self.text, start)
        self._kept = {item.name: item.source for item in core if item.kind == "placeholder"}

    @property
    def has_tags(self) -> bool:
        """True if it has tags among its words."""
        return bool(self._root.children)

    @property
    def has_placeholders(self) -> bool:
        """True if its translation must have placeholders."""
        return bool(self._kept)

    def filled(self, translation: str, links: SpanLinks = ()) -> str:
        """The HTML with this translation; `links`: the alignment of both texts."""
        text = with_tags(self._root, self.text, translation, links)
        return self._before + restored(text, self._kept) + self._after


def balanced(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Runs of items with balanced tags; a tag without its other half is a run of its own."""
    runs = [_with_empty_tags(items)]
    for _ in range(3):  # a tag that is alone splits elements around it, whose tags are then alone
        runs = [part for run in runs for part in _parted(run, _alone(run))]
    for run in runs:
        tags = {place for place, item in enumerate(run) if item.is_tag}
        yield from _parted(run, tags if _alone(run) and len(run) > 1 else set())


def _parted(items: list[Item], alone: set[int]) -> Iterator[list[Item]]:
    """The runs between the items at these places, and each of those by itself."""
    begin = 0
    for place in sorted(alone):
        yield from ([*part] for part in (items[begin:place], [items[place]]) if part)
        begin = place + 1
    if begin < len(items):
        yield items[begin:]


def _alone(items: Sequence[Item]) -> set[int]:
    """The places of tags without their other half; of all tags if they are too many, or too deep."""
    alone: set[int] = set()
    opened: list[int] = []
    names: Counter[str] = Counter()
    tags = {place for place, item in enumerate(items) if item.is_tag}
    for place in sorted(tags) if len(tags) <= MOST_TAGS else ():
        item = items[place]
        if item.kind == "opening":
            opened.append(place)
            names[item.name] += 1
        elif item.kind == "closing" and not names[item.name]:
            alone.add(place)
        elif item.kind == "closing":
            while items[last := opened.pop()].name != item.name:
                names[items[last].name] -= 1
                alone.add(last)
            names[item.name] -= 1
        if len(opened) > MOST_DEPTH:
            return tags
    return alone.union(opened) if len(tags) <= MOST_TAGS else tags


def _with_empty_tags(items: Sequence[Item]) -> list[Item]:
    """The items; tags such as <x/> that nothing closes have no content."""
    alone = _alone(items)
    return [
        replace(item, kind="empty")
        if place in alone and item.kind == "opening" and item.source.endswith("/>")
        else item
        for place, item in enumerate(items)
    ]


def _core(items: Sequence[Item]) -> tuple[int, int]:
    """The items from the first text to the last, with the elements around a part of them."""
    texts = [place for place, item in enumerate(items) if item.text.strip()]
    begin, end = texts[0], texts[-1] + 1
    elements = _elements(items)
    before = None
    while before != (begin, end):
        before = begin, end
        for opening, closing in elements:
            if opening < begin <= closing < end:
                begin = opening
            elif begin <= opening < end <= closing:
                end = closing + 1
    return begin, end


def _elements(items: Sequence[Item]) -> list[tuple[int, int]]:
    """The places of the opening and the closing tag of each element."""
    opened: list[int] = []
    found: list[tuple[int, int]] = []
    for place, item in enumerate(items):
        if item.kind == "opening":
            opened.append(place)
        elif item.kind == "closing":
            found.append((opened.pop(), place))
    return found


def _tree(items: Sequence[Item], text: str, start: int) -> Element:
    """The elements of these items in the text, which begins after `start` characters of theirs."""
    root = Element("")
    opened, begins = [root], [0]
    place = -start
    for item in items:
        place += len(item.text)
        at = min(max(place, 0), len(text))
        if item.kind == "closing":
            element, begin = opened.pop(), begins.pop()
            element.closing, element.span = item.source, (begin, at)
            if not text[begin:at].strip():
                element.opening, element.closing, element.children = _written(element), "", []
        elif item.is_tag:
            element = Element(item.source, span=(at, at))
            opened[-1].children.append(element)
            if item.kind == "opening":
                opened.append(element)
                begins.append(at)
    return root


def _written(element: Element) -> str:
    """The tags of an element without text."""
    return element.opening + "".join(map(_written, element.children)) + element.closing


def _text(items: Sequence[Item]) -> str:
    return "".join(item.text for item in items)
