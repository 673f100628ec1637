"""The run folder: atomic, verified checkpoints, the best model, metrics, the recipe.

    RUN/checkpoints/step-00000400/    a model folder with optimizer.safetensors and state.json; tensors may be
                                      in shards (`shards.py`)
    RUN/best/                         the model folder with the best validation
    RUN/metrics.jsonl  RUN/recipe.toml
    RUN/LATEST                        the newest checkpoint, for people; the program verifies instead
    RUN/.lock                         held while a process writes

The writer can be killed at any time: the next start finds the newest intact checkpoint. A damaged one is
passed by with a warning, and a writer renames it.
"""

import contextlib
import hashlib
import json
import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard import console
from regard.counted import counted
from regard.data.os_errors import os_errors
from regard.errors import FolderError, UserError
from regard.weights.environment import environment_differences
from regard.weights.folder import (
    MANIFEST,
    AllFiles,
    WriteBeside,
    find_folder,
    recover,
    remove_folder,
    rename_away,
    replace_file,
    write_folder,
)
from regard.weights.lock import locked
from regard.weights.metrics import append_record, cut_records, flush_records, read_records, with_new_names
from regard.weights.strict_json import read_json
from regard.weights.verified_folder import VerifiedFolder

LEARNED_VALIDATION = "learned_validation"  # key of a manifest: the model was trained on validation data too
REFIT = "refit"  # in a run folder: the folder of its second run
RESOLVED = "resolved.json"  # in a run folder: the recipe as it was read, and the base folder of its paths
CHECKPOINT_NAME = re.compile(r"step-(\d{8,18})|\.step-(\d{8,18})\.aside")
TIME_KEYS = frozenset({"seconds"})  # of state.json: everything that differs between two equal runs


@dataclass(frozen=True, kw_only=True)
class Checkpoint(VerifiedFolder):
    """A checkpoint: everything that a run needs to resume after `step` updates."""

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


def checkpoint_digest(checkpoint: VerifiedFolder) -> str:
    """The SHA-256 of weights, optimiser and state, without times.

    It is equal for an uninterrupted run and one that was killed and resumed.
    """
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
    """The step in the name of a checkpoint folder."""
    match = CHECKPOINT_NAME.fullmatch(path.name)
    assert match, path
    return int(match[1] or match[2])


def is_run(path: Path) -> bool:
    """True if a training run was begun at `path`: it has checkpoints, and a lock or its settings."""
    return (path / "checkpoints").is_dir() and any(map(os.path.isfile, (path / ".lock", path / RESOLVED)))


