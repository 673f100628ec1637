"""Decoding of other sizes beside CTranslate2: files, few and many rows, long outputs, many words, prompts.

    python -m benchmarks.sizes [--quick] [--rounds N] [--only TEXT]

Each work is done by regard and by CTranslate2, in float32 and in int8, by one thread, in turns. Compared is
the processor's time, so that a busy machine disturbs less. The model is that of `benchmarks.decode`; for
prompts it is that of `benchmarks.gpt`, with random weights; for many words it is one of 128,000 words with
random weights. Lengths are forced where the weights are random and in long outputs.
"""

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.common import program
from benchmarks.common.contender import Entry, contenders
from benchmarks.common.results import Result, Table
from benchmarks.common.rounds import Samples, rounds

PRECISIONS = ("float32", "int8")
LINES, LONG = 5000, 800
NOTES = [
    "ratio: CTranslate2 / regard, median of the rounds; above 1 regard is faster",
    "files: from text to text; other work: from ids to ids",
]
COLUMNS = {
    "name": ("work", ""),
    "ours": ("regard, ms", ",.0f"),
    "theirs": ("CTranslate2, ms", ",.0f"),
    "float32": ("ratio", ".2f"),
    "our_int8": ("regard int8, ms", ",.0f"),
    "their_int8": ("CTranslate2 int8, ms", ",.0f"),
    "int8": ("ratio", ".2f"),
    "memory": ("peak memory, MiB: regard, CTranslate2; int8", ""),
    "same": ("same outputs, float32", ".0%"),
}


@dataclass(frozen=True, kw_only=True)
class Work:
    """A row of the table: who does it, from which file, and the arguments of the call."""

    name: str
    regard: str  # MODULE:CLASS
    ctranslate: str
    file: dict[str, Any]
    call: str = "round"
    arguments: dict[str, Any]
    regard_settings: dict[str, Any] = field(default_factory=dict)
    ctranslate_settings: dict[str, Any] = field(default_factory=dict)

    @property
    def warm_up(self) -> dict[str, Any]:
        """The arguments of a call that is not measured: of few sentences."""
        count = self.arguments.get("count")
        return self.arguments if count is None else {**self.arguments, "count": min(count, 64)}


def main() -> None:
    program.limit_threads()
    parser = program.argument_parser(__doc__)
    parser.add_argument(
        "--only", default="", help="only works with this in their name, into the file of --quick"
    )
    program.run(sizes, parser)


def sizes(options: argparse.Namespace) -> Result:
    count = options.rounds or (1 if options.quick else 5)
    result = Result(part="sizes", settings={"rounds": count, "threads": 1})
    table = Table(title="processor's time of one thread, by kind of work", columns=COLUMNS, notes=NOTES)
    for work in works(options.quick):
        if options.only not in work.name:
            continue
        program.say(work.name)
        table.rows.append(row(work, count))
        result.tables = [table]
        result.write(
            quick=options.quick or bool(options.only)
        )  # what is measured stays if the next one fails
    return result


def works(quick: bool) -> Iterator[Work]:
    """All rows; with `quick` one of each kind, on the model in the box."""
    yield from of_sentences(quick)
    yield from of_prompts(quick)


def of_sentences(quick: bool) -> Iterator[Work]:
    from benchmarks.decoding.prepared import prepared
    from benchmarks.decoding.sized import write_many_words, write_variant
    from benchmarks.work.pairs import trained_model

    prepared_work = prepared(None if quick else trained_model(2))
    lines = training_lines(40 if quick else LINES)
    file = write_variant(prepared_work.path, program.BUILD / "lines.json", **prepared_work.encoded(lines))
    decoder, verb = (f"benchmarks.decoding.regard_decoder:{name}" for name in ("Regard", "Verb"))
    their_file, their_rows = (
        "benchmarks.decoding.ctranslate:File",
        "benchmarks.decoding.ctranslate:CTranslate",
    )
    alone = {"workers": 1, "threads": 1}
    of_file = {"size": 32, "forced": False, "threads": 1, "count": len(lines)}
    for beam, patient in ((1, False), (5, True)):
        how = "greedy" if beam == 1 else "beam 5, the stopping rule of each"
        yield Work(
            name=f"{len(lines):,} lines, {how}", regard=verb, ctranslate=their_file,
            file={"sentences": str(file)}, arguments={**of_file, "beam": beam},
            regard_settings={"workers": 1, "patient": patient},
        )  # fmt: skip
    for size in (8,) if quick else (8, 128, 512):
        count = size if quick else 512
        yield Work(
            name=f"batches of {size}, greedy", regard=decoder, ctranslate=their_rows,
            file={"sentences": str(prepared_work.path)}, ctranslate_settings=alone,
            arguments={"size": size, "beam": 1, "forced": False, "threads": 1, "count": count},
        )  # fmt: skip
    if quick:
        return
    long = write_variant(prepared_work.path, program.BUILD / "long.json", lengths=[LONG] * 1000)
    yield Work(
        name=f"8 outputs of {LONG} tokens, greedy", regard=decoder, ctranslate=their_rows,
        file={"sentences": str(long)}, ctranslate_settings=alone,
        arguments={"size": 8, "beam": 1, "forced": True, "threads": 1, "count": 8},
    )  # fmt: skip
    yield Work(
        name="128,000 words, beam 5, batch of 32", regard="benchmarks.decoding.sized:ManyWords",
        ctranslate=their_rows, file={"sentences": str(write_many_words(program.BUILD))},
        ctranslate_settings=alone,
        arguments={"size": 32, "beam": 5, "forced": True, "threads": 1, "count": 32},
    )  # fmt: skip


