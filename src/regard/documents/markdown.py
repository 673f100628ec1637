"""Markdown: the texts of its headings, paragraphs, lists and tables, which are translated one by one.

Code, raw HTML blocks, definitions of links and front matter stay as they are. Emphasis and links are inline
tags for `Markup`; code and images within a sentence are placeholders. A paragraph becomes one line.
"""

import html
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, zip_longest
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference

from regard.documents.inline_tags import SpanLinks
from regard.documents.markup import Markup
from regard.documents.placeholders import placeholders, restored
from regard.documents.tag_rules import TagRules

RULES = TagRules(outline=False, splitting=frozenset({"break"}))
BYTE_ORDER_MARK = "\ufeff"
FRONT_MATTER = re.compile(  # YAML or TOML
    r"(?:---[ \t]*\r?\n(?:.*?\n)??(?:---|\.\.\.)|\+\+\+[ \t]*\r?\n(?:.*?\n)??\+\+\+)[ \t]*(?:\r?\n|\Z)",
    re.DOTALL,
)
NOTE = re.compile(r"\[\^[^\]\s]+\]:?")  # a mark of a footnote, or what it begins with
ALERT = re.compile(r"\[!\w+\][ \t]*")  # the first line of a block of GitHub's
LABEL = re.compile(r"\[((?:\\.|[^\[\]\\])+)\]")  # what may be that of a reference
LIST_MARK = r"\s*(?:[-+*]|\d{1,9}[.)])"
TASK = re.compile(r"\[[ xX]\][ \t]+")  # begins an item of a list of tasks
TAG = re.compile(r"<!--.*?-->|<(?:\"[^\"]*\"|'[^']*'|[^\"'>])*>", re.DOTALL)
SPECIAL = re.compile(  # what would be read as markup in a text
    r"\\(?=[!-/:-@\[-`{-~])|[*`~]|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[])|<(?=[a-zA-Z/!?])|&(?=#?\w+;)"
)
BLOCK = re.compile(r"(#{1,6}(?=\s|$)|[-+](?=\s|$)|>|=+$|-+$)|(\d{1,9})(?=[.)](?:\s|$))")  # at its beginning


class Markdown:
    """A page of Markdown; `texts` are those to translate, `lines` those in which they begin, from 1.

    `whole`: as of `Markup`.
    """

    def __init__(self, source: str, *, whole: bool = False) -> None:
        self._parts = [*_parts(source, whole=whole)]
        self._passages = [part for part in self._parts if isinstance(part, _InlineText)]
        self.texts = [text for each in self._passages for text in each.markup.texts]
        self.lines = [each.line for each in self._passages for _ in each.markup.texts]

    @property
    def has_inline_tags(self) -> bool:
        """True if the translation of a text is needed with its alignment."""
        return any(each.markup.has_inline_tags for each in self._passages)

    def filled(self, translations: Sequence[str], links: Sequence[SpanLinks] | None = None) -> str:
        """The page with these texts; `links`: the alignments of texts and translations."""
        place, found = 0, []
        for part in self._parts:
            if isinstance(part, _InlineText):
                own = slice(place, place := place + len(part.markup.texts))
                found.append(part.filled(translations[own], None if links is None else links[own]))
            else:
                found.append(part)
        return "".join(found)


class _InlineText:
    """The text of a heading, a paragraph or a cell, with its markup as tags.

    `children`: its parts as the parser gives them, of what is `written`. `indent`: what its further lines
    begin with.
    """

    def __init__(
        self, children: Sequence[Any], written: str, line: int, indent: str, *, cell: bool, whole: bool
    ) -> None:
        self.line, self._cell = line, cell
        self._labels = {normalizeReference(label): label for label in LABEL.findall(written)}
        self._tags = {"<break/>": f"\\\n{indent}"}  # Markdown in place of each tag
        self._kept: dict[str, str] = {}  # and of each placeholder
        self._free = placeholders("".join(child.content for child in children))
        self.markup = Markup("".join(self._as_html(children)), RULES, whole=whole)

    def filled(self, translations: Sequence[str], links: Sequence[SpanLinks] | None) -> str:
        """The Markdown with these texts."""
        page = self.markup.filled([" ".join(each.split()) for each in translations], links)
        text, place, line_end = "", 0, self._tags["<break/>"]
        for tag in TAG.finditer(page):
            text += self._escaped(page[place : tag.start()], begins=not text or text.endswith(line_end))
            text += self._tags.get(tag[0], tag[0])
            place = tag.end()
        text += self._escaped(page[place:], begins=not text or text.endswith(line_end))
        text = restored(text, self._kept)
        return text.replace("|", "\\|") if self._cell else text

    def _as_html(self, children: Sequence[Any]) -> Iterator[str]:
        """The text, in which tags are named by numbers."""
        opened: list[str] = []
        is_kept = False  # <https://...>, whose text is its address, or the mark of a footnote
        for number, child in enumerate(children):
            name = f"t{number}"
            if child.type == "html_inline":
                yield child.content
            elif child.type == "softbreak":
                yield " "
            elif child.type == "hardbreak":
                yield "<break/>"
            elif child.type == "code_inline":
                yield self._placeholder(_code(child))
            elif child.type == "image":
                yield self._placeholder(f"![{child.content}]{self._target(child, 'src')}")
            elif child.info == "auto":
                is_kept = child.nesting > 0
                yield self._placeholder(f"<{child.attrs['href']}>") if is_kept else ""
            elif is_kept or _is_note(children[number : number + 2]):
                if child.nesting > 0:
                    yield self._placeholder(self._target(child, "href"))
                is_kept = child.nesting >= 0
            elif child.nesting > 0:
                is_link = child.type == "link_open"
                self._tags[f"<{name}>"] = "[" if is_link else child.markup
                self._tags[f"</{name}>"] = f"]{self._target(child, 'href')}" if is_link else child.markup
                opened.append(name)
                yield f"<{name}>"
            elif child.nesting < 0:
                yield f"</{opened.pop()}>"
            else:
                for text, note in zip_longest(NOTE.split(child.content), NOTE.findall(child.content)):
                    yield html.escape(text, quote=False)
                    yield self._placeholder(note) if note else ""

    def _target(self, child: Any, name: str) -> str:
        """What a link or an image leads to, as it is written: a label, or an address and a title."""
        label = child.meta.get("label")
        return _destination(child, name) if label is None else f"[{self._labels.get(label, label)}]"

    def _placeholder(self, kept: str) -> str:
        placeholder = next(self._free)
        self._kept[placeholder] = kept
        return placeholder

    def _escaped(self, text: str, *, begins: bool) -> str:
        """A text of HTML as Markdown that is read as this text."""
        text = SPECIAL.sub(r"\\\g<0>", html.unescape(text))
        if begins and (block := BLOCK.match(text)):
            place = block.end(2) if block[2] else 0
            text = f"{text[:place]}\\{text[place:]}"
        return text


