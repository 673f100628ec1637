"""Problems in a parallel corpus (swapped, misaligned, duplicates), each a sentence with line numbers."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from regard.counted import counted
from regard.data.corpus import Corpus
from regard.data.corpus_statistics import CorpusStatistics
from regard.data.duplicates import pair_digest, text_digest
from regard.data.segmentation import segmentation_of
from regard.verbs.proposals.character_findings import of_case, of_characters
from regard.verbs.proposals.corpus_finding import CorpusFinding, FindingKind, listed, sides_of
from regard.verbs.proposals.language_codes import script_of_name
from regard.verbs.proposals.line_checks import (
    BOTH,
    LineChecks,
    LineProblem,
    Occurrences,
)
from regard.verbs.proposals.pair_languages import Languages

MIN_EQUAL_TARGETS, MIN_EQUAL_SHARE = 20, 0.02  # sources of one target; Tatoeba has 0.0001
MANY_SWAPPED = 0.4  # of the pairs: either order may be the right one
MIN_PAIRS_TO_DISTINGUISH = 500  # with fewer, profiles of languages are not expected to differ


@dataclass
class Overlap:
    """The held-out pairs that are in the training data too, by digests of sources and of pairs."""

    sources: dict[int, list[int]] = field(default_factory=dict)  # digest -> held-out lines
    pairs: dict[int, list[int]] = field(default_factory=dict)
    trained_sources: dict[int, int] = field(default_factory=dict)  # digest -> first training line with it
    trained_pairs: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, corpus: Corpus) -> "Overlap":
        """The digests of a held-out corpus, before any training pair is added."""
        overlap = cls()
        for pair in corpus:
            overlap.sources.setdefault(text_digest(pair.source), []).append(pair.line)
            overlap.pairs.setdefault(pair_digest(pair), []).append(pair.line)
        return overlap

    def add(self, source: int, pair: int, line: int) -> None:
        """Add a training pair by the digests of its source and of both sides, and its line number."""
        if source in self.sources:
            self.trained_sources.setdefault(source, line)
            if pair in self.pairs:
                self.trained_pairs.add(pair)


def findings_of(
    training: CorpusStatistics,
    held_out: Mapping[str, CorpusStatistics],
    overlaps: Mapping[str, Overlap],
    languages: Languages | None,
    checks: LineChecks,
) -> Iterator[CorpusFinding]:
    """All findings, the most serious first; `held_out` and `overlaps` have the same keys.

    `languages` and `checks` are those of the training data.
    """
    corpora = [training, *held_out.values()]
    checked = [checks, *(LineChecks(each, languages) for each in held_out.values())]
    for corpus, each in zip(corpora, checked, strict=True):
        yield from _scripts_of_names(corpus)
        yield from _misaligned(corpus, each)
        of_lines = line_findings(corpus, each.found, corpus.sample.scale)
        yield from of_lines if corpus is training else _of_held_out(corpus, each, of_lines)
        yield from _segmented(corpus)
        yield from of_characters(corpus)
    yield from _one_target(training)
    yield from of_case(training)
    for part, corpus in held_out.items():
        yield from _overlap(training, corpus, overlaps[part])
    if languages is None and training.pairs >= MIN_PAIRS_TO_DISTINGUISH:
        yield CorpusFinding(
            kind="not distinguished",
            text=f"{sides_of(training.files)} are not distinguished by letters, as if each were in both"
            " languages or both in one: pairs with swapped sides were not searched for",
            count=training.pairs,
        )
    yield from _duplicates(training)


def _scripts_of_names(corpus: CorpusStatistics) -> Iterator[CorpusFinding]:
    """Files that are not in the script of the language code in their name."""
    scripts = [side.script.script for side in corpus.characters]
    named = [script_of_name(name) for name in corpus.files]
    if corpus.files[0] == corpus.files[1] or None in named:
        return
    wrong = [i for i in (0, 1) if scripts[i] not in (named[i], "none", "mixed")]
    if len(wrong) == 2 and scripts == named[::-1]:
        yield CorpusFinding(
            kind="swapped",
            text=f"{corpus.files[0]} and {corpus.files[1]} look swapped: they are written in {scripts[0]}"
            f" and {scripts[1]}, which does not fit their names",
            count=corpus.pairs,
        )
        return
    for i in wrong:
        yield CorpusFinding(
            kind="script",
            text=f"{corpus.files[i]} is written in {scripts[i]}; by its name it should be {named[i]}",
            count=corpus.pairs,
        )


def _misaligned(corpus: CorpusStatistics, checks: LineChecks) -> Iterator[CorpusFinding]:
    """Misaligned lines, by their lengths.

    A stretch is skipped if most of its sampled lines have problems: the lengths of the others, which are not
    in the sample, differ for that reason.
    """
    stretch = checks.misalignment
    if stretch is None:
        return
    lines = [pair.line for pair in corpus.sample.pairs if stretch.first <= pair.line <= stretch.last]
    if 2 * sum(line in checks.wrong for line in lines) > len(lines):
        return
    source, target = corpus.files
    if stretch.shift is None and stretch.whole:
        text = f"the line lengths of {source} and {target} are not correlated"
        text += f" ({stretch.correlation:.2f}): the files look misaligned"
    else:
        if stretch.whole:
            where = "everywhere"
        elif stretch.to_the_end:
            where = f"from line {stretch.first:,} on"
        else:
            where = f"from line {stretch.first:,} to {stretch.last:,}"
        what = "the lines do not match"
        if stretch.shift is not None:
            sign = "+" if stretch.shift > 0 else "-"
            what = f"line n of {source} matches line n {sign} {abs(stretch.shift)} of {target}"
        text = f"{source} and {target} look misaligned: {where} {what}, by their lengths"
    yield CorpusFinding(kind="misaligned", text=text, count=stretch.last - stretch.first + 1)


def _of_held_out(
    corpus: CorpusStatistics, checks: LineChecks, of_lines: Iterator[CorpusFinding]
) -> Iterator[CorpusFinding]:
    """Findings of held-out lines; one, if most pairs are swapped by the languages of the training data."""
    found = checks.found.get("swapped")
    if found is None or 2 * len(found.lines) <= len(corpus.sample.pairs):
        yield from (replace(each, problem=None) for each in of_lines)
        return
    yield CorpusFinding(
        kind="swapped",
        text=f"{sides_of(corpus.files)} look swapped: the source is in the language"
        " of the training target, the target in the language of the training source",
        count=round(corpus.sample.scale * len(found.lines)),
    )


_IN_ONE_SIDE: dict[LineProblem, str] = {  # of a problem of a side: that of one side, and that of either
    "language of the other side": "in the language of the {other} side",
    "another language": "in another language than the rest",
    "another script": "not in {script} like the rest",
}
_IN_EITHER_SIDE: dict[LineProblem, str] = {
    "language of the other side": "with a side in the language of the other",
    "another language": "with a side in another language than the rest of its file",
    "another script": "with a side in another script than the rest of its file",
}
_OF_PAIRS: dict[LineProblem, str] = {
    "swapped": "with source and target swapped",
    "broken characters": "with broken characters: UTF-8 that was read as another encoding, such as Ã¼ for ü,"
    " ? or \ufffd for letters, or control characters",
    "HTML entities": "with characters as HTML writes them, such as &amp; for &",
    "HTML tags": "with tags of HTML or XML, such as <b>",
    "target without words": "with words in the source, and none in the target",
    "odd length": "with one side much too long for the other",
    "cut off": "of which one side ends like a sentence and the other after a word, as if it were cut off",
}
_KINDS: dict[LineProblem, FindingKind] = {
    "swapped": "swapped",
    "language of the other side": "language",
    "another language": "another language",
    "another script": "script",
    "broken characters": "broken characters",
    "HTML entities": "HTML entities",
    "HTML tags": "HTML tags",
    "target without words": "target without words",
    "odd length": "odd length",
    "cut off": "cut off",
    "copy": "copies",
}


def line_findings(
    corpus: CorpusStatistics, found: Mapping[LineProblem, Occurrences], scale: float
) -> Iterator[CorpusFinding]:
    """A finding for each problem of single pairs; `found` has one in `scale` pairs of the corpus."""
    for problem, occurrences in found.items():
        count = round(scale * len(occurrences.lines))
        if problem == "copy":
            what = f"{_of(count, corpus.pairs)} are the same on both sides, as if not translated"
        else:
            noun, of_what = _described(problem, occurrences, corpus)
            what = f"{'about ' if scale > 1 else ''}{counted(count, noun)} {of_what}"
        if problem == "swapped" and count > MANY_SWAPPED * corpus.pairs:
            what += ", about as many as are not, which may be the swapped ones"
        places = [
            f"{corpus.files[0 if side == BOTH else side]}:{line}"
            for line, side in zip(occurrences.lines[:3], occurrences.sides, strict=False)
        ]
        yield CorpusFinding(
            kind=_KINDS[problem],
            text=f"{what}: {listed(places, len(occurrences.lines))}",
            count=count,
            problem=problem,
        )


def _described(problem: LineProblem, found: Occurrences, corpus: CorpusStatistics) -> tuple[str, str]:
    """What has a problem, "line" or "pair", and which one it is."""
    if problem in _OF_PAIRS:
        return "pair", _OF_PAIRS[problem]
    if len({*found.sides}) > 1 or BOTH in found.sides:
        return "pair", _IN_EITHER_SIDE[problem]
    side = found.sides[0]
    text = _IN_ONE_SIDE[problem].format(
        other=("target", "source")[side], script=corpus.characters[side].script.script
    )
    return "line", f"of {corpus.files[side]} {text}"


def _one_target(corpus: CorpusStatistics) -> Iterator[CorpusFinding]:
    """A target that many different sources have."""
    pairs, scale = corpus.sample.pairs, corpus.sample.scale
    sources = Counter(target for target, _ in {(pair.target, pair.source) for pair in pairs})
    for target, count in sources.most_common(1):
        if count >= max(MIN_EQUAL_TARGETS, MIN_EQUAL_SHARE * len(pairs)):
            share = _of(round(scale * count), corpus.pairs)
            about = "about " if scale > 1 else ""
            yield CorpusFinding(
                kind="one target",
                text=f"{about}{share} have different sources and one target: {target[:60]!r}",
                count=round(scale * count),
            )


def _segmented(corpus: CorpusStatistics) -> Iterator[CorpusFinding]:
    """Files that another tool has cut into subwords or tokens."""
    pairs = corpus.sample.pairs
    sides = [[pair.source for pair in pairs], [pair.target for pair in pairs]]
    found = [segmentation_of(side) for side in sides]
    for i, (file, segmentation) in enumerate(zip(corpus.files, found, strict=True)):
        if segmentation is None or (i == 1 and segmentation == found[0]):
            continue
        files, verb = (sides_of(corpus.files), "are") if found[0] == found[1] else (file, "is")
        yield CorpusFinding(
            kind="segmented",
            text=f"{files} {verb} {segmentation.done}: {segmentation.instead}",
            count=corpus.pairs,
        )


def _overlap(
    training: CorpusStatistics, held_out: CorpusStatistics, overlap: Overlap
) -> Iterator[CorpusFinding]:
    """Held-out sources that are in the training data too."""
    trained = overlap.trained_sources.items()
    lines = sorted((line, first) for digest, first in trained for line in overlap.sources[digest])
    if not lines:
        return
    pairs = sum(len(overlap.pairs[digest]) for digest in overlap.trained_pairs)
    examples = [f"{held_out.files[0]}:{line} ({training.files[0]}:{first})" for line, first in lines[:3]]
    verb = "is" if len(lines) == 1 else "are"
    with_target = f", {pairs:,} of them with the same target" if pairs else ""
    yield CorpusFinding(
        kind="overlap",
        text=f"{len(lines):,} of {held_out.pairs:,} sources of {held_out.files[0]} {verb}"
        f" in the training data too{with_target}: {listed(examples, len(lines))}",
        count=len(lines),
    )


def _duplicates(corpus: CorpusStatistics) -> Iterator[CorpusFinding]:
    """Pairs that occur several times, and sources that have several targets."""
    duplicates = corpus.duplicates.found()
    about = "" if duplicates.exact else "about "
    if duplicates.pairs:
        places = [f"{corpus.files[0]}:{line} (as line {first})" for line, first in duplicates.examples]
        yield CorpusFinding(
            kind="duplicates",
            text=f"{about}{_of(duplicates.pairs, corpus.pairs)} repeat an earlier pair:"
            f" {listed(places, duplicates.pairs)}",
            count=duplicates.pairs,
        )
    if duplicates.sources:
        yield CorpusFinding(
            kind="several targets",
            text=f"{about}{duplicates.sources:,} {'sources have' if duplicates.sources > 1 else 'source has'}"
            f" several different targets, up to {duplicates.most_targets:,}",
            count=duplicates.sources,
        )


def _of(count: int, total: int) -> str:
    """`count` of all pairs, and its share: "10 of 800 pairs (1.2 %)"."""
    return f"{count:,} of {total:,} pairs ({_percent(count / total)} %)"


def _percent(share: float) -> str:
    """A share in percent, with two digits below 10 %."""
    return f"{100 * share:.2g}" if share < 0.1 else f"{100 * share:.0f}"
