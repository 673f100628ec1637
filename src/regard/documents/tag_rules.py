"""What the tags of HTML do to the text around them: which split it, which keep their content as it is."""

from dataclasses import dataclass

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
OTHERS = (  # that are no blocks, and split a text nevertheless
    "area audio base body br button canvas caption center col colgroup dd dialog dir dt embed frame frameset"
    " head html iframe label legend li link map math meta noscript object optgroup option param picture"
    " progress select slot source summary svg tbody td template tfoot th thead title tr track video"
)
SPLITTING = frozenset(f"{BLOCKS} {OTHERS} {' '.join(RAW)}".split())


@dataclass(frozen=True, kw_only=True)
class TagRules:
    """Which tags split a text; all others are inline, as in a browser those that it does not know.

    Attributes:
        ignored: elements that are not translated.
        splitting: other tags that split.
        inline: tags that do not.
        outline: the tags of HTML that split do; else only `splitting`.
        xml: the tags are of XML: no name has a meaning, capitals count, and <x/> has no content. Those that
            split are found by `outlined` of `xml_outline.py`.
    """

    ignored: frozenset[str] = frozenset()
    splitting: frozenset[str] = frozenset()
    inline: frozenset[str] = frozenset()
    outline: bool = True
    xml: bool = False

    @property
    def raw(self) -> tuple[str, ...]:
        """The elements whose content is not markup."""
        return () if self.xml else RAW

    @property
    def kept(self) -> tuple[str, ...]:
        """The elements that are not translated unless a tag says so."""
        return () if self.xml else KEPT

    @property
    def void(self) -> frozenset[str]:
        """The elements without an end."""
        return frozenset() if self.xml else VOID

    def splits(self, name: str) -> bool:
        """True if a tag with this name splits a text."""
        by_name = self.outline and not self.xml and name in SPLITTING and name not in self.inline
        return name in self.splitting or by_name


HTML_RULES = TagRules()
