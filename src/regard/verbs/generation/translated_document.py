"""Subtitles, HTML and Markdown -> the same with translated texts; numbers, times and tags stay."""

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from regard import console
from regard.documents.html_page import HtmlPage
from regard.documents.subtitle_cues import Subtitles
from regard.errors import DataError
from regard.inspection.alignment import attentions_to_source
from regard.verbs.generation.span_links import span_links
from regard.verbs.generation.translations import Translation
from regard.verbs.shared.text_options import DocumentFormat

BYTE_ORDER_MARK = "\ufeff"
MOST_LINES = 10  # that a warning lists


@runtime_checkable
class TextTranslator(Protocol):
    """What a document needs of a `Translator`."""

    model: Any

    @property
    def keeps_in_documents(self) -> bool: ...

    def texts(
        self,
        texts: Iterable[str],
        *,
        alignments: bool = False,
        numbers: Sequence[int] | None = None,
        of_document: bool = False,
    ) -> Iterator[Translation]: ...


def document_lines(
    translator: TextTranslator, content: str, document_format: DocumentFormat, name: str
) -> Iterator[str]:
    """The lines of the translated document, each with its end; translated when the first is asked for.

    A byte order mark and the line ends stay: those of Windows if most lines have them. `name` is that of the
    document in messages.

    Raises:
        DataError: there is no cue in subtitles.
    """
    mark = BYTE_ORDER_MARK if content.startswith(BYTE_ORDER_MARK) else ""
    is_windows = 2 * content.count("\r\n") > content.count("\n")
    content = content.removeprefix(BYTE_ORDER_MARK).replace("\r\n", "\n")
    found = mark + translated_document(translator, content, document_format, name)
    for line in io.StringIO(found, newline="\n"):
        yield f"{line[:-1]}\r\n" if is_windows and line.endswith("\n") else line


def translated_document(
    translator: TextTranslator, content: str, document_format: DocumentFormat, name: str
) -> str:
    """The document with its texts translated.

    Tags within a sentence are placed by the model's attention; of a model without any each tag ends a text.
    """
    whole = bool(attentions_to_source(translator.model))
    if document_format == "html":
        page = HtmlPage(content, whole=whole, keeps=translator.keeps_in_documents)
    elif document_format == "markdown":
        from regard.documents.markdown import Markdown  # its parser is slow to import

        page = Markdown(content, whole=whole)
    else:
        page = Subtitles(content, document_format, whole=whole)
        _warn_of(page, name)
    aligned = page.has_inline_tags
    found = list(translator.texts(page.texts, alignments=aligned, numbers=page.lines, of_document=True))
    pairs = zip(page.texts, found, strict=True)
    links = [span_links(text, each) for text, each in pairs] if aligned else None
    return page.filled([each.text for each in found], links)


def _warn_of(subtitles: Subtitles, name: str) -> None:
    """Name what is not translated, and what is left out; raise a DataError if there is no cue."""
    if subtitles.untimed and not subtitles.has_cues:
        raise DataError(
            f"{name}: no cue of subtitles is found",
            "a cue has a line of times, such as 00:00:01,000 --> 00:00:02,500; --format lines or html reads"
            " other files",
        )
    if untimed := subtitles.untimed:
        some = ", ".join(map(str, untimed[:MOST_LINES]))
        more = f" and {len(untimed) - MOST_LINES} more" if len(untimed) > MOST_LINES else ""
        console.warn(f"{name}: what has no times that can be read is not translated: line {some}{more}")
    if subtitles.drops_times:
        console.warn(f"{name}: times within cues are left out, since the words of a translation are others")
