"""Translation speed: sentences a second, and the latency of one, all with the same trained weights.

    python -m benchmarks.decode [--quick] [--rounds N] [--model DIR] [--sentences N] [--alone N]

test_2016_flickr of Multi30k at batch 32 on all cores and at batch 1 on one thread, greedy and beam 5, with
natural lengths (each model stops by itself) and with forced ones (each sentence of a batch gets the mean
length of the batch's references). A beam search stops when five hypotheses have finished, which is
CTranslate2's rule (eole's own: when the most probable token of a step is the end token). regard's default,
which waits for all hypotheses that could still win, has a row of its own. Each contender is a process, idle
while another works. Without --model a model of the workload's size (3 + 3 layers of width 256) is trained
first, once, for some ten minutes; with --quick it is the model in the box.
"""

import argparse
import statistics
from typing import Any

from benchmarks.common import program
from benchmarks.common.contender import Contender, Entry, contenders
from benchmarks.common.results import Result, Table
from benchmarks.common.roof import peak_of
from benchmarks.common.rounds import Sample, Samples, best, disturbed, median, ratio, rounds

REGARD, REFERENCE = "regard", "Hugging Face generate"
SOME_32 = 512  # source tokens: 32 sentences of up to 15, and their end tokens
TABLES = [(size, beam, forced) for forced in (False, True) for size in (32, 1) for beam in (1, 5)]
QUICK = [(32, 1, False), (32, 5, False), (1, 1, False), (32, 1, True)]
COLUMNS = {
    "name": ("contender", ""),
    "threads": ("workers x threads", ""),
    "sentences": ("sentences/s, median", ",.1f"),
    "best": ("best", ",.1f"),
    "ratio": ("ratio", ".2f"),
    "tokens": ("tokens/s", ",.0f"),
    "latency": ("ms a sentence, p50", ".1f"),
    "share": ("of peak", ".0%"),
    "memory": ("peak memory, MiB", ",.0f"),
    "bleu": ("BLEU", ".2f"),
    "same": ("same as regard's", ".0%"),
    "disturbed": ("disturbed", ""),
    "note": ("", ""),
}


def main() -> None:
    program.limit_threads()
    parser = program.argument_parser(__doc__)
    parser.add_argument("--model", help="a model folder whose model has only the paper's parts")
    parser.add_argument(
        "--sentences",
        type=int,
        default=500,
        help="sentences at batch size 32, twice as many if greedy [default: 500]",
    )
    parser.add_argument("--alone", type=int, default=50, help="sentences at batch size 1 [default: 50]")
    program.run(decode, parser)


def decode(options: argparse.Namespace) -> Result:
    from benchmarks.decoding.prepared import prepared
    from benchmarks.work.pairs import trained_model

    model = options.model or (None if options.quick else trained_model(options.threads))
    work = prepared(model)
    count = options.rounds or (1 if options.quick else 3)
    many, alone = (32, 4) if options.quick else (options.sentences, options.alone)
    counts = {(32, 5): many, (32, 1): 2 * many, (1, 5): alone, (1, 1): alone}  # greedy: or it takes no second
    result = Result(
        part="decode",
        settings={"model": work.name, "rounds": count, "sentences": many, "greedily": 2 * many,
                  "alone": alone, "threads": options.threads},
    )  # fmt: skip
    roofs = {threads: peak_of(threads) for threads in {1, options.threads}}
    with contenders(entries_for(str(work.path), options.threads)) as here:
        for size, beam, forced in QUICK if options.quick else TABLES:
            threads = options.threads if size > 1 else 1
            asked = {"size": size, "beam": beam, "forced": forced, "threads": threads}
            table = compared(here, work, asked, counts[size, beam], count, roofs[threads])
            result.tables.append(table)
    result.checks = work.checks
    return result


