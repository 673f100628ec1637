"""The benchmarks count what they say they count, and tell what is missing."""

import os
import signal
import time

import pytest

from benchmarks.common.contender import Entry, contenders
from benchmarks.common.memory import busy_seconds, members, peak_memory, peak_resident, processor_seconds
from benchmarks.common.report import filled
from benchmarks.common.report import main as report
from benchmarks.common.results import Result, Table, read
from benchmarks.common.rounds import Sample, disturbed, median, ratio, rounds
from benchmarks.work.flops import PairShape, TextShape

STUB = "tests.benchmarks.stub"


@pytest.fixture(scope="module")
def adder():
    """A process that several tests ask."""
    with contenders([Entry(name="odd", make=f"{STUB}:Adder", settings={"first": 1})]) as (one,):
        yield one


class TestRounds:
    def test_each_contender_is_asked_equally_often(self):
        entries = [Entry(name=name, make=f"{STUB}:Adder", settings={"first": 1}) for name in ("a", "b")]
        with contenders(entries) as here:
            samples = rounds(here, 2, {"second": 2}, warm_up={"second": 0}, again=False, say=silence)
            asked = [each.ask("asked") for each in here]
        assert asked == [3, 3]
        assert {name: len(found) for name, found in samples.items()} == {"a": 2, "b": 2}
        assert median(samples["a"], "sum") == 3

    def test_who_is_not_installed_is_named(self):
        with contenders([Entry(name="none", make=f"{STUB}:Absent")]) as (absent,):
            assert absent.absent == "no_such_package is not installed"
            assert rounds([absent], 1, {}, say=silence) == {}

    def test_who_turns_out_unfit_leaves_with_a_reason(self):
        with contenders([Entry(name="small", make=f"{STUB}:Adder", settings={"first": 1})]) as (small,):
            assert rounds([small], 1, {"second": 100}, say=silence) == {}
            assert small.absent == "100 is too much"

    def test_who_is_killed_leaves_with_a_reason_and_the_others_go_on(self):
        entries = [Entry(name=name, make=f"{STUB}:Adder", settings={"first": 1}) for name in ("a", "b")]
        with contenders(entries) as (killed, other):
            os.killpg(killed.session, signal.SIGKILL)
            samples = rounds([killed, other], 2, {"second": 2}, again=False, say=silence)
        assert killed.absent == "its process was killed, probably for want of memory"
        assert {name: len(found) for name, found in samples.items()} == {"b": 2}

    def test_a_failure_is_reported_with_its_traceback(self, adder):
        with pytest.raises(RuntimeError, match="odd failed"):
            adder.ask("round", second="two")

    def test_ratios_are_taken_within_a_round(self):
        slow, fast = ([_sample(speed) for speed in speeds] for speeds in ((1.0, 10.0), (2.0, 20.0)))
        assert ratio(fast, slow, "work") == 2.0

    def test_a_disturbed_sample_is_counted(self):
        assert disturbed([_sample(1.0), _sample(1.0, others=0.5)]) == 1


def silence(text: str) -> None:
    """What these rounds have to say."""


def _sample(speed: float, others: float = 0.0) -> Sample:
    return Sample(answer={"seconds": 1.0, "work": speed}, others=others)


@pytest.mark.skipif(busy_seconds() == 0, reason="Linux counts these")
class TestMemory:
    def test_a_contender_is_its_session(self, adder):
        assert members(adder.session) == [adder.session]
        assert peak_resident(adder.session) > 1 << 20
        deadline = time.monotonic() + 10
        while processor_seconds(adder.session) == 0 and time.monotonic() < deadline:
            adder.ask("round", second=2)  # the kernel counts in hundredths of a second
        assert processor_seconds(adder.session) > 0

    def test_what_is_held_for_a_while_is_seen(self):
        with peak_memory(every=0.001) as before:
            pass
        with peak_memory(every=0.001) as peak:
            held = bytearray(b"x" * (64 << 20))
            time.sleep(0.3)  # so long that a watcher who looks every millisecond has its turn
            del held
        assert peak[0] > before[0] + (32 << 20)


class TestOperations:
    SHAPE = PairShape(d_model=8, d_ff=16, encoder_layers=1, decoder_layers=1, vocab_size=10)

    def test_a_pair_is_counted_product_by_product(self):
        source, target = 3, 2
        encoder = source * (4 * 64 + 2 * 8 * 16) + 2 * 8 * source * source
        decoder = target * (6 * 64 + 2 * 8 * 16) + 2 * 8 * target * (target + source) + 2 * 64 * source
        output = target * 8 * 10
        assert self.SHAPE.forward([(source, target)]) == 2 * (encoder + decoder + output)

    def test_training_is_three_times_the_way_forward(self):
        assert self.SHAPE.training([(3, 2)]) == 3 * self.SHAPE.forward([(3, 2)])

    def test_a_beam_of_one_is_the_way_forward(self):
        assert self.SHAPE.decoding([(3, 2)], beam_size=1) == self.SHAPE.forward([(3, 2)])

    def test_six_times_parameters_and_tokens_and_attention(self):
        shape = TextShape(d_model=8, d_ff=32, layers=2, vocab_size=10)
        parameters = 2 * 12 * 64 + 80
        assert shape.training(rows=3, length=4) == 6 * parameters * 12 + 12 * 2 * 8 * 4 * 12


class TestResults:
    def test_what_is_written_is_read_and_shown(self, tmp_path, monkeypatch):
        monkeypatch.setattr("benchmarks.common.results.FOLDER", tmp_path)
        result = Result(part="tiny", settings={"rounds": 1}, checks=["alike"])
        columns = {"name": ("contender", ""), "rate": ("tok/s", ",.0f")}
        result.tables.append(
            Table(title="speed", columns=columns, rows=[{"name": "a", "rate": 1234.5}, {"name": "b"}])
        )
        shown = read(result.write(quick=False)).markdown()
        assert shown == result.markdown()
        assert "| a | 1,234 |" in shown
        assert "| b |  |" in shown
        assert "- alike" in shown

    def test_results_of_another_processor_are_kept_next_to_those_that_are_there(self, tmp_path, monkeypatch):
        monkeypatch.setattr("benchmarks.common.results.FOLDER", tmp_path)
        monkeypatch.setattr("benchmarks.common.report.FOLDER", tmp_path)
        monkeypatch.setattr("benchmarks.common.report.PAGE", tmp_path / "README.md")
        monkeypatch.setattr("sys.argv", ["report"])
        (tmp_path / "README.md").write_text("<!-- results of tiny -->\n<!-- end -->\n")
        for cpu in ("Chip A (old)", "Chip B", "Chip A (old)"):
            result = Result(part="tiny", settings={}, checks=[f"by {cpu}"])
            result.machine["cpu"] = cpu
            result.write(quick=False)
        files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.json")}
        assert files == {"tiny.json", "chip-b/tiny.json"}
        report()
        page = (tmp_path / "README.md").read_text()
        assert page.index("by Chip A (old)") < page.index("by Chip B")

    def test_the_page_has_a_place_for_each_part(self):
        text = "before\n<!-- results of train -->\nold\n<!-- end -->\nafter"
        assert filled(text, "train", "new") == (
            "before\n<!-- results of train -->\n\nnew\n\n<!-- end -->\nafter"
        )
        with pytest.raises(ValueError, match="no place for the results of decode"):
            filled(text, "decode", "new")
