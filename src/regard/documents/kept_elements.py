"""Elements within a sentence that are not translated: each is a placeholder in its text."""

from collections.abc import Iterable, Iterator, Sequence

from regard.documents.passages import Item
from regard.documents.placeholders import placeholders
from regard.documents.tag_rules import TagRules


def with_placeholders(items: Iterable[Item], source: str, rules: TagRules) -> Iterator[Item]:
    """The items of a document, in which each such element is one item; its name is its placeholder.

    An element that splits a text, or has one in it that does or that is translated, stays as it is.
    """
    items = [*items]
    ends, free = _ends(items, rules), placeholders(source)
    place = 0
    while place < len(items):
        end = ends.get(place)
        placeholder = None if end is None else next(free, None)
        if end is None or placeholder is None:
            yield items[place]
            place += 1
        else:
            yield Item("".join(item.source for item in items[place:end]), "placeholder", placeholder)
            place = end


def _ends(items: Sequence[Item], rules: TagRules) -> dict[int, int]:
    """The place of each opening tag of such an element, and that after its closing one."""
    found: dict[int, int] = {}
    opened: dict[str, list[int]] = {}
    for place, item in enumerate(items):
        if item.kind != "kept" or (item.name and rules.splits(item.name)):
            opened.clear()
        elif not item.name:
            continue
        elif item.source.startswith("</"):
            if opened.get(item.name):
                found[opened[item.name].pop()] = place + 1
        elif rules.xml and item.source.endswith("/>"):
            found[place] = place + 1
        else:
            opened.setdefault(item.name, []).append(place)
    return found
