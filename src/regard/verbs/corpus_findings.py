"""What looks wrong in a parallel corpus, each in a plain line with the places where it stands."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from regard.data.corpus import Corpus, Pair
from regard.data.corpus_statistics import CorpusStatistics
from regard.data.duplicates import digest, pair_digest
from regard.data.language_profile import LanguageProfiles
from regard.data.scripts import Script, detect_script
from regard.verbs.language_codes import script_of_name

_NOT_LATIN = re.compile("[^\0-\u024f\u1e00-\u1eff\u2000-\u206f]")  # for speed: most lines have none
Kind = Literal[
    "swapped", "misaligned", "language", "script", "overlap", "copies", "duplicates", "several targets"
]
FEW = 3  # lines: fewer are not told, but for what is said exactly
WRONG = 0.003  # share of lines in the wrong language or script: names and quotations are fewer
SWAPPED = 0.0005  # share of pairs with both sides in the other's language: in a good corpus there are none
COPIED = 0.002  # share of pairs that are the same on both sides
LEAST_LETTERS = 10  # of a line, to say in which script it is


@dataclass(frozen=True, kw_only=True)
class CorpusFinding:
    """One thing that was found; `text` is a line for people."""

    kind: Kind
    text: str
    count: int  # of lines or pairs
    lines: tuple[int, ...] = field(default=(), repr=False)  # of the sample, where it is of single lines

    @property
    def is_note(self) -> bool:
        """True for what good corpora have too; anything else looks like a mistake."""
        return self.kind in ("duplicates", "several targets")

    def __str__(self) -> str:
        return self.text


@dataclass
class Overlap:
    """Which held-out pairs stand in training too, by their sources and by both sides."""

    sources: dict[int, list[int]] = field(default_factory=dict)  # digest -> lines
    pairs: dict[int, list[int]] = field(default_factory=dict)
    seen: dict[int, int] = field(default_factory=dict)  # held-out digest of a source -> line of training
    seen_pairs: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, corpus: Corpus) -> "Overlap":
        overlap = cls()
        for pair in corpus:
            overlap.sources.setdefault(digest(pair.source), []).append(pair.line)
            overlap.pairs.setdefault(pair_digest(pair), []).append(pair.line)
        return overlap

    def see(self, source: int, pair: int, line: int) -> None:
        """A training pair by its digests."""
        if source in self.sources:
            self.seen.setdefault(source, line)
            if pair in self.pairs:
                self.seen_pairs.add(pair)


def findings_of(
    training: CorpusStatistics, held_out: Mapping[str, CorpusStatistics], overlaps: Mapping[str, Overlap]
) -> Iterator[CorpusFinding]:
    """All that was found, the gravest first."""
    readings = [training, *held_out.values()]
    profiles = _profiles(_translated(training.sample.pairs))
    for reading in readings:
        yield from _by_name(reading)
        wrong = list(_scripts(reading))
        if profiles is not None:
            wrong += _other_language(reading, profiles, held_out=reading is not training)
        yield from _misaligned(reading, {line for finding in wrong for line in finding.lines})
        yield from wrong
    for part, reading in held_out.items():
        yield from _overlap(training, reading, overlaps[part])
    for reading in readings:
        yield from _copies(reading)
    yield from _repeats(training)


def _by_name(reading: CorpusStatistics) -> Iterator[CorpusFinding]:
    """Files whose names promise another script."""
    found = [side.script for side in reading.characters]
    named = [script_of_name(name) for name in reading.files]
    if reading.files[0] == reading.files[1] or None in named:
        return
    scripts = [writing.script for writing in found]
    wrong = [i for i in (0, 1) if scripts[i] not in (named[i], "none", "mixed")]
    if len(wrong) == 2 and scripts == named[::-1]:
        yield CorpusFinding(
            kind="swapped",
            text=f"{reading.files[0]} and {reading.files[1]} look swapped: they are written in {scripts[0]}"
            f" and {scripts[1]}, and their names say the opposite",
            count=reading.pairs,
        )
        return
    for i in wrong:
        yield CorpusFinding(
            kind="script",
            text=f"{reading.files[i]} is written in {scripts[i]}; by its name it should be {named[i]}",
            count=reading.pairs,
        )


def _misaligned(reading: CorpusStatistics, wrong: set[int]) -> Iterator[CorpusFinding]:
    """By the lengths of lines, but for a stretch in a wrong language: its lengths are others."""
    found = reading.lengths.misalignment()
    if found is None:
        return
    stretch = [pair.line for pair in reading.sample.pairs if found.first <= pair.line <= found.last]
    if 2 * sum(line in wrong for line in stretch) > len(stretch):
        return
    source, target = reading.files
    if found.shift is None and found.whole:
        text = f"the lines of {source} and {target} have nothing to do with each other by their lengths"
        text += f" (correlation {found.correlation:.2f}): the files look misaligned"
    else:
        place = "everywhere" if found.whole else f"from line {found.first:,} on"
        place = place if found.to_the_end else f"from line {found.first:,} to {found.last:,}"
        fits = "the lines do not go together"
        if found.shift is not None:
            sign = "+" if found.shift > 0 else "-"
            fits = f"line n of {source} goes with line n {sign} {abs(found.shift)} of {target}"
        text = f"{source} and {target} look misaligned: {place} {fits}, by their lengths"
    yield CorpusFinding(kind="misaligned", text=text, count=found.last - found.first + 1)


def _other_language(
    reading: CorpusStatistics, profiles: LanguageProfiles, *, held_out: bool
) -> Iterator[CorpusFinding]:
    """Lines in the language of the other side, told by the trigrams of training."""
    pairs = _translated(reading.sample.pairs)
    sides = [profiles.sides([pair.source for pair in pairs]), profiles.sides([pair.target for pair in pairs])]
    scale = reading.sample.scale
    both = (sides[0] < 0) & (sides[1] > 0)
    swapped = [pair for pair, is_so in zip(pairs, both, strict=True) if is_so]
    if held_out and 2 * len(swapped) > len(pairs):
        yield CorpusFinding(
            kind="swapped",
            text=f"{' and '.join(dict.fromkeys(reading.files))} look swapped: the source is in the language"
            " of the training target, and the target in that of the source",
            count=len(swapped),
        )
        return
    if len(swapped) >= max(FEW, SWAPPED * len(pairs)):
        yield CorpusFinding(
            kind="swapped",
            text=f"{_count(len(swapped), scale, 'pair')} with source and target swapped:"
            f" {_places(reading.files[0], [pair.line for pair in swapped])}",
            count=round(scale * len(swapped)),
            lines=tuple(pair.line for pair in swapped),
        )
    for i, (wrong, other) in enumerate(((sides[0] < 0, "target"), (sides[1] > 0, "source"))):
        lines = [pair.line for pair, is_so in zip(pairs, wrong & ~both, strict=True) if is_so]
        if len(lines) >= max(FEW, WRONG * len(pairs)):
            yield CorpusFinding(
                kind="language",
                text=f"{_count(len(lines), scale, 'line')} of {reading.files[i]} in the language of the"
                f" {other} side: {_places(reading.files[i], lines)}",
                count=round(scale * len(lines)),
                lines=tuple(lines),
            )


def _profiles(pairs: Sequence[Pair]) -> LanguageProfiles | None:
    """Profiles that tell the sides apart; None where nothing does, as in tasks within one language.

    Where half of a corpus is swapped its sides are alike. Then the first tenth says which is which.
    """
    for first in (pairs, pairs[: max(100, len(pairs) // 10)]):
        profiles = _oriented(first, None)
        if first is not pairs:
            profiles = _oriented(pairs, profiles)
        sides = (
            profiles.sides([pair.source for pair in pairs]),
            profiles.sides([pair.target for pair in pairs]),
        )
        in_order = np.count_nonzero((sides[0] > 0) & (sides[1] < 0))
        turned = np.count_nonzero((sides[0] < 0) & (sides[1] > 0))
        if in_order + turned >= 0.7 * max(len(pairs), 1) and in_order > 0.1 * len(pairs):
            return profiles
    return None


def _oriented(pairs: Sequence[Pair], known: LanguageProfiles | None) -> LanguageProfiles:
    """Profiles of `pairs`, those turned round that look swapped to the profiles that are known."""
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if known is not None:
        turned = (known.sides(sources) < 0) & (known.sides(targets) > 0)
        for i in np.flatnonzero(turned):
            sources[i], targets[i] = targets[i], sources[i]
    return LanguageProfiles(sources, targets)


def _translated(pairs: Iterable[Pair]) -> list[Pair]:
    """Those whose sides differ: what is the same on both is told elsewhere."""
    return [pair for pair in pairs if pair.source != pair.target]


def _scripts(reading: CorpusStatistics) -> Iterator[CorpusFinding]:
    """Lines that are not in the script of their side."""
    for i, side in enumerate(reading.characters):
        usual = side.script
        if usual.share < 0.8:
            continue
        lines = [
            pair.line for pair in reading.sample.pairs if _is_other(pair.target if i else pair.source, usual)
        ]
        if len(lines) >= max(FEW, WRONG * len(reading.sample.pairs)):
            yield CorpusFinding(
                kind="script",
                text=f"{_count(len(lines), reading.sample.scale, 'line')} of {reading.files[i]} not in"
                f" {usual.script} as the others: {_places(reading.files[i], lines)}",
                count=round(reading.sample.scale * len(lines)),
                lines=tuple(lines),
            )


def _is_other(text: str, usual: Script) -> bool:
    if usual.script == "Latin" and not _NOT_LATIN.search(text):
        return False
    found = detect_script([text])
    if {found.script, usual.script} <= {"Japanese", "Han"} or found.script == "mixed":
        return False  # a line of Japanese may be without kana
    return found.script != usual.script and sum(map(str.isalpha, text)) >= LEAST_LETTERS


def _overlap(
    training: CorpusStatistics, held_out: CorpusStatistics, overlap: Overlap
) -> Iterator[CorpusFinding]:
    lines = sorted((line, first) for key, first in overlap.seen.items() for line in overlap.sources[key])
    if not lines:
        return
    pairs = sum(len(overlap.pairs[key]) for key in overlap.seen_pairs)
    examples = [f"{held_out.files[0]}:{line} ({training.files[0]}:{first})" for line, first in lines[:3]]
    one = len(lines) == 1
    with_target = f", {pairs:,} of them with the same target" if pairs else ""
    yield CorpusFinding(
        kind="overlap",
        text=f"{len(lines):,} of {held_out.pairs:,} sources of {held_out.files[0]} {'is' if one else 'are'}"
        f" trained on too{with_target}: {_listed(examples, len(lines))}",
        count=len(lines),
    )


def _copies(reading: CorpusStatistics) -> Iterator[CorpusFinding]:
    if reading.copies >= max(FEW, COPIED * reading.pairs):
        yield CorpusFinding(
            kind="copies",
            text=f"{_of(reading.copies, reading.pairs)} are the same on both sides, as if not translated:"
            f" {_places(reading.files[1], reading.copied_lines, reading.copies)}",
            count=reading.copies,
        )


def _repeats(reading: CorpusStatistics) -> Iterator[CorpusFinding]:
    found = reading.repeats.found()
    about = "" if found.exact else "about "
    if found.pairs:
        places = [f"{reading.files[0]}:{line} (as line {first})" for line, first in found.examples]
        yield CorpusFinding(
            kind="duplicates",
            text=f"{about}{_of(found.pairs, reading.pairs)} repeat an earlier pair:"
            f" {_listed(places, found.pairs)}",
            count=found.pairs,
        )
    if found.sources:
        yield CorpusFinding(
            kind="several targets",
            text=f"{about}{found.sources:,} {'sources have' if found.sources > 1 else 'source has'} several"
            f" different targets, up to {found.most_targets:,}",
            count=found.sources,
        )


def _of(count: int, total: int) -> str:
    return f"{count:,} of {total:,} pairs ({100 * count / total:.2g} %)"


def _count(found: int, scale: float, what: str) -> str:
    count = round(found * scale)
    return f"{'about ' if scale > 1 else ''}{count:,} {what}{'s' if count != 1 else ''}"


def _places(file: str, lines: Sequence[int], count: int | None = None) -> str:
    return _listed([f"{file}:{line}" for line in lines[:3]], len(lines) if count is None else count)


def _listed(places: Sequence[str], count: int) -> str:
    return ", ".join(places) + (", ..." if count > len(places) else "")