def entries_for(sentences: str, threads: int) -> list[Entry]:
    """The contenders. CTranslate2 is fastest with workers of one thread each."""
    own = {"workers": threads, "threads": 1}
    alike = {"workers": threads, "batch_tokens": SOME_32}
    entries: dict[str, tuple[str, int, dict[str, Any]]] = {
        REFERENCE: ("hugging_face:HuggingFace", threads, {}),
        "eole": ("eole:Eole", threads, {}),
        REGARD: ("regard_decoder:Regard", threads, {}),
        "regard, Translator": ("regard_decoder:Verb", threads, {"workers": 1}),
        "regard, workers": ("regard_decoder:Verb", 1, alike),
        "regard, workers, own batches": ("regard_decoder:Verb", 1, {"workers": threads}),
        "regard, workers, waits for all that could win": (
            "regard_decoder:Verb",
            1,
            {**alike, "patient": True},
        ),
        "regard, workers, int8": ("regard_decoder:Verb", 1, {**alike, "precision": "int8"}),
        "regard, int8": ("regard_decoder:Verb", threads, {"workers": 1, "precision": "int8"}),
        "CTranslate2 float32": ("ctranslate:CTranslate", 1, {**own, "kind": "float32"}),
        "CTranslate2 int8": ("ctranslate:CTranslate", 1, {**own, "kind": "int8"}),
    }
    return [
        Entry(
            name=name,
            make=f"benchmarks.decoding.{make}",
            settings={"sentences": sentences, **settings},
            threads=each,
        )
        for name, (make, each, settings) in entries.items()
    ]


def compared(
    here: list[Contender], work: Any, asked: dict[str, Any], sentences: int, count: int, roof: float
) -> Table:
    """One table: rounds of all contenders, then the quality of their translations."""
    size, beam, forced = asked["size"], asked["beam"], asked["forced"]
    title = (
        f"batch {size}, {'greedy' if beam == 1 else f'beam {beam}'},"
        f" {'forced' if forced else 'natural'} lengths, {asked['threads']} threads in all"
    )
    before = {each.name: each.absent for each in here}
    warm_up = {**asked, "count": min(sentences, 8 * size)}
    samples = rounds(here, count, {**asked, "count": sentences}, warm_up=warm_up, say=lambda text: None)
    program.say(title)
    said = {each.name: each.ask("said") for each in here if each.name in samples}
    table = Table(title=title, columns=COLUMNS)
    for each in here:
        row = {"name": each.name, "note": each.absent}
        if each.name in samples:
            row = row_of(each, samples, work, asked, roof) | work.quality(
                said[each.name], said[REGARD], forced
            )
        table.rows.append(row)
        each.absent = before[each.name]  # who cannot do this work may do the next
    table.notes.append(f"peak: {roof:.0f} GFLOP/s; ratio: to {reference_of(samples)}, median of the rounds")
    return table


def reference_of(samples: Samples) -> str:
    return REFERENCE if REFERENCE in samples else REGARD


def row_of(
    each: Contender, samples: Samples, work: Any, asked: dict[str, Any], roof: float
) -> dict[str, Any]:
    found = samples[each.name]
    workers = each.entry.settings.get("workers", 1)
    at_once = min(workers, asked["size"])  # a sentence alone is one worker's
    last = found[-1].answer
    gflop = work.shape.decoding(last["lengths"], asked["beam"]) / 1e9
    return {
        "name": each.name,
        "threads": f"{at_once} x {each.entry.threads if asked['size'] > 1 else 1}",
        "sentences": median(found, "sentences"),
        "best": best(found, "sentences"),
        "ratio": ratio(found, samples[reference_of(samples)], "sentences"),
        "tokens": median(found, "tokens"),
        "latency": latency(found) if asked["size"] == 1 else None,
        "share": gflop / last["seconds"] / roof,
        "memory": each.peak_mib(),
        "disturbed": f"{disturbed(found)} of {len(found)}",
        "seconds": [sample.answer["seconds"] for sample in found],
    }


def latency(samples: list[Sample]) -> float:
    """Milliseconds, the median over sentences; of all rounds the least disturbed one's, their median."""
    return statistics.median(
        1000
        * (statistics.median(sample.answer["each"]) or sample.answer["seconds"] / sample.answer["sentences"])
        for sample in samples
    )


if __name__ == "__main__":
    main()
