"""`make export-check`: certificates of many models for all targets, with 1,000 texts each.

    python tests/long/export_check.py [--model NAME] [--target TARGET] [--quantization Q] [--again] [--quick]

The models are those of `export_models.py`. Each is exported to each target; a line says what its certificate
measures, or which setting refuses it. Exit code 1 where a certificate fails, an export ends otherwise, or a
pair is refused or written against the documented tables (`export_expectations.py`). Results are stored after
each pair in benchmarks/results/checks/export-check.json, and the tables of docs/leaving-and-arriving.md are
made of them. A pair that is there is not done again.
"""

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[2]))

from regard.errors import RegardError, UserError
from regard.exports.plain_reference import ContinuationReference, PlainReference, TranslationReference
from regard.verbs.export import export
from regard.weights.model_folder import LoadedModel
from tests.long.export_expectations import expected_refusals
from tests.long.export_models import SUBJECTS, Subject, trained
from tests.long.export_table import PAIRS, RESULTS, Pair, fill_page

TEXTS, FEW = 1000, 24  # of a certificate; with --quick
SUFFIX = {"argos": "out.argosmodel"}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", action="append", help="a part of the names of models", default=[])
    parser.add_argument("--target", action="append", choices=sorted({each.target for each in PAIRS}))
    parser.add_argument("--quantization", choices=["float32", "int8"])
    parser.add_argument("--again", action="store_true", help="also pairs that are done")
    parser.add_argument(
        "--texts", type=int, default=TEXTS, help="of a certificate, at most; fewer are less work"
    )
    parser.add_argument("--quick", action="store_true", help=f"{FEW} texts; nothing is stored")
    parser.add_argument("--table", action="store_true", help="only make the tables of the results")
    options = parser.parse_args()
    if options.table:
        fill_page(read_results())
        return 0
    subjects = [each for each in SUBJECTS if any(part in each.name for part in options.model or [""])]
    pairs = [
        each
        for each in PAIRS
        if each.target in (options.target or [each.target])
        and each.quantization
        in (options.quantization, each.quantization if not options.quantization else None)
    ]
    remember_outputs()
    wrong = 0
    for subject in subjects:
        try:
            wrong += check_model(subject, pairs, options)
        except RegardError as error:
            wrong += len(pairs)
            print(f"export-check: {subject.name}: WRONG: not trained: {error.message}", flush=True)
    print(f"export-check: {wrong} of {len(subjects) * len(pairs)} pairs are wrong")
    return int(wrong > 0)


def check_model(subject: Subject, pairs: Sequence[Pair], options: argparse.Namespace) -> int:
    """The number of its pairs that are wrong."""
    done = {} if options.quick else read_results()
    wrong, loaded = 0, cache(lambda: trained(subject))
    for pair in pairs:
        record = done.get(subject.name, {}).get(pair.key)
        if record is None or options.again or not is_done(record, subject, options.texts):
            record = result(subject, loaded(), pair, FEW if options.quick else options.texts)
            if not options.quick:
                store(subject.name, pair.key, record)
        expected = expected_refusals(subject, loaded().config, pair.target)
        line, is_wrong = judged(record, expected)
        wrong += is_wrong
        print(f"export-check: {subject.name}: {pair.key}: {line}", flush=True)
    return wrong


def is_done(record: dict[str, Any], subject: Subject, most: int) -> bool:
    """True for a refusal, and for a certificate of as many texts as are asked for and there are."""
    if record["state"] not in ("passed", "refused"):
        return False
    if record["state"] == "refused" or subject.texts is None:
        return True
    return record["asked"] >= min(most, len(subject.texts()))


