"""How often the language of a held-out sentence is detected: tatoeba and Multi30k.

    python -m benchmarks.languages [--lines N]

For each file the share of its first N lines whose language is detected: of all languages that are known, and
of English, German and French only. The files are found, or downloaded, as by `regard data get`.
"""

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.checks import record_of
from regard.data.files import locate, read_lines
from regard.serving.languages import detected

LINES = 1000
FILES = {
    "tatoeba_en_de:test.en": "en",
    "tatoeba_en_de:test.de": "de",
    "multi30k:test_2016_flickr.en": "en",
    "multi30k:test_2016_flickr.de": "de",
    "multi30k:test_2016_flickr.fr": "fr",
}
KNOWN = ("en", "de", "fr")


def accuracy(lines: Sequence[str], language: str) -> tuple[float, float]:
    """The share of lines that are detected as this language: of all languages, and of `KNOWN` only."""
    ranked = [[code for code, _ in detected(line)] for line in lines]
    among = [next(code for code in codes if code in KNOWN) for codes in ranked]
    right = sum(codes[0] == language for codes in ranked)
    return right / len(lines), among.count(language) / len(lines)


def sentences(file: str, number: int) -> list[str]:
    """The first lines of a file of a data set."""
    return list(itertools.islice(read_lines(locate(file, Path(), once=True)), number))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=LINES, metavar="N")
    options = parser.parse_args()
    number, record = options.lines, record_of("languages", parser, options)
    if number < 1:
        parser.error(f"--lines is {number}, but must be 1 or more")
    print(f"| lines | all languages | {', '.join(KNOWN)} |\n| --- | ---: | ---: |")
    for file, language in FILES.items():
        lines = sentences(file, number)
        shares = accuracy(lines, language)
        record(file, {"lines": len(lines), "of_all": shares[0], "of_three": shares[1]})
        print(f"| {file}, {len(lines):,} | " + " | ".join(f"{100 * each:.1f} %" for each in shares) + " |")


if __name__ == "__main__":
    main()
