"""Problems in a parallel corpus (swapped, misaligned, duplicates), each a sentence with line numbers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from regard.counted import counted
from regard.data.corpus import Corpus, Pair
from regard.data.corpus_statistics import CorpusStatistics
from regard.data.duplicates import pair_digest, text_digest
from regard.data.language_profile import LanguageProfiles
from regard.data.segmentation import segmentation_of
from regard.verbs.proposals.language_codes import script_of_name
from regard.verbs.proposals.line_checks import (
    MIN_COPIED_SHARE,
    MIN_SCRIPT_SHARE,
    MIN_SUSPECT_LINES,
    MIN_SWAPPED_SHARE,
    MIN_WRONG_SHARE,
    LineChecks,
    has_other_script,
)

FindingKind = Literal[
    "swapped",
    "misaligned",
    "language",
    "script",
    "segmented",
    "broken characters",
    "HTML entities",
    "target without words",
    "odd length",
    "overlap",
    "copies",
    "not distinguished",
    "duplicates",
    "several targets",
]
# Profiles distinguish two languages if these shares of the pairs are clearly in them, in either order, and
# source in the first.
MIN_DISTINGUISHED_SHARE, MIN_IN_ORDER_SHARE = 0.7, 0.1
MIN_PAIRS_TO_DISTINGUISH = 500  # with fewer, profiles of languages are not expected to differ


@dataclass(frozen=True, kw_only=True)
class CorpusFinding:
    """One problem of a corpus; `text` describes it in one sentence."""

    kind: FindingKind
    text: str
    count: int  # of lines or pairs in the corpus; estimated if it is larger than the sample
    lines: tuple[int, ...] = field(default=(), repr=False)  # the sampled lines that have the problem

    @property
    def is_usual(self) -> bool:
        """True for findings that good corpora have too; others look like mistakes."""
        return self.kind in ("not distinguished", "duplicates", "several targets")

    def __str__(self) -> str:
        return self.text


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
    profiles: LanguageProfiles | None,
    checks: LineChecks,
) -> Iterator[CorpusFinding]:
    """All findings, the most serious first; `held_out` and `overlaps` have the same keys.

    `profiles` and `checks` are those of the training data.
    """
    corpora = [training, *held_out.values()]
    for corpus in corpora:
        yield from _scripts_of_names(corpus)
        wrong = list(_wrong_script(corpus))
        if profiles is not None:
            wrong += _wrong_language(corpus, profiles, held_out=corpus is not training)
        yield from _misaligned(corpus, {line for finding in wrong for line in finding.lines})
        yield from wrong
    for corpus in corpora:
        yield from _segmented(corpus)
        yield from _odd_lines(corpus, checks if corpus is training else LineChecks(corpus, profiles))
    for part, corpus in held_out.items():
        yield from _overlap(training, corpus, overlaps[part])
    for corpus in corpora:
        yield from _copies(corpus)
    if profiles is None and training.pairs >= MIN_PAIRS_TO_DISTINGUISH:
        source, target = training.files
        yield CorpusFinding(
            kind="not distinguished",
            text=f"{source} and {target} are not distinguished by letters, as if each were in both languages"
            " or both in one: pairs with swapped sides were not searched for",
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


def _misaligned(corpus: CorpusStatistics, wrong: set[int]) -> Iterator[CorpusFinding]:
    """Misaligned lines, by their lengths.

    A stretch whose lines are for the most part `wrong` (line numbers: in the wrong language or script) is
    skipped: its lengths differ for that reason.
    """
    stretch = corpus.lengths.misalignment()
    if stretch is None:
        return
    lines = [pair.line for pair in corpus.sample.pairs if stretch.first <= pair.line <= stretch.last]
    if 2 * sum(line in wrong for line in lines) > len(lines):
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


def _wrong_language(
    corpus: CorpusStatistics, profiles: LanguageProfiles, *, held_out: bool
) -> Iterator[CorpusFinding]:
    """Lines in the language of the other side, by character trigrams of the training data."""
    pairs = _translated(corpus.sample.pairs)
    sides = [profiles.sides([pair.source for pair in pairs]), profiles.sides([pair.target for pair in pairs])]
    scale = corpus.sample.scale
    both = (sides[0] < 0) & (sides[1] > 0)  # each side is in the other's language
    swapped = [pair for pair, is_swapped in zip(pairs, both, strict=True) if is_swapped]
    if held_out and 2 * len(swapped) > len(pairs):
        yield CorpusFinding(
            kind="swapped",
            text=f"{' and '.join(dict.fromkeys(corpus.files))} look swapped: the source is in the language"
            " of the training target, the target in the language of the training source",
            count=round(scale * len(swapped)),
        )
        return
    if len(swapped) >= max(MIN_SUSPECT_LINES, MIN_SWAPPED_SHARE * len(pairs)):
        yield CorpusFinding(
            kind="swapped",
            text=f"{_count(len(swapped), scale, 'pair')} with source and target swapped:"
            f" {_places(corpus.files[0], [pair.line for pair in swapped])}",
            count=round(scale * len(swapped)),
            lines=tuple(pair.line for pair in swapped),
        )
    for i, (wrong, other) in enumerate(((sides[0] < 0, "target"), (sides[1] > 0, "source"))):
        lines = [pair.line for pair, is_wrong in zip(pairs, wrong & ~both, strict=True) if is_wrong]
        if len(lines) >= max(MIN_SUSPECT_LINES, MIN_WRONG_SHARE * len(pairs)):
            yield CorpusFinding(
                kind="language",
                text=f"{_count(len(lines), scale, 'line')} of {corpus.files[i]} in the language of the"
                f" {other} side: {_places(corpus.files[i], lines)}",
                count=round(scale * len(lines)),
                lines=tuple(lines),
            )


def language_profiles(sample: Sequence[Pair]) -> LanguageProfiles | None:
    """Profiles that distinguish the sides; None if they cannot, as in a task within one language.

    If half of a corpus is swapped, the profiles of its sides are the same; then the first tenth decides.
    """
    pairs = _translated(sample)
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    profiles = LanguageProfiles(sources, targets)
    if _distinguish(profiles, sources, targets):
        return profiles
    first = max(100, len(pairs) // 10)
    by_first = LanguageProfiles(sources[:first], targets[:first])
    swapped = (by_first.sides(sources) < 0) & (by_first.sides(targets) > 0)
    profiles = LanguageProfiles(
        [target if swap else source for source, target, swap in zip(sources, targets, swapped, strict=True)],
        [source if swap else target for source, target, swap in zip(sources, targets, swapped, strict=True)],
    )
    return profiles if _distinguish(profiles, sources, targets) else None


def _distinguish(profiles: LanguageProfiles, sources: Sequence[str], targets: Sequence[str]) -> bool:
    """True if most pairs are clearly in the two languages of the profiles, and some not swapped."""
    sides = profiles.sides(sources), profiles.sides(targets)
    in_order = int(np.count_nonzero((sides[0] > 0) & (sides[1] < 0)))
    swapped = int(np.count_nonzero((sides[0] < 0) & (sides[1] > 0)))
    pairs = len(sources)
    return (
        in_order + swapped >= MIN_DISTINGUISHED_SHARE * max(pairs, 1)
        and in_order > MIN_IN_ORDER_SHARE * pairs
    )


def _translated(pairs: Iterable[Pair]) -> list[Pair]:
    """The pairs whose sides differ; `_copies` counts the others."""
    return [pair for pair in pairs if pair.source != pair.target]


def _wrong_script(corpus: CorpusStatistics) -> Iterator[CorpusFinding]:
    """Lines that are not in the usual script of their side."""
    for i, side in enumerate(corpus.characters):
        usual = side.script
        if usual.share < MIN_SCRIPT_SHARE:
            continue
        lines = [
            pair.line
            for pair in corpus.sample.pairs
            if has_other_script(pair.target if i else pair.source, usual)
        ]
        if len(lines) >= max(MIN_SUSPECT_LINES, MIN_WRONG_SHARE * len(corpus.sample.pairs)):
            yield CorpusFinding(
                kind="script",
                text=f"{_count(len(lines), corpus.sample.scale, 'line')} of {corpus.files[i]} not in"
                f" {usual.script} like the rest: {_places(corpus.files[i], lines)}",
                count=round(corpus.sample.scale * len(lines)),
                lines=tuple(lines),
            )


OddLines = Literal["broken characters", "HTML entities", "target without words", "odd length"]
ODD_LINES: dict[OddLines, str] = {
    "broken characters": "with broken characters, such as Ã¼ for ü: UTF-8 that was read as another encoding",
    "HTML entities": "with characters as HTML writes them, such as &amp; for &",
    "target without words": "with words in the source, and none in the target",
    "odd length": "with one side much too long for the other",
}


def _odd_lines(corpus: CorpusStatistics, checks: LineChecks) -> Iterator[CorpusFinding]:
    """Pairs whose characters or lengths are wrong."""
    for kind, what in ODD_LINES.items():
        if lines := checks.found.get(kind):
            yield CorpusFinding(
                kind=kind,
                text=f"{_count(len(lines), corpus.sample.scale, 'pair')} {what}:"
                f" {_places(corpus.files[0], lines)}",
                count=round(corpus.sample.scale * len(lines)),
                lines=tuple(lines),
            )


def _segmented(corpus: CorpusStatistics) -> Iterator[CorpusFinding]:
    """Files that another tool has cut into subwords or tokens."""
    pairs = corpus.sample.pairs
    sides = [[pair.source for pair in pairs], [pair.target for pair in pairs]]
    found = [segmentation_of(side) for side in sides]
    for i, (file, segmentation) in enumerate(zip(corpus.files, found, strict=True)):
        if segmentation is None or (i == 1 and segmentation == found[0]):
            continue
        files, verb = (
            (" and ".join(dict.fromkeys(corpus.files)), "are") if found[0] == found[1] else (file, "is")
        )
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
        f" in the training data too{with_target}: {_listed(examples, len(lines))}",
        count=len(lines),
    )


def _copies(corpus: CorpusStatistics) -> Iterator[CorpusFinding]:
    """Pairs whose sides are the same."""
    if corpus.copies >= max(MIN_SUSPECT_LINES, MIN_COPIED_SHARE * corpus.pairs):
        yield CorpusFinding(
            kind="copies",
            text=f"{_of(corpus.copies, corpus.pairs)} are the same on both sides, as if not translated:"
            f" {_places(corpus.files[1], corpus.copied_lines, corpus.copies)}",
            count=corpus.copies,
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
            f" {_listed(places, duplicates.pairs)}",
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


def _count(sampled: int, scale: float, noun: str) -> str:
    """The estimated number of lines or pairs in a corpus, from that in its sample: "about 40 lines"."""
    count = round(sampled * scale)
    return f"{'about ' if scale > 1 else ''}{counted(count, noun)}"


def _places(file: str, lines: Sequence[int], count: int | None = None) -> str:
    """The first three of `lines`, with an ellipsis if there are more of these or `count` is larger."""
    return _listed([f"{file}:{line}" for line in lines[:3]], len(lines) if count is None else count)


def _listed(places: Sequence[str], count: int) -> str:
    """Examples of `count` places, with an ellipsis if these are not all."""
    return ", ".join(places) + (", ..." if count > len(places) else "")
