"""Problems of the characters of a corpus: one case, decomposed letters, no-break spaces."""

from collections.abc import Callable, Iterator, Sequence

from regard.counted import counted
from regard.data.corpus_statistics import CorpusStatistics
from regard.verbs.proposals.corpus_finding import CorpusFinding, FindingKind, listed, sides_of
from regard.verbs.proposals.line_checks import MIN_BROKEN_SHARE, MIN_SUSPECT_LINES, is_decomposed

MOST_OF_OTHER_CASE = 0.001  # of the letters of a text in lower case, or in capitals
MOSTLY_CAPITALISED = 0.8  # of the lines begin with a capital, as sentences do; those of dictionaries do not
NO_BREAK_SPACES = "\u00a0", "\u202f"
MIN_NO_BREAK_SHARE = 0.02  # of the lines of a file; newstest has up to 0.004


def of_case(corpus: CorpusStatistics) -> Iterator[CorpusFinding]:
    """A corpus, or one side of it, in lower case or in capitals."""
    sides = _sides(corpus)
    lower, upper = (
        [sum(map(is_case, "".join(side))) for side in sides] for is_case in (str.islower, str.isupper)
    )
    for many, few, what, others, do in (
        (lower, upper, "no capital letters", "has", "lower-case"),
        (upper, lower, "only capital letters", "has others", "capitalise"),
    ):
        alone = [one > 0 and other < MOST_OF_OTHER_CASE * one for one, other in zip(many, few, strict=True)]
        source, target = corpus.files
        if all(alone):
            text = f"{sides_of(corpus.files)} have {what}, and so will translations"
            text += f": {do} what you translate, too"
        elif alone[0] and lower[1] > upper[1] and _begins_capitalised(sides[1]):
            text = f"{source} has {what}, and {target} {others}: {do} what you translate, too"
        elif alone[1] and lower[0] > upper[0] and _begins_capitalised(sides[0]):
            text = f"{target} has {what}, and {source} {others}: translations will have {what}"
        else:
            continue
        yield CorpusFinding(kind="no capitals", text=text, count=corpus.pairs)


def _begins_capitalised(texts: Sequence[str]) -> bool:
    """True if most lines have a capital as their first letter, as sentences do."""
    first = (next(filter(str.isalpha, text), "") for text in texts)
    return sum(map(str.isupper, first)) >= MOSTLY_CAPITALISED * len(texts)


def of_characters(corpus: CorpusStatistics) -> Iterator[CorpusFinding]:
    """Files with other characters for the same text: decomposed letters, no-break spaces."""
    lines = [pair.line for pair in corpus.sample.pairs]
    for file, texts in zip(corpus.files, _sides(corpus), strict=True):
        for kind, is_found, share, of_what, do in _CHARACTERS:
            found = [line for line, text in zip(lines, texts, strict=True) if is_found(text)]
            if len(found) >= max(MIN_SUSPECT_LINES, share * len(lines)):
                count = round(corpus.sample.scale * len(found))
                about = "about " if corpus.sample.scale > 1 else ""
                places = listed([f"{file}:{line}" for line in found[:3]], len(found))
                text = f"{about}{counted(count, 'line')} of {file} with {of_what}: {places}; {do}"
                yield CorpusFinding(kind=kind, text=text, count=count)


def _sides(corpus: CorpusStatistics) -> tuple[list[str], list[str]]:
    """The sampled sources and targets."""
    pairs = corpus.sample.pairs
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def _has_no_break_space(text: str) -> bool:
    return not text.isascii() and any(space in text for space in NO_BREAK_SPACES)


_CHARACTERS: tuple[tuple[FindingKind, Callable[[str], bool], float, str, str], ...] = (
    (
        "decomposed letters",
        is_decomposed,
        MIN_BROKEN_SHARE,
        "letters and their accents as two characters (Unicode NFD)",
        "compose them (NFC): translations have them composed, and scores count them as other letters",
    ),
    (
        "no-break spaces",
        _has_no_break_space,
        MIN_NO_BREAK_SHARE,
        "no-break spaces",
        "replace them with spaces, unless what you translate has them, too",
    ),
)  # a kind, whether a line has it, the least share of such lines, and what to do
