"""The included model by its figures: BLEU, names and numbers copied, loops, capitals.

    python tests/long/box_check.py [MODEL]

Takes the included model, or another folder, with its own decoding settings. Prints a line for each figure
with what it shall reach, and twenty everyday sentences; fails where one is not reached. Multi30k's captions
and newstest2014 are not of the kind that it is trained on: short everyday sentences.
"""

import platform
import random
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from benchmarks.common.checks import Record
from regard.data.catalogue import find_file
from regard.data.files import read_lines
from regard.evaluation.translation import corpus_scores
from regard.verbs.translate import Translator

MADE = Path(__file__).with_name("box_sentences.tsv")  # kind, sentence, then what its translation must hold
EVERYDAY = """Good morning, how are you today?
hi
My name is Anna.
12 apples for $3.75
allergy
Where is the nearest train station?
Could I have the bill, please?
I would like two coffees and a piece of cake.
What time does the supermarket close?
Thank you very much for your help.
I don't feel well today.
Is there a pharmacy near here?
The meeting has been moved to Thursday at 10:30.
Can you recommend a good restaurant?
My flight was cancelled.
HOW MUCH DOES THIS COST?
she said that she would call me tomorrow
I have lost my keys. Can you help me?
We have been waiting for half an hour.
See you next week!""".splitlines()
WORDS = 2000
SHOWN = 20  # of what went wrong
SAME_THRICE = re.compile(r"(\S.{1,20}?)(?:[\s,.-]*\1){2,}")
SAME_WORD = re.compile(r"\b(\w+)[ ,]+\1\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measured number beside the one that it shall reach."""

    name: str
    value: float
    bound: float
    at_most: bool = False
    note: str = ""

    @property
    def reached(self) -> bool:
        return self.value <= self.bound if self.at_most else self.value >= self.bound

    def __str__(self) -> str:
        aim = f"{'at most' if self.at_most else 'at least'} {self.bound:g}"
        return f"{self.name}: {self.value:.2f} ({aim}{'' if self.reached else ': not reached'}) {self.note}"


def main() -> int:
    translator = Translator(sys.argv[1] if sys.argv[1:] else None, device="cpu")
    print(f"{translator.loaded.path}, torch {torch.__version__}")
    print(f"{processor()}, {torch.get_num_threads()} thread(s)")
    begin, missed = time.perf_counter(), 0
    record = Record("box-check", full=not sys.argv[1:])
    for figure in figures(translator):
        record(figure.name, {"value": figure.value, "bound": figure.bound, "note": figure.note})
        missed += not figure.reached
        print(figure, flush=True)
    for source, target in zip(EVERYDAY, translated(translator, EVERYDAY), strict=True):
        print(f"  {source}  ->  {target}")
    print(f"{time.perf_counter() - begin:.0f} s")
    return 1 if missed else 0


def figures(translator: Translator) -> Iterator[Figure]:
    tatoeba = sides("tatoeba_en_de:test")
    plain = bleu(translator, "Tatoeba test, BLEU", 42, *tatoeba)
    yield plain
    yield bleu(translator, "test_2016_flickr, BLEU", 25, *sides("multi30k:test_2016_flickr"))
    yield bleu(translator, "newstest2014, BLEU", 8, *sides("newstest_en_de:newstest2014"))
    yield from copied(translator)
    yield loops(translator)
    for name, change in (("capitals", str.upper), ("lower case", str.lower)):
        changed = bleu(translator, name, 0, [change(line) for line in tatoeba[0]], tatoeba[1])
        note = f"(BLEU {changed.value:.2f} on the Tatoeba test's sources in {name})"
        yield Figure(
            name=f"{name}, BLEU lost", value=plain.value - changed.value, bound=3, at_most=True, note=note
        )


def sides(name: str) -> tuple[list[str], list[str]]:
    english, german = (list(read_lines(find_file(f"{name}.{side}"))) for side in ("en", "de"))
    return english, german


def translated(translator: Translator, lines: list[str]) -> list[str]:
    return [each.text for each in translator(lines)]


def bleu(translator: Translator, name: str, bound: float, lines: list[str], reference: list[str]) -> Figure:
    (score,) = corpus_scores(translated(translator, lines), [reference], metrics=["bleu"])
    note = f"[{score.low:.2f}, {score.high:.2f}] {len(lines):,} lines, {score.signature}"
    return Figure(name=name, value=score.value, bound=bound, note=note)


def copied(translator: Translator) -> Iterator[Figure]:
    """Names, numbers, addresses and times that come out as they went in, or as German writes them."""
    rows = [line.split("\t") for line in MADE.read_text("utf-8").splitlines()]
    outputs = translated(translator, [row[1] for row in rows])
    right = [holds(output, row[2:]) for output, row in zip(outputs, rows, strict=True)]
    wrong = [(row[1], output) for row, output, fine in zip(rows, outputs, right, strict=True) if not fine]
    for source, output in wrong[:SHOWN]:
        print(f"  not copied: {source}  ->  {output}")
    shares = []
    for kind in dict.fromkeys(row[0] for row in rows):
        of_kind = [fine for fine, row in zip(right, rows, strict=True) if row[0] == kind]
        shares.append(f"{kind} {sum(of_kind)}/{len(of_kind)}")
    yield Figure(
        name="made sentences copied right, %", value=100 * sum(right) / len(right), bound=95,
        note=", ".join(shares),
    )  # fmt: skip


def holds(output: str, wanted: list[str]) -> bool:
    """True if `output` has each of `wanted` as a whole; "|" stands between ways to write the same."""
    return all(
        any(re.search(rf"(?<!\w){re.escape(way)}s?(?!\w)", output) for way in ways.split("|"))
        for ways in wanted
    )


def loops(translator: Translator) -> Figure:
    """Single words of Tatoeba's English whose translation repeats itself or is far too long."""
    english = " ".join(sides("tatoeba_en_de:test")[0] + sides("tatoeba_en_de:valid")[0])
    english += " ".join(read_lines(find_file("tatoeba_en_de:train.en.gz")))
    words = sorted({word.lower() for word in re.findall(r"[A-Za-z]{2,}", english)})
    words = random.Random(1).sample(words, WORDS)
    looped = [pair for pair in zip(words, translated(translator, words), strict=True) if is_loop(*pair)]
    for word, output in looped[:SHOWN]:
        print(f"  loop: {word}  ->  {output}")
    return Figure(name=f"loops on {WORDS:,} single words", value=len(looped), bound=0, at_most=True)


def is_loop(word: str, output: str) -> bool:
    """True if something stands three times in a row, a word twice, or much more than a word can mean."""
    long = len(output) > 3 * len(word) + 15 or len(output.split()) > 5
    return bool(long or SAME_THRICE.search(output) or SAME_WORD.search(output))


def processor() -> str:
    try:
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main())
