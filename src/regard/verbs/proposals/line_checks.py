"""Problems of single pairs: language, script, broken characters, tags, no words, odd lengths, copies."""

import itertools
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from regard.data.corpus import Pair
from regard.data.corpus_statistics import CorpusStatistics
from regard.data.scripts import Script, detect_script
from regard.verbs.proposals.lost_letters import LostLetters, has_lost_letters, without_addresses
from regard.verbs.proposals.pair_languages import Languages

LineProblem = Literal[
    "swapped",
    "language of the other side",
    "another language",
    "another script",
    "broken characters",
    "HTML entities",
    "HTML tags",
    "target without words",
    "odd length",
    "cut off",
    "copy",
]
MIN_SUSPECT_LINES = 3  # of a problem, which also needs one of these shares of the pairs:
MIN_WRONG_SHARE = 0.003  # lines in the wrong language or script, odd lengths; names are fewer
MIN_THIRD_SHARE = 0.0005  # lines in a third language; a good corpus has hardly any
MIN_SWAPPED_SHARE = 0.0005  # pairs with each side in the other's language; a good corpus has none
MIN_BROKEN_SHARE = 0.0005  # broken characters, entities, targets without words; a good corpus has hardly any
MIN_CUT_SHARE = 0.005  # short sides that do not end like a sentence, as the others do; captions have 0.001
SHORT_FACTOR = 1.4  # by which they are shorter than usual: captions without a full stop are not
LEAST_ENDED = 0.5  # of the pairs end like a sentence on both sides, for others to be cut off
MIN_COPIED_SHARE = 0.002  # pairs whose sides are the same
SHARES: dict[LineProblem, float] = {
    "swapped": MIN_SWAPPED_SHARE,
    "language of the other side": MIN_WRONG_SHARE,
    "another language": MIN_THIRD_SHARE,
    "another script": MIN_WRONG_SHARE,
    "broken characters": MIN_BROKEN_SHARE,
    "HTML entities": MIN_BROKEN_SHARE,
    "HTML tags": MIN_BROKEN_SHARE,
    "target without words": MIN_BROKEN_SHARE,
    "odd length": MIN_WRONG_SHARE,
    "cut off": MIN_CUT_SHARE,
    "copy": MIN_COPIED_SHARE,
}
REPLACEMENT = "\ufffd"  # what a program writes for bytes that are no text; no text has one of its own
MIN_LETTERS = 10  # of a line, to determine its script
MIN_SCRIPT_SHARE = 0.8  # of a side's letters in its usual script, for others to be wrong
MIN_COPY_LETTERS = 12  # identical sides with fewer letters may be a name
ADDED_CHARACTERS = 10  # to each length, since the ratios of short lines vary most
MIN_LONGER = 40  # characters of the longer side of a pair of odd length
LEAST_FACTOR = 3.0  # between its ratio of lengths and the usual one
SPREADS = 6.0  # and so many standard deviations, by the median deviation

# Characters outside the Latin blocks and general punctuation: a line without them needs no detection.
_NOT_LATIN = re.compile("[^\0-\u024f\u1e00-\u1eff\u2000-\u206f]")
# UTF-8 that was read as Latin-1 or Windows-1252: "Ã¼" and "ÃŸ" for "ü" and "ß", "â€œ" for a quotation mark,
# "Ð¿Ñ€" for "пр". Windows-1252 has letters, and punctuation, in place of the bytes 80 to 9F. Punctuation may
# also follow a capital word ("MANHÃ”" ends a quotation in Portuguese), so this is not counted.
_MOJIBAKE = re.compile(
    "[\u00c2\u00c3][\u0080-\u00bf]|\u00c3[ƒŠŒŽšœžŸ]|\u00c3[€‚„…†‡ˆ‰‹‘’“”•–—˜™›](?=[^\\W\\d_])"
    "|(?<![^\\W\\d_])\u00c3[€‚„…†‡ˆ‰‹‘’“”•–—˜™›]|\u00e2[\u20ac\u0080]|\u00e2[‚„†ˆ][\u00a0-\u00bf€-™]"
    "|(?:[\u00d0\u00d1][^\0-\x7f]){3}"
)
_ENTITY = re.compile(
    r"&(?:amp|quot|apos|lt|gt|nbsp|#\d{2,6}|#x[0-9a-fA-F]{2,5}|[A-Za-z](?:uml|acute|grave|circ));"
)
_TAG = re.compile(r"</?[a-zA-Z][\w-]*(?:\s[^<>]*)?/?>")
# of them those of 80 to 9F are what Latin-1 makes of punctuation in Windows-1252
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f]")
_END = re.compile(r"[.?!…。！？।؟]\W*\Z")


