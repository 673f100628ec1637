"""Does memory stay flat as the corpus grows? Anonymous resident memory while tokenising and loading.

    python benchmarks/memory.py [--lines 100000 1000000 10000000] [--sampled] [--folder DIR]

For each size, in a process of its own: a corpus is made, tokenised to shards, and one epoch of batches
is read; the peak of anonymous resident memory (Linux: /proc/self/smaps_rollup, once every 20 ms) is
told for each part. Pages of mapped files are not counted: the system takes them back when it needs them.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.data.corpus import CorpusSettings, LinePolicy, open_corpus
from regard.data.examples import PairExamples
from regard.data.loader import Loader, LoaderSettings
from regard.data.shards import write_shards
from regard.data.tokenizer import TokenizerSettings, train_tokenizers

WORDS = 20_000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, nargs="+", default=[10**5, 10**6, 10**7])
    parser.add_argument("--sampled", action="store_true", help="tokenise with BPE-dropout too (slow)")
    parser.add_argument("--folder", type=Path, help="where the corpora go (a temporary folder)")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure(options.one, options.folder, sampled=options.sampled)
        return
    print(f"{'lines':>12} {'part':>12} {'peak MiB':>10} {'seconds':>9} {'lines/s':>12}", flush=True)
    for lines in options.lines:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            write_corpus(Path(folder), lines)
            command = [sys.executable, __file__, "--one", str(lines), "--folder", folder]
            subprocess.run([*command, "--sampled"] if options.sampled else command, check=True)


def write_corpus(folder: Path, lines: int) -> None:
    """Sentences of 4 to 24 words, drawn as in natural text: the n-th word 1/n as often as the first."""
    draw = random.Random(1)
    words = ["".join(draw.choices("aeiounrstlmd", k=draw.randint(2, 10))) for _ in range(WORDS)]
    weights = [1 / (rank + 10) for rank in range(WORDS)]
    with (folder / "source").open("w") as source, (folder / "target").open("w") as target:
        for _ in range(lines // 1000 + 1):
            drawn = iter(draw.choices(words, weights, k=48_000))
            for _ in range(min(1000, lines)):
                for file in (source, target):
                    file.write(" ".join(next(drawn) for _ in range(draw.randint(4, 24))) + "\n")
            lines -= min(1000, lines)


def measure(lines: int, folder: Path, *, sampled: bool) -> None:
    corpus = open_corpus(CorpusSettings(source="source", target="target"), LinePolicy(), folder)
    tokenizers = train_tokenizers(corpus.first(20_000), TokenizerSettings(vocab_size=8000))
    for name, dropout in {"tokenise": 0.0, **({"sample": 0.1} if sampled else {})}.items():
        with watched(lines, name):
            write_shards(corpus, tokenizers, folder / name, max_tokens=256, dropout=dropout, copies=1)
    with watched(lines, "load"):
        batches = Loader(PairExamples(folder / "tokenise", 0), LoaderSettings(), seed=1).epoch(0)
        assert sum(len(batch) for batch in batches) == lines


@contextmanager
def watched(lines: int, part: str) -> Iterator[None]:
    """Print a row of the table for what happens inside."""
    peak, done, start = anonymous(), threading.Event(), time.perf_counter()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.02):
            peak = max(peak, anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    seconds = time.perf_counter() - start
    print(f"{lines:12,} {part:>12} {peak / 2**20:10.1f} {seconds:9.1f} {lines / seconds:12,.0f}", flush=True)


def anonymous() -> int:
    """Anonymous resident memory of this process in bytes."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) << 10
    raise OSError("smaps_rollup says nothing of anonymous memory")


if __name__ == "__main__":
    main()
