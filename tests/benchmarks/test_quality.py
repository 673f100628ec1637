"""Quality within a budget: what is counted, what is kept, and when a difference counts."""

import argparse
import json
import signal
import sys
from pathlib import Path

import pytest

from benchmarks import quality
from benchmarks.common import report, results
from benchmarks.common.machine import machine
from benchmarks.common.memory import busy_seconds
from benchmarks.common.unfit import Unfit
from benchmarks.systems import budget as budgets
from benchmarks.systems.budget import Budget
from benchmarks.systems.corpora import Corpus, cut, read
from benchmarks.systems.pieces import Pieces
from benchmarks.systems.significance import ahead, scored
from benchmarks.systems.system import MARGIN, Job, System, TrainingReport, affordable

POLITE = """
import pathlib, sys
try:
    while True:
        sum(range(1000))
except KeyboardInterrupt:
    pathlib.Path(sys.argv[1]).write_text("saved")
"""
STUBBORN = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
TWO = """
import subprocess, sys
children = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
[child.wait() for child in children]
"""
SENTENCES = [
    f"The {word} dog number {n} runs over the green field ." for n, word in enumerate("abcdefgh" * 8)
]
WORSE = [
    sentence.replace("runs over", "walks on") if n % 2 else sentence for n, sentence in enumerate(SENTENCES)
]


def command(program: str, *arguments: Path) -> list[str | Path]:
    return [sys.executable, "-S", "-c", program, *arguments]


@pytest.mark.skipif(busy_seconds() == 0, reason="Linux counts processor time of others")
class TestBudget:
    def test_who_comes_to_the_end_is_stopped_and_may_save(self, tmp_path):
        budget, saved = Budget(0.3), tmp_path / "saved"
        ran = budget.run(command(POLITE, saved), log=tmp_path / "log")
        assert ran.stopped
        assert saved.read_text() == "saved"
        assert 0.3 <= budget.spent == ran.cpu
        assert budget.left <= 0

    def test_who_does_not_listen_is_killed(self, tmp_path, monkeypatch):
        monkeypatch.setattr(budgets, "PATIENCE", 0.2)
        assert Budget(0.2).run(command(STUBBORN), log=tmp_path / "log").stopped

    def test_processes_that_it_starts_are_counted_and_stopped(self, tmp_path):
        ran = Budget(0.5).run(command(TWO), log=tmp_path / "log")
        assert ran.stopped
        assert ran.cpu >= 0.5

    def test_it_is_stopped_where_interrupts_are_ignored_from_the_start(self, tmp_path):
        """As in a shell's background."""
        before, saved = signal.signal(signal.SIGINT, signal.SIG_IGN), tmp_path / "saved"
        try:
            Budget(0.2).run(command(POLITE, saved), log=tmp_path / "log")
        finally:
            signal.signal(signal.SIGINT, before)
        assert saved.exists()

    def test_who_ends_by_itself_leaves_the_rest(self, tmp_path):
        budget = Budget(60)
        assert not budget.run(command("sum(range(1000000))"), log=tmp_path / "log").stopped
        assert 0 < budget.spent < 60
        assert budget.left == 60 - budget.spent

    def test_a_failure_is_reported_by_its_last_line(self, tmp_path):
        with pytest.raises(Unfit, match="failed: ValueError: no such thing"):
            Budget(60).run(command("raise ValueError('no such thing')"), log=tmp_path / "log")

    def test_nothing_runs_when_nothing_is_left(self, tmp_path):
        with pytest.raises(Unfit, match="nothing of the budget was left"):
            Budget(0).run(command("pass"), log=tmp_path / "log")

    def test_a_translation_goes_into_a_file_of_its_own(self, tmp_path):
        (tmp_path / "in").write_text("ein Haus\n")
        program = "import sys; print(input().upper()); print('said', file=sys.stderr)"
        log, out = tmp_path / "log", tmp_path / "out"
        budgets.translating(command(program), log=log, stdin=tmp_path / "in", stdout=out)
        assert (out.read_text(), log.read_text()) == ("EIN HAUS\n", "said\n")

    def test_a_translation_without_an_end_is_stopped(self, tmp_path, monkeypatch):
        monkeypatch.setattr(budgets, "TRANSLATING", 0.3)
        with pytest.raises(Unfit, match="no end"):
            budgets.translating(command("while True: pass"), log=tmp_path / "log")


def test_updates_that_fit_are_found_whatever_the_start_costs():
    for start in (0.0, 5.0, 50.0):
        updates = affordable(lambda updates, start=start: start + 0.25 * updates, 100.0)
        assert updates == int(MARGIN * (100.0 - start) / 0.25)


def test_a_cut_of_a_corpus_does_not_depend_on_its_order_and_grows_at_its_end():
    pairs = [(f"source {n}", f"target {n}") for n in range(50)]
    assert cut(pairs, 20) == cut(pairs[::-1], 20)
    assert cut(pairs, 30)[:20] == cut(pairs, 20)


def test_only_a_line_feed_ends_a_line(tmp_path):
    (tmp_path / "text").write_text("one\u2028two\u00a0three\nfour\n", "utf-8")
    assert read(tmp_path / "text") == ["one\u2028two\u00a0three", "four"]


