"""A model is written into a new or an empty folder that is not a part of a run."""

import pytest

from regard.errors import FolderError
from regard.weights.checkpoint import RunFolder
from regard.weights.huggingface_files import write_plain_folder
from regard.weights.new_folder import refuse_taken


def refused(path, message, write=refuse_taken):
    with pytest.raises(FolderError, match=message) as caught:
        write(path)
    assert caught.value.hint


def test_what_exists_is_not_written_over(tmp_path):
    refuse_taken(tmp_path / "new" / "in a new one")
    (tmp_path / "empty").mkdir()
    refuse_taken(tmp_path / "empty")
    (tmp_path / "file").touch()
    refused(tmp_path / "file", "file exists")
    refused(tmp_path / "file" / "a" / "b", "file is a file")
    (tmp_path / "full" / "a").mkdir(parents=True)
    refused(tmp_path / "full", "full exists")
    refused(tmp_path / "full", "full exists", lambda path: write_plain_folder(path, {}))


@pytest.mark.parametrize(
    "inside", ["best", "checkpoints/step-00000002", "checkpoints/mean", "refit", "data/a", ".hidden"]
)
def test_no_part_of_a_run_is_written_by_whatever_path(tmp_path, inside):
    with RunFolder(tmp_path / "runs" / "a").lock():
        pass
    (tmp_path / "link").symlink_to(tmp_path / "runs" / "a" / "checkpoints")
    refused(tmp_path / "runs" / "a" / inside, "is a part of the run .*runs/a")
    refused(tmp_path / "runs" / "b" / ".." / "a" / inside, "is a part of the run .*runs/a")
    refused(tmp_path / "link" / inside, "is a part of the run .*runs/a")
    refuse_taken(tmp_path / "runs" / "a-mean")
    refuse_taken(tmp_path / "runs" / "a" / "mean")
    refuse_taken(tmp_path / "runs" / "a" / "exported" / "onnx")


def test_a_run_is_known_without_its_lock_and_a_folder_named_checkpoints_makes_no_run(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    refuse_taken(tmp_path / "mean")
    (tmp_path / "resolved.json").touch()
    refused(tmp_path / "best", "is a part of the run")
