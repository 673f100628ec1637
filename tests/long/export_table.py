"""The tables of `make export-check` in docs/leaving-and-arriving.md, from its results."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "leaving-and-arriving.md"
RESULTS = ROOT / "benchmarks" / "results" / "checks" / "export-check.json"
BEGIN, END = "<!-- results of make export-check -->", "<!-- end -->"
NOT_RUN, ABSENT = "not run", ""
SHORTEST = 9.5e-10  # a smaller difference is shown as 0


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A target, and the form of its weights."""

    target: Literal["ctranslate2", "onnx", "web", "argos", "gguf", "hf"]
    quantization: Literal["float32", "int8"] = "float32"

    @property
    def key(self) -> str:
        return self.target if self.quantization == "float32" else f"{self.target} {self.quantization}"


PAIRS = (
    Pair(target="ctranslate2"),
    Pair(target="ctranslate2", quantization="int8"),
    Pair(target="onnx"),
    Pair(target="onnx", quantization="int8"),
    Pair(target="web"),
    Pair(target="argos"),
    Pair(target="gguf"),
    Pair(target="hf"),
)
Results = Mapping[str, Mapping[str, Mapping[str, Any]]]


def fill_page(results: Results, page: Path = PAGE) -> None:
    """Write the tables between the comments of the page.

    Raises:
        ValueError: the page has no such comments.
    """
    text = page.read_text("utf-8")
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"{page} has no place for the results: put {BEGIN} and {END} where they belong")
    page.write_text(pattern.sub(lambda _: f"{BEGIN}\n\n{tables(results)}\n\n{END}", text), "utf-8")


def tables(results: Results) -> str:
    """A table of the shares with float32, and one of int8 and of the largest differences."""
    exact = [each for each in PAIRS if each.quantization == "float32"]
    shares = [[name, *(share(of.get(each.key)) for each in exact)] for name, of in results.items()]
    small = [each for each in PAIRS if each.quantization == "int8"]
    rest = [
        [name, texts(of), largest(of, exact), *(cell for each in small for cell in both(of.get(each.key)))]
        for name, of in results.items()
        if any(each["state"] == "passed" for each in of.values())
    ]
    heads = [head for each in small for head in (each.key, "difference")]
    return (
        table(["model", *(each.key for each in exact)], shares)
        + "\n\n"
        + table(["model", "texts", "float32: difference", *heads], rest)
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def share(record: Mapping[str, Any] | None) -> str:
    """The shares of equal or tied outputs, greedy and by beam, or of labels; or what refused the export."""
    if record is None:
        return NOT_RUN
    if record["state"] == "refused":
        return f"`{record['setting'] or 'kind of model'}`" if record["setting"] else "refused"
    if record["state"] != "passed":
        return "**failed**"
    found = [record[name] for name in ("greedy", "beam", "labels") if name in record]
    return " / ".join(percent(each) for each in found)


def both(record: Mapping[str, Any] | None) -> tuple[str, str]:
    """The shares and the largest difference."""
    passed = record is not None and record["state"] == "passed"
    return share(record), number(record["largest"]) if passed and record else ABSENT


def texts(of: Mapping[str, Mapping[str, Any]]) -> str:
    """How many texts were compared, by the target with the fewest and by that with the most."""
    counts = sorted({each["texts"] for each in of.values() if "texts" in each})
    return " to ".join(f"{each:,}" for each in dict.fromkeys((counts[0], counts[-1])))


def largest(of: Mapping[str, Mapping[str, Any]], pairs: Sequence[Pair]) -> str:
    """The largest difference by all targets with these weights."""
    found = [of[each.key]["largest"] for each in pairs if of.get(each.key, {}).get("state") == "passed"]
    return number(max(found)) if found else ABSENT


def percent(found: float) -> str:
    """A share in percent; 100 only if it is all."""
    return "100" if found == 1 else f"{min(100 * found, 99.9):.1f}"


def number(found: float) -> str:
    """A difference with one digit."""
    return f"{found:.1g}"
