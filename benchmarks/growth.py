"""Scaling: the cost of a token and of an update by length, memory by corpus size.

    python -m benchmarks.growth [--quick] [--rounds N] [--lengths N ...] [--lines N ...] [--folder DIR]

Lengths are 64 to 1,024 tokens, corpora 10^4 to 10^6 lines (10^7 takes an hour: --lines 10000000).
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import program
from benchmarks.common.contender import Contender, Entry, contenders
from benchmarks.common.results import Result, Table
from benchmarks.common.rounds import best, median, rounds

LENGTHS, LINES = (64, 128, 256, 512, 1024), (10**4, 10**5, 10**6)
UPDATES = 30
TRAINERS = {
    "torch.nn.Transformer": ("Plain", "paper"),
    "regard": ("Regard", "paper"),
    "torch.nn.Transformer, dropout everywhere": ("Plain", "everywhere"),
    "regard, dropout everywhere": ("Regard", "everywhere"),
}


def main() -> None:
    program.limit_threads()
    parser = program.argument_parser(__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--lines", type=int, nargs="+", default=LINES)
    parser.add_argument(
        "--folder", type=Path, help="where the corpora are stored meanwhile [default: a temporary folder]"
    )
    program.run(growth, parser)


def growth(options: argparse.Namespace) -> Result:
    count = options.rounds or (1 if options.quick else 3)
    lengths = (16, 32) if options.quick else tuple(options.lengths)
    lines = (1000, 3000) if options.quick else tuple(options.lines)
    result = Result(part="growth", settings={"rounds": count, "threads": options.threads})
    decoders = [_entry("regard", "decoding:Regard", options.threads)]
    result.tables.append(
        by_length(decoders, lengths, count, "decoding, greedy, 8 sentences, ms a step (all of its tokens)")
    )
    tokens = 256 if options.quick else 4096
    trainers = [
        _entry(name, f"training:{make}", options.threads, dropout=dropout, tokens=tokens)
        for name, (make, dropout) in TRAINERS.items()
    ]
    result.tables.append(
        by_length(trainers, lengths, count, f"training, {tokens} target tokens, ms an update")
    )
    result.tables.append(memory(lines, 2 if options.quick else UPDATES, options))
    return result


def by_length(entries: list[Entry], lengths: tuple[int, ...], count: int, title: str) -> Table:
    """Milliseconds of a step at each length, and the ratio of the longest to the shortest."""
    columns = {"name": ("", ""), **{str(length): (str(length), ",.2f") for length in lengths}}
    columns |= {"growth": (f"{lengths[-1]} to {lengths[0]}", ".2f"), "memory": ("peak memory, MiB", ",.0f")}
    table = Table(title=title, columns=columns)
    with contenders(entries) as here:
        rows: dict[str, dict[str, Any]] = {each.name: {"name": each.name} for each in here}
        for length in lengths:
            warm_up = {"length": min(length, 64)}
            samples = rounds(here, count, {"length": length}, warm_up=warm_up, say=lambda text: None)
            program.say(f"{title}: length {length}")
            for name, found in samples.items():
                rows[name][str(length)] = 1000 / median(found, "steps")
                rows[name][f"best {length}"] = 1000 / best(found, "steps")
        for each in here:
            row = rows[each.name]
            row["growth"] = row[str(lengths[-1])] / row[str(lengths[0])]
            row["memory"] = each.peak_mib()
            table.rows.append(row)
    return table


def memory(sizes: tuple[int, ...], updates: int, options: argparse.Namespace) -> Table:
    """The table of memory, each size measured in its own process."""
    columns = {
        "name": ("lines", ""),
        "tokenise": ("tokenising, MiB", ",.0f"),
        "read": ("one epoch of batches, MiB", ",.0f"),
        "train": (f"training {updates} updates, MiB", ",.0f"),
        "rate": ("lines tokenised/s", ",.0f"),
    }
    table = Table(title="peak of anonymous resident memory by size of the corpus", columns=columns)
    for lines in sizes:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            from benchmarks.growing.corpus import write_corpus

            write_corpus(Path(folder), lines)
            entry = _entry(f"{lines:,}", "corpus:Corpus", options.threads, lines=lines, folder=folder)
            with contenders([entry]) as (corpus,):
                table.rows.append(memory_row(corpus, lines, updates))
        program.say(f"memory: {lines:,} lines")
    first, last = table.rows[0], table.rows[-1]
    growing = ", ".join(f"{part} x {last[part] / first[part]:.2f}" for part in ("tokenise", "read", "train"))
    table.notes.append(f"from {first['name']} to {last['name']} lines: {growing}")
    return table


def memory_row(corpus: Contender, lines: int, updates: int) -> dict[str, Any]:
    tokenised = corpus.ask("tokenise")
    found = {"tokenise": tokenised, "read": corpus.ask("read"), "train": corpus.ask("train", updates=updates)}
    peaks = {name: answer["peak"] / 2**20 for name, answer in found.items()}
    return {"name": corpus.name, **peaks, "rate": lines / tokenised["seconds"]}


def _entry(name: str, make: str, threads: int, **settings: Any) -> Entry:
    settings = {"threads": threads, **settings}
    return Entry(name=name, make=f"benchmarks.growing.{make}", settings=settings, threads=threads)


if __name__ == "__main__":
    main()
