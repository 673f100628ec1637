"""Which file of a toolkit's folder is its checkpoint."""

import pytest
import torch

from regard.errors import FolderError
from regard.weights.toolkits.toolkit import checkpoint_file, with_row


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


def test_a_row_more_is_zeros_or_has_the_value_that_is_given():
    for tensor in (torch.ones(2), torch.ones(2, 3).half()):
        for row, given in ((0.0, ()), (-5.0, (-5.0,))):
            found = with_row(tensor, *given)
            assert (found.dtype, found.shape) == (tensor.dtype, (3, *tensor.shape[1:]))
            assert torch.equal(found[:2], tensor)
            assert torch.equal(found[2], torch.full(tensor.shape[1:], row).to(tensor.dtype))
