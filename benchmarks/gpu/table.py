"""The tables of GPUs in docs/performance.md, from the results of `make gpu`."""

import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
BEGIN, END = "<!-- results of make gpu -->", "<!-- end -->"
NOTHING = "No figure of a GPU was measured yet: `make gpu` measures them on a machine that has one."


def fill_page(results: Path, page: Path = PAGE) -> None:
    """Writes the tables of all cards between the comments of the page.

    Raises:
        ValueError: the page has no such comments.
    """
    text = page.read_text("utf-8")
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"{page} has no place for the results: put {BEGIN} and {END} where they belong")
    cards = [json.loads(path.read_text("utf-8")) for path in sorted(results.glob("*.json"))]
    tables = "\n\n".join(map(of_card, cards)) or NOTHING
    page.write_text(pattern.sub(lambda _: f"{BEGIN}\n\n{tables}\n\n{END}", text), "utf-8")


def of_card(found: dict[str, Any]) -> str:
    """The tables of a card: which pieces were done, training, decoding, the recipe."""
    pieces: dict[str, Any] = found["pieces"]
    parts = [f"**{found['card']}**, {found['date']}, PyTorch {found['versions']['torch']}."]
    checks = [
        (name, each["state"], each["last"]) for name, each in pieces.items() if each["group"] == "check"
    ]
    failed = [
        (name, each["state"], each["last"])
        for name, each in pieces.items()
        if each["group"] != "check" and each["state"] != "done"
    ]
    parts += found.get("notes", [])
    if checks or failed:
        parts.append(_table(("piece", "state", "last line"), [*checks, *failed]))
    if training := _rows(pieces, "training "):
        parts.append(
            _table(
                (
                    "training in bfloat16",
                    "form",
                    "target tokens a second",
                    "TFLOP/s",
                    "share of the peak",
                    "GiB",
                ),
                [
                    (row["model"], row["form"], *_numbers(row, TRAINING))
                    if "failed" not in row
                    else (row["model"], row["form"], row["failed"], "", "", "")
                    for row in training
                ],
            )
        )
    if decoding := _rows(pieces, "decoding "):
        parts.append(
            _table(
                ("greedy decoding", "system", "precision", "new tokens a second"),
                [
                    (row["work"], row["system"], row["precision"], row.get("failed") or _number(row, *SPEED))
                    for row in decoding
                ],
            )
        )
    if recipe := _rows(pieces, "recipe"):
        parts.append(
            _table(
                ("recipe", "seconds", "validation loss"),
                [(row["recipe"], f"{row['seconds']:.0f}", f"{row['loss']:.3f}") for row in recipe],
            )
        )
    return "\n\n".join(parts)


SPEED = ("tokens_per_second", ",.0f")
TRAINING = (
    ("target_tokens_per_second", ",.0f"),
    ("tflops", ".0f"),
    ("share_of_peak", ".0%"),
    ("memory_gib", ".1f"),
)


def _rows(pieces: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    return [row for name, each in pieces.items() if name.startswith(prefix) for row in each.get("rows", [])]


def _numbers(row: dict[str, Any], columns: tuple[tuple[str, str], ...]) -> list[str]:
    return [_number(row, *column) for column in columns]


def _number(row: dict[str, Any], key: str, form: str) -> str:
    return "" if row.get(key) is None else format(row[key], form)


def _table(headings: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
