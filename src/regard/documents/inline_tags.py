"""Putting inline tags into the translation of a text, by the alignment of both.

An element comes around the words of the translation that belong to its words in the source. As in the
translator of Firefox (Bergamot), each word of the translation has the elements of the source word that it is
linked to, and a tag without content stands before the word that it stood before. Other than there each tag
comes exactly once: of words that are apart an element takes the run that has most of them.
"""

import html
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from regard.documents.placeholders import is_placeholder

Span = tuple[int, int]  # characters of a text, the end excluded
SpanLinks = Sequence[tuple[Span, Span]]  # of a text and its translation
JOINERS = "'’-‐‑"  # within a word
LINKED = 3  # words: one with a link to elsewhere is taken if it is nearer by so many


@dataclass(eq=False)
class Element:
    """An inline element, or with no `closing` a tag without content, and its characters in the source."""

    opening: str
    closing: str = ""
    span: Span = (0, 0)
    children: list["Element"] = field(default_factory=list)
    parents: tuple["Element", ...] = ()  # the outermost first

    @property
    def is_empty(self) -> bool:
        """True for a tag without content."""
        return not self.closing


@dataclass(frozen=True)
class Word:
    """A word or a punctuation mark; `element` is the innermost around it in the source."""

    span: Span
    is_mark: bool
    element: Element | None = None


@dataclass(eq=False)
class Placed:
    """An element with its words of the translation, or a tag without content with its place there."""

    element: Element
    begin: int  # of a tag without content a character, of an element a word
    end: int = 0


def with_tags(root: Element, source: str, translation: str, links: SpanLinks) -> str:
    """The translation as HTML, with each tag of `root` once. `links` are those of both texts."""
    return _Placement(root, source, translation, links).html()


def words_of(text: str, cuts: Sequence[int] = ()) -> list[Span]:
    """The words and punctuation marks of a text; a word also ends at each of these places.

    Characters of scripts without spaces, as in Chinese, and placeholders are words of their own.
    """
    found: list[Span] = []
    at = set(cuts)
    for place, character in enumerate(text):
        if character.isspace():
            continue
        touches = bool(found) and found[-1][1] == place and place not in at
        if touches and _joins(text, place):
            found[-1] = (found[-1][0], place + 1)
        else:
            found.append((place, place + 1))
    return found


def _joins(text: str, place: int) -> bool:
    """True if the character here and the one before are of one word."""
    before, here = text[place - 1], text[place]
    if _is_wide(before) or _is_wide(here):
        return unicodedata.category(here).startswith("M")
    if here in JOINERS:
        return _is_letter(before) and place + 1 < len(text) and _is_letter(text[place + 1])
    if before in JOINERS:
        return _is_letter(here) and place > 1 and _is_letter(text[place - 2])
    return _is_letter(here) and _is_letter(before) and before.isdigit() == here.isdigit()


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF" or is_placeholder(character)


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LNM" or is_placeholder(character)


