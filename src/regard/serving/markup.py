"""HTML: the texts between its tags, which are translated one by one.

Tags, comments, and elements such as scripts and code stay as they are; so does what `translate="no"` or the
class `notranslate` keeps from being translated. A sentence with a tag inside is translated in parts.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence

RAW = ("script", "style", "textarea")  # elements whose content is not markup
KEPT = ("code", "pre")  # elements that are not translated, unless a tag in them has translate="yes"
WITHOUT_END = "area base br col embed hr img input link meta param source track wbr"
VOID = frozenset(WITHOUT_END.split())
BLOCKS = (
    "address article aside blockquote details div dl fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6"
    " header hgroup hr main menu nav ol p pre search section table ul"
)
CLOSES = {  # open elements that the tag of another one ends
    "li": ("li",),
    "option": ("option",),
    "optgroup": ("option", "optgroup"),
    **dict.fromkeys(("dd", "dt"), ("dd", "dt")),
    **dict.fromkeys(("td", "th"), ("td", "th")),
    "tr": ("td", "th", "tr"),
    **dict.fromkeys(("tbody", "thead", "tfoot"), ("td", "th", "tr", "tbody", "thead", "tfoot")),
    **dict.fromkeys(BLOCKS.split(), ("p",)),
}
OPENING = re.compile(r"<(?=[a-zA-Z/!?])")
NAME = re.compile(r"</?([a-zA-Z][^\s/>]*)")
STOP = re.compile(r">|=\s*(['\"])")
ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'<>=]+)))?""")


class Markup:
    """A piece of HTML; `texts` are those to translate."""

    def __init__(self, source: str) -> None:
        self._parts = list(_parts(source))
        self.texts = [html.unescape(part).strip() for part, is_text in self._parts if is_text]

    def filled(self, translations: Sequence[str]) -> str:
        """The HTML with these texts."""
        rest = iter(translations)
        return "".join(_framed(part, next(rest)) if is_text else part for part, is_text in self._parts)


class _OpenElements:
    """The elements that are open at a place, each with whether it is kept from being translated."""

    def __init__(self) -> None:
        self._open: list[tuple[str, bool]] = []
        self._counts: Counter[str] = Counter()

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
        while self._open and self._open[-1][0] in CLOSES.get(name, ()):
            self._close()
        if name not in VOID:
            own = _translated(tag)
            self._open.append((name, self.kept or name in KEPT if own is None else not own))
            self._counts[name] += 1

    def _close(self) -> str:
        name, _ = self._open.pop()
        self._counts[name] -= 1
        return name


def _parts(source: str) -> Iterator[tuple[str, bool]]:
    """Each part, and True if it is a text to translate, which has letters or digits."""
    place, elements = 0, _OpenElements()
    while place < len(source):
        opening = OPENING.search(source, place)
        start = opening.start() if opening else len(source)
        text = source[place:start]
        if text:
            yield text, not elements.kept and any(character.isalnum() for character in html.unescape(text))
        if not opening:
            return
        place = _end(source, start)
        if found := NAME.match(source, start, place):
            tag, name = source[start:place], found[1].lower()
            if name in RAW and not tag.startswith("</"):
                place = _end_of_raw(source, place, name)
            else:
                elements.read(tag, name)
        yield source[start:place], False


def _end(source: str, start: int) -> int:
    """The place after the tag or comment that starts here."""
    if source.startswith("<!--", start):
        return _after(source, "-->", start)
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


def _translated(tag: str) -> bool | None:
    """True or False if a tag says that its element is to be translated, or not; None if it says neither."""
    if "translate" not in tag.lower():
        return None
    attributes: dict[str, str] = {}
    for name, *values in ATTRIBUTE.findall(NAME.sub("", tag, count=1)):
        attributes.setdefault(name.lower(), "".join(values))
    if "notranslate" in attributes.get("class", "").split():
        return False
    return {"no": False, "yes": True, "": True}.get(attributes.get("translate", "-").strip().lower())


def _framed(part: str, translation: str) -> str:
    """The translation between the white space of the part."""
    text = html.unescape(part)
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    if not part.startswith(before):
        before = before.replace("\u00a0", "&nbsp;")
    if not part.endswith(after):
        after = after.replace("\u00a0", "&nbsp;")
    return before + html.escape(translation, quote=False) + after
