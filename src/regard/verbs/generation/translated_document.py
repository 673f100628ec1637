"""Subtitles and HTML -> the same with translated texts; numbers, times and tags stay as they are."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from regard.documents.markup import Markup
from regard.documents.subtitle_cues import Subtitles
from regard.inspection.alignment import attentions_to_source
from regard.verbs.generation.span_links import span_links
from regard.verbs.generation.translations import Translation
from regard.verbs.shared.text_options import DocumentFormat


@runtime_checkable
class TextTranslator(Protocol):
    """What a document needs of a `Translator`."""

    model: Any

    def texts(self, texts: Iterable[str], *, alignments: bool = False) -> Iterator[Translation]: ...


def document_lines(
    translator: TextTranslator, lines: Iterable[str], document_format: DocumentFormat
) -> Iterator[str]:
    """The lines of the translated document, each with its end; translated when the first is asked for."""
    for line in translated_document(translator, "\n".join(lines), document_format).split("\n"):
        yield f"{line}\n"


def translated_document(translator: TextTranslator, content: str, document_format: DocumentFormat) -> str:
    """The document with its texts translated.

    Tags within a sentence are placed by the model's attention; of a model without any each tag ends a text.
    """
    whole = bool(attentions_to_source(translator.model))
    page = (
        Markup(content, whole=whole)
        if document_format == "html"
        else Subtitles(content, document_format, whole=whole)
    )
    aligned = page.has_inline_tags
    found = list(translator.texts(page.texts, alignments=aligned))
    pairs = zip(page.texts, found, strict=True)
    links = [span_links(text, each) for text, each in pairs] if aligned else None
    return page.filled([each.text for each in found], links)
