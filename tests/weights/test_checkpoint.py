import contextlib
import json
import os
import re
import shutil

import pytest
import torch

from regard.errors import FolderError, RunError
from regard.weights import verified_folder
from regard.weights.checkpoint import Checkpoint, RunFolder, checkpoint_digest
from regard.weights.strict_json import json_bytes
from regard.weights.verified_folder import VerifiedFolder


def files(step, *, seconds=0.0, weight=None):
    return {
        "model.safetensors": {"w": torch.full((4,), float(step if weight is None else weight))},
        "optimizer.safetensors": {"m": torch.full((4,), float(step))},
        "state.json": json_bytes({"step": step, "seconds": seconds, "deep": {"seconds": seconds, "x": 1}}),
        "config.json": b"{}\n",
    }


@pytest.fixture
def run(tmp_path):
    with RunFolder(tmp_path / "a run 😀").lock() as run:
        yield run


def names(path):
    return sorted(entry.name for entry in path.iterdir())


def steps(run):
    return [checkpoint.step for checkpoint in run.checkpoints()]


def damage(path):
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        byte = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([byte[0] ^ 1]))


def test_a_checkpoint_gives_back_what_was_saved(run):
    assert run.latest() is None
    saved = run.save(400, files(400))
    found = run.latest()
    assert saved.path == found.path == run.path / "checkpoints" / "step-00000400"
    assert saved.manifest == found.manifest
    assert found.step == 400
    assert torch.equal(found.read_tensors("model.safetensors")["w"], torch.full((4,), 400.0))
    assert found.read_json("state.json")["step"] == 400
    assert found.read_bytes("config.json") == b"{}\n"
    assert (run.path / "LATEST").read_text() == "step-00000400\n"


def test_the_newest_checkpoint_is_that_of_the_highest_step_whatever_latest_contains(run):
    for step in (99_999_999, 100_000_000, 5):
        run.save(step, files(step))
    assert steps(run) == [100_000_000, 99_999_999, 5]
    (run.path / "LATEST").write_text("step-00000005")
    assert run.latest().step == 100_000_000
    (run.path / "LATEST").unlink()
    assert run.latest().step == 100_000_000


def test_a_step_that_is_saved_again_is_replaced(run):
    run.save(1, files(1))
    run.save(1, files(1, weight=9))
    assert steps(run) == [1]
    assert run.latest().read_tensors("model.safetensors")["w"][0] == 9


def test_a_step_that_is_saved_again_is_verified_again_before_others_are_pruned(run):
    for step in (1, 2):
        run.save(step, files(step))
    assert steps(run) == [2, 1]
    run.save(2, files(2, weight=9))
    run.save(3, files(3))
    damage(run.path / "checkpoints" / "step-00000002" / "model.safetensors")
    run.prune(2)
    assert steps(run) == [3, 1]


@pytest.mark.parametrize("keep", [0, 1, 2, 3, 10])
def test_pruning_keeps_the_newest_and_two_at_least(run, keep):
    for step in range(1, 6):
        run.save(step, files(step))
    run.prune(keep)
    assert steps(run) == [5, 4, 3, 2, 1][: max(keep, 2)]
    assert names(run.path / "checkpoints") == [f"step-0000000{step}" for step in sorted(steps(run))]


def test_pruning_reads_no_checkpoint_twice(run, monkeypatch):
    for step in (1, 2, 3):
        run.save(step, files(step))
    assert steps(run) == [3, 2, 1]
    monkeypatch.setattr(Checkpoint, "open", lambda *_: pytest.fail("it was read again"))
    run.prune(2)
    assert names(run.path / "checkpoints") == ["step-00000002", "step-00000003"]


def test_checkpoints_of_a_signal_are_pruned_with_the_others_but_do_not_count(run):
    for step in (2, 3, 4, 6, 7):
        run.save(step, files(step))
    run.prune(2, every=2)
    assert steps(run) == [7, 6, 4]
    run.prune(2, every=7)
    assert steps(run) == [7, 6, 4], "one of them counts, and two have to"
    run.prune(2)
    assert steps(run) == [7, 6]


