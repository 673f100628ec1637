"""Which characters of a text and of its translation belong together."""

from regard.verbs.generation.alignments import Span
from regard.verbs.generation.translations import Translation


def span_links(text: str, translation: Translation) -> list[tuple[Span, Span]]:
    """The links of a text and the best candidate of its translation, which has alignments.

    A sentence that is not found in one of them has no links.
    """
    best = translation.candidates[0]
    sources = [each.source for each in translation.sentences] or [translation.source]
    found: list[tuple[Span, Span]] = []
    source_end = target_end = 0
    for source, part in zip(sources, best.parts or (best,), strict=True):
        begin, target = text.find(source.strip(), source_end), best.text.find(part.text, target_end)
        if begin < 0 or target < 0:
            continue
        if part.alignment is not None:
            found += part.alignment.linked_spans(begin, target)
        source_end, target_end = begin + len(source.strip()), target + len(part.text)
    return found