class _Placement:
    """The elements of a text, and the words of its translation that each of them gets."""

    def __init__(self, root: Element, source: str, translation: str, links: SpanLinks) -> None:
        self._root, self._source, self._translation = root, source, translation
        self._words = [*_source_words(root, source)]
        self._spans = words_of(translation)
        self._is_mark = [_is_a_mark(translation, span) for span in self._spans]
        self._linked = self._links(links)
        numbered = [(number, place) for place, number in enumerate(self._linked) if number is not None]
        self._first = dict(reversed(numbered))  # the first word of the translation that is linked to a word
        self._last = dict(numbered)
        self._elements = self._elements_of_words()

    def html(self) -> str:
        first, last = (self._spans[0][0], self._spans[-1][1]) if self._spans else (0, 0)
        before, after = self._translation[:first], self._translation[last:]
        return _escaped(before) + self._content(self._root, 0, len(self._spans)) + _escaped(after)

    def _links(self, links: SpanLinks) -> list[int | None]:
        """The source word that each word of the translation is linked to most; None: to none.

        A link between a word and a punctuation mark does not count. The marks at both ends belong together.
        """
        weights: list[dict[int, int]] = [{} for _ in self._spans]
        sources = [word.span for word in self._words]
        for source, target in links:
            for place in _overlapping(self._spans, target):
                for number in _overlapping(sources, source):
                    if self._words[number].is_mark == self._is_mark[place]:
                        weight = _overlap(self._spans[place], target) * _overlap(sources[number], source)
                        weights[place][number] = weights[place].get(number, 0) + weight
        found = [max(each, key=lambda number: (each[number], -number), default=None) for each in weights]
        if found and self._is_mark[-1] and self._words and self._words[-1].is_mark:
            found[-1] = len(self._words) - 1
        return found

    def _elements_of_words(self) -> list[tuple[Element, ...]]:
        """The elements around each word, outermost first; of a word without a link those of both sides."""
        found = [None if each is None else _path(self._words[each].element) for each in self._linked]
        before: list[tuple[Element, ...]] = []
        for each in found:
            before.append(each if each is not None else before[-1] if before else ())
        paths, after = [], ()
        for each, left in zip(reversed(found), reversed(before), strict=True):
            after = after if each is None else each
            paths.append(_common(left, after) if each is None else each)
        return paths[::-1]

    def _content(self, parent: Element, begin: int, end: int) -> str:
        """The words from `begin` to `end` with the tags of the elements in `parent`."""
        spans = self._spans
        placed = self._children(parent, begin, end)
        cursor = self._character(begin)
        last = spans[end - 1][1] if begin < end else cursor
        parts: list[str] = []
        for each in sorted(placed, key=self._first_character):
            place = min(max(cursor, self._first_character(each)), last)
            parts.append(_escaped(self._translation[cursor:place]))
            cursor = place
            parts.append(each.element.opening)
            if not each.element.is_empty:
                parts.append(self._content(each.element, each.begin, each.end))
                parts.append(each.element.closing)
                cursor = max(cursor, spans[each.end - 1][1] if each.begin < each.end else cursor)
        parts.append(_escaped(self._translation[cursor:last]))
        return "".join(parts)

    def _first_character(self, placed: Placed) -> int:
        if placed.element.is_empty:
            return placed.begin
        return self._character(placed.begin)

    def _character(self, word: int) -> int:
        """Where this word begins; after the last one the end."""
        if word < len(self._spans):
            return self._spans[word][0]
        return self._spans[-1][1] if self._spans else 0

    def _children(self, parent: Element, begin: int, end: int) -> list[Placed]:
        """The elements in `parent`, which has these words, with theirs."""
        placed: dict[Element, Placed] = {}
        free = [True] * (end - begin)
        depth = len(parent.parents) + (parent is not self._root)
        own = {
            child: [len(path) > depth and path[depth] is child for path in self._elements[begin:end]]
            for child in parent.children
            if not child.is_empty
        }
        for child in sorted(own, key=lambda child: -sum(own[child])):
            first, last = _best_run(own[child], free)
            if first == last:
                first, last = self._nearest(child, begin, free)
            free[first:last] = [False] * (last - first)
            placed[child] = Placed(child, begin + first, begin + last)
        taken = [each for each in placed.values() if each.begin < each.end]
        for child in parent.children:
            if child.is_empty:
                placed[child] = Placed(child, self._place(child, begin, end, taken))
        return [placed[child] for child in parent.children]

    def _nearest(self, child: Element, begin: int, free: list[bool]) -> Span:
        """The free words for an element to which none is linked; nothing if none is free.

        They are those that are written as its own, or one that is near, rather without a link.
        """
        if (same := self._same(child, begin, free)) is not None:
            return same
        aim = self._word_at(child.span[0]) - begin
        words = [place for place in range(len(free)) if free[place] and not self._is_mark[begin + place]]
        best = min(
            words,
            key=lambda place: abs(place - aim) + LINKED * (self._linked[begin + place] is not None),
            default=None,
        )
        if best is None:
            place = min(max(aim, 0), len(free))
            while 0 < place < len(free) and not free[place] and not free[place - 1]:
                place += 1  # not into another element
            return place, place
        return best, best + 1

    def _same(self, child: Element, begin: int, free: list[bool]) -> Span | None:
        """The free words that are written as the content of an element, as numbers and names are."""
        spans = self._spans[begin : begin + len(free)]
        content = self._source[slice(*child.span)].strip()
        ends = {end: number + 1 for number, (_, end) in enumerate(spans)}
        for number, (start, _) in enumerate(spans):
            end = ends.get(start + len(content)) if self._translation.startswith(content, start) else None
            if end is not None and all(free[number:end]):
                return number, end
        return None

    def _word_at(self, place: int) -> int:
        """The word of the translation that a tag at this place of the source comes before."""
        following = bisect_left(self._words, place, key=lambda word: word.span[0])
        if following in self._first:
            return self._first[following]
        for number in range(following - 1, -1, -1):
            if number in self._last and self._words[number].span[1] <= place:
                return self._last[number] + 1
        return len(self._spans) if following else 0

    def _place(self, tag: Element, begin: int, end: int, taken: Sequence[Placed]) -> int:
        """The character that a tag without content comes before, outside of the other elements."""
        place, source = tag.span[0], self._source
        touches = place > 0 and not source[place - 1].isspace()
        is_after = touches and (place == len(source) or not _is_letter(source[place]))
        word = max(begin, min(end, self._word_at(place)))
        if is_after and (word := self._word_after(place, begin, end, word)) > begin:
            word_end = self._spans[word - 1][1]
            if not any(each.begin < word < each.end for each in taken):
                return word_end
        for each in taken:
            if each.begin < word < each.end:
                word = each.end if self._is_before(each.element, tag) else each.begin
        return self._spans[end - 1][1] if begin < word == end else self._character(word)

    def _word_after(self, place: int, begin: int, end: int, default: int) -> int:
        """The word after the one that is linked to the source word which ends here."""
        number = bisect_left(self._words, place, key=lambda word: word.span[1])
        if number in self._last and self._words[number].span[1] == place:
            return max(begin, min(end, self._last[number] + 1))
        return default

    @staticmethod
    def _is_before(element: Element, tag: Element) -> bool:
        return element.span[1] <= tag.span[0]


