"""Atomic, verified folders: a folder is complete or absent, whenever its writer is killed.

The files are written into `.NAME.PID.partial` and flushed to disk; `MANIFEST.json`, with the size and
SHA-256 of each file, is written last; then the folder is renamed. An existing folder of that name is first
renamed to `.NAME.aside` and removed afterwards; `find_folder` and `recover` handle both names.
"""

import contextlib
import datetime
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.data.folder_file import checked_inside, read_error, refuse_large_file
from regard.data.os_errors import os_errors
from regard.errors import FolderError, UserError
from regard.weights.environment import environment
from regard.weights.saved_tensors import SavedTensors
from regard.weights.shards import Shard
from regard.weights.strict_json import DAMAGED_HINT, json_bytes, read_json
from regard.weights.tensors import refuse_non_finite, write_tensors

FORMAT_VERSION = 1
MANIFEST = "MANIFEST.json"
CARD = "README.md"  # the model card
UNLISTED = frozenset({CARD})  # it may be edited afterwards
Files = Mapping[str, bytes | Mapping[str, Tensor]]
AllFiles = Mapping[str, bytes | Mapping[str, Tensor] | Shard | SavedTensors]
Entries = Mapping[str, Mapping[str, Any]]  # of the manifest: the size and SHA-256 of files by name
WriteBeside = Callable[[Path], Entries]