@dataclass(frozen=True)
class LengthRatios:
    """The usual ratio of the lengths of a pair: the median of its logarithm, and the largest deviation."""

    median: float
    most: float

    @classmethod
    def of(cls, pairs: Iterable[Pair]) -> "LengthRatios":
        """The ratios of some pairs."""
        ratios = np.array([_log_ratio(pair) for pair in pairs] or [0.0])
        median = float(np.median(ratios))
        spread = 1.4826 * float(np.median(np.abs(ratios - median)))
        return cls(median, max(math.log(LEAST_FACTOR), SPREADS * spread))

    def is_odd(self, pair: Pair) -> bool:
        """True if one side is much too long for the other."""
        is_long = max(len(pair.source), len(pair.target)) >= MIN_LONGER
        return is_long and abs(_log_ratio(pair) - self.median) > self.most

    def is_short(self, pair: Pair, side: int | None) -> bool:
        """True if this side is short for the other one; False for None."""
        longer = _log_ratio(pair) - self.median
        return side is not None and (longer if side else -longer) < -math.log(SHORT_FACTOR)


def _log_ratio(pair: Pair) -> float:
    return math.log((len(pair.target) + ADDED_CHARACTERS) / (len(pair.source) + ADDED_CHARACTERS))


BOTH = 2  # sides


@dataclass
class Occurrences:
    """The pairs that have a problem.

    Attributes:
        lines: their line numbers.
        sides: of each the side that has the problem, 0 or 1; BOTH; 0 for a problem of the pair as a whole.
    """

    lines: list[int] = field(default_factory=list)
    sides: list[int] = field(default_factory=list)

    def add(self, line: int, side: int) -> None:
        """Adds a pair."""
        self.lines.append(line)
        self.sides.append(side)


class LineChecks:
    """The problems that so many pairs of a corpus have that they look like mistakes.

    Attributes:
        found: the sampled pairs with each of these problems.
        misalignment: that of the lines without problems. With one, odd lengths are no problem of pairs.
        wrong: the sampled lines that have any problem, however few they are.
    """

    def __init__(self, corpus: CorpusStatistics, languages: Languages | None) -> None:
        self._scripts = [
            each.script if each.script.share >= MIN_SCRIPT_SHARE else None for each in corpus.characters
        ]
        pairs = corpus.sample.pairs
        self._languages, self._ratios = languages, LengthRatios.of(pairs)
        self._lost = [LostLetters(pair.source for pair in pairs), LostLetters(pair.target for pair in pairs)]
        ended = sum(_is_ended(pair.source) and _is_ended(pair.target) for pair in pairs)
        self._are_ended = ended >= LEAST_ENDED * max(len(pairs), 1)
        found: dict[LineProblem, Occurrences] = {}
        for pair, problems in zip(pairs, self._problems(pairs), strict=True):
            for problem, side in problems.items():
                found.setdefault(problem, Occurrences()).add(pair.line, side)
        self.wrong = {line for each in found.values() for line in each.lines}
        good = [pair.line for pair in pairs if pair.line not in self.wrong]
        self.misalignment = corpus.lengths.misalignment(self.wrong, good)
        if self.misalignment is not None:
            found.pop("odd length", None)
        sure = any(REPLACEMENT in pair.source or REPLACEMENT in pair.target for pair in pairs)
        least = {problem: max(MIN_SUSPECT_LINES, share * len(pairs)) for problem, share in SHARES.items()}
        least["broken characters"] *= not sure
        self.found: dict[LineProblem, Occurrences] = {
            problem: found[problem]
            for problem, count in least.items()
            if problem in found and len(found[problem].lines) >= count
        }

    def problems(self, pairs: Sequence[Pair]) -> Iterator[dict[LineProblem, int]]:
        """Those of each pair among the problems that were found, and the side that has each."""
        if not self.found:
            return itertools.repeat({}, len(pairs))
        return (
            {problem: side for problem, side in problems.items() if problem in self.found}
            for problems in self._problems(pairs)
        )

    def _problems(self, pairs: Sequence[Pair]) -> Iterator[dict[LineProblem, int]]:
        languages = itertools.repeat([]) if self._languages is None else self._languages.problems(pairs)
        for pair, of_languages in zip(pairs, languages, strict=False):
            found: dict[LineProblem, int] = {}
            if pair.source != pair.target:
                for problem, side in of_languages:
                    found[problem] = BOTH if problem in found else side
            elif sum(map(str.isalpha, pair.source)) >= MIN_COPY_LETTERS:
                found["copy"] = 1
            for side, text in enumerate((pair.source, pair.target)):
                script = self._scripts[side]
                if script is not None and has_other_script(text, script):
                    found["another script"] = BOTH if "another script" in found else side
                    found.pop("another language", None)
            for problem in problems_of_text(pair):
                found[problem] = 0
            if pair.source in self._lost[0] or pair.target in self._lost[1]:
                found["broken characters"] = 0
            if self._ratios.is_odd(pair):
                found["odd length"] = 0
            if self._are_ended and self._ratios.is_short(pair, _cut_side(pair)):
                found["cut off"] = 0
            yield found


