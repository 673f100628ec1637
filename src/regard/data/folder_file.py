"""A file of a model folder, which anybody may have written: inside the folder, of bounded size.

A link in a folder is followed if what it leads to lies in the folder too, or in the `blobs` of the hub
cache whose snapshot the folder is: so downloads are kept. Other links are refused, for a folder that was
copied from elsewhere has no business with other files of this machine.
"""

import errno
import os
import stat
from pathlib import Path

from regard.data.memory import memory
from regard.errors import FolderError, RunError

MEGABYTE = 2**20
MOST_BYTES = {  # the largest of each that is known has a fifth of it
    "tokenizer.json": 128 * MEGABYTE,
    "source_tokenizer.json": 128 * MEGABYTE,
    "target_tokenizer.json": 128 * MEGABYTE,
    "MANIFEST.json": MEGABYTE,
    "generation.json": MEGABYTE,
    "generation_config.json": MEGABYTE,
    "config.json": 16 * MEGABYTE,
}
MOST_OTHERS = 64 * MEGABYTE  # vocabularies, sentencepiece files, indices of tensors, the state of a run
WEIGHTS = (".safetensors", ".bin")
ANEW = "the file is damaged or of another kind: copy the folder anew"


def read_file(path: Path, folder: Path | None = None) -> bytes:
    """A whole file of a folder (that which it lies in, if no other is named).

    Raises:
        FolderError: it is missing, no plain file, too large, or a link out of the folder. RunError: the disk
            failed.
    """
    most = MOST_BYTES.get(path.name, MOST_OTHERS)
    inside(path, folder)
    try:
        # NONBLOCK: opening a named pipe would wait for a writer
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise FolderError(f"{path} is no plain file", ANEW)
            content = file.read(most + 1)
    except OSError as error:
        raise unreadable(path, error) from error
    if len(content) > most:
        raise _too_large(path, os.path.getsize(path), most)
    return content


def unreadable(path: Path, error: OSError) -> FolderError | RunError:
    """What to raise for a file that could not be read: only a FolderError says that the folder is at fault.

    Of a disk that fails for a moment nobody may conclude that a checkpoint is damaged.
    """
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EACCES, errno.EPERM):
        return FolderError(f"{path}: {error.strerror}", "is this a model or run folder?")
    return RunError(f"cannot read {path}: {error.strerror}", "the file may be whole: try again")


def refuse_large(path: Path) -> None:
    """Raise a FolderError if a file is larger than any of its name, or weights than the machine's memory."""
    size = os.path.getsize(path)
    if path.suffix not in WEIGHTS:
        most = MOST_BYTES.get(path.name, MOST_OTHERS)
        if size > most:
            raise _too_large(path, size, most)
    elif (most := memory()) and size > most:
        raise FolderError(
            f"{path} has {size:,} bytes, more than the {most:,} of this machine's memory",
            "use a machine with more memory, or copy the folder anew if the model is not as large",
        )


def inside(path: Path, folder: Path | None = None) -> Path:
    """`path`, if its links do not lead out of the folder, but into the blobs of a hub cache.

    Raises:
        FolderError: they do.
    """
    home, real = Path(os.path.realpath(folder or path.parent)), Path(os.path.realpath(path))
    if not real.is_relative_to(home) and real.parent not in _blobs(home):
        raise FolderError(
            f"{path} is a link out of its folder, to {real}",
            "put the file itself in its place (cp -L), or name the folder that it lies in",
        )
    return path


def _blobs(home: Path) -> list[Path]:
    """Where the files of a snapshot lie: HUB/models--NAME/snapshots/REVISION -> HUB/models--NAME/blobs."""
    snapshots = [each.parent for each in (home, *home.parents) if each.parent.name == "snapshots"]
    return [each.parent / "blobs" for each in snapshots]


def _too_large(path: Path, size: int, most: int) -> FolderError:
    return FolderError(f"{path} is too large: {size:,} bytes, more than {most:,}", ANEW)
