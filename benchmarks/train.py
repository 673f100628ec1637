"""Training: target tokens a second of one update, on the same batches, from the same weights.

    python -m benchmarks.train [--quick] [--rounds N] [--workload paper everywhere base] [--updates N]

Multi30k, English to German, 3 + 3 layers, d_model 256, 4 heads, d_ff 1024 (or the paper's base shape), 8,000
BPE pieces, some 4,096 target tokens an update, label smoothing 0.1, Adam. Each contender is a process of its
own and idle while another works; a round gives each a few updates. All contenders use the library of matrix
products that regard chooses here, except the reference, which uses PyTorch's default.
"""

import argparse
from dataclasses import dataclass
from typing import Any

from benchmarks.common import program
from benchmarks.common.contender import Contender, Entry, contenders
from benchmarks.common.products import LIBRARIES, best_setting
from benchmarks.common.results import Result, Table
from benchmarks.common.roof import PEAK, peak_entry
from benchmarks.common.rounds import Samples, best, disturbed, median, ratio, rounds
from regard.training.products import MatmulPrecision

REFERENCE = "torch.nn.Transformer, plain loop"
FASTER_REFERENCE = "torch.nn.Transformer, oneDNN"
TWO_PROCESSES = "torch.nn.Transformer, DDP, two workers"
WORKERS = "regard, two workers"
COLUMNS = {
    "name": ("contender", ""),
    "threads": ("processes x threads", ""),
    "median": ("target tok/s, median", ",.0f"),
    "best": ("best", ",.0f"),
    "ratio": ("ratio", ".2f"),
    "gflops": ("GFLOP/s", ".0f"),
    "share": ("of peak", ".0%"),
    "memory": ("peak memory, MiB", ",.0f"),
    "disturbed": ("disturbed", ""),
    "note": ("", ""),
}


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What is trained: a module of `work`, where it has dropout, and the title of its table.

    `together`: how many contenders are in memory at a time besides the reference, which takes part each time;
    0: all.
    """

    work: str
    dropout: str
    d_model: int
    title: str
    together: int = 0


WORKLOADS = {
    "paper": Workload(
        work="pairs",
        dropout="paper",
        d_model=256,
        title="dropout of embeddings and sub-layers (section 5.4 of the paper)",
    ),
    "everywhere": Workload(
        work="pairs",
        dropout="everywhere",
        d_model=256,
        title="dropout of attention weights and inside feed-forward layers too",
    ),
    "base": Workload(
        work="base_pairs",
        dropout="paper",
        d_model=512,
        title="the paper's base shape (6 + 6 layers, width 512), dropout of section 5.4",
        together=3,  # of 3 GB each
    ),
}


def main() -> None:
    program.limit_threads()
    parser = program.argument_parser(__doc__)
    parser.add_argument(
        "--updates", type=int, default=3, help="updates of each contender in a round [default: 3]"
    )
    parser.add_argument("--workload", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    program.run(train, parser)


def train(options: argparse.Namespace) -> Result:
    from benchmarks.work.work import work_of

    count = options.rounds or (1 if options.quick else 6)
    updates = 1 if options.quick else options.updates
    settings = {"rounds": count, "updates a round": updates, "threads": options.threads}
    result = Result(part="train", settings=settings)
    for name in options.workload[: 1 if options.quick else None]:
        workload = WORKLOADS[name]
        work_of(workload.work).training_task(workload.dropout, small=options.quick)  # prepared once, for all
        matmul = best_setting(workload.d_model, options.threads)
        first, *others = entries_for(workload, options, matmul)
        together = workload.together or len(others)
        table, checks = Table(title=workload.title, columns={}), []
        for begin in range(0, len(others), together):
            entries = [first, *others[begin : begin + together], peak_entry(options.threads)]
            with contenders(entries) as taking_part:
                more, found = compared(
                    taking_part, count, updates, title=workload.title, unit="target tokens"
                )
            table, checks = joined(table, more), [*checks, *found[bool(begin) :]]
        if together < len(others):
            table.notes.append(f"{together} contenders at a time, with the reference, for want of memory")
        table.notes.append(products_note(matmul, REFERENCE))
        result.tables.append(table)
        result.checks += [f"{name}: {check}" for check in checks]
        result.write(quick=options.quick)  # what is measured stays if the next one fails
    return result


def joined(table: Table, more: Table) -> Table:
    """A table with the rows of another after its own, except for the reference, which both have."""
    if not table.rows:
        return more
    return Table(
        title=table.title, columns=table.columns, rows=[*table.rows, *more.rows[1:]], notes=table.notes
    )


def products_note(matmul: MatmulPrecision, reference: str) -> str:
    """Which library computes the matrix products of whom."""
    best = LIBRARIES[matmul]
    return f"matrix products: {LIBRARIES['highest']} for {reference}, {best} for the others, in float32"


def entries_for(workload: Workload, options: argparse.Namespace, matmul: MatmulPrecision) -> list[Entry]:
    """Who trains translators."""
    threads = options.threads
    common: dict[str, Any] = {
        "work": workload.work,
        "dropout": workload.dropout,
        "threads": threads,
        "small": options.quick,
    }

    def entry(name: str, make: str, matmul: MatmulPrecision = matmul) -> Entry:
        make = f"benchmarks.training.{make}"
        return Entry(name=name, make=make, settings=common, threads=threads, matmul=matmul)

    return [
        entry(REFERENCE, "plain:Plain", "highest"),
        *([entry(FASTER_REFERENCE, "plain:Plain")] if matmul != "highest" else []),
        two_processes(TWO_PROCESSES, "benchmarks.training.data_parallel:TwoProcesses", common, matmul),
        *regard_entries(common, matmul),
        entry("Hugging Face Marian", "marian:Marian"),
        entry("x-transformers", "lucid:Lucid"),
        entry("eole", "eole:Eole"),
    ]


def regard_entries(common: dict[str, Any], matmul: MatmulPrecision) -> list[Entry]:
    """regard as one process with all threads, and as two that share them."""
    make = "benchmarks.training.regard_trainer:Regard"
    return [
        Entry(name="regard", make=make, settings=common, threads=common["threads"], matmul=matmul),
        two_processes(WORKERS, make, {**common, "workers": 2}, matmul),
    ]


def two_processes(name: str, make: str, settings: dict[str, Any], matmul: MatmulPrecision) -> Entry:
    """A contender of two processes, which share the threads."""
    half = max(1, settings["threads"] // 2)
    return Entry(name=name, make=make, settings={**settings, "threads": half}, threads=half, matmul=matmul)


def compared(
    taking_part: list[Contender],
    count: int,
    updates: int,
    *,
    title: str,
    unit: str,
    reference: str = REFERENCE,
) -> tuple[Table, list[str]]:
    """Rounds of all contenders but the last, which measures the peak; and whether the work was equal."""
    *trainers, peak = taking_part
    facts = {each.name: each.ask("about") for each in trainers if each.absent is None}
    losses = {each.name: [each.ask("loss")] for each in trainers if each.absent is None}
    samples: Samples = {each.name: [] for each in trainers if each.absent is None}
    roof = rounds([peak], 1, {"seconds": 0.5}, again=False, say=program.say)[PEAK]
    for number in range(count):
        warm_up = {"updates": 1} if number == 0 else None
        taken = rounds(trainers, 1, {"updates": updates}, warm_up=warm_up, again=False, say=lambda text: None)
        for name, found in taken.items():
            samples[name] += found
        roof += rounds([peak], 1, {"seconds": 0.5}, again=False, say=lambda text: None)[PEAK]
        program.say(f"{title}: round {number + 1} of {count}")
    for each in trainers:
        if each.absent is None:
            losses[each.name].append(each.ask("loss"))
        else:
            losses.pop(each.name, None)
    table = table_of(trainers, samples, best(roof, "gflop"), title=title, unit=unit, reference=reference)
    table.notes += shape_notes(peak)
    return table, checks_of(facts, losses, count * updates + 1, reference)


def table_of(
    trainers: list[Contender], samples: Samples, roof: float, *, title: str, unit: str, reference: str
) -> Table:
    table = Table(title=title, columns={**COLUMNS, "median": (f"{unit}/s, median", ",.0f")})
    threads = max(each.entry.threads for each in trainers)  # of all processes of a contender
    for each in trainers:
        if each.absent is not None:
            table.rows.append({"name": each.name, "note": each.absent})
            continue
        found = samples[each.name]
        speed = median(found, "gflop")
        table.rows.append(
            {
                "name": each.name,
                "threads": f"{threads // each.entry.threads} x {each.entry.threads}",
                "median": median(found, "tokens"),
                "best": best(found, "tokens"),
                "ratio": ratio(found, samples[reference], "tokens"),
                "gflops": speed,
                "share": speed / roof,
                "memory": each.peak_mib(),
                "disturbed": f"{disturbed(found)} of {len(found)}",
                "seconds": [sample.answer["each"] for sample in found],
            }
        )
    table.notes.append(
        f"peak: {roof:.0f} GFLOP/s, the best float32 product of squares in the same run; operations of the"
        " model's products counted by one formula for all, for real tokens only"
    )
    table.notes.append("ratio: to the first row, median of the ratios of each round")
    return table


def shape_notes(peak: Contender) -> list[str]:
    """What products of the sizes at hand reach on their own."""
    found = peak.ask("shapes", seconds=0.2)
    return ["single products, GFLOP/s: " + ", ".join(f"{name} {rate:.0f}" for name, rate in found.items())]


def checks_of(
    facts: dict[str, Any], losses: dict[str, list[float]], updates: int, reference: str
) -> list[str]:
    """The loss of one batch without dropout, before the first update and after the last."""
    first, last = losses[reference]
    checks = []
    for name, (before, after) in losses.items():
        same = "the same" if abs(before - first) < 1e-4 * first else "NOT the same"
        near = "alike" if abs(after - last) < 0.05 * last else "NOT alike"
        if not facts[name]["same_weights"]:
            same = near = "other weights"
        checks.append(
            f"{name}: {facts[name]['parameters']:,} parameters; loss {before:.5f} before ({same}),"
            f" {after:.4f} after {updates} updates ({near})"
        )
    return checks


if __name__ == "__main__":
    main()
