"""XML: which elements split a text, from what is next to them in the text itself."""

import re
from dataclasses import dataclass, replace
from xml.parsers import expat

from regard.documents.tag_rules import TagRules

DECLARATION = re.compile(r"\s*<\?xml\s.*?\?>", re.DOTALL)
ROOT = "<x>"  # around a text, which may have several elements, and no definitions


@dataclass
class _Element:
    """An element: the number of the one that it is in, and whether it has words of its own."""

    name: str
    parent: int
    has_words: bool = False


def outlined(source: str, rules: TagRules) -> TagRules:
    """The rules, by which tags split that this text of XML has around whole sentences.

    With `rules.outline` an element is inline, with all that is in it, if words are next to it, and so are
    others of its name; all else splits. No other rules change.

    Raises:
        ValueError: it is not well-formed, or has a DOCTYPE.
    """
    elements = _elements(source)
    if not rules.outline:
        return rules
    is_inline = [False]
    for each in elements[1:]:
        is_inline.append(elements[each.parent].has_words or is_inline[each.parent])
    inline = {each.name for each, is_one in zip(elements, is_inline, strict=True) if is_one}
    names = {each.name for each in elements[1:]} - inline - rules.inline
    return replace(rules, outline=False, splitting=rules.splitting | names)


def _elements(source: str) -> list[_Element]:
    """The elements in their order, the first around all others."""
    found: list[_Element] = []
    opened = [0]
    parser = expat.ParserCreate()

    def start(name: str, _: dict[str, str]) -> None:
        found.append(_Element(name, opened[-1]))
        opened.append(len(found) - 1)

    def end(_: str) -> None:
        opened.pop()

    def text(characters: str) -> None:
        if characters.strip():
            found[opened[-1]].has_words = True

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    declaration = begin[0] if (begin := DECLARATION.match(source)) else ""
    content = re.sub(r"[^\n]", " ", declaration) + source[len(declaration) :]
    try:
        parser.Parse(f"{ROOT}{content}</x>", True)
    except expat.ExpatError as error:
        column = error.offset + 1 - (len(ROOT) if error.lineno == 1 else 0)
        what = expat.ErrorString(error.code)
        raise ValueError(f"not well-formed XML: {what}, line {error.lineno}, column {column}") from None
    return found
