"""A page of HTML or XML: the texts in its attributes, and those between its tags."""

from collections.abc import Sequence

from regard.documents.attributes import Attributes
from regard.documents.inline_tags import SpanLinks
from regard.documents.markup import Markup
from regard.documents.tag_rules import HTML_RULES, TagRules


class HtmlPage:
    """A page; `texts` are those to translate, in attributes first, `lines` those in which they begin, from 1.

    No name of an attribute has a meaning in XML, so there texts are between tags alone. `whole`, `keeps`: as
    of `Markup`.
    """

    def __init__(
        self, source: str, rules: TagRules = HTML_RULES, *, whole: bool = False, keeps: bool = False
    ) -> None:
        self._source, self._rules, self._whole, self._keeps = source, rules, whole, keeps
        self._attributes = Attributes("" if rules.xml else source, rules)
        markup = self._markup(source)
        self._first = len(self._attributes.texts)  # text between tags
        self.texts = [*self._attributes.texts, *markup.texts]
        self.lines = [*self._attributes.lines, *markup.lines]
        self.has_inline_tags, self.has_placeholders = markup.has_inline_tags, markup.has_placeholders

    def filled(self, translations: Sequence[str], links: Sequence[SpanLinks] | None = None) -> str:
        """The page with these texts; `links`: the alignments of texts and translations."""
        first = self._first
        values = [" ".join(each.split()) for each in translations[:first]]
        source = self._attributes.filled(values) if values else self._source
        return self._markup(source).filled(translations[first:], None if links is None else links[first:])

    def _markup(self, source: str) -> Markup:
        """What is between the tags of the page, or of the same with other values of attributes."""
        return Markup(source, self._rules, whole=self._whole, keeps=self._keeps)
