"""Reads files of an untrusted model folder: only from inside the folder, and of bounded size.

A symbolic link is followed if its target lies in the folder, or in the `blobs` of the Hugging Face cache
whose snapshot the folder is. Other links are refused: a folder from elsewhere must not reach other files of
this machine.
"""

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from regard.data.memory import total_memory
from regard.errors import FolderError, RunError

MEGABYTE = 2**20
MAX_FILE_BYTES = {  # five times the largest known file of each name
    "tokenizer.json": 128 * MEGABYTE,
    "source_tokenizer.json": 128 * MEGABYTE,
    "target_tokenizer.json": 128 * MEGABYTE,
    "MANIFEST.json": MEGABYTE,
    "generation.json": MEGABYTE,
    "generation_config.json": MEGABYTE,
    "chat_template.json": 4 * MEGABYTE,
    "chat_template.jinja": MEGABYTE,
    "tokenizer_config.json": 16 * MEGABYTE,
    "config.json": 16 * MEGABYTE,
}
MAX_BYTES_OF_OTHERS = 64 * MEGABYTE  # vocabularies, sentencepiece files, tensor indices, the state of a run
WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".ckpt")
SOCKEYE_WEIGHTS = "params."
COPY_AGAIN = "the file is damaged or has another format: copy the folder again"


def read_file(path: Path, folder: Path | None = None) -> bytes:
    """Reads a whole file of `folder`, by default the file's parent.

    Raises:
        FolderError: the file is missing, not a regular file, too large, or a link out of the folder.
        RunError: the disk failed.
    """
    limit = MAX_FILE_BYTES.get(path.name, MAX_BYTES_OF_OTHERS)
    checked_inside(path, folder)
    try:
        # O_NONBLOCK: opening a named pipe would wait for a writer
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise FolderError(f"{path} is not a regular file", COPY_AGAIN)
            content = file.read(limit + 1)
    except OSError as error:
        raise read_error(path, error) from error
    if len(content) > limit:
        raise _too_large(path, os.path.getsize(path), limit)
    return content


def read_error(path: Path, error: OSError) -> FolderError | RunError:
    """The error for a file that could not be read: FolderError if the folder is at fault, else RunError.

    A disk that fails for a moment does not mean that a checkpoint is damaged.
    """
    if error.errno in (errno.EACCES, errno.EPERM):
        return FolderError(
            f"{path}: {error.strerror}", f"you may not read it: ls -ld {path} shows its owner and mode"
        )
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP):
        return FolderError(f"{path}: {error.strerror}", "is this a model or run folder?")
    return RunError(f"cannot read {path}: {error.strerror}", "the file may be intact: try again")


def refuse_large_file(path: Path) -> None:
    """Raises a FolderError if a file is too large for its name, or weights are larger than the memory."""
    size = os.path.getsize(path)
    if path.suffix not in WEIGHT_SUFFIXES and not path.name.startswith(SOCKEYE_WEIGHTS):
        limit = MAX_FILE_BYTES.get(path.name, MAX_BYTES_OF_OTHERS)
        if size > limit:
            raise _too_large(path, size, limit)
    elif (limit := total_memory()) and size > limit:
        raise _beyond_memory(f"{path} has", size, limit)


def refuse_beyond_total_memory(paths: Sequence[Path]) -> None:
    """Raises a FolderError if weights in several files are together larger than the memory."""
    size, limit = sum(map(os.path.getsize, paths)), total_memory()
    if limit and size > limit:
        raise _beyond_memory(f"{paths[0]} and the others have", size, limit)


def checked_inside(path: Path, folder: Path | None = None) -> Path:
    """Returns `path` if it is, links resolved, inside `folder` or in the blobs of its Hugging Face cache.

    Raises:
        FolderError: it is a link to another place.
    """
    home, real = Path(os.path.realpath(folder or path.parent)), Path(os.path.realpath(path))
    if not real.is_relative_to(home) and real.parent not in _blobs(home):
        raise FolderError(
            f"{path} is a link out of its folder, to {real}",
            "replace the link by the file itself (cp -L), or give the folder that contains the file",
        )
    return path


def _blobs(home: Path) -> list[Path]:
    """The blobs folder of a snapshot: HUB/models--NAME/snapshots/REVISION -> HUB/models--NAME/blobs."""
    snapshots = [each.parent for each in (home, *home.parents) if each.parent.name == "snapshots"]
    return [each.parent / "blobs" for each in snapshots]


def _beyond_memory(what: str, size: int, limit: int) -> FolderError:
    return FolderError(
        f"{what} {size:,} bytes, more than the {limit:,} of this machine's memory",
        "use a machine with more memory, or copy the folder again if the model is smaller",
    )


def _too_large(path: Path, size: int, limit: int) -> FolderError:
    return FolderError(f"{path} is too large: {size:,} bytes, more than {limit:,}", COPY_AGAIN)