def _parts(source: str, *, whole: bool) -> Iterator[str | _InlineText]:
    """What stays as it is, and what is translated."""
    lines = source.split("\n")
    starts = [*accumulate((len(line) + 1 for line in lines), initial=0)]
    place = seen = 0  # the ends of what is translated and of what is found
    is_cell = False
    around: list[Any] = []  # the quotes and items of lists that are open
    for token in _parsed(source):
        if token.type in ("blockquote_open", "list_item_open"):
            around.append(token)
        elif token.type in ("blockquote_close", "list_item_close"):
            around.pop()
        is_cell = token.type in ("th_open", "td_open") or (is_cell and token.type == "inline")
        if token.type != "inline":
            continue
        written = token.content.replace("|", "\\|") if is_cell else token.content
        content = written.split("\n")
        first, children = token.map[0], token.children
        if len(content) > 1 and ALERT.fullmatch(content[0]):
            first, content, children = first + 1, content[1:], children[2:]
        if is_cell:
            columns = [
                lines[first].find(content[0], max(_column(lines[first], first, around), seen - starts[first]))
            ]
        else:  # the last in its line: a marker of a list may be the same text
            columns = [line.rfind(each) for line, each in zip(lines[first:], content, strict=False)]
        if len(columns) < len(content) or min(columns) < 0:
            continue  # the parser has changed what is written: it stays as it is
        last = len(content) - 1
        seen = starts[first + last] + columns[-1] + len(content[-1])
        if not any(_is_text(child) for child in children):
            continue
        task = TASK.match(content[0])
        begin = starts[first] + columns[0] + (task.end() if task and not is_cell else 0)
        if task and not is_cell:  # a text of its own, as brackets are
            children[0].content = children[0].content[task.end() :]
        yield source[place:begin]
        indent = lines[first + last][: columns[-1]] if last else ""
        yield _InlineText(children, token.content, first + 1, indent, cell=is_cell, whole=whole)
        place = seen
    yield source[place:]


def _parsed(source: str) -> list[Any]:
    """The tokens of a page; addresses stay as they are written, and front matter is empty lines."""
    source = source.removeprefix(BYTE_ORDER_MARK)
    if front := FRONT_MATTER.match(source):
        source = "\n" * front[0].count("\n") + source[front.end() :]
    return _parser().parse(source)


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"store_labels": True}).enable(["table", "strikethrough"])
    for name in ("normalizeLink", "normalizeLinkText"):
        setattr(parser, name, str)
    return parser


def _column(line: str, number: int, around: Sequence[Any]) -> int:
    """Where the content of a line begins, after the marks of the quotes and items `around` it."""
    marks = (
        r"\s*>" if each.type == "blockquote_open" else LIST_MARK if each.map[0] == number else r"\s*"
        for each in around
    )
    found = re.match("".join(marks), line)
    return found.end() if found else 0


def _is_note(children: Sequence[Any]) -> bool:
    """True for the mark of a footnote that is read as a link, since the note is one word."""
    return children[0].meta.get("label", "").startswith("^") and children[-1].content.startswith("^")


def _is_text(child: Any) -> bool:
    return child.type == "text" and any(map(str.isalnum, child.content))


def _code(child: Any) -> str:
    """Code within a text as it is written."""
    space = " " if child.content.startswith("`") or child.content.endswith("`") else ""
    return f"{child.markup}{space}{child.content}{space}{child.markup}"


def _destination(child: Any, name: str) -> str:
    """The address of a link or an image, and its title."""
    address, title = child.attrs[name], child.attrs.get("title")
    if not address or re.search(r"[\s()<>]", address):
        address = f"<{address}>"
    return f"({address})" if title is None else f'({address} "{title.replace(chr(34), chr(92) + chr(34))}")'