@pytest.mark.parametrize(
    ("good", "kept"), [(None, [5, 4]), (5, [5, 4]), (4, [5, 4]), (3, [5, 4, 3]), (1, [5, 4, 1]), (0, [5, 4])]
)
def test_pruning_keeps_the_newest_up_to_the_step_to_which_a_run_may_go_back(run, good, kept):
    for step in range(1, 6):
        run.save(step, files(step))
    run.prune(2, good=good)
    assert steps(run) == kept


def test_a_damaged_one_is_not_what_a_run_goes_back_to(run):
    for step in range(1, 6):
        run.save(step, files(step))
    damage(run.path / "checkpoints" / "step-00000002" / "model.safetensors")
    with run_again(run) as other:
        other.prune(2, good=2)
        assert steps(other) == [5, 4, 1]


@contextlib.contextmanager
def run_again(run):
    """The same run in another process, which has verified nothing yet."""
    other = RunFolder(run.path)
    other._locked = True
    yield other


def test_going_back_removes_the_later_checkpoints_and_no_others(run):
    for step in (1, 2, 3, 4):
        run.save(step, files(step))
    run.remove_after(2)
    assert steps(run) == [2, 1]
    assert names(run.path / "checkpoints") == ["step-00000001", "step-00000002"]
    run.save(3, files(3, weight=9))
    assert run.latest().read_tensors("model.safetensors")["w"][0] == 9


def test_nothing_is_pruned_for_a_checkpoint_that_does_not_verify(run):
    for step in (1, 2, 3):
        run.save(step, files(step))
    damage(run.path / "checkpoints" / "step-00000003" / "model.safetensors")
    run.prune(2)
    assert steps(run) == [2, 1]


def test_a_damaged_checkpoint_is_put_aside_and_the_one_before_it_is_used(run):
    for step in (1, 2, 3):
        run.save(step, files(step))
    newest = run.path / "checkpoints" / "step-00000003"
    (newest / "optimizer.safetensors").write_bytes(b"")
    assert run.latest().step == 2
    (aside,) = run.broken
    assert re.fullmatch(r"step-00000003\.broken-\d{8}-\d{6}-\d{6}", aside.name)
    assert "optimizer.safetensors" in names(aside)
    run.save(3, files(3))
    assert steps(run) == [3, 2, 1]


def test_each_damaged_checkpoint_is_renamed_with_a_warning(run, capsys):
    for step in (1, 2, 3):
        run.save(step, files(step))
    assert [each.step for each in run.checkpoints()] == [3, 2, 1]
    assert not capsys.readouterr().err
    damage(run.path / "checkpoints" / "step-00000001" / "model.safetensors")
    (run.path / "checkpoints" / "step-00000002" / "MANIFEST.json").unlink()
    assert [each.step for each in run.checkpoints()] == [3]
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("warning: ")
    assert "step-00000002 has no MANIFEST.json" in first
    assert "model.safetensors was changed after it was written" in second
    for warning, kept in zip((first, second), run.broken, strict=True):
        assert warning.endswith(f"it was renamed to {kept.name}")
    assert steps(run) == [3]


@pytest.mark.parametrize(("damaged", "lost"), [([5], "1 update is lost"), ([4, 5], "3 updates are lost")])
@pytest.mark.parametrize("locked", [True, False])
def test_a_newer_checkpoint_is_passed_by_with_a_warning_of_the_updates_that_are_lost(
    run, capsys, damaged, lost, locked
):
    for step in (2, 4, 5):
        run.save(step, files(step))
    for step in damaged:
        (run.path / "checkpoints" / f"step-0000000{step}" / "state.json").unlink()
    used = 4 if damaged == [5] else 2
    assert (run if locked else RunFolder(run.path)).latest().step == used
    warning = capsys.readouterr().err.splitlines()[0]
    assert "step-00000005/state.json is missing" in warning
    assert f"the checkpoint of step {used} is used: {lost}" in warning
    assert ("renamed to step-00000005.broken-" in warning) is locked


