"""Which file of a toolkit's folder is its checkpoint."""

import pytest

from regard.errors import FolderError
from regard.weights.toolkits.toolkit import checkpoint_file


def test_a_named_file_a_usual_name_or_the_only_one(tmp_path):
    (tmp_path / "step_1.pt").touch()
    assert checkpoint_file(tmp_path, "*.pt", ("best.pt",)) == tmp_path / "step_1.pt"
    (tmp_path / "step_2.pt").touch()
    assert checkpoint_file(tmp_path / "step_2.pt", "*.pt") == tmp_path / "step_2.pt"
    (tmp_path / "best.pt").touch()
    (tmp_path / "last.pt").touch()
    assert checkpoint_file(tmp_path, "*.pt", ("best.pt", "last.pt")) == tmp_path / "best.pt"


@pytest.mark.parametrize("names", [(), ("a.pt", "b.pt")])
def test_none_or_several_are_named(tmp_path, names):
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(FolderError, match=f"has {len(names)} checkpoints: {', '.join(names)}") as caught:
        checkpoint_file(tmp_path, "*.pt", ("best.pt",))
    assert caught.value.hint == "name one of these files"
