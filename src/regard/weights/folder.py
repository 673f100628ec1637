"""A folder that is whole or absent, at whatever instant the writer is killed.

The files are written into `.NAME.PID.partial`, each flushed to disk; `MANIFEST.json`, with the size and
SHA-256 of each, comes last; then the folder is renamed. A folder of that name steps aside first, to
`.NAME.aside`, and is removed when the new one stands: `find` and `settle` know both names.
"""

import contextlib
import datetime
import errno
import hashlib
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.data.folder_file import checked_inside, read_error, refuse_large
from regard.errors import FolderError, RunError, UserError
from regard.weights.environment import environment
from regard.weights.strict_json import HINT, json_bytes, read_json
from regard.weights.tensors import refuse_non_finite, write_tensors

FORMAT_VERSION = 1
MANIFEST = "MANIFEST.json"
UNLISTED = frozenset({"README.md"})  # the card: written with the others, free to be edited afterwards
Files = Mapping[str, bytes | Mapping[str, Tensor]]


def write_folder(target: Path, files: Files, *, manifest_extra: Mapping[str, Any] | None = None) -> None:
    """Write `files` (bytes, or named tensors) as the folder `target`, replacing a folder of ours.

    When it returns, all of it is on disk. When it raises, or never returns, what stood there before
    stands there still, or will after `settle`.
    """
    for name, content in files.items():
        assert name != MANIFEST, name
        assert _is_plain(name), name
        if not isinstance(content, bytes):
            refuse_non_finite(name, content)
    target = Path(os.path.realpath(target.expanduser()))
    with told("save", target):
        _refuse_foreign(target)
        os.makedirs(target.parent, exist_ok=True)
        _sweep_dead(target)
        partial = _beside(target, f"{os.getpid()}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            os.mkdir(partial)
            _fill(partial, files, manifest_extra or {})
            _put_in_place(partial, target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def verify_folder(path: Path, names: Collection[str] | None = None) -> dict[str, Any]:
    """Verifies the files of a folder against their SHA-256 and returns the manifest.

    With `names`, only these files are verified, and the returned manifest lists no others. Files that the
    manifest does not list are never read.
    """
    if not os.path.isdir(path):
        problem = "is a file" if os.path.exists(path) else "does not exist"
        raise FolderError(f"{path} {problem}", "a model is a folder with a MANIFEST.json")
    if not os.path.isfile(path / MANIFEST):
        raise FolderError(
            f"{path} has no {MANIFEST}", "it is no model folder, or was never written to its end"
        )
    manifest = read_json(path / MANIFEST)
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        raise FolderError(
            f"{path} is of format {version!r}, this regard reads format {FORMAT_VERSION}",
            "install the version of regard that wrote it",
        )
    listed = manifest.get("files")
    if not isinstance(listed, dict):
        raise FolderError(f"{path / MANIFEST}: 'files' is missing", HINT)
    if names is not None:
        manifest["files"] = listed = {name: listed[name] for name in listed if name in names}
    for name, entry in listed.items():
        _verify_file(path, name, entry)
    return manifest


def find(target: Path) -> Path | None:
    """Where the folder `target` is now: at its place, aside while it is being replaced, or nowhere."""
    return next((path for path in (target, _beside(target, "aside")) if os.path.isdir(path)), None)


def settle(parent: Path) -> None:
    """Finish what a killed writer left in `parent`: put back what stepped aside, sweep the rest.

    Only for whoever is sure to be the only writer there.
    """
    for entry in sorted(parent.iterdir()):
        if re.fullmatch(r"\..*\.\d+\.partial", entry.name):
            _remove(entry)
        elif match := re.fullmatch(r"\.(.*)\.aside", entry.name):
            _settle_aside(entry, parent / match[1])


def replace_file(target: Path, content: bytes) -> None:
    """Write one small file so that at any instant the old or the new one is there, whole."""
    target = Path(os.path.realpath(target))
    partial = _beside(target, f"{os.getpid()}.partial")
    with told("save", target):
        try:
            _write_bytes(partial, content)
            os.replace(partial, target)
            flush_directory(target.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(partial)
            raise


def remove_folder(path: Path) -> None:
    """Remove a folder; no half of it is ever seen under its name."""
    doomed = _beside(path, f"{os.getpid()}.partial")
    with told("remove", path):
        shutil.rmtree(doomed, ignore_errors=True)
        os.rename(path, doomed)
    shutil.rmtree(doomed, ignore_errors=True)  # what will not go is swept at the next start


def set_aside(path: Path, why: str) -> Path:
    """Rename a folder to `NAME.WHY-TIME`, which nobody takes for the real one."""
    kept = _dated(path, why)
    with told("rename", path):
        os.rename(path, kept)
    return kept


def flush_directory(path: Path) -> None:
    """Make the names in a directory outlive a power cut."""
    if os.name == "nt":  # no such call; NTFS journals names
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def told(doing: str, path: Path) -> Iterator[None]:
    """An OSError inside becomes one line and a hint."""
    try:
        yield
    except OSError as error:
        message = f"cannot {doing} {path}: {error.strerror or error}"
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise FolderError(message, "choose a folder that you may write to") from error
        if error.errno in (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENOENT):
            raise FolderError(message, "choose another folder") from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise RunError(
                message, "free some space and go on: what was saved before is untouched"
            ) from error
        raise RunError(message, "what was saved before is untouched") from error


def _fill(folder: Path, files: Files, manifest_extra: Mapping[str, Any]) -> None:
    mode = os.stat(folder).st_mode & 0o666  # 0666 less the umask: safetensors alone writes 0600
    listed = {}
    for name, content in files.items():
        path = folder / name
        if isinstance(content, bytes):
            _write_bytes(path, content)
        else:
            write_tensors(path, content)
            os.chmod(path, mode)
            _flush_file(path)
        if name not in UNLISTED:
            listed[name] = {"bytes": os.stat(path).st_size, "sha256": _sha256(path)}
    manifest = {
        "format_version": FORMAT_VERSION,
        **manifest_extra,
        "environment": environment(),
        "files": listed,
    }
    _write_bytes(folder / MANIFEST, json_bytes(manifest))
    flush_directory(folder)


def _put_in_place(partial: Path, target: Path) -> None:
    aside = _beside(target, "aside")
    if os.path.lexists(aside):
        _settle_aside(aside, target)
    if os.path.lexists(target):
        os.rename(target, aside)
    try:
        os.rename(partial, target)
    except OSError:
        if os.path.lexists(aside):
            os.rename(aside, target)
        raise
    flush_directory(target.parent)
    if os.path.lexists(aside):
        _discard(aside, target)


def _settle_aside(aside: Path, target: Path) -> None:
    if os.path.lexists(target):
        _discard(aside, target)
    else:
        os.rename(aside, target)


def _discard(aside: Path, target: Path) -> None:
    """Remove a replaced folder; one into which somebody put files of their own is kept."""
    with contextlib.suppress(OSError):  # the new one stands; what stays here is swept at the next start
        if _others(aside):
            os.rename(aside, _dated(target, "replaced"))
            return
        (aside / MANIFEST).unlink(missing_ok=True)  # first, so that no half of it is taken for a folder
        shutil.rmtree(aside)


def _others(folder: Path) -> set[str]:
    """The names in a folder of ours that we did not write; none in one whose manifest is gone already."""
    try:
        listed = read_json(folder / MANIFEST).get("files")
    except UserError:
        return set()
    visible = {name for name in os.listdir(folder) if not name.startswith(".")}
    return visible - {MANIFEST, *UNLISTED, *(listed if isinstance(listed, dict) else ())}


def _sweep_dead(target: Path) -> None:
    """Remove what killed writers of this very folder left half written."""
    if os.name == "nt":  # where asking after a process may end it
        return
    ours = re.compile(re.escape(_beside(target, "").name) + r"(\d{1,9})\.partial")
    for name in os.listdir(target.parent):
        if (match := ours.fullmatch(name)) and not _runs(int(match[1])):
            _remove(target.parent / name)


def _runs(pid: int) -> bool:
    try:
        with contextlib.suppress(PermissionError):  # it runs, and is somebody else's
            os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()


def _refuse_foreign(target: Path) -> None:
    """Replace only what we wrote: never a folder of somebody's, whatever the path that was typed."""
    if not os.path.lexists(target):
        return
    if not os.path.isdir(target):
        raise FolderError(f"{target} is a file", "choose the name of a folder")
    if os.listdir(target) and not os.path.isfile(target / MANIFEST):
        raise FolderError(f"{target} exists and is no model folder", "choose a new or an empty folder")


def _verify_file(folder: Path, name: str, entry: object) -> None:
    if not _is_plain(name):
        raise FolderError(f"{folder / MANIFEST}: {name!r} is no name of a file in the folder", HINT)
    match entry:
        case {"bytes": int(size), "sha256": str(digest), **others} if not others:
            pass
        case _:
            raise FolderError(f"{folder / MANIFEST}: the entry of {name!r} is not bytes and sha256", HINT)
    path = folder / name
    if not os.path.isfile(path):
        raise FolderError(f"{path} is missing", "copy the folder anew, or use another checkpoint")
    checked_inside(path)
    try:
        if path.stat().st_size != size:
            raise FolderError(f"{path} has {path.stat().st_size:,} bytes instead of {size:,}", HINT)
        refuse_large(path)
        if _sha256(path) != digest:
            raise FolderError(f"{path} is not as it was written: its SHA-256 differs", HINT)
    except OSError as error:
        raise read_error(path, error) from error


def _is_plain(name: str) -> bool:
    return name.isprintable() and name not in ("", ".", "..") and not set(name) & set("/\\:")


def _beside(target: Path, suffix: str) -> Path:
    """`.NAME.SUFFIX` in the same folder; a name too long to be lengthened is stood for by its hash."""
    name = target.name
    if len(os.fsencode(name)) > 200:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    return target.with_name(f".{name}.{suffix}")


def _dated(path: Path, what: str) -> Path:
    return path.with_name(f"{path.name}.{what}-{datetime.datetime.now():%Y%m%d-%H%M%S-%f}")


def _write_bytes(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o666)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
