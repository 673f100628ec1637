"""What a child process makes of a pickle: tensors and settings, or one line that says what is wrong."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.errors import FolderError
from regard.weights import pickled
from regard.weights.pickled import read_pickle, refuse_untrusted
from regard.weights.tensors import write_tensors

WEIGHTS = {"a": torch.arange(3.0)}


@pytest.fixture
def child(monkeypatch):
    """Replaces the program of the child by another; returns the arguments of each child."""
    run, seen = subprocess.run, []

    def instead(program, *, writes=()):
        def replaced(arguments, **how):
            seen.append([*arguments[1:4], *arguments[5:]])
            safe = Path(arguments[4])
            if "tensors" in writes:
                write_tensors(safe, WEIGHTS)
            if "settings" in writes:
                safe.with_name("settings.json").write_text('{"x": 1}')
            return run([sys.executable, "-c", program], **how)

        monkeypatch.setattr(pickled.subprocess, "run", replaced)
        return seen

    return instead


def test_a_pickle_is_read_by_a_child_with_its_layout_as_an_argument(tmp_path, child):
    path = tmp_path / "model.pt"
    path.touch()
    for layout, writes, settings in (("", ["tensors"], {}), ("comet", ["tensors", "settings"], {"x": 1})):
        seen = child("pass", writes=writes)
        found = read_pickle(path, layout) if layout else read_pickle(path)
        assert found[1] == settings
        assert torch.equal(found[0]["a"], WEIGHTS["a"])
        assert seen[-1] == ["-m", "regard.weights.unpickle", str(path), layout]


@pytest.mark.parametrize(
    ("program", "writes", "why"),
    [
        ("import sys; print('no'); sys.exit('first\\nlast')", [], "last"),
        ("import sys; sys.exit('last')", ["tensors"], "last"),
        ("import sys; sys.exit('x' * 1000)", [], "x" * 300),
        ("import sys; sys.exit(1)", [], "the process died"),
        ("pass", [], "the process died"),
    ],
)
def test_a_child_that_writes_no_tensors_is_an_error_in_one_line(tmp_path, child, program, writes, why):
    (tmp_path / "model.pt").touch()
    child(program, writes=writes)
    with pytest.raises(FolderError) as caught:
        read_pickle(tmp_path / "model.pt")
    assert caught.value.message == f"{tmp_path / 'model.pt'}: {why}"
    assert caught.value.hint == "the file is damaged or has more than tensors"


def test_what_is_too_large_or_a_link_to_another_place_is_refused_before_a_child_starts(
    tmp_path, child, monkeypatch
):
    seen = child("pass", writes=["tensors"])
    (tmp_path / "elsewhere").touch()
    (tmp_path / "folder").mkdir()
    link = tmp_path / "folder" / "model.pt"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FolderError, match=r"model\.pt"):
        read_pickle(link)
    link.unlink()
    link.write_bytes(bytes(100))
    monkeypatch.setattr("regard.data.folder_file.total_memory", lambda: 99)
    with pytest.raises(FolderError, match="memory"):
        read_pickle(link)
    assert seen == []
    monkeypatch.setattr("regard.data.folder_file.total_memory", lambda: 100)
    assert read_pickle(link)[0].keys() == WEIGHTS.keys()


def test_a_pickle_is_read_only_if_it_is_trusted(tmp_path):
    refuse_untrusted(tmp_path / "model.pt", trust_pickle=True)
    with pytest.raises(FolderError, match="is a pickle, which can run code") as caught:
        refuse_untrusted(tmp_path / "model.pt", trust_pickle=False)
    assert "--trust-pickle" in caught.value.hint
