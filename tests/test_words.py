"""Code and pages use the field's words, not words of our own that a new reader would have to ask about.

`HOUSE_WORDS` lists words of our own, each with the word to use instead; `AREAS` says which files are checked,
and which part of each file is prose. In code everything is: names, docstrings, comments and messages.
"""

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STATIC = ROOT / "src/regard/page/static"

Prose = Iterator[tuple[int, str]]  # numbers of lines, and what is prose in them


@dataclass(frozen=True, kw_only=True)
class HouseWord:
    pattern: str  # a regular expression that leaves ordinary English alone
    example: str  # a text that it finds
    better: str  # the field's word

    def found(self, text: str) -> str | None:
        match = re.search(self.pattern, text, re.IGNORECASE)
        return match and match[0]


def word(pattern: str, example: str, better: str) -> HouseWord:
    return HouseWord(pattern=pattern, example=example, better=better)


HOUSE_WORDS = [
    # decoding
    word(r"\bin a\W+straight line\b|\bstraight[_ ]seated\b", "its twin in a straight line", "fused step"),
    word(r"\bseats?\b|\bseated", "rows keep their seats", "slots, SlotCache"),
    word(r"\b(any|in) company\b", "alone and in any company", "alone or in any batch"),
    word(r"\bshort-?lists?\b", "a short-list of the vocabulary", "top-k candidates"),
    word(r"\b(the|other|one|four) marks? (included|are)\b", "four marks included", "special tokens"),
    word(r"\bmakes? a mark\b", "text never makes a mark", "special tokens"),
    word(r"\blinear maps?\b|\bmaps multiply\b|\bnext map\b", "dropout of linear maps", "linear layers"),
    word(r"\bnumbers of 8 bits\b", "whole numbers of 8 bits", "int8"),
    word(r"\bby turning\b", "positions by turning", "rotary"),
    word(
        r"\bpodiums?\b|\bround steps\b|\bsaid and true\b",
        "the Podium of a search",
        "finished hypotheses, int8, ...",
    ),
    word(r"\bdraws? nothing\b|\bnothing is drawn\b", "a beam draws nothing", "does not sample"),
    word(r"\b(tokens?|samples?|texts?) (is|are) drawn\b", "how a token is drawn", "sampled"),
    word(r"\bdrawn (from|at random|or)\b", "a token is drawn from it", "sampled"),
    word(r"\b(likest|likeliest|likelier)\b", "the likest ones", "most likely, most similar"),
    word(r"\bfines\b", "fines of a hypothesis", "penalties"),
    # what a model or a program puts out
    word(r"\b(is|are|was|were|be|been) said\b", "what is said of a text", "output, reported"),
    word(r"\bmodels? sa(y|ys|id)\b|\bsays? a text\b", "what the model says", "predicts, generates"),
    word(r"\btold\b|\btells of\b", "told with file and line", "reported, printed, named"),
    word(r"\bwho(ever)? (looks at whom|resembles whom)\b", "who looks at whom", "attention pattern"),
    word(r"\bhidden (words?|tokens?)\b", "accuracy of hidden tokens", "masked tokens"),
    # training, data, pretrained models
    word(r"\b(other|another|third) makers?\b|\bforeign\b", "models of other makers", "pretrained"),
    word(r"\bput by\b", "one in ten, put by to validate on", "held out"),
    word(r"\b(goes|going|gone|went) on\b|\bgo on with\b", "a run goes on", "continues, resumes"),
    word(r"\bbefalls?\b", "what befalls a line", "what happens to"),
    word(r"\b(come|comes|came) to (its|their) end\b", "a run that has not come to its end", "finished"),
    word(r"\bleft alone\b", "a run left alone", "uninterrupted"),
    # the code as a house
    word(r"\b(the|this|our) house\b", "no task of this house", "regard"),
    word(r"\b(one|a|each|the|this|every|which) room\b|\brooms\b", "one room", "package, module"),
    word(r"\b(the|each|which|upper) floors?\b|\bfloors of\b", "the floors", "packages"),
    word(r"\blisten(s|ed) to\b|\bnobody listens\b", "who is listened to", "forward hooks"),
    # bookish English
    word(r"\banew\b", "written anew", "again"),
    word(r"\bnought\b", "blue is above nought", "zero"),
    word(r"\b(this|the) very\b(?! (first|last|same))", "the very processor", "this processor"),
    word(r"\b(row|place) to itself\b", "a row to itself", "of its own"),
    word(r"\bstands? (beside|besides|there|up to)\b", "whatever stands beside it", "is next to, is in"),
    word(r"\b(is|are|was|were|first) wanted\b", "when they are first wanted", "needed"),
    word(r"\bwhether it does\b", "Whether it does.", "True if ..."),
    word(r"\b(there|where|here)(of|by|upon|from)\b", "the end thereof", "plain words"),
    word(
        r"\bin the place of\b(?! the norm)|\bin (his|its|their) stead\b",
        "in the place of accuracy",
        "instead of",
    ),
    word(r"\bwhat (it|they|that|was) (gave|seen|asked)\b", "what was asked", "results, measured"),
    word(r"\bis to be (had|looked)\b|\bare to be (had|looked)\b", "the same is to be had", "is available as"),
]

