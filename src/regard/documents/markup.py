"""HTML and XML: the texts between tags, which are translated one by one.

Tags, comments, and elements such as scripts and code stay as they are; so does what `translate="no"` or the
class `notranslate` keeps from being translated, of which a sentence can have placeholders. A sentence with
inline tags is translated as a whole where the model can align it, else in parts.
"""

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, repeat

from regard.documents.inline_tags import SpanLinks
from regard.documents.kept_elements import with_placeholders
from regard.documents.passages import Item, ItemKind, Passage, balanced
from regard.documents.tag_rules import CLOSES, HTML_RULES, TagRules

OPENING, OPENING_OF_XML = re.compile(r"<(?=[a-zA-Z/!?])"), re.compile("<")
NAME, NAME_OF_XML = re.compile(r"</?([a-zA-Z][^\s/>]*)"), re.compile(r"</?([^\s/>!?]+)")
CDATA, END_OF_CDATA = "<![CDATA[", "]]>"
STOP = re.compile(r">|=\s*(['\"])")
ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'<>=]+)))?""")


class Markup:
    """A piece of HTML or XML; `texts` are those to translate, `lines` those in which they begin, from 1.

    `whole`: sentences with inline tags are one text each, whose translation is given with its alignment.
    `keeps`: inline elements that are not translated are placeholders in a text, once in its translation.
    """

    def __init__(
        self, source: str, rules: TagRules = HTML_RULES, *, whole: bool = False, keeps: bool = False
    ) -> None:
        items = items_of(source, rules)
        items = with_placeholders(items, source, rules) if keeps else items
        runs = [*_runs(items, rules, whole=whole)]
        self._parts = [part for part, _ in runs]
        self._passages = [part for part in self._parts if isinstance(part, Passage)]
        self.lines = [line for part, line in runs if isinstance(part, Passage)]
        self.texts = [passage.text for passage in self._passages]
        self.has_placeholders = any(passage.has_placeholders for passage in self._passages)

    @property
    def has_inline_tags(self) -> bool:
        """True if the translation of a text is needed with its alignment."""
        return any(passage.has_tags for passage in self._passages)

    def filled(self, translations: Sequence[str], links: Sequence[SpanLinks] | None = None) -> str:
        """The HTML with these texts; `links`: the alignments of texts and translations."""
        given = zip(translations, repeat(()) if links is None else links, strict=links is not None)
        return "".join(
            part.filled(*next(given)) if isinstance(part, Passage) else part for part in self._parts
        )


class _OpenElements:
    """The elements that are open at a place, each with whether it is kept from being translated."""

    def __init__(self, rules: TagRules) -> None:
        self._open: list[tuple[str, bool]] = []
        self._counts: Counter[str] = Counter()
        self._rules, self._closes = rules, {} if rules.xml else CLOSES

    @property
    def kept(self) -> bool:
        return bool(self._open) and self._open[-1][1]

    def read(self, tag: str, name: str) -> None:
        """Take note of a tag."""
        if tag.startswith("</"):
            if self._counts[name]:
                while self._close() != name:
                    pass
            return
        while self._open and self._open[-1][0] in self._closes.get(name, ()):
            self._close()
        if name not in self._rules.void:
            own = False if name in self._rules.ignored else is_translated(tag)
            self._open.append((name, self.kept or name in self._rules.kept if own is None else not own))
            self._counts[name] += 1

    def _close(self) -> str:
        name, _ = self._open.pop()
        self._counts[name] -= 1
        return name


def items_of(source: str, rules: TagRules) -> Iterator[Item]:
    """The texts, tags and comments, and what is not translated."""
    place, elements = 0, _OpenElements(rules)
    starts, names = (OPENING_OF_XML, NAME_OF_XML) if rules.xml else (OPENING, NAME)
    while place < len(source):
        opening = starts.search(source, place)
        start = opening.start() if opening else len(source)
        if text := source[place:start]:
            yield Item(text, "kept" if elements.kept else "text")
        if not opening:
            return
        kept = elements.kept
        if rules.xml and source.startswith(CDATA, start):
            place = _after(source, END_OF_CDATA, start)
            content = html.escape(source[start + len(CDATA) : place - len(END_OF_CDATA)], quote=False)
            yield Item(source[start:place], "kept") if kept else Item(content, "text")
            continue
        place = _end(source, start, "?>" if rules.xml else ">")
        kind: ItemKind = "empty" if source.startswith("<!--", start) and not kept else "kept"
        name = ""
        if found := names.match(source, start, place):
            tag, name = source[start:place], found[1] if rules.xml else found[1].lower()
            if rules.xml and tag.endswith("/>"):
                kind = "kept" if kept or name in rules.ignored else "empty"
            elif name in rules.raw and not tag.startswith("</"):
                place = _end_of_raw(source, place, name)
                name = "" if kept else name
            else:
                elements.read(tag, name)
                if not kept and not elements.kept:
                    kind = "closing" if tag.startswith("</") else "empty" if name in rules.void else "opening"
        yield Item(source[start:place], kind, name)


def _end(source: str, start: int, of_instruction: str) -> int:
    """The place after the tag or comment that starts here, or an instruction, which ends so."""
    if source.startswith("<!--", start):
        return _after(source, "-->", start)
    if source.startswith("<?", start):
        return _after(source, of_instruction, start)
    if source[start + 1] in "/!?":
        return _after(source, ">", start)
    place = start
    while stop := STOP.search(source, place):
        if stop[0] == ">":
            return stop.end()
        closing = source.find(stop[1], stop.end())
        if closing < 0:  # a quote that is open for ever
            return _after(source, ">", stop.end())
        place = closing + 1
    return len(source)


def _end_of_raw(source: str, place: int, name: str) -> int:
    """The place after the element of this name whose content starts here."""
    closing = re.compile(rf"</{name}\b", re.IGNORECASE).search(source, place)
    return _after(source, ">", closing.start()) if closing else len(source)


def _after(source: str, closing: str, start: int) -> int:
    end = source.find(closing, start)
    return len(source) if end < 0 else end + len(closing)


def is_translated(tag: str) -> bool | None:
    """True or False if a tag says that its element is to be translated, or not; None if it says neither."""
    if "translate" not in tag.lower():
        return None
    attributes: dict[str, str] = {}
    for name, *values in ATTRIBUTE.findall(NAME.sub("", tag, count=1)):
        attributes.setdefault(name.lower(), "".join(values))
    if "notranslate" in attributes.get("class", "").split():
        return False
    return {"no": False, "yes": True, "": True}.get(attributes.get("translate", "-").strip().lower())


def _runs(items: Iterable[Item], rules: TagRules, *, whole: bool) -> Iterator[tuple[str | Passage, int]]:
    """What stays as it is, and what is translated: what has letters or digits; with the line of its text."""
    line = 1
    for splits, some in groupby(items, lambda item: item.splits(rules, whole=whole)):
        for run in [[item] for item in some] if splits else balanced([*some]):
            is_text = any(character.isalnum() for item in run for character in item.text)
            source = "".join(item.source for item in run)
            space = "&#160;" if rules.xml else "&nbsp;"
            yield (Passage(run, space) if is_text else source), line + _lines_before(run)
            line += source.count("\n")


def _lines_before(run: Sequence[Item]) -> int:
    """How many lines end before the first text of a run."""
    lines = 0
    for item in run:
        if item.text.strip():
            return lines + item.source[: len(item.source) - len(item.source.lstrip())].count("\n")
        lines += item.source.count("\n")
    return lines