def of_prompts(quick: bool) -> Iterator[Work]:
    from benchmarks.language.prepared import prepared

    path, _ = prepared(None)
    lengths = {
        "32 prompts of 8 to 132 tokens, 64 new": [8 + 4 * row for row in range(32)],
        "32 prompts of 64 tokens, 64 new": [64] * 32,
        "8 prompts of 64 tokens, 64 new": [64] * 8,
        "128 prompts of 64 tokens, 64 new": [64] * 128,
    }
    for name, each in list(lengths.items())[: 1 if quick else None]:
        yield Work(
            name=name, regard="benchmarks.language.regard_writer:Generator",
            ctranslate="benchmarks.language.ctranslate:Generator", file={"work": str(path), "threads": 1},
            call="prompts", arguments={"lengths": each, "length": 8 if quick else 64},
        )  # fmt: skip


def training_lines(count: int) -> list[str]:
    from regard.data.catalogue import find_file
    from regard.data.files import read_lines

    lines = read_lines(find_file("multi30k_tok:train.en.gz"))
    return [line for line, _ in zip(lines, range(count), strict=False)]


def row(work: Work, count: int) -> dict[str, Any]:
    """The row of a work: rounds of its four contenders."""
    entries = [
        entry
        for precision in PRECISIONS
        for entry in (
            Entry(
                name=f"regard {precision}",
                make=work.regard,
                settings={**work.file, **work.regard_settings, "precision": precision},
            ),
            Entry(
                name=f"CTranslate2 {precision}",
                make=work.ctranslate,
                settings={**work.file, **work.ctranslate_settings, "kind": precision},
            ),
        )
    ]
    with contenders(entries) as here:
        samples = rounds(
            here,
            count,
            work.arguments,
            call=work.call,
            warm_up=work.warm_up,
            again=False,
            say=lambda _: None,
        )
        absent = [f"{each.name}: {each.absent}" for each in here if each.absent]
        memory = [f"{each.peak_mib():,.0f}" for each in here]
        said = [outputs(each, samples, work) for each in here]
    if absent:
        return {"name": f"{work.name} ({'; '.join(absent)})"}
    return {"name": work.name, **figures(samples), "memory": "{}, {}; {}, {}".format(*memory),
            "same": sum(map(lambda one, other: one == other, *said[:2])) / len(said[0])}  # fmt: skip


def figures(samples: Samples) -> dict[str, Any]:
    """Milliseconds of each contender, and the ratio of both precisions."""
    ours, theirs, our_int8, their_int8 = (
        [sample.answer["processor"] for sample in samples[f"{name} {precision}"]]
        for precision in PRECISIONS
        for name in ("regard", "CTranslate2")
    )
    return {
        "ours": 1000 * statistics.median(ours),
        "theirs": 1000 * statistics.median(theirs),
        "float32": median_ratio(theirs, ours),
        "our_int8": 1000 * statistics.median(our_int8),
        "their_int8": 1000 * statistics.median(their_int8),
        "int8": median_ratio(their_int8, our_int8),
        "seconds": [ours, theirs, our_int8, their_int8],
    }


def median_ratio(theirs: list[float], ours: list[float]) -> float:
    return statistics.median(one / two for one, two in zip(theirs, ours, strict=True))


def outputs(contender: Any, samples: Samples, work: Work) -> list[Any]:
    """What it wrote in the last round, in one order for all."""
    if contender.absent:
        return []
    if work.call == "prompts":
        return samples[contender.name][-1].answer["said"]
    return [ids for _, ids in sorted(contender.ask("said").items())]


if __name__ == "__main__":
    main()
