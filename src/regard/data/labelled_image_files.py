"""Labelled image files: a folder with a folder for each class, or a table of paths and labels."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8

from regard.data.files import file_digest, locate
from regard.data.image_files import has_image_name, image_files, read_image_file
from regard.data.images import Images
from regard.data.labelled import LabelSet
from regard.data.memory import refuse_beyond_memory
from regard.data.resizing import ImageFit
from regard.data.tables import Table, format_by_name, format_of, open_table
from regard.errors import DataError, RunError

COLUMNS = "image", "label"  # of a table
NAMED = 5  # damaged images in an error
Pixels = UInt8[np.ndarray, "channels height width"]


@dataclass(frozen=True, kw_only=True)
class LabelledImageFiles:
    """Image files, which are not decoded yet, the label of each, and its number or line, from 1."""

    files: tuple[Path, ...]
    labels: tuple[str, ...]
    lines: tuple[int, ...]
    digests: tuple[str, ...]  # SHA-256 of the content of each file
    name: str  # for messages
    is_table: bool = False  # lines are those of the table `name`

    def __len__(self) -> int:
        return len(self.files)

    def select(self, examples: np.ndarray) -> "LabelledImageFiles":
        """The files with these indices, from 0."""
        numbers = examples.tolist()
        chosen = {
            each: tuple(getattr(self, each)[number] for number in numbers)
            for each in ("files", "labels", "lines", "digests")
        }
        return replace(self, **chosen)

    def fingerprint(self) -> str:
        """A digest of files and labels, by which a resumed run recognises its data."""
        return hashlib.sha256(repr((self.labels, self.digests)).encode()).hexdigest()

    def numbered(self, classes: LabelSet) -> np.ndarray:
        """The class of each image.

        Raises:
            DataError: a label does not occur in training.
        """
        return np.array(
            [
                classes.number(label, lambda number=number: self._place(number))
                for number, label in enumerate(self.labels)
            ],
            np.int64,
        )

    def decoded(
        self, classes: LabelSet, fit: ImageFit, channels: int, folder: Path | None, say: Callable[[str], None]
    ) -> Images:
        """The images with their classes, decoded and fitted once.

        With a `folder` the pixels are a file in it, which is mapped into memory; they stay there for the next
        call. Without one they are in memory.

        Raises:
            DataError: files cannot be read. MissingExtra: Pillow is not installed.
        """
        numbers = self.numbered(classes)
        shape = (len(self), channels, fit.image_size, fit.image_size)
        if folder is None:
            refuse_beyond_memory(int(np.prod(shape)), Path(self.name))
            pixels = np.empty(shape, np.uint8)
            for number, each in enumerate(self._pixels(fit, channels)):
                pixels[number] = each
        else:
            key = hashlib.sha256(repr((self.digests, fit, channels)).encode()).hexdigest()
            path = folder / f"images-{key[:16]}.npy"
            if not path.exists():
                say(f"decoding {len(self):,} images of {self.name}: {np.prod(shape) / 1e6:,.1f} MB")
                _write(path, shape, self._pixels(fit, channels))
            pixels = np.asarray(np.load(path, mmap_mode="r"))
        return Images(pixels=pixels, labels=numbers, lines=np.array(self.lines, np.int64), name=self.name)

    def _pixels(self, fit: ImageFit, channels: int) -> Iterator[Pixels]:
        """The fitted pixels of each file, in order; threads decode the next ones.

        Raises:
            DataError: after all files, if some cannot be read; it names the first of them.
        """
        failed: dict[int, DataError] = {}

        def read(path: Path) -> Pixels | DataError:
            try:
                return read_image_file(path, channels, fit)
            except DataError as error:
                return error

        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            for start in range(0, len(self), 256):  # a bound on what waits in memory
                numbered = enumerate(pool.map(read, self.files[start : start + 256]), start)
                for number, found in numbered:
                    if isinstance(found, DataError):
                        failed[number] = found
                    elif not failed:
                        yield found
        if failed:
            raise self._unreadable(failed)

    def _place(self, number: int) -> str:
        """The file with this index, and its line in a table."""
        file = str(self.files[number])
        return f"{self.name}:{self.lines[number]}: {file}" if self.is_table else file

    def _unreadable(self, failed: dict[int, DataError]) -> DataError:
        """The error that names the files that cannot be read, by their indices."""
        [first, *others] = failed
        place = self._place(first).removesuffix(str(self.files[first]))
        message = f"{place}{failed[first].message}"
        if others:
            named = [self._place(number) for number in others[: NAMED - 1]]
            more = f" and {len(others) - len(named):,} more" if len(others) > len(named) else ""
            message += (
                f"; {len(failed):,} of {len(self):,} images cannot be read, also {', '.join(named)}{more}"
            )
        where = f"take its line out of {self.name}" if self.is_table else f"move it out of {self.name}"
        return DataError(message, f"{failed[first].hint}, or {where}")


def _write(path: Path, shape: tuple[int, ...], images: Iterator[Pixels]) -> None:
    """Writes an NPY file image by image, so that it is complete or absent."""
    partial = path.with_suffix(f".{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            for image in images:
                file.write(image.tobytes())
        os.replace(partial, path)
    except OSError as error:
        raise RunError(
            f"{path}: {error.strerror}", "make room for the decoded images, or name another --out"
        ) from None
    finally:
        partial.unlink(missing_ok=True)


def is_list_of_files(images: str, base: Path) -> bool:
    """True if this is a folder, or by its name a table."""
    return format_by_name(Path(images)) is not None or locate(images, base).is_dir()


def read_labelled_files(images: str, base: Path, first: int = 0) -> LabelledImageFiles:
    """The image files of a folder of class folders, or of a table with the columns `image` and `label`.

    Classes are the names of the folders in the folder; their images may lie in folders within. The paths of a
    table are relative to its folder. `first`: read only the first images, this number of them (0: all).

    Raises:
        DataError: a file is missing, an image has no class, or a class has no image.
    """
    path = locate(images, base)
    found = rows_of_folder(path) if path.is_dir() else _of_table(path)
    rows = found[: first or len(found)]
    return LabelledImageFiles(
        files=tuple(file for file, _, _ in rows),
        labels=tuple(label for _, label, _ in rows),
        lines=tuple(line for _, _, line in rows),
        digests=tuple(file_digest(file) for file, _, _ in rows),
        name=images,
        is_table=not path.is_dir(),
    )


def class_folders(folder: Path) -> list[Path]:
    """The folders of the classes, sorted by name; hidden ones are left out.

    Raises:
        DataError: there is none, or there are images beside them.
    """
    try:
        entries = sorted(each for each in folder.iterdir() if not each.name.startswith("."))
    except OSError as error:
        raise DataError(f"{folder}: {error.strerror}", "give a folder that can be read") from None
    if stray := [each.name for each in entries if has_image_name(each) and each.is_file()]:
        raise DataError(
            f"{folder}: {len(stray):,} images are in no folder of a class, such as {stray[0]}",
            "put the images of each class into a folder with its name: cat/1.jpg, dog/1.jpg",
        )
    folders = [each for each in entries if each.is_dir()]
    if not folders:
        raise DataError(
            f"{folder}: no folder of a class", "a folder for each class has its images: cat/1.jpg"
        )
    return folders


def rows_of_folder(folder: Path) -> list[tuple[Path, str, int]]:
    """The path, the class and the number of each image of a folder with a folder for each class."""
    found = [(file, each.name) for each in class_folders(folder) for file in image_files(each)]
    return [(file, label, line) for line, (file, label) in enumerate(found, start=1)]


def _of_table(path: Path) -> list[tuple[Path, str, int]]:
    table = open_table(path, format_of(path) or "csv")
    if not table.named:
        first = next(table.records()).cells
        if not {*COLUMNS} <= {*first}:
            raise DataError(
                f"{path}:1: the columns have no names", f"write a first line: {','.join(COLUMNS)}"
            )
        table = replace(table, names=tuple(map(str, first)), named=True)  # a class is called "label", too
    rows = list(labelled_rows(table, table.columns(COLUMNS)))
    for file, label, line in rows:
        if not label:
            raise DataError(f"{path}:{line}: an image without a label", "give each image a label")
        if not file.is_file():
            raise DataError(
                f"{path}:{line}: no such file: {file}", "paths are relative to the table's folder"
            )
    return rows


def labelled_rows(table: Table, columns: Sequence[int]) -> Iterator[tuple[Path, str, int]]:
    """The path, the label and the line of each row of a table, in these columns."""
    for record in table.records():
        image, label = (record.cells[column] or "" for column in columns)
        yield table.path.parent / image, label.strip(), record.line