class TestSignificance:
    def test_a_clear_difference_is_significant_and_has_a_sign(self):
        better = ahead(SENTENCES, {"other": WORSE}, SENTENCES, samples=100)["other"]
        worse = ahead(WORSE, {"other": SENTENCES}, SENTENCES, samples=100)["other"]
        assert better.bleu == -worse.bleu > 5
        assert max(better.p, worse.p) < 0.05

    def test_no_difference_is_not(self):
        assert ahead(WORSE, {"other": list(WORSE)}, SENTENCES, samples=100)["other"].p == 1.0

    def test_one_line_of_many_is_not(self):
        almost = ["A cat .", *SENTENCES[1:]]
        assert ahead(SENTENCES, {"other": almost}, SENTENCES, samples=100)["other"].p > 0.05

    def test_scores_have_their_signatures(self):
        found = scored(SENTENCES, SENTENCES)
        assert found["bleu"] == found["chrf"] == 100.0
        assert "tok:13a" in found["signatures"][0]


class Copy(System):
    """Learns nothing and gives the reference."""

    name, about, packages = "copy", "the reference", ("none",)
    trained = 0

    def check(self) -> dict[str, str]:
        return {"none": "1.0"}

    def train(self, job: Job, budget: Budget) -> TrainingReport:
        type(self).trained += 1
        budget.run(command("pass"), log=job.log)
        return TrainingReport(updates=3, settings="")

    def translate(self, job: Job) -> None:
        job.output.write_text(job.corpus.file("test", job.corpus.target).read_text())


class Clipped(Copy):
    """The reference without its last word."""

    name = "clipped"

    def translate(self, job: Job) -> None:
        lines = job.corpus.lines("test", job.corpus.target)
        job.output.write_text("".join(f"{line.rsplit(' ', 3)[0]}\n" for line in lines))


class Short(Copy):
    """Loses a line."""

    name = "short"

    def translate(self, job: Job) -> None:
        job.output.write_text("one line\n")


class Missing(Copy):
    """Is not installed until it is."""

    name, installed = "missing", False

    def check(self) -> dict[str, str]:
        if not type(self).installed:
            raise Unfit("not installed")
        return {}


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """`quality` with systems that take no time, a corpus of some lines, and its results in `tmp_path`."""
    corpus = Corpus(name="tiny", source="xx", target="yy", folder=tmp_path)
    for language in ("xx", "yy"):
        corpus.file("test", language).write_text("".join(f"{line}\n" for line in SENTENCES))
    systems = {"regard": Copy, "clipped": Clipped, "short": Short, "missing": Missing}
    for make in systems.values():
        make.trained, make.installed = 0, False
    monkeypatch.setattr(quality, "SYSTEMS", {name: (make, "") for name, make in systems.items()})
    monkeypatch.setattr(quality, "corpus", lambda name: corpus)
    monkeypatch.setattr(quality.program, "BUILD", tmp_path / "build")
    monkeypatch.setattr(quality.Regard, "name", "copy")
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")

    def run(*names: str, minutes: float = 1.0) -> results.Result:
        options = {"quick": False, "data": ["tiny"], "minutes": [minutes], "seeds": [1], "peers": Path()}
        return quality.quality(argparse.Namespace(**options, contender=list(names), against="regard"))

    return run


class TestPieces:
    def test_a_training_that_is_stored_is_not_done_again(self, bench):
        bench("regard")
        bench("regard", "clipped")
        bench("regard", "clipped")
        assert (Copy.trained, Clipped.trained) == (1, 1)

    def test_a_training_of_another_processor_is_done_again_and_stored_apart(self, bench):
        bench("clipped")
        path = results.FOLDER / "quality.json"
        stored = path.read_text().replace(json.dumps(machine()["cpu"]), '"Chip B"')
        path.write_text(stored)
        bench("clipped")
        assert Clipped.trained == 2
        assert path.read_text() == stored
        assert len(list(results.FOLDER.rglob("quality.json"))) == 2

    def test_another_budget_is_another_training(self, bench):
        bench("clipped")
        result = bench("clipped", minutes=2.0)
        assert [row["minutes"] for row in result.tables[0].rows] == [1.0, 2.0]

    def test_who_is_missing_has_a_reason_and_another_chance(self, bench):
        assert "| not installed |" in bench("missing").markdown()
        Missing.installed = True
        assert "not installed" not in bench("missing").tables[0].markdown()

    def test_a_lost_line_is_no_score(self, bench):
        (row,) = bench("short").tables[0].rows
        assert "bleu" not in row
        assert row["settings"] == "1 translations of 64 sentences"

    def test_a_later_system_is_compared_with_what_is_kept(self, bench):
        bench("clipped")
        result = bench("regard")
        rows = {row["name"]: row for row in result.tables[0].rows}
        assert rows["clipped"]["against"].startswith("+")
        assert "*" in rows["clipped"]["against"]
        assert "against" not in rows["copy"]

    def test_rows_of_another_process_are_not_lost(self, bench):
        bench("clipped")
        mine, other = (Pieces({}, quick=False) for _ in range(2))
        for pieces, name in ((mine, "a"), (other, "b")):
            pieces.store("tiny", {"minutes": 1.0, "name": name, "seed": 1, "settings": "no"})
        kept = results.read(results.FOLDER / "quality.json").tables[0].rows
        assert {row["name"] for row in kept} == {"clipped", "a", "b"}


def test_every_environment_is_made_by_make():
    makefile = (Path(__file__).parent.parent.parent / "Makefile").read_text()
    for _, environment in quality.SYSTEMS.values():
        assert not environment or f"\tpeer {environment} " in makefile


def test_the_page_has_a_place_for_the_results():
    assert "a new table" in report.filled(report.PAGE.read_text("utf-8"), "quality", "a new table")