def test_where_no_checkpoint_is_whole_training_never_starts_again(run):
    for step in (1, 2):
        run.save(step, files(step))
        damage(run.path / "checkpoints" / f"step-0000000{step}" / "model.safetensors")
    for _ in range(2):
        with pytest.raises(FolderError, match="all of its 2 checkpoints are damaged") as raised:
            run.latest()
        assert raised.value.hint
    assert not run.broken


def test_a_checkpoint_that_may_not_be_read_is_not_taken_for_a_damaged_one(run, monkeypatch):
    for step in (1, 2):
        run.save(step, files(step))
    shut = run.path / "checkpoints" / "step-00000002"
    read = verified_folder.verify_folder

    def refused(path, names=None):
        if path == shut:
            raise FolderError(f"{path}: Permission denied", "whose is it?") from PermissionError()
        return read(path, names)

    monkeypatch.setattr(verified_folder, "verify_folder", refused)
    with pytest.raises(FolderError, match="Permission denied"):
        run.latest()
    assert not run.broken


def test_a_reader_without_the_lock_changes_nothing(run):
    for step in (1, 2):
        run.save(step, files(step))
    damage(run.path / "checkpoints" / "step-00000002" / "model.safetensors")
    before = names(run.path / "checkpoints")
    reader = RunFolder(run.path)
    assert reader.latest().step == 1
    assert steps(reader) == [1]
    assert names(run.path / "checkpoints") == before


def test_a_reader_finds_the_checkpoint_and_the_best_that_are_just_being_replaced(run):
    run.save(1, files(1))
    run.write_best(files(1), step=1, is_average=False)
    (run.path / "best").rename(run.path / ".best.aside")
    checkpoints = run.path / "checkpoints"
    (checkpoints / "step-00000001").rename(checkpoints / ".step-00000001.aside")
    reader = RunFolder(run.path)
    assert reader.best().read_json("state.json")["step"] == 1
    assert reader.latest().step == 1


def test_the_best_is_replaced_and_has_its_step(run):
    assert run.best() is None
    for step in (1, 2):
        run.write_best(files(step), step=step, is_average=step == 2)
        assert (run.best().manifest["step"], run.best().manifest["is_average"]) == (step, step == 2)
        assert names(run.path) == [".lock", "best", "checkpoints"]


def test_a_damaged_best_or_step_folder_is_kept_under_another_name(run):
    (run.path / "best").mkdir()
    (run.path / "best" / "half").write_text("")
    (run.path / "checkpoints" / "step-00000001").write_text("a file")
    run.write_best(files(1), step=1, is_average=False)
    run.save(1, files(1))
    assert run.best().read_json("state.json")["step"] == run.latest().step == 1
    assert len(run.broken) == 2


def test_a_second_writer_is_refused_and_a_writer_without_the_lock_takes_it(run, tmp_path):
    with pytest.raises(FolderError, match="in use by process"), RunFolder(run.path).lock():
        pass
    with pytest.raises(FolderError, match="in use by process"):
        RunFolder(run.path).save(1, files(1))
    other = RunFolder(tmp_path / "other")
    other.save(1, files(1))
    assert other.latest().step == 1


def test_after_its_lock_a_writer_takes_it_again(tmp_path):
    run = RunFolder(tmp_path)
    with run.lock():
        run.save(1, files(1))
    with RunFolder(tmp_path).lock(), pytest.raises(FolderError, match="in use by process"):
        run.save(2, files(2))


def test_starting_sweeps_what_a_killed_writer_left(tmp_path):
    run = RunFolder(tmp_path)
    run.save(1, files(1))
    litter = tmp_path / "checkpoints" / ".step-00000002.123.partial"
    shutil.copytree(tmp_path / "checkpoints" / "step-00000001", litter)
    (tmp_path / ".LATEST.123.partial").write_text("half")
    with run.lock():
        assert names(tmp_path / "checkpoints") == ["step-00000001"]
        assert ".LATEST.123.partial" not in names(tmp_path)


def test_a_checkpoint_with_a_nan_is_never_committed(run):
    run.save(1, files(1))
    for name in ("model.safetensors", "optimizer.safetensors"):
        bad = files(2)
        bad[name] = {"w": torch.tensor([1.0, torch.nan])}
        with pytest.raises(RunError, match=f"{name} was not saved: 'w' has NaN"):
            run.save(2, bad)
    assert run.latest().step == 1
    assert names(run.path / "checkpoints") == ["step-00000001"]