class RunFolder:
    """A training run on disk. A writer holds its lock: `with RunFolder(path).lock() as run:`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(os.path.realpath(Path(path).expanduser()))
        self.broken: list[Path] = []  # damaged folders that this process found and renamed
        self._locked = False
        self._verified: set[Path] = set()

    @contextlib.contextmanager
    def lock(self, wait: float = 0.0) -> Iterator["RunFolder"]:
        """Locks the folder for writing, and finishes or removes what a killed writer left.

        `wait`: the seconds to wait for another process that holds the lock.
        """
        with os_errors("use", self.path):
            self._refuse_other_folder()
            os.makedirs(self._checkpoints, exist_ok=True)
        with locked(self.path, wait):
            self._locked = True
            try:
                with os_errors("use", self.path):
                    recover(self.path)
                    recover(self._checkpoints)
                yield self
            finally:
                self._locked = False

    def save(self, step: int, files: AllFiles, *, beside: WriteBeside | None = None) -> Checkpoint:
        """Writes the checkpoint of `step`; it and the metrics so far are on disk when this returns.

        `beside` waits for the files of other processes; see `write_folder`.
        """
        target = self._checkpoints / f"step-{step:08d}"
        with self._write_lock():
            flush_records(self._metrics)
            self._rename_other(target)
            write_folder(target, files, manifest_extra={"step": step}, beside=beside)
            self._verified.discard(target)
            replace_file(self.path / "LATEST", f"{target.name}\n".encode("ascii"))
        return Checkpoint(path=target, manifest=read_json(target / MANIFEST), step=step)

    def latest(self) -> Checkpoint | None:
        """The newest intact checkpoint; None if the run has none.

        Damaged ones that are newer are renamed, with a warning.

        Raises:
            FolderError: there are checkpoints, but all are damaged; none is renamed.
        """
        damaged: list[tuple[Path, UserError]] = []
        for path in self._checkpoint_folders():
            checkpoint = self._open(path, damaged)
            if checkpoint:
                for each, error in damaged:
                    lost = counted(_step(each) - checkpoint.step, "update is", "updates are")
                    self._pass_by(
                        each, error, f"the checkpoint of step {checkpoint.step:,} is used: {lost} lost"
                    )
                return checkpoint
        if damaged:
            raise FolderError(
                f"{self.path}: all of its {len(damaged)} checkpoints are damaged; "
                f"the newest: {damaged[0][1].message}",
                "restore one from a copy, or choose a new folder with --out",
            )
        return None

    def checkpoints(self) -> list[Checkpoint]:
        """All intact checkpoints, newest first."""
        opened = [self._open_or_pass_by(path) for path in self._checkpoint_folders()]
        return [checkpoint for checkpoint in opened if checkpoint]

    def prune(self, keep: int, *, every: int = 1, good: int | None = None) -> None:
        """Removes the oldest checkpoints if `keep` newer ones, at least two, are intact.

        Only checkpoints whose step is a multiple of `every` count; others were saved on a signal. The newest
        checkpoint up to step `good`, to which the run may have to go back, is kept too.
        """
        with self._write_lock():
            whole = 0
            for path in self._checkpoint_folders():
                step = _step(path)
                wanted = good is not None and step <= good
                if whole >= max(keep, 2) and not wanted:
                    remove_folder(path)
                    self._verified.discard(path)
                elif path in self._verified or self._open_or_pass_by(path):
                    good = None if wanted else good
                    whole += step % every == 0

    def remove_after(self, step: int) -> None:
        """Removes the checkpoints of later steps, the newest first, when the run goes back to `step`."""
        with self._write_lock():
            for path in self._checkpoint_folders():
                if _step(path) > step:
                    remove_folder(path)
                    self._verified.discard(path)

    def write_best(
        self,
        files: AllFiles,
        *,
        step: int,
        is_average: bool,
        learned_validation: bool = False,
        beside: WriteBeside | None = None,
    ) -> VerifiedFolder:
        """Replaces RUN/best; at any time the old or the new one can be read.

        `is_average`: the weights are a mean of checkpoints up to `step`. `learned_validation`: the
        model was trained on the validation data too. `beside`: see `write_folder`.
        """
        target = self.path / "best"
        with self._write_lock():
            self._rename_other(target)
            extra: dict[str, Any] = {"step": step, "is_average": is_average}
            extra |= {LEARNED_VALIDATION: True} if learned_validation else {}
            write_folder(target, files, manifest_extra=extra, beside=beside)
        return VerifiedFolder(path=target, manifest=read_json(target / MANIFEST))

    def best(self, names: Collection[str] | None = None) -> VerifiedFolder | None:
        """The best model so far; None if there is none. With `names`, only these files are verified."""
        path = find_folder(self.path / "best")
        return VerifiedFolder.open(path, names) if path else None

    def environment_warnings(self) -> list[str]:
        """The differences to the newest checkpoint's environment that can change the bits of results."""
        checkpoint = self.latest()
        return environment_differences(checkpoint.manifest) if checkpoint else []

    def append_metrics(self, record: Mapping[str, Any]) -> None:
        """Adds a record to `metrics.jsonl`."""
        append_record(self._metrics, record)

    def metrics(self) -> list[dict[str, Any]]:
        """All records of `metrics.jsonl`, in order; scores of older runs have their present names."""
        records = read_records(self._metrics)
        return records if self.recipe() is None else [with_new_names(record) for record in records]

    def cut_metrics(self, step: int) -> None:
        """Removes the records after `step`, which the resumed run measures again."""
        with self._write_lock():
            cut_records(self._metrics, step)

    def recipe(self) -> str | None:
        """The text of the run's recipe; None if it has none yet."""
        path = self.path / "recipe.toml"
        with os_errors("read", path):
            return path.read_bytes().decode("utf-8", "replace") if path.exists() else None

    def write_text(self, name: str, text: str) -> None:
        """Writes a small file of the run, such as its recipe, atomically."""
        with self._write_lock():
            replace_file(self.path / name, text.encode("utf-8"))

    def _write_lock(self) -> AbstractContextManager[object]:
        """The lock, unless this object holds it already."""
        return contextlib.nullcontext() if self._locked else self.lock()

    @property
    def _checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def _metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    def _refuse_other_folder(self) -> None:
        """Raises a FolderError for a folder with other content, given by mistake."""
        names = os.listdir(self.path) if os.path.isdir(self.path) else []
        if "checkpoints" in names:
            return
        if RESOLVED in names:
            raise FolderError(
                f"{self.path} is a run folder without its checkpoints",
                "restore them from a copy, or start from its best model in another folder:"
                f" --init {shlex.quote(str(self.path))} --out DIR",
            )
        if any(not name.startswith(".") for name in names):
            raise FolderError(
                f"{self.path} exists and is not a run folder", "choose a new or an empty folder with --out"
            )

    def _rename_other(self, target: Path) -> None:
        """Renames anything at `target` that is not a folder of regard; it is kept."""
        if os.path.lexists(target) and not os.path.isfile(target / MANIFEST):
            self._pass_by(target, FolderError(f"{target} is not a folder of regard"))

    def _checkpoint_folders(self) -> list[Path]:
        """The folders with the names of checkpoints, newest first."""
        found: dict[int, Path] = {}
        with os_errors("read", self._checkpoints):
            names = os.listdir(self._checkpoints) if os.path.isdir(self._checkpoints) else []
        for name in sorted(names):  # `.step-N.aside`, which is being replaced, comes first
            if CHECKPOINT_NAME.fullmatch(name):
                path = self._checkpoints / name
                found[_step(path)] = path
        return [found[step] for step in sorted(found, reverse=True)]

    def _open_or_pass_by(self, path: Path) -> Checkpoint | None:
        """The checkpoint; None if it is damaged, after a warning."""
        damaged: list[tuple[Path, UserError]] = []
        checkpoint = self._open(path, damaged)
        for each, error in damaged:
            self._pass_by(each, error)
        return checkpoint

    def _open(self, path: Path, damaged: list[tuple[Path, UserError]]) -> Checkpoint | None:
        """The checkpoint; None if it is damaged, and then it is added to `damaged` with what is wrong.

        Raises:
            FolderError: it may be intact, but this user may not read it.
        """
        try:
            checkpoint = Checkpoint.open(path)
            if f"step-{checkpoint.step:08d}" not in path.name:
                raise FolderError(f"{path} is the checkpoint of step {checkpoint.step}", "was it renamed?")
        except UserError as error:
            if isinstance(error.__cause__, PermissionError):
                raise
            damaged.append((path, error))
            return None
        self._verified.add(path)
        return checkpoint

    def _pass_by(self, path: Path, error: UserError, instead: str = "") -> None:
        """Warns of a damaged folder, which is renamed, and kept, if this object holds the lock."""
        if not os.path.lexists(path):  # a writer removed it in the meantime
            return
        done = "it is not read"
        if self._locked:
            kept = rename_away(path, "broken")
            self.broken.append(kept)
            done = f"it was renamed to {kept.name}"
        console.warn(f"{error.message}; {done}{', and ' * bool(instead)}{instead}")