def _source_words(root: Element, source: str) -> Iterator[Word]:
    """The words of the source with their innermost elements."""
    cuts: list[int] = []
    owners: list[Element | None] = [None] * len(source)

    def visit(parent: Element, parents: tuple[Element, ...]) -> None:
        for child in parent.children:
            child.parents = parents
            if not child.is_empty:
                begin, end = child.span
                cuts.extend((begin, end))
                owners[begin:end] = [child] * (end - begin)
                visit(child, (*parents, child))

    visit(root, ())
    for span in words_of(source, cuts):
        yield Word(span, _is_a_mark(source, span), owners[span[0]])


def _path(element: Element | None) -> tuple[Element, ...]:
    return () if element is None else (*element.parents, element)


def _common(one: tuple[Element, ...], other: tuple[Element, ...]) -> tuple[Element, ...]:
    """The elements at the beginning of both."""
    same = 0
    while same < min(len(one), len(other)) and one[same] is other[same]:
        same += 1
    return one[:same]


def _best_run(own: Sequence[bool], free: Sequence[bool]) -> Span:
    """The run of free words with most own ones beyond the others; of equal runs the longest."""
    best, best_rank, begin, score = (0, 0), (0, 0), 0, 0
    for place, (is_own, is_free) in enumerate(zip(own, free, strict=True)):
        if score < 0 or not is_free or (score == 0 and not is_own):
            begin, score = place + (not is_own or not is_free), 0
        if not is_free or (begin > place):
            continue
        score += 1 if is_own else -1
        if is_own and (score, place + 1 - begin) > best_rank:
            best, best_rank = (begin, place + 1), (score, place + 1 - begin)
    return best


def _overlapping(spans: Sequence[Span], span: Span) -> Iterator[int]:
    """The numbers of the spans, which are in order, that share characters with this one."""
    low, high = 0, len(spans)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if spans[middle][1] <= span[0] else (low, middle)
    while low < len(spans) and spans[low][0] < span[1]:
        yield low
        low += 1


def _overlap(one: Span, other: Span) -> int:
    return min(one[1], other[1]) - max(one[0], other[0])


def _is_a_mark(text: str, span: Span) -> bool:
    return not any(_is_letter(character) for character in text[span[0] : span[1]])


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)
