"""A character GPT (6 layers, 6 heads, width 384): training speed, and generation of one text.

    python -m benchmarks.gpt [--quick] [--rounds N] [--updates N] [--model DIR]

Tiny Shakespeare, blocks of 256 characters, 16 a batch, AdamW. Training: nanoGPT's plain loop is the
reference. Generation: greedy, a whole block after one character; on one thread and on all. `--model` names
a trained decoder to generate with; without it weights are random.
"""

import argparse
from typing import Any

from benchmarks.common import program
from benchmarks.common.contender import Contender, Entry, contenders
from benchmarks.common.products import best_setting
from benchmarks.common.results import Result, Table
from benchmarks.common.roof import peak_entry, peak_of
from benchmarks.common.rounds import best, disturbed, median, ratio, rounds
from benchmarks.train import compared, products_note, regard_entries
from regard.training.products import MatmulPrecision

NANO, HUGGING_FACE, REGARD = "nanoGPT's plain loop", "Hugging Face GPT-2", "regard"
FASTER_NANO = "nanoGPT's plain loop, oneDNN"
D_MODEL = 384
NO_CACHE = "nanoGPT, no cache"
DROPOUT = {
    "everywhere": "training, dropout 0.2 of attention weights too (nanoGPT's)",
    "none": "training without dropout",
}
COLUMNS = {
    "name": ("contender", ""),
    "median": ("tokens/s, median", ",.1f"),
    "best": ("best", ",.1f"),
    "ratio": ("ratio", ".2f"),
    "share": ("of peak", ".1%"),
    "memory": ("peak memory, MiB", ",.0f"),
    "same": ("same as regard's", ".0%"),
    "disturbed": ("disturbed", ""),
    "note": ("", ""),
}


def main() -> None:
    program.limit_threads()
    parser = program.argument_parser(__doc__)
    parser.add_argument(
        "--updates", type=int, default=2, help="updates of each contender in a round [default: 2]"
    )
    parser.add_argument("--model", help="a trained decoder without a source, to generate with")
    program.run(gpt, parser)


def gpt(options: argparse.Namespace) -> Result:
    count = options.rounds or (1 if options.quick else 4)
    updates = 1 if options.quick else options.updates
    settings = {"rounds": count, "updates a round": updates, "threads": options.threads}
    result = Result(part="gpt", settings=settings)
    training(options, result, count, updates)
    generation(options, result, count)
    return result


def training(options: argparse.Namespace, result: Result, count: int, updates: int) -> None:
    from benchmarks.work.texts import training_task

    for dropout, title in list(DROPOUT.items())[: 1 if options.quick else None]:
        training_task(dropout, small=options.quick)
        matmul = best_setting(D_MODEL, options.threads)
        entries = training_entries(dropout, options, matmul)
        with contenders([*entries, peak_entry(options.threads)]) as here:
            table, checks = compared(here, count, updates, title=title, unit="tokens", reference=NANO)
        table.notes.append(products_note(matmul, NANO))
        result.tables.append(table)
        result.checks += [f"{dropout}: {check}" for check in checks]


def training_entries(dropout: str, options: argparse.Namespace, matmul: MatmulPrecision) -> list[Entry]:
    threads = options.threads
    common = {"work": "texts", "dropout": dropout, "threads": threads, "small": options.quick}
    nano, faster, hugging_face = (
        Entry(name=name, make=f"benchmarks.language.{make}", settings=common, threads=threads, matmul=setting)
        for name, make, setting in (
            (NANO, "nanogpt:Trainer", "highest"),
            (FASTER_NANO, "nanogpt:Trainer", matmul),
            (HUGGING_FACE, "gpt2:Trainer", matmul),
        )
    )
    return [nano, *([faster] if matmul != "highest" else []), *regard_entries(common, matmul), hugging_face]


def generation(options: argparse.Namespace, result: Result, count: int) -> None:
    from benchmarks.language.prepared import prepared
    from benchmarks.work.texts import shape_of

    work, config = prepared(options.model)
    length = 32 if options.quick else 255
    for threads in sorted({1, options.threads}):
        roof = peak_of(threads)
        with contenders(generation_entries(str(work), threads)) as here:
            title = f"generation, {length} tokens after one, {threads} threads"
            flop = shape_of(config).generating(length)
            table = written(here, count, length, title=title, gflop=flop / 1e9, roof=roof)
        result.tables.append(table)
    result.settings["generation"] = options.model or "fresh weights"


def generation_entries(work: str, threads: int) -> list[Entry]:
    common: dict[str, Any] = {"work": work, "threads": threads}
    names = {
        NO_CACHE: ("nanogpt", {}),
        REGARD: ("regard_writer", {}),
        f"{REGARD}, int8": ("regard_writer", {"precision": "int8"}),
        "Hugging Face GPT-2": ("gpt2", {}),
        "CTranslate2 float32": ("ctranslate", {"kind": "float32"}),
        "CTranslate2 int8": ("ctranslate", {"kind": "int8"}),
    }
    return [
        Entry(
            name=name,
            make=f"benchmarks.language.{module}:Generator",
            settings={**common, **own},
            threads=threads,
        )
        for name, (module, own) in names.items()
    ]


def written(
    here: list[Contender], count: int, length: int, *, title: str, gflop: float, roof: float
) -> Table:
    samples = rounds(here, count, {"length": length}, warm_up={"length": 16}, say=lambda text: None)
    program.say(title)
    table = Table(title=title, columns=COLUMNS)
    reference = HUGGING_FACE if HUGGING_FACE in samples else REGARD
    ours = samples[REGARD][-1].answer["said"]
    for each in here:
        if each.absent is not None:
            table.rows.append({"name": each.name, "note": each.absent})
            continue
        found = samples[each.name]
        said = found[-1].answer["said"]
        speed = median(found, "tokens")
        table.rows.append(
            {
                "name": each.name,
                "median": speed,
                "best": best(found, "tokens"),
                "ratio": ratio(found, samples[reference], "tokens"),
                "share": gflop * speed / length / roof,
                "memory": each.peak_mib(),
                "same": sum(mine == theirs for mine, theirs in zip(said, ours, strict=True)) / len(ours),
                "disturbed": f"{disturbed(found)} of {len(found)}",
                "seconds": [sample.answer["seconds"] for sample in found],
            }
        )
    table.notes.append(
        f"peak: {roof:.0f} GFLOP/s; ratio: to {reference}, median of the rounds; same: tokens at the same"
        " place, on the same weights"
    )
    return table


if __name__ == "__main__":
    main()