def write_folder(
    target: Path,
    files: AllFiles,
    *,
    manifest_extra: Mapping[str, Any] | None = None,
    beside: WriteBeside | None = None,
) -> None:
    """Writes `files` as the folder `target`, which may replace a folder of regard.

    When it returns, everything is on disk. If it raises or is killed, the previous folder is intact, if
    necessary after `recover`.

    Args:
        manifest_extra: what the manifest has besides.
        beside: is called with the folder while it is hidden, and returns when other processes have written
            their files into it (`write_files`), with the entries of these.
    """
    _refuse_files(files)
    target = Path(os.path.realpath(target.expanduser()))
    with os_errors("save", target):
        _refuse_other_folder(target)
        os.makedirs(target.parent, exist_ok=True)
        for path in dead_partials(target.parent, _hidden_sibling(target, "").name):
            _remove(path)
        partial = _hidden_sibling(target, f"{os.getpid()}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            os.mkdir(partial)
            others = beside(partial) if beside else {}
            listed = {**others, **write_files(partial, files)}
            _write_manifest(partial, listed, manifest_extra or {})
            _put_in_place(partial, target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def write_files(folder: Path, files: AllFiles) -> dict[str, dict[str, Any]]:
    """Writes files into a folder that is not complete; returns their entries of the manifest.

    Raises:
        OSError: the disk failed.
        RunError: a tensor has NaN or infinity.
    """
    _refuse_files(files)
    mode = os.stat(folder).st_mode & 0o666  # 0666 less the umask; safetensors would write 0600
    listed = {}
    for name, content in files.items():
        path = folder / name
        if isinstance(content, bytes):
            _write_bytes(path, content)
        else:
            _write_tensors(path, content)
            os.chmod(path, mode)
            _flush_file(path)
        if name not in UNLISTED:
            listed[name] = {"bytes": os.stat(path).st_size, "sha256": _sha256(path)}
    return listed


def verify_folder(path: Path, names: Collection[str] | None = None) -> dict[str, Any]:
    """Verifies the files of a folder against their SHA-256 and returns the manifest.

    With `names`, only these files are verified, and the returned manifest lists no others. Files that the
    manifest does not list are never read.
    """
    if not os.path.isdir(path):
        problem = "is a file" if os.path.exists(path) else "does not exist"
        raise FolderError(f"{path} {problem}", "a model is a folder with a MANIFEST.json")
    _refuse_shut(path)
    if not os.path.isfile(path / MANIFEST):
        raise FolderError(
            f"{path} has no {MANIFEST}", "it is not a model folder, or was not written completely"
        )
    manifest = read_json(path / MANIFEST)
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        raise FolderError(
            f"{path} has format {version!r}, this version of regard reads format {FORMAT_VERSION}",
            "install the version of regard that wrote it",
        )
    listed = manifest.get("files")
    if not isinstance(listed, dict):
        raise FolderError(f"{path / MANIFEST}: 'files' is missing", DAMAGED_HINT)
    if names is not None:
        manifest["files"] = listed = {name: listed[name] for name in listed if name in names}
    for name, entry in listed.items():
        _verify_file(path, name, entry)
    return manifest


def _refuse_shut(path: Path) -> None:
    """Raises a FolderError if this user may not look into a folder, whose files then seem to be missing."""
    try:
        os.stat(path / MANIFEST)
    except PermissionError as error:
        raise read_error(path, error) from error
    except OSError:  # it has none
        return


def find_folder(target: Path) -> Path | None:
    """The present path of the folder `target`, which may be renamed while it is replaced; None if absent."""
    if os.path.isdir(target):
        return target
    aside = _hidden_sibling(target, "aside") if target.name else target  # "." has no name
    return aside if os.path.isdir(aside) else None


def recover(parent: Path) -> None:
    """Cleans up after a killed writer in `parent`: restores renamed folders and removes partial ones.

    The caller must be the only writer there.
    """
    for entry in sorted(parent.iterdir()):
        if re.fullmatch(r"\..*\.\d+\.partial", entry.name):
            _remove(entry)
        elif match := re.fullmatch(r"\.(.*)\.aside", entry.name):
            _settle_aside(entry, parent / match[1])


def replace_file(target: Path, content: bytes) -> None:
    """Replaces a small file atomically."""
    target = Path(os.path.realpath(target))
    partial = _hidden_sibling(target, f"{os.getpid()}.partial")
    with os_errors("save", target):
        try:
            _write_bytes(partial, content)
            os.replace(partial, target)
            flush_directory(target.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(partial)
            raise


def remove_folder(path: Path) -> None:
    """Removes a folder; it is renamed first, so that it is never seen half removed."""
    doomed = _hidden_sibling(path, f"{os.getpid()}.partial")
    with os_errors("remove", path):
        shutil.rmtree(doomed, ignore_errors=True)
        os.rename(path, doomed)
    shutil.rmtree(doomed, ignore_errors=True)  # `recover` removes the rest at the next start


def rename_away(path: Path, why: str) -> Path:
    """Renames a folder to `NAME.WHY-TIME`; returns the new path."""
    kept = _timestamped(path, why)
    with os_errors("rename", path):
        os.rename(path, kept)
    return kept


def flush_directory(path: Path) -> None:
    """Flushes the names in a directory to disk, so that they survive a power cut."""
    if os.name == "nt":  # Windows has no such call; NTFS journals names
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refuse_files(files: AllFiles) -> None:
    """Raises a RunError if a tensor is not finite."""
    for name, content in files.items():
        assert name != MANIFEST, name
        assert _is_plain(name), name
        if isinstance(content, Shard):
            refuse_non_finite(name, content.tensors)
        elif isinstance(content, Mapping):
            refuse_non_finite(name, content)


def _write_tensors(path: Path, content: Mapping[str, Tensor] | Shard | SavedTensors) -> None:
    match content:
        case Shard():
            content.write(path)
        case SavedTensors():
            content.write_whole(path)
        case _:
            write_tensors(path, content)


def _write_manifest(folder: Path, listed: Entries, manifest_extra: Mapping[str, Any]) -> None:
    manifest = {
        "format_version": FORMAT_VERSION,
        **manifest_extra,
        "environment": environment(),
        "files": listed,
    }
    _write_bytes(folder / MANIFEST, json_bytes(manifest))
    flush_directory(folder)


def _put_in_place(partial: Path, target: Path) -> None:
    aside = _hidden_sibling(target, "aside")
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
    """Removes a replaced folder; it is kept under another name if a user put files into it."""
    with contextlib.suppress(OSError):  # the new folder is in place; `recover` removes the rest
        if _unlisted_files(aside):
            os.rename(aside, _timestamped(target, "replaced"))
            return
        (aside / MANIFEST).unlink(missing_ok=True)  # first, so that a half-removed folder is invalid
        shutil.rmtree(aside)


def _unlisted_files(folder: Path) -> set[str]:
    """The visible files in a folder that regard did not write; none if its manifest is gone."""
    try:
        listed = read_json(folder / MANIFEST).get("files")
    except UserError:
        return set()
    visible = {name for name in os.listdir(folder) if not name.startswith(".")}
    return visible - {MANIFEST, *UNLISTED, *(listed if isinstance(listed, dict) else ())}


def dead_partials(folder: Path, begin: str) -> list[Path]:
    """Partial files and folders of killed processes; their names are `begin`, the PID, and .partial."""
    if os.name == "nt":  # there os.kill would end the process
        return []
    name = re.compile(re.escape(begin) + r"(\d{1,9})\.partial")
    found = [(path, name.fullmatch(path.name)) for path in folder.iterdir()]
    return [path for path, match in found if match and not _is_running(int(match[1]))]


def _is_running(pid: int) -> bool:
    try:
        with contextlib.suppress(PermissionError):  # the process exists and belongs to another user
            os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()


def _refuse_other_folder(target: Path) -> None:
    """Raises a FolderError if `target` exists and was not written by regard."""
    if not os.path.lexists(target):
        return
    if not os.path.isdir(target):
        raise FolderError(f"{target} is a file", "give the name of a folder")
    if os.listdir(target) and not os.path.isfile(target / MANIFEST):
        raise FolderError(f"{target} exists and is not a model folder", "choose a new or an empty folder")


def _verify_file(folder: Path, name: str, entry: object) -> None:
    if not _is_plain(name):
        raise FolderError(
            f"{folder / MANIFEST}: {name!r} is not the name of a file in the folder", DAMAGED_HINT
        )
    match entry:
        case {"bytes": int(size), "sha256": str(digest), **unknown} if not unknown:
            pass
        case _:
            raise FolderError(
                f"{folder / MANIFEST}: the entry of {name!r} is not bytes and sha256", DAMAGED_HINT
            )
    path = folder / name
    if not os.path.isfile(path):
        raise FolderError(f"{path} is missing", "copy the folder again, or use another checkpoint")
    checked_inside(path)
    try:
        if path.stat().st_size != size:
            raise FolderError(f"{path} has {path.stat().st_size:,} bytes instead of {size:,}", DAMAGED_HINT)
        refuse_large_file(path)
        if _sha256(path) != digest:
            raise FolderError(f"{path} was changed after it was written: its SHA-256 differs", DAMAGED_HINT)
    except OSError as error:
        raise read_error(path, error) from error


def _is_plain(name: str) -> bool:
    return name.isprintable() and name not in ("", ".", "..") and not set(name) & set("/\\:")


def _hidden_sibling(target: Path, suffix: str) -> Path:
    """The path `.NAME.SUFFIX` in the same folder; a very long name is replaced by its hash."""
    name = target.name
    if len(os.fsencode(name)) > 200:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    return target.with_name(f".{name}.{suffix}")


def _timestamped(path: Path, what: str) -> Path:
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
