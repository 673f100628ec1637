"""Makes the training corpus of the included model: Tatoeba's training pairs, varied, and made sentences.

.venv/bin/python -m tools.box_corpus runs/box-corpus-1 --stage 1

Everything comes from Tatoeba's training part (CC BY 2.0) and from the texts beside this file, which were
written for it. The same command gives the same two files, train.en and train.de. Each pass goes through all
pairs of Tatoeba: most stay as they are, of some the names, cities and numbers are exchanged, the source is
in capitals or lower case, its punctuation differs, or several stand in a line. Then come sentences made of
templates, made captions, and a dictionary that is aligned out of the pairs themselves. The second stage has
more names and numbers to copy, the third names that are made of parts of any words, the fourth also of any
pieces of the vocabulary, beside more ordinary pairs; in the fifth many lines hold several of them.
"""

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.data.catalogue import find_file
from regard.data.files import read_lines
from regard.verbs.shared.included_models import included_model
from tools.box_corpus.captions import Captions
from tools.box_corpus.dictionary import aligned_dictionary
from tools.box_corpus.names import Names
from tools.box_corpus.pairs import Pair
from tools.box_corpus.templates import Templates
from tools.box_corpus.variation import Variation

ODD = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u00ad": None, "\u200b": None})
LONG = 11  # words; pairs of so many stand twice in every second pass, for most of Tatoeba is short


def cleaned(source: str, target: str) -> Pair:
    """The pair with plain spaces, and with German quotation marks on the German side."""
    source, target = source.translate(ODD).strip(), target.translate(ODD).strip()
    if target.count('"') == 2:
        target = re.sub(r'"([^"]*)"', r"„\1“", target)
    return source, target


def one_pass(
    pairs: list[Pair], varied: Variation, draw: random.Random, number: int, grouped: float = 0.06
) -> Iterator[Pair]:
    """Each pair once, alone or in a line with others; long ones twice in odd-numbered passes."""
    order = [pair for pair in pairs for _ in range(1 + (number % 2 and pair[0].count(" ") + 1 >= LONG))]
    draw.shuffle(order)
    at = 0
    while at < len(order):
        together = 1 if draw.random() > grouped else draw.choice((2, 2, 2, 3, 3, 4))
        group = [varied.exchanged(pair) for pair in order[at : at + together]]
        yield varied.written(
            (" ".join(source for source, _ in group), " ".join(target for _, target in group))
        )
        at += together


def beside(one: Pair, other: Pair, draw: random.Random) -> Pair:
    """Two pairs in a line, in either order."""
    first, second = (one, other) if draw.random() < 0.5 else (other, one)
    return f"{first[0]} {second[0]}", f"{first[1]} {second[1]}"


