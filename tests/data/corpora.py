"""What the tests of corpora share: corpora of small files, what is read from them, what is refused."""

from pathlib import Path

import pytest

from regard.data.corpus import Corpus, CorpusSettings, LinePolicy, open_corpus
from regard.errors import DataError

STRICT = LinePolicy(empty="error", too_long="error", control="error", malformed="error", unequal="error")
LENIENT = LinePolicy(empty="skip", too_long="skip", control="skip", malformed="skip", unequal="skip")


def two_files(folder: Path, source: bytes, target: bytes, policy: LinePolicy = LENIENT) -> Corpus:
    (folder / "text.src").write_bytes(source)
    (folder / "text.tgt").write_bytes(target)
    return open_corpus(CorpusSettings(source="text.src", target="text.tgt"), policy, folder)


def one_file(folder: Path, content: str, policy: LinePolicy = LENIENT, **choices: str) -> Corpus:
    (folder / "text").write_text(content, "utf-8", newline="\n")
    return open_corpus(CorpusSettings(file="text", **choices), policy, folder)


def found(corpus: Corpus) -> list[tuple[int, str, str]]:
    return [(pair.line, pair.source, pair.target) for pair in corpus]


def message(corpus: Corpus) -> str:
    with pytest.raises(DataError) as caught:
        list(corpus)
    assert caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint
    return caught.value.message