def test_the_digest_sees_weights_optimiser_and_state_and_no_times(run):
    base = checkpoint_digest(run.save(1, files(1)))
    assert re.fullmatch("[0-9a-f]{64}", base)
    assert checkpoint_digest(run.save(1, files(1, seconds=77.7))) == base
    other_order = dict(reversed(json.loads(files(1)["state.json"]).items()))
    assert checkpoint_digest(run.save(1, files(1) | {"state.json": json_bytes(other_order)})) == base
    assert checkpoint_digest(run.save(1, files(1) | {"recipe.toml": b"x"})) == base
    assert checkpoint_digest(run.save(1, files(1, weight=2))) != base
    assert checkpoint_digest(run.save(1, files(1) | {"optimizer.safetensors": {"m": torch.zeros(4)}})) != base
    assert checkpoint_digest(run.save(1, files(1) | {"average.safetensors": {"m": torch.zeros(4)}})) != base
    state = json.loads(files(1)["state.json"])
    state["deep"]["x"] = 2
    assert checkpoint_digest(run.save(1, files(1) | {"state.json": json_bytes(state)})) != base


def test_a_model_folder_is_no_checkpoint(run):
    run.write_best(files(1), step=0, is_average=False)
    with pytest.raises(FolderError, match=r"has no optimiser\.safetensors"):
        VerifiedFolder.open(run.path / "best").read_tensors("optimiser.safetensors")
    shutil.copytree(run.path / "best", run.path / "checkpoints" / "step-00000007")
    with pytest.raises(FolderError, match="is the checkpoint of step 0"):
        run.latest()
    manifest = json.loads((run.path / "best" / "MANIFEST.json").read_text())
    del manifest["step"]
    (run.path / "best" / "MANIFEST.json").write_text(json.dumps(manifest))
    with pytest.raises(FolderError, match="not a checkpoint"):
        Checkpoint.open(run.path / "best")


def test_metrics_and_texts_of_a_run_survive(run):
    for step in (1, 2, 3):
        run.append_metrics({"step": step})
    run.cut_metrics(2)
    assert run.metrics() == [{"step": 1}, {"step": 2}]
    assert run.recipe() is None
    run.write_text("recipe.toml", "name = 'ü'\r\n# verbatim\n")
    assert run.recipe() == "name = 'ü'\r\n# verbatim\n"


def test_metrics_are_on_disk_before_the_checkpoint_that_a_run_resumes_from(run, monkeypatch):
    run.append_metrics({"step": 1})
    flushed, flush = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: (flushed.append(os.fstat(number).st_ino), flush(number)))
    saved = run.save(1, files(1))
    metrics, weights = (path.stat().st_ino for path in (run._metrics, saved.file("model.safetensors")))
    assert flushed.index(metrics) < flushed.index(weights)


def test_a_resumed_run_is_warned_where_the_machine_is_another(run):
    assert run.environment_warnings() == []
    path = run.save(1, files(1)).path / "MANIFEST.json"
    assert run.environment_warnings() == []
    manifest = json.loads(path.read_text())
    manifest["environment"]["threads"] = 96
    path.write_text(json.dumps(manifest))
    assert run.environment_warnings() == [f"threads: 96 then, {torch.get_num_threads()} now"]


def test_a_run_folder_that_cannot_be_written_is_reported_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "run", tmp_path / ("n" * 300), "/proc/regard/run"):
        with pytest.raises(FolderError, match="cannot use") as raised, RunFolder(path).lock():
            pass
        assert "\n" not in raised.value.message
        assert raised.value.hint


def test_a_folder_of_other_things_is_not_touched(tmp_path):
    (tmp_path / "thesis.tex").write_text("...")
    (tmp_path / ".old.aside").mkdir()
    with pytest.raises(FolderError, match="exists and is not a run folder"), RunFolder(tmp_path).lock():
        pass
    assert names(tmp_path) == [".old.aside", "thesis.tex"]
    (tmp_path / "thesis.tex").unlink()
    with RunFolder(tmp_path).lock():
        pass
