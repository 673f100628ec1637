"""The state of a registered optimiser on a device, imitated by the meta device, which has no numbers."""

import pytest
import torch

from regard.errors import FolderError
from regard.training.registered_state import _Reader, _Writer, restore_state

META, CPU = torch.device("meta"), torch.device("cpu")


def test_tensors_without_memory_share_none():
    writer = _Writer({name: torch.ones(3, device=META) for name in ("one", "two")})
    for name in ("one/mean", "two/mean"):
        assert writer.value(torch.ones(3, device=META), name) == {"tensor": name}


def test_a_number_on_a_device_is_written_as_one():
    written = {
        name: _Writer({}).value(torch.ones(shape, device=device), name)
        for name, shape, device in (("there", (), META), ("here", (), CPU), ("many", 1, META))
    }
    assert written == {
        "there": {"tensor": "there", "on_device": True},
        "here": {"tensor": "here"},
        "many": {"tensor": "many"},
    }


@pytest.mark.parametrize(
    ("name", "more", "everywhere", "place"),
    [
        ("matrix/step", {}, False, CPU),
        ("matrix/mean", {}, False, CPU),
        ("matrix/mean", {"on_device": True}, False, META),
        ("matrix/mean", {}, True, META),
        ("number/mean", {}, False, META),
        ("number/step", {}, False, CPU),
        ("#0/count", {}, False, CPU),
    ],
)
def test_a_number_is_restored_to_the_device_where_it_was(name, more, everywhere, place):
    """Steps are counted in main memory, where the device has no part in that."""
    weights = {"matrix": torch.ones(2, 2), "number": torch.ones(())}
    tensors = {name: torch.tensor(3.0), "matrix/slots": torch.ones(2)}
    reader = _Reader(weights, tensors, META, numbers_on_device=everywhere)
    assert reader.value({"tensor": name, **more}, META).device == place
    assert reader.value({"tensor": "matrix/slots"}, META).device == META


@pytest.mark.parametrize("key", ["fused", "capturable", "other"])
def test_where_a_whole_update_is_on_the_device_its_numbers_are(key):
    weight = torch.nn.Parameter(torch.ones(2, device=META))
    optimizer = torch.optim.SGD([{"params": [weight], key: True}])
    slots = {"dict": [["step", {"tensor": "0/step"}]]}
    saved = {"groups": [{}], "weights": {"0": slots}, "other": {"dict": []}}
    restore_state(optimizer, {"0": weight}, {"0/step": torch.tensor(3.0)}, saved)
    assert optimizer.state[weight]["step"].device == (CPU if key == "other" else META)


@pytest.mark.parametrize("weights", [{"0": {"odd": 1}}, {"0": {"tensor": "lost"}}, []])
def test_a_state_that_is_damaged_is_refused(weights):
    weight = torch.nn.Parameter(torch.ones(2))
    saved = {"groups": [{}], "weights": weights, "other": {"dict": []}}
    with pytest.raises(FolderError, match="the optimizer state is damaged"):
        restore_state(torch.optim.SGD([weight]), {"0": weight}, {}, saved)
