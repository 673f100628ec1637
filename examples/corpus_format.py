"""A file format of parallel corpora: a source, its translation, an empty line, and so on.

    python examples/corpus_format.py

A recipe names it: `[data.train] file = "train.txt"` and `format = "blank_lines"`.
"""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from regard.data import CorpusSettings, LinePolicy, open_corpus, read_lines, register_corpus_format
from regard.errors import DataError


@register_corpus_format("blank_lines")
def pairs_between_blank_lines(path: Path) -> Iterator[tuple[str, str]]:
    for blank, group in groupby(enumerate(read_lines(path), start=1), key=lambda line: not line[1].strip()):
        if blank:
            continue
        (number, source), *rest = group
        if len(rest) != 1:
            raise DataError(f"{path}:{number}: {1 + len(rest)} lines, not a source and a target", "give two")
        yield source, rest[0][1]


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        text = "Good morning.\nGuten Morgen.\n\nThank you.\nDanke.\n"
        Path(folder, "greetings.txt").write_text(text, encoding="utf-8")
        settings = CorpusSettings(file="greetings.txt", format="blank_lines")
        for pair in open_corpus(settings, LinePolicy(), Path(folder)):
            print(pair.line, pair.source, "=", pair.target)