def result(subject: Subject, loaded: LoadedModel, pair: Pair, most: int) -> dict[str, Any]:
    """What an export to a target ends with."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        chosen = [] if subject.texts is None else spread(subject.texts(), most)
        texts = Path(folder) / "texts" if chosen else None
        if texts is not None:
            texts.write_text("\n".join(chosen) + "\n", "utf-8")
        try:
            report = export(
                loaded, to=pair.target, out=Path(folder) / SUFFIX.get(pair.target, "out"), texts=texts,
                quantization=pair.quantization,
                languages=subject.languages if pair.target == "argos" else None,
            )  # fmt: skip
            record = measured(report.certificate) | {"asked": len(chosen)}
        except UserError as error:
            named = {"setting": getattr(error, "setting", None), "value": repr(getattr(error, "value", None))}
            record = {"state": "refused", **named, "why": where_it_is(error.message), "hint": error.hint}
        except RegardError as error:
            record = {"state": "failed", "why": where_it_is(error.message), "hint": error.hint}
        except Exception as error:  # noqa: BLE001 (it is what is looked for)
            traceback.print_exc()
            record = {"state": "died", "why": where_it_is(f"{type(error).__name__}: {error}")}
    return {**record, "seconds": round(time.perf_counter() - began, 1)}


def where_it_is(message: str) -> str:
    """A message with paths from the checkout on: no result names a folder of one machine."""
    return message.replace(f"{Path.cwd()}/", "")


def spread(texts: Sequence[str], most: int) -> list[str]:
    """At most so many of the texts, evenly spread."""
    count = min(most, len(texts))
    return [texts[place * len(texts) // count] for place in range(count)]


def measured(certificate: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a certificate."""
    record: dict[str, Any] = {"state": "passed", "texts": certificate["texts"]["count"]}
    if "labels" in certificate:
        labels = certificate["labels"]
        return record | {"labels": labels["equal"] + labels["tied"], "largest": labels["largest_difference"]}
    for name in ("greedy", "beam"):
        record[name] = certificate[name]["equal"] + certificate[name]["tied"]
        record[f"{name}_equal"] = certificate[name]["equal"]
    if "argos" in certificate:
        record["judged_by"] = certificate["argos"]["judged_by"]
    return record | {"largest": certificate["log_probs"]["largest_difference"]}


def judged(record: dict[str, Any], expected: Sequence[str]) -> tuple[str, bool]:
    """A line on a result, and whether it is wrong; `expected` may refuse it by the documented tables."""
    seconds = f"{record['seconds']} s"
    if record["state"] == "passed":
        shares = ", ".join(
            f"{name} {record[name]:.1%}" for name in ("greedy", "beam", "labels") if name in record
        )
        line = f"passed with {record['texts']} texts: {shares}; within {record['largest']:.1g}; {seconds}"
        return (f"WRONG: documented to refuse {expected[0]}; {line}", True) if expected else (line, False)
    line = f"{record['state']}: {record['why']}; {seconds}"
    if record["state"] == "refused" and record["hint"] and any(each in record["why"] for each in expected):
        return line, False
    return f"WRONG: documented is {' or '.join(expected) or 'no refusal'}; {line}", True


def remember_outputs() -> None:
    """regard's own outputs for a model and its texts are computed once, not once for each target."""
    for kind, name in (
        (PlainReference, "outputs"),
        (TranslationReference, "forced"),
        (ContinuationReference, "forced"),
    ):
        setattr(kind, name, remembered(getattr(kind, name)))


def remembered(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a reference that computes once for each model and sequences."""
    held: dict[Any, Any] = {}

    def answer(self: PlainReference, sequences: Sequence[Any], *given: Any, **named: Any) -> Any:
        key = id(self.model), json.dumps(list(sequences)), given, repr(named)
        if key not in held:
            held[key] = self.model, method(self, sequences, *given, **named)  # the model keeps its id
        return held[key][1]

    return answer


def read_results() -> dict[str, dict[str, Any]]:
    """The stored records, by model and pair."""
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}


def store(model: str, pair: str, record: dict[str, Any]) -> None:
    """Store a record, and the tables of all."""
    results = read_results()
    results.setdefault(model, {})[pair] = record
    order = [each.name for each in SUBJECTS]
    results = {name: results[name] for name in sorted(results, key=order.index)}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    fill_page(results)


if __name__ == "__main__":
    sys.exit(main())
