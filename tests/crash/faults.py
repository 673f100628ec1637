"""Saves into a run folder repeatedly, and each time dies or fails at the next call to the disk.

Run as `python faults.py FOLDER FAULT`, with FAULT one of `kill`, `torn` or the name of an errno. PyTorch is
imported once; each save runs in a fork of this process. The following must always hold, else the exit code is
1 and the reason is on standard error:

- an immediate reader finds an intact checkpoint and an intact best model, old or new;
- the next process that takes the lock finds them too, removes partial files, and saves again;
- an error is a RegardError, and what was not saved is never reported as saved.
"""

import errno
import itertools
import os
import shutil
import sys
import traceback
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError

from regard.errors import RegardError
from regard.weights.checkpoint import RunFolder, checkpoint_digest
from regard.weights.folder import verify_folder

CALLS = [
    "mkdir",
    "open",
    "write",
    "fsync",
    "rename",
    "replace",
    "unlink",
    "rmdir",
    "chmod",
    "ftruncate",
    "listdir",
]
MODEL_FILES = {"config.json": b"c" * 5000}  # one of bytes: a second is written by the same calls
WRITING = ("write", "save_file")
POSSIBLE = {  # where a fault can happen; those that are not named, anywhere
    "torn": WRITING,
    "ENOSPC": (*WRITING, "mkdir", "open", "fsync", "rename", "replace"),
}
KILLED, UNTOUCHED = 77, 78
torch.set_num_threads(1)


class Faults:
    """Counts the calls that write to the disk, and makes call number `at` fail."""

    def __init__(self, fault: str, at: int) -> None:
        self.fault, self.at, self.count = fault, at, 0
        for name in CALLS:
            setattr(os, name, self.wrap(getattr(os, name), name))
        safetensors.torch.save_file = self.wrap(safetensors.torch.save_file, "save_file")

    def wrap(self, call, name):
        def called(*args, **kwargs):
            if name in POSSIBLE.get(self.fault, (name,)):
                self.count += 1
                if self.count == self.at:
                    self.fail(call, name, args)
            if (
                name == "fsync"
            ):  # the kernel outlives a killed process, so waiting for the disk proves nothing
                return None
            return call(*args, **kwargs)

        return called

    def fail(self, call, name, args):
        if self.fault == "torn" and name == "write":
            call(args[0], bytes(args[1])[: len(args[1]) // 2])
        elif self.fault == "torn":
            call(*args)
            os.truncate(args[1], os.path.getsize(args[1]) // 2)
        if self.fault in ("kill", "torn"):
            os._exit(KILLED)
        number = getattr(errno, self.fault)
        if name == "save_file":  # the error of the library
            raise SafetensorError(
                f"Error while serializing: I/O error: {os.strerror(number)} (os error {number})"
            )
        raise OSError(number, os.strerror(number), str(args[0]))


def files(step):
    tensors = {"w": torch.full((500,), float(step))}
    return {
        "model.safetensors": tensors,
        "optimizer.safetensors": tensors,
        "state.json": b"{}",
        **MODEL_FILES,
    }


def best(step):
    return {"model.safetensors": {"w": torch.full((500,), float(step))}, **MODEL_FILES}


def save(path, step):
    """Everything that a trainer writes between two updates."""
    with RunFolder(path).lock() as run:
        run.cut_metrics(step - 1)
        run.write_text("recipe.toml", f"step = {step}")
        run.append_metrics({"step": step})
        run.write_best(best(step), step=step, is_average=False)
        run.save(step, files(step))
        run.save(step, files(step))  # once more: a step that is replaced
        run.prune(2)


def forked(work):
    """Runs `work` in a child process; returns its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        work()
        code = 0
    except RegardError as error:
        code = error.exit_code if error.message and "\n" not in error.message else 99
    except BaseException:  # noqa: BLE001 - a traceback must never be shown; the parent reports
        traceback.print_exc()
        code = 99
    os._exit(code)


def check(path, code, fault, good):
    run = RunFolder(path)
    newest, winner = run.latest(), run.best()
    assert newest is not None, "no checkpoint"
    assert winner is not None, "no best model"
    assert newest.step in (2, 3), newest.step
    assert newest.read_tensors("model.safetensors")["w"][0] == newest.step
    assert winner.read_tensors("model.safetensors")["w"][0] == winner.manifest["step"]
    assert winner.manifest["step"] in (2, 3)
    assert run.recipe() in ("step = 2", "step = 3")
    assert [record["step"] for record in run.metrics()][:2] == [1, 2]
    assert code in ((KILLED,) if fault in ("kill", "torn") else (0, 1, 2)), f"exit code {code}"
    if code == 0:  # only clearing away may fail unheard
        assert newest.step == winner.manifest["step"] == 3, "reported as saved, and is not"

    with run.lock():
        litter = [file for file in path.rglob(".*") if file.name != ".lock"]
        assert not litter, litter
        assert run.latest().step == newest.step
        assert run.best().manifest["step"] == winner.manifest["step"]
        assert len(run.checkpoints()) >= 1
        assert run.broken == []
        run.prune(2)
    save(path, 4)
    assert [checkpoint.step for checkpoint in run.checkpoints()] == [4, newest.step]
    assert run.best().manifest["step"] == 4
    assert checkpoint_digest(run.latest()) == good
    assert [record["step"] for record in run.metrics()][-1] == 4
    verify_folder(path / "best")


def main(folder, fault):
    Faults("kill", at=0)  # from here on nothing waits for the disk
    start, good = folder / "start", folder / "good"
    for step in (1, 2):
        save(start, step)
    shutil.copytree(start, good)
    save(good, 4)
    digest = checkpoint_digest(RunFolder(good).latest())
    for at in itertools.count(1):
        path = folder / str(at)
        shutil.copytree(start, path)
        code = forked(lambda path=path, at=at: save_badly(path, fault, at))
        if code == UNTOUCHED:
            print(at - 1)  # the number of calls, each of which failed once
            return
        try:
            check(path, code, fault, digest)
        except BaseException:
            print(f"at call {at}:", file=sys.stderr)
            raise
        shutil.rmtree(path)


def save_badly(path, fault, at):
    faults = Faults(fault, at)
    save(path, 3)
    if faults.count < at:
        os._exit(UNTOUCHED)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