ORDINARY = """
At most 1,000 tokens. The hidden states of a layer, hidden layers, hidden size. Of course there is room for
all of them. A map of the weights is dark. Quotation marks are kept. The random walk on a graph. The table
tells two heads apart. Choose a token to go on. A straight line through the points. A recorded pass. The
company's name. Rotary positions turn pairs of features. The very first update. A figure is drawn for paper.
A tour of the views. It stands out. Charts are redrawn. He said so. An example of its kind.
"""


def markdown(path: Path) -> Prose:
    """The lines without inline code, and without printed output, whose words are those of the program."""
    fenced, opening = False, path.name == "architecture.md"  # whose opening describes the code as a house
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        opening = opening and not line.startswith("## ")
        fenced ^= line.startswith("```")
        if not opening and (fenced or not line.startswith("    ")):
            yield number, re.sub(r"`[^`]*`", "", line)


def whole(path: Path) -> Prose:
    yield from enumerate(path.read_text("utf-8").splitlines(), 1)


def code(path: Path) -> Prose:
    """The lines with their names as words: `rows_seated` and `RowsSeated` are rows seated."""
    for number, line in whole(path):
        yield number, re.sub(r"_|(?<=[a-z])(?=[A-Z])", " ", line)


def visible_texts(path: Path) -> Prose:
    """Of HTML what is outside of tags, of JavaScript the string literals."""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if path.suffix == ".html":
            yield number, re.sub(r"<[^>]*>", "", line)
        else:
            yield number, " ".join(re.findall(r'"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`', line))


AREAS: dict[str, tuple[list[Path], Callable[[Path], Prose]]] = {
    "pages": (
        [
            *(
                ROOT / name
                for name in (
                    "README.md",
                    "CONTRIBUTING.md",
                    "CODE_OF_CONDUCT.md",
                    "SECURITY.md",
                    "CHANGELOG.md",
                )
            ),
            # log.md is history, which stays as it was written
            *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "log.md"),
            *sorted((ROOT / "docs/do").glob("*.md")),
            *sorted((ROOT / "docs/reference").glob("*.md")),
            ROOT / "recipes/README.md",
            ROOT / "benchmarks/README.md",
            *sorted((ROOT / "src/regard/box").glob("*/README.md")),
        ],
        markdown,
    ),
    "recipes": (sorted((ROOT / "recipes").glob("*.toml")), whole),
    "page texts": (sorted([*STATIC.rglob("*.js"), *STATIC.glob("*.html")]), visible_texts),
    "code": (
        [
            path
            for folder in ("src/regard", "benchmarks", "tools", "examples", "tests")
            for suffix in ("py", "c", "h", "js", "css")
            for path in sorted((ROOT / folder).rglob(f"*.{suffix}"))
            if path != Path(__file__)
        ],
        code,
    ),
}
ANY = re.compile("|".join(f"(?:{each.pattern})" for each in HOUSE_WORDS), re.IGNORECASE)


@functools.cache
def any_in(line: str) -> bool:
    """Many lines of code are the same."""
    return ANY.search(line) is not None


ALLOWED = {  # ordinary English in test data
    "They told me. |Tom knew.",
    "Nobody told us that the shop was closed.",
}


@pytest.mark.parametrize("area", AREAS)
def test_files_have_no_house_words(area):
    paths, prose = AREAS[area]
    assert len(paths) > 10
    assert not [
        f"{path.relative_to(ROOT)}:{number}: '{found}': better {each.better}"
        for path in paths
        for number, line in prose(path)
        if any_in(line) and line not in ALLOWED
        for each in HOUSE_WORDS
        if (found := each.found(line))
    ]


def test_each_house_word_is_found_and_ordinary_english_is_not():
    assert not [each.example for each in HOUSE_WORDS if not each.found(each.example)]
    assert not [found for each in HOUSE_WORDS if (found := each.found(ORDINARY))]
