"""What `make gpu` runs, tried with sizes for a CPU: its programs, its records, its tables."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu import pieces as listed
from benchmarks.gpu.__main__ import RESULTS
from benchmarks.gpu.card import file_name, peak
from benchmarks.gpu.pieces import BENCH, CHECK, RECIPE, Piece, pieces
from benchmarks.gpu.table import BEGIN, END, NOTHING, PAGE, fill_page

ROOT = Path(__file__).parents[2]


def gpu(*arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )


def test_pieces_take_less_than_ten_minutes_each_and_forty_together():
    found = pieces("cuda")
    assert max(piece.minutes for piece in found) < 10
    assert sum(piece.minutes for piece in found) <= 40
    assert len({piece.name for piece in found}) == len(found)
    assert {piece.group for piece in found} == {CHECK, BENCH, RECIPE}


def test_without_a_gpu_it_says_what_to_do():
    done = gpu("check")
    if done.returncode != 2:
        pytest.skip("there is a GPU")
    assert "sees no GPU" in done.stderr
    assert "make gpu PYTHON=" in done.stderr


@pytest.mark.nightly
def test_its_benchmarks_run_are_recorded_and_not_run_again(tmp_path):
    options = ("--device", "cpu", "--tiny", "--results", str(tmp_path))
    done = gpu("bench", *options)
    found = json.loads((tmp_path / "cpu.json").read_text())
    assert done.returncode == 0, found
    rows = [row for piece in found["pieces"].values() for row in piece["rows"]]
    assert {row["model"] for row in rows if "model" in row} == {"base", "big", "gpt2"}
    assert all(row["target_tokens_per_second"] > 0 for row in rows if "model" in row)
    decoded = {(row["work"], row["system"]): row for row in rows if "system" in row}
    assert decoded["text", "regard"]["tokens"] == decoded["text", "Hugging Face"]["tokens"] == 12
    assert decoded["pairs", "regard"]["tokens"] == decoded["pairs", "Hugging Face"]["tokens"] == 12
    again = gpu("bench", *options)
    assert again.returncode == 0
    assert again.stdout.count("done before") == len(found["pieces"])


def test_a_piece_that_fails_is_recorded_with_its_output(tmp_path, monkeypatch):
    from benchmarks.gpu import __main__ as program

    failing = Piece(
        name="bad", group=CHECK, command=(sys.executable, "-c", "print('why'); exit(3)"), minutes=1
    )
    slow = Piece(
        name="slow", group=CHECK, command=(sys.executable, "-c", "import time; time.sleep(9)"), minutes=0.01
    )
    records = [program.run(piece, "cpu") for piece in (failing, slow)]
    assert [record["state"] for record in records] == ["failed (3)", "failed (124)"]
    assert records[0]["output"] == ["why"]


def test_the_page_has_a_place_and_gets_a_table(tmp_path):
    assert BEGIN in PAGE.read_text("utf-8")
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{BEGIN}\n{END}\n\nafter\n")
    fill_page(tmp_path / "none", page)
    assert NOTHING in page.read_text()
    row = {"model": "base", "form": "as trained", "target_tokens_per_second": 123456.7, "tflops": 500.0}
    failed = {"model": "base", "form": "compiled blocks", "failed": "Error: x"}
    decoded = {"work": "text", "system": "regard", "precision": "float32", "tokens_per_second": 9876.5}
    made = {
        "laws": {"group": CHECK, "state": "failed (1)", "last": "2 failed"},
        "training base": {"group": BENCH, "state": "done", "rows": [{**row, "share_of_peak": 0.51}, failed]},
        "decoding text": {"group": BENCH, "state": "done", "rows": [decoded]},
        "recipe": {
            "group": RECIPE,
            "state": "done",
            "rows": [{"recipe": "reverse", "seconds": 61.2, "loss": 0.1}],
        },
    }
    card = {"card": "NVIDIA X", "date": "today", "versions": {"torch": "9"}, "pieces": made}
    (tmp_path / "x.json").write_text(json.dumps(card))
    fill_page(tmp_path, page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    for part in (
        "**NVIDIA X**, today",
        "123,457",
        "51%",
        "Error: x",
        "9,876",
        "| reverse | 61 | 0.100 |",
        "2 failed",
    ):
        assert part in text


def test_the_page_shows_the_results_that_are_there(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text("utf-8"), "utf-8")
    fill_page(RESULTS, page)
    assert page.read_text("utf-8") == PAGE.read_text("utf-8"), "make gpu-table"


def test_a_page_without_a_place_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing here\n")
    with pytest.raises(ValueError, match="no place"):
        fill_page(tmp_path, page)


def test_a_card_has_a_file_and_a_peak():
    import torch

    assert file_name("NVIDIA H100 80GB HBM3") == "nvidia-h100-80gb-hbm3"
    found = peak(torch.device("cpu"), tiny=True)
    assert found["listed"] is None
    assert found["used"] == found["measured"] > 0
    assert listed.GROUPS == (CHECK, BENCH, RECIPE)
