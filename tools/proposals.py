"""Trains the proposals of `regard new` for known corpora, prints the scores: docs/recipes-by-size.md.

.venv/bin/python tools/proposals.py tatoeba-5k --minutes 10 --seed 1
.venv/bin/python tools/proposals.py all --minutes 2 --seed 1 2 3 --least

The corpora are cut from the data sets of the catalogue (`regard data list`). Each run is `regard new` with a
test set that nothing is chosen by and `regard train`, without any other option. `--record` adds the result to
src/regard/verbs/proposals/experiments.toml, and replaces one of the same command and seed; `--least` fails
if a run collapsed, or its chrF is below what two minutes of one core should give. `--resume` continues a run
that was cut off.
"""

import argparse
import gzip
import itertools
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.catalogue import find_file
from regard.models.build import count_config_parameters
from regard.recipe import read_toml
from regard.verbs.proposals.experiments import experiments
from regard.weights.checkpoint import RunFolder
from regard.weights.model_folder import load_model

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "src/regard/verbs/proposals/experiments.toml"
PAGE = ROOT / "docs/recipes-by-size.md"
COLUMNS = (
    "corpus",
    "pairs",
    "model",
    "parameters",
    "updates",
    "minutes",
    "BLEU",
    "chrF2++",
    "tested on",
    "processor",
    "seed",
)
Pairs = list[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Known:
    """A corpus that proposals are measured on, and the least chrF of a run of two minutes."""

    train: Callable[[], Pairs]
    test: Callable[[], Pairs]
    test_name: str
    least: float


def read(name: str, *sides: str) -> Pairs:
    """The pairs of two files of a data set."""
    columns = []
    for side in sides:
        path = find_file(f"{name}:{side}")
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8", newline="\n") as file:
            columns.append([line.rstrip("\n") for line in file])
    return list(zip(*columns, strict=True))


def tatoeba(count: int) -> Pairs:
    """A random sample of Tatoeba's training pairs."""
    pairs = read("tatoeba_en_de", "train.en.gz", "train.de.gz")
    return random.Random(1).sample(pairs, min(count, len(pairs)))


def tatoeba_test() -> Pairs:
    return read("tatoeba_en_de", "test.en", "test.de")


def captions(source: str, target: str) -> Pairs:
    return read("multi30k", f"train.{source}.gz", f"train.{target}.gz")


def captions_test(source: str, target: str) -> Pairs:
    return read("multi30k", f"test_2017_flickr.{source}", f"test_2017_flickr.{target}")


def news(*years: int) -> Pairs:
    return list(
        itertools.chain(*(read("newstest_en_de", f"newstest{y}.en", f"newstest{y}.de") for y in years))
    )


def unspaced(pairs: Iterable[tuple[str, str]]) -> Pairs:
    """The target side without spaces, as Japanese, Chinese and Thai are written."""
    return [(source, target.replace(" ", "")) for source, target in pairs]


CORPORA = {
    **{
        f"tatoeba-{count // 1000}k": Known(
            train=lambda count=count: tatoeba(count),
            test=tatoeba_test,
            test_name="its test pairs",
            least=least,
        )
        for count, least in ((1000, 8.0), (5000, 15.0), (30_000, 20.0), (150_000, 20.0))
    },
    **{
        f"multi30k-{source}-{target}": Known(
            train=lambda source=source, target=target: captions(source, target),
            test=lambda source=source, target=target: captions_test(source, target),
            test_name="test_2017_flickr",
            least=25.0,
        )
        for source, target in (("en", "fr"), ("de", "fr"), ("en", "de"))
    },
    "tatoeba-48k-unspaced": Known(
        train=lambda: unspaced(tatoeba(48_000)),
        test=lambda: unspaced(tatoeba_test()),
        test_name="its test pairs, unspaced",
        least=8.0,
    ),
    "newstest-6k": Known(
        train=lambda: news(2013, 2014), test=lambda: news(2017), test_name="newstest2017", least=10.0
    ),
    "tatoeba-captions-news-198k": Known(
        train=lambda: tatoeba(10**6) + captions("en", "de") + news(2013, 2014),
        test=tatoeba_test,
        test_name="Tatoeba's test pairs",
        least=20.0,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", nargs="+", choices=[*CORPORA, "all"])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--cores", type=int)
    parser.add_argument("--seed", type=int, nargs="+", default=[1])
    parser.add_argument("--out", type=Path, default=Path("runs/proposals"))
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--least", action="store_true")
    options = parser.parse_args()
    names = list(CORPORA) if "all" in options.corpus else options.corpus
    failed = []
    for name, seed in itertools.product(names, options.seed):
        folder = options.out / f"{name}-{options.minutes:g}min-seed{seed}"
        if folder.exists() and not options.resume:
            shutil.rmtree(folder)
        row = train(name, options.minutes, options.cores, seed, folder)
        print(toml(row), flush=True)
        if options.record:
            record(row)
            write_page()
        if options.least:
            failed += [f"{name}, seed {seed}: {why}" for why in shortcomings(row, folder / "run")]
    sys.exit("\n".join(failed) or None)


def shortcomings(row: dict[str, Any], run: Path) -> list[str]:
    """Collapses of a run, and a chrF that is too low."""
    found = [f"collapse: {each['why']}" for each in metrics(run) if each["kind"] == "collapse"]
    least = CORPORA[row["corpus"]].least
    return found + [f"chrF {row['chrf']}, at least {least} expected"] * (row["chrf"] < least)


def metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def train(name: str, minutes: float, cores: int | None, seed: int, folder: Path) -> dict[str, Any]:
    """`regard new` and `regard train` in a folder of their own; the row of the table."""
    known = CORPORA[name]
    folder.mkdir(parents=True, exist_ok=True)
    files = [
        write(folder / f"{part}.{side}", [pair[number] for pair in pairs])
        for part, pairs in (("train", known.train()), ("test", known.test()))
        for number, side in enumerate(("source", "target"))
    ]
    recipe, run = folder / "recipe.toml", folder / "run"
    limit = [] if cores is None else ["--cores", str(cores)]
    threads = [] if cores is None else ["--device", "cpu", "--threads", str(cores)]
    if not recipe.exists():
        regard("new", *files[:2], "--test", *files[2:], "--minutes", f"{minutes:g}", *limit, "--out", recipe)
    regard("train", recipe, "--out", run, "--set", f"training.seed={seed}", *threads)
    records = metrics(run)
    scores = next(record["scores"] for record in reversed(records) if record["kind"] == "test")
    table, _ = read_toml(recipe)
    last = max((record for record in records if record["kind"] == "train"), key=lambda each: each["step"])
    return {
        "corpus": name,
        "pairs": len(known.train()),
        "command": f"tools/proposals.py {name} --minutes {minutes:g}"
        + (f" --cores {cores}" if cores else ""),
        "machine": machine(cores),
        "minutes": round(seconds(run) / 60, 1),
        "target_tokens": last["target_tokens"],
        "parameters": parameters(run),
        "model": f"{table['model']['d_model']}, {table['model']['num_encoder_layers']}"
        f" + {table['model']['num_decoder_layers']}",
        "steps": table["training"]["max_steps"],
        "test": known.test_name,
        "tokenize": table["validation"]["tokenize"],
        "bleu": round(scores["BLEU"], 2),
        "chrf": round(next(value for key, value in scores.items() if key.startswith("chrF")), 2),
        "seed": seed,
    }


def seconds(run: Path) -> float:
    """Wall-clock time of training, validation and saving, of all its parts."""
    newest = RunFolder(run).latest()
    assert newest is not None, run
    return newest.read_json("state.json")["seconds"]


def record(row: dict[str, Any]) -> None:
    """Add the row to the file; it replaces a row of the same command and seed."""
    text = RECORD.read_text("utf-8")
    head = text.partition("\n[[experiment]]")[0].rstrip("\n") + "\n"
    rows = tomllib.loads(text).get("experiment", [])
    same = [row["command"], row["seed"]]
    kept = [each for each in rows if [each["command"], each["seed"]] != same]
    RECORD.write_text(head + "".join(map(toml, [*kept, row])), "utf-8")


def write(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def regard(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "regard", *map(str, arguments)], check=True, stdout=sys.stderr)


def machine(cores: int | None) -> str:
    """The processor's name and how many of its cores were used."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        name = lines[0].partition(":")[2].strip() if lines else name
    return f"{name}, cores: {cores or os.cpu_count()}"


def write_page() -> None:
    """Put the table of all experiments into its page."""
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition("| corpus |")
    _, _, after = rest.partition("\n\n")
    PAGE.write_text(f"{before}{table()}\n{after}", "utf-8")


def table() -> str:
    experiments.cache_clear()
    rows = [
        (
            f"`{each.corpus}`",
            f"{each.pairs:,}",
            each.model,
            f"{each.parameters / 1e6:.1f} M",
            f"{each.steps:,}",
            f"{each.minutes:.0f}",
            f"{each.bleu:.2f}",
            f"{each.chrf:.2f}",
            each.test,
            each.machine,
            str(each.seed),
        )
        for each in experiments()
    ]
    lines = [COLUMNS, ("---",) * len(COLUMNS), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def parameters(run: Path) -> int:
    return count_config_parameters(load_model(run / "best").config)


def toml(row: dict[str, Any]) -> str:
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in row.items()]
    return "\n".join(["", "[[experiment]]", *lines, ""])


if __name__ == "__main__":
    main()
