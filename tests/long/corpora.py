"""`make corpora`: 10,000 bad corpora, and how much memory big ones take; a line of figures each.

    python tests/long/corpora.py [--count 10000]

Exit code 1 where a corpus was read wrongly or refused with a traceback, or memory grew with a file.
"""

import argparse
import gzip
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext, suppress
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "data"))
sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from test_bad_corpora import bad_corpus, complaint

from benchmarks.common.checks import Record, record_of
from regard.data.corpus import CorpusSettings, LinePolicy, open_corpus
from regard.data.files import MAX_LINE_BYTES
from regard.errors import DataError

BIG = 400 << 20  # bytes


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--big", choices=["lines", "line", "zipped"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.big:
            print(grown(Path(folder), options.big))
            return
        record = record_of("corpora", parser, options)
        kept = [all_read(Path(folder), options.count, record)]
        kept += [bounded(kind, record) for kind in ("lines", "line", "zipped")]
    sys.exit(not all(kept))


def all_read(folder: Path, count: int, record: Record) -> bool:
    """Corpora of every format with every misfortune; each reading is whole, counted or refused in a line."""
    began, bad, left_out, names = time.monotonic(), [], Counter(), Counter()
    for seed in range(count):
        corpus = bad_corpus(random.Random(seed), folder)
        if why := complaint(corpus):
            bad.append(f"seed {seed}, {corpus.name}: {why}")
        left_out += corpus.skipped()
        names[corpus.name] += 1
    counted = ", ".join(f"{reason} {number:,}" for reason, number in sorted(left_out.items()))
    print(
        f"corpora: {count:,} bad corpora of {len(names)} formats: {len(bad)} read wrongly; lines left out and"
        f" counted: {counted} ({time.monotonic() - began:.0f} s)",
        *bad[:10],
        sep="\n",
        flush=True,
    )
    record("bad", {"corpora": count, "formats": len(names), "wrong": len(bad)})
    return not bad


def bounded(kind: str, record: Record) -> bool:
    """What reading a big file adds to a process of its own, which is to be at most twice the longest line."""
    command = [sys.executable, __file__, "--big", kind]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    mib, most = int(done.stdout) / 1024, 2 * (MAX_LINE_BYTES >> 20)
    print(f"corpora: {BIG >> 20} MiB of {kind}: {mib:.1f} MiB more (at most {most})", flush=True)
    record(kind, {"mib": BIG >> 20, "mib_more": mib, "mib_at_most": most})
    return mib <= most


def grown(folder: Path, kind: str) -> int:
    """KiB that the process gains by reading two big files of many lines, or of one line without an end."""
    piece = b"a dog runs through the snow\n" if kind != "line" else b"snow "
    opened = gzip.open if kind == "zipped" else open
    for name in "ab":
        with opened(folder / name, "wb") as file:
            for _ in range(BIG // 2 // len(piece) // 1000):
                file.write(piece * 1000)
    corpus = open_corpus(CorpusSettings(source="a", target="b"), LinePolicy(), folder)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what the process has
    before = peak()
    refused = suppress(DataError) if kind == "line" else nullcontext()  # a line of 200 MiB
    with refused:
        assert sum(1 for _ in corpus) == BIG // 2 // len(piece) // 1000 * 1000
    return peak() - before


def peak() -> int:
    """KiB that this process has had in memory at most."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


if __name__ == "__main__":
    main()
