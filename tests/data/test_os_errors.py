"""What the system says of a file becomes an error with the path and what to do."""

import errno
import os

import pytest

from regard.data.os_errors import os_errors, reading
from regard.errors import FolderError, RunError


@pytest.mark.parametrize(
    ("numbers", "kind", "hint"),
    [
        ((errno.EACCES, errno.EPERM, errno.EROFS), FolderError, "choose a folder that you may write to"),
        (
            (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENOENT),
            FolderError,
            "choose another folder",
        ),
        (
            (errno.ENOSPC, errno.EDQUOT),
            RunError,
            "free some space and continue: what was saved before is intact",
        ),
        (
            (errno.EFBIG,),
            RunError,
            "raise the limit for the size of a file (`ulimit -f`), or choose another disk:"
            " what was saved before is intact",
        ),
        ((errno.EIO, errno.ESTALE), RunError, "what was saved before is intact"),
    ],
)
def test_an_error_of_the_disk_has_the_hint_of_its_kind(tmp_path, numbers, kind, hint):
    for number in numbers:
        with pytest.raises(kind) as raised, os_errors("save", tmp_path):
            raise OSError(number, os.strerror(number))
        assert raised.value.message == f"cannot save {tmp_path}: {os.strerror(number)}"
        assert raised.value.hint == hint
    with pytest.raises(RunError, match=r"cannot save .*: broken"), os_errors("save", tmp_path):
        raise OSError("broken")


def test_a_file_on_the_way_to_a_folder_is_named(tmp_path):
    (tmp_path / "one.txt").touch()
    file = tmp_path / "one.txt"
    for path, what in ((file / "x", file), (file / "x" / "y", file), (file, "it")):
        with pytest.raises(FolderError) as raised, os_errors("save", path):
            os.makedirs(path)
        assert raised.value.message == f"cannot save {path}: {what} is a file"
        assert raised.value.hint


@pytest.mark.parametrize(("file", "named"), [(None, "a.txt"), ("b.txt", "b.txt")])
def test_an_error_of_reading_is_not_one_of_writing(tmp_path, file, named):
    def items():
        yield 1
        raise OSError(errno.EIO, os.strerror(errno.EIO), *([file] if file else []))

    found = []
    with pytest.raises(RunError) as raised, os_errors("write", tmp_path):
        found.extend(reading(items(), "a.txt"))
    assert raised.value.message == f"cannot read {named}: {os.strerror(errno.EIO)}"
    assert list(reading([1, 2], "a.txt")) == [1, 2]