def problems_of_text(pair: Pair) -> Iterator[LineProblem]:
    """What is wrong with the characters of a pair, whatever the rest of its corpus is."""
    if is_broken(pair.source) or is_broken(pair.target):
        yield "broken characters"
    if has_entities(pair.source) or has_entities(pair.target):
        yield "HTML entities"
    if has_tags(pair.source) or has_tags(pair.target):
        yield "HTML tags"
    if (
        not any(map(str.isalpha, without_addresses(pair.target)))
        and sum(map(str.isalpha, without_addresses(pair.source))) >= MIN_LETTERS
    ):
        yield "target without words"


def is_broken(text: str) -> bool:
    """True for a line with misread UTF-8, control characters, or marks in place of letters."""
    if has_lost_letters(text):
        return True
    if text.isascii():
        return not text.isprintable() and _CONTROL.search(text) is not None
    return REPLACEMENT in text or _MOJIBAKE.search(text) is not None or _CONTROL.search(text) is not None


def is_decomposed(text: str) -> bool:
    """True for a line with a letter and its accent as two characters where Unicode has one for both."""
    return not text.isascii() and len(unicodedata.normalize("NFC", text)) < len(text)


def has_entities(text: str) -> bool:
    """True for a line with characters as HTML writes them, such as `&amp;`."""
    return "&" in text and _ENTITY.search(text) is not None


def has_tags(text: str) -> bool:
    """True for a line with tags of HTML or XML, such as `<b>`."""
    return "<" in text and _TAG.search(text) is not None


def _cut_side(pair: Pair) -> int | None:
    """The side that ends with a letter where the other ends like a sentence; None if there is none."""
    sides = pair.source.rstrip(), pair.target.rstrip()
    ended = [_is_ended(text) for text in sides]
    return ended[0] if ended[0] != ended[1] and sides[ended[0]][-1:].isalpha() else None


def _is_ended(text: str) -> bool:
    return _END.search(text) is not None


def has_other_script(text: str, usual: Script) -> bool:
    """True if a line is long enough to determine its script, and that is not the usual one."""
    if usual.script == "Latin" and not _NOT_LATIN.search(text):
        return False
    script = detect_script([text]).script
    if {script, usual.script} <= {"Japanese", "Han"} or script == "mixed":
        return False  # a line of Japanese may have no kana
    return script != usual.script and sum(map(str.isalpha, text)) >= MIN_LETTERS
