"""The run folder: checkpoints that are whole or absent, the best model, metrics, the recipe.

    RUN/checkpoints/step-00000400/    a model folder with optimizer.safetensors and state.json beside
    RUN/best/                         the model folder that validated best
    RUN/metrics.jsonl  RUN/recipe.toml
    RUN/LATEST                        a hint for people; what is true is found by verifying
    RUN/.lock                         held while a process writes here

Kill the writer at any instant: the next start finds the newest checkpoint that is whole.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.data.folder_file import checked_inside, read_file
from regard.errors import FolderError, UserError
from regard.weights.environment import environment_differences
from regard.weights.folder import (
    MANIFEST,
    Files,
    find,
    remove_folder,
    replace_file,
    set_aside,
    settle,
    told,
    verify_folder,
    write_folder,
)
from regard.weights.lock import locked
from regard.weights.metrics import append_record, cut_records, flush_records, read_records
from regard.weights.strict_json import read_json
from regard.weights.tensors import read_tensors

RESOLVED = "resolved.json"  # in a run folder: the recipe's table that was read, and where its paths begin
TIME_KEYS = frozenset({"seconds"})  # of state.json: all that differs between two equal runs


@dataclass(frozen=True, kw_only=True)
class VerifiedFolder:
    """A model folder whose files have been verified; only the files of its manifest can be read."""

    path: Path
    manifest: Mapping[str, Any]

    @classmethod
    def open(cls, path: Path, names: Collection[str] | None = None) -> "VerifiedFolder":
        """Verifies a folder; with `names`, only these files, and no others can be read from it.

        Raises:
            FolderError: the folder is missing or damaged.
        """
        path = Path(path).expanduser()
        return cls(path=path, manifest=verify_folder(path, names))

    @property
    def names(self) -> list[str]:
        """The names of the verified files."""
        return sorted(self.manifest["files"])

    def file(self, name: str) -> Path:
        if name not in self.manifest["files"]:
            raise FolderError(
                f"{self.path} has no {name}",
                f"it holds {', '.join(self.names)}: is it another kind of folder?",
            )
        return self.path / name

    def read_bytes(self, name: str) -> bytes:
        return read_file(self.file(name))

    def read_json(self, name: str) -> dict[str, Any]:
        return read_json(self.file(name))

    def read_tensors(self, name: str) -> dict[str, Tensor]:
        return read_tensors(checked_inside(self.file(name)))


@dataclass(frozen=True, kw_only=True)
class Checkpoint(VerifiedFolder):
    """All that a run needs to go on after `step` updates."""

    step: int

    @classmethod
    def open(cls, path: Path, names: Collection[str] | None = None) -> "Checkpoint":
        """Verifies a checkpoint; see `VerifiedFolder.open`.

        Raises:
            FolderError: the folder is missing or damaged, or not a checkpoint.
        """
        folder = VerifiedFolder.open(path, names)
        match folder.manifest.get("step"):
            case int(step):
                return cls(path=folder.path, manifest=folder.manifest, step=step)
        raise FolderError(f"{path} is a model folder, not a checkpoint", "resume from a run folder")


def digest(checkpoint: VerifiedFolder) -> str:
    """SHA-256 over weights, optimiser and state: equal for a run left alone and one killed and resumed."""
    state = json.dumps(_without_times(checkpoint.read_json("state.json")), sort_keys=True)
    whole = hashlib.sha256(state.encode("ascii"))
    for name in checkpoint.names:
        if name.endswith(".safetensors"):
            whole.update(f"\n{name} {checkpoint.manifest['files'][name]['sha256']}".encode())
    return whole.hexdigest()


def _without_times(value: Any) -> Any:
    match value:
        case dict():
            return {name: _without_times(item) for name, item in value.items() if name not in TIME_KEYS}
        case list():
            return [_without_times(item) for item in value]
    return value


def _step(path: Path) -> int:
    """Of a folder that is called like a checkpoint."""
    return int(path.name.strip(".asidetp-"))


class RunFolder:
    """One training run on disk. Whoever writes holds the lock: `with RunFolder(path).lock() as run:`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(os.path.realpath(Path(path).expanduser()))
        self.broken: list[Path] = []  # damaged checkpoints found by this process, renamed and kept
        self._locked = False
        self._verified: set[Path] = set()

    @contextlib.contextmanager
    def lock(self) -> Iterator["RunFolder"]:
        """Be the only writer; finish or sweep first what a killed one left."""
        with told("use", self.path):
            self._refuse_foreign()
            os.makedirs(self._checkpoints, exist_ok=True)
        with locked(self.path):
            self._locked = True
            try:
                with told("use", self.path):
                    settle(self.path)
                    settle(self._checkpoints)
                yield self
            finally:
                self._locked = False

    def sweep(self) -> list[str]:
        """Put damaged checkpoints aside, renamed and kept; one sentence about each."""
        broken: list[UserError] = []
        with self._writing():
            for path in self._named():
                self._open(path, broken)
        return [f"{error.message}; it was put aside, an older checkpoint is used" for error in broken]

    def save(self, step: int, files: Files) -> Checkpoint:
        """Commit the checkpoint of `step`; on disk when this returns, and the metrics so far with it."""
        target = self._checkpoints / f"step-{step:08d}"
        with self._writing():
            flush_records(self._metrics)
            self._make_room(target)
            write_folder(target, files, manifest_extra={"step": step})
            self._verified.discard(target)
            replace_file(self.path / "LATEST", f"{target.name}\n".encode("ascii"))
        return Checkpoint(path=target, manifest=read_json(target / MANIFEST), step=step)

    def latest(self) -> Checkpoint | None:
        """The newest checkpoint that is whole; None where none was ever written."""
        broken = []
        for path in self._named():
            checkpoint = self._open(path, broken)
            if checkpoint:
                return checkpoint
        if broken:
            raise FolderError(
                f"{self.path}: none of its {len(broken)} checkpoints is whole; "
                f"the newest: {broken[0].message}",
                "restore one from a copy, or choose a new folder with --out",
            )
        return None

    def checkpoints(self) -> list[Checkpoint]:
        """Every checkpoint that is whole, newest first."""
        opened = [self._open(path, []) for path in self._named()]
        return [checkpoint for checkpoint in opened if checkpoint]

    def prune(self, keep: int, *, every: int = 1, good: int | None = None) -> None:
        """Remove the oldest checkpoints, once `keep` newer ones, two at least, are known to be whole.

        Only those whose step is a multiple of `every` count; others were saved because of a signal. The
        newest that is not after step `good`, to which the run may have to go back, stays too.
        """
        with self._writing():
            whole = 0
            for path in self._named():
                step = _step(path)
                if good is not None and step <= good and (path in self._verified or self._open(path, [])):
                    good = None
                    whole += step % every == 0
                elif whole >= max(keep, 2):
                    remove_folder(path)
                    self._verified.discard(path)
                elif path in self._verified or self._open(path, []):
                    whole += step % every == 0

    def remove_after(self, step: int) -> None:
        """Remove the checkpoints of later steps, the newest first: the run goes back."""
        with self._writing():
            for path in self._named():
                if _step(path) > step:
                    remove_folder(path)
                    self._verified.discard(path)

    def write_best(self, files: Files, *, step: int = 0) -> VerifiedFolder:
        """Replace RUN/best; at any instant the old or the new one can be found."""
        target = self.path / "best"
        with self._writing():
            self._make_room(target)
            write_folder(target, files, manifest_extra={"step": step})
        return VerifiedFolder(path=target, manifest=read_json(target / MANIFEST))

    def best(self, names: Collection[str] | None = None) -> VerifiedFolder | None:
        """The best model so far; None if there is none. With `names`, only these files are verified."""
        path = find(self.path / "best")
        return VerifiedFolder.open(path, names) if path else None

    def environment_warnings(self) -> list[str]:
        """What is otherwise than when the newest checkpoint was written, if that may change bits."""
        checkpoint = self.latest()
        return environment_differences(checkpoint.manifest) if checkpoint else []

    def append_metrics(self, record: Mapping[str, Any]) -> None:
        append_record(self._metrics, record)

    def metrics(self) -> list[dict[str, Any]]:
        """All records of `metrics.jsonl`, in order."""
        return read_records(self._metrics)

    def cut_metrics(self, step: int) -> None:
        """Forget what was measured after `step`; the resumed run measures it again."""
        with self._writing():
            cut_records(self._metrics, step)

    def recipe(self) -> str | None:
        """The recipe that this run was started with, verbatim; None before there is one."""
        path = self.path / "recipe.toml"
        with told("read", path):
            return path.read_bytes().decode("utf-8", "replace") if path.exists() else None

    def write_text(self, name: str, text: str) -> None:
        """Write a small file of the run, such as its recipe: at any instant the old or the new is there."""
        with self._writing():
            replace_file(self.path / name, text.encode("utf-8"))

    def _writing(self) -> AbstractContextManager[object]:
        """Whoever writes without holding the lock takes it for that while."""
        return contextlib.nullcontext() if self._locked else self.lock()

    @property
    def _checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def _metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    def _refuse_foreign(self) -> None:
        """Somebody's folder of other things, named by mistake, is left alone."""
        names = os.listdir(self.path) if os.path.isdir(self.path) else []
        if "checkpoints" not in names and any(not name.startswith(".") for name in names):
            raise FolderError(
                f"{self.path} exists and is no run folder", "choose a new or an empty folder with --out"
            )

    def _make_room(self, target: Path) -> None:
        """What stands in the place of a folder of ours and is none is kept under another name."""
        if os.path.lexists(target) and not os.path.isfile(target / MANIFEST):
            self.broken.append(set_aside(target, "broken"))

    def _named(self) -> list[Path]:
        """The folders that are called like checkpoints, newest first."""
        found: dict[int, Path] = {}
        with told("read", self._checkpoints):
            names = os.listdir(self._checkpoints) if os.path.isdir(self._checkpoints) else []
        for name in sorted(names):  # `.step-N.aside`, whose step is just being replaced, comes first
            if match := re.fullmatch(r"step-(\d{8,18})|\.step-(\d{8,18})\.aside", name):
                found[int(match[1] or match[2])] = self._checkpoints / name
        return [found[step] for step in sorted(found, reverse=True)]

    def _open(self, path: Path, broken: list[UserError]) -> Checkpoint | None:
        """The checkpoint, or None for a damaged one, which the holder of the lock puts aside."""
        try:
            checkpoint = Checkpoint.open(path)
            if f"step-{checkpoint.step:08d}" not in path.name:
                raise FolderError(f"{path} is of step {checkpoint.step}", "was it renamed?")
        except UserError as error:
            broken.append(error)
            if self._locked:
                self.broken.append(set_aside(path, "broken"))
            return None
        self._verified.add(path)
        return checkpoint