def word_in_a_form(pair: Pair, draw: random.Random) -> Pair:
    """A word of the dictionary as people type it."""
    source, target = pair
    chance = draw.random()
    if chance < 0.5:
        return source, target
    capital = source[:1].upper() + source[1:], target[:1].upper() + target[1:]
    if chance < 0.7:
        return capital
    if chance < 0.85:
        return f"{capital[0]}.", f"{capital[1]}."
    return (source.upper(), target) if chance < 0.95 else (f"{source}?", f"{target}?")


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The training data of a stage; `templates` and `captions` are numbers of sentences in each pass."""

    seed: int
    passes: int
    templates: int
    captions: int
    files: tuple[str, ...] = ("templates.txt",)
    exchanged: float = 0.4  # share of persons who get another name
    capitals: float = 0.07  # share of sources in capitals
    joined: float = 0.0  # share of templates that stand in a line with a pair of Tatoeba
    made: float = 0.35  # share of invented names
    spliced: float = 0.0  # share of those that are made of parts of Tatoeba's own words
    pieces: bool = False  # half of them of pieces of the vocabulary of the included model instead
    dictionaries: int = 1  # times the dictionary in each pass
    grouped: float = 0.06  # share of lines that hold several pairs of Tatoeba


STAGES = {
    1: Stage(seed=1, passes=4, templates=8000, captions=6000),
    2: Stage(
        seed=2,
        passes=3,
        templates=24000,
        captions=6000,
        files=("templates.txt", "more_templates.txt"),
        exchanged=0.8,
        capitals=0.02,
        joined=0.35,
    ),
    3: Stage(
        seed=3,
        passes=1,
        templates=90000,
        captions=6000,
        files=("templates.txt", "more_templates.txt", "copied_templates.txt"),
        exchanged=0.9,
        capitals=0.03,
        joined=0.2,
        made=0.7,
        spliced=0.75,
    ),
    4: Stage(
        seed=4,
        passes=2,
        templates=60000,
        captions=9000,
        files=("templates.txt", "more_templates.txt", "copied_templates.txt"),
        exchanged=0.85,
        capitals=0.04,
        joined=0.2,
        made=0.7,
        spliced=0.75,
        pieces=True,
        dictionaries=3,
    ),
    5: Stage(
        seed=5,
        passes=2,
        templates=60000,
        captions=9000,
        files=("templates.txt", "more_templates.txt", "copied_templates.txt"),
        exchanged=0.85,
        capitals=0.04,
        joined=0.2,
        made=0.7,
        spliced=0.75,
        pieces=True,
        dictionaries=3,
        grouped=0.3,
    ),
}


def make_corpus(pairs: list[Pair], out: Path, stage: Stage) -> Counter[str]:
    """Write train.en and train.de into `out`; how many lines and German words of each kind there are."""
    draw = random.Random(stage.seed)
    names = Names.load(
        draw,
        share_made=stage.made,
        share_spliced=stage.spliced,
        **(_words(pairs) if stage.spliced else {}),
        **(_pieces() if stage.pieces else {}),
    )
    varied = Variation(names, draw, exchanged=stage.exchanged, capitals=stage.capitals)
    sentences, pictures = Templates.load(names, draw, stage.files), Captions.load(draw)
    dictionary = aligned_dictionary(pairs)
    out.mkdir(parents=True, exist_ok=True)
    count = Counter[str]()
    with (
        (out / "train.en").open("w", encoding="utf-8", newline="\n") as sources,
        (out / "train.de").open("w", encoding="utf-8", newline="\n") as targets,
    ):

        def write(kind: str, pair: Pair) -> None:
            sources.write(f"{pair[0]}\n")
            targets.write(f"{pair[1]}\n")
            count[f"{kind}, lines"] += 1
            count[f"{kind}, words"] += pair[1].count(" ") + 1

        for number in range(stage.passes):
            for pair in one_pass(pairs, varied, draw, number, stage.grouped):
                write("Tatoeba", pair)
            for _ in range(stage.templates):
                made = sentences.pair()
                if stage.joined and draw.random() < stage.joined:
                    made = beside(made, draw.choice(pairs), draw)
                write("templates", varied.written(made))
            for _ in range(stage.captions):
                write("captions", varied.written(pictures.pair()))
            for pair in dictionary * stage.dictionaries:
                write("dictionary", word_in_a_form(pair, draw))
    return count


def _words(pairs: list[Pair]) -> dict[str, tuple[str, ...]]:
    """English words and German nouns of Tatoeba, for names of streets and sites and for parts of names."""
    english = {word for source, _ in pairs for word in re.findall(r"\b[a-z]{4,12}\b", source)}
    german = Counter(
        noun for _, target in pairs for noun in re.findall(r"(?<=\w )[A-ZÄÖÜ][a-zäöüß]{3,7}\b", target)
    )
    nouns = {noun for noun, count in german.items() if count > 3}
    return {"words": tuple(sorted(english)), "nouns": tuple(sorted(nouns))}


def _pieces() -> dict[str, tuple[str, ...]]:
    """Pieces of the vocabulary that begin a word with a capital letter, and those that continue a word."""
    vocabulary = json.loads((included_model() / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    starts = (piece[1:] for piece in vocabulary if re.fullmatch(r" [A-Z][a-z]+", piece))
    return {
        "starts": tuple(sorted(starts)),
        "ends": tuple(sorted(piece for piece in vocabulary if re.fullmatch(r"[a-z]{2,}", piece))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="the folder for train.en and train.de")
    parser.add_argument("--stage", type=int, choices=STAGES, required=True, help="of the training")
    asked = parser.parse_args()
    sides = [list(read_lines(find_file(f"tatoeba_en_de:train.{side}.gz"))) for side in ("en", "de")]
    pairs = [cleaned(*pair) for pair in zip(*sides, strict=True)]
    for kind, found in make_corpus(pairs, asked.out, STAGES[asked.stage]).items():
        print(f"{kind}: {found:,}")


if __name__ == "__main__":
    main()
