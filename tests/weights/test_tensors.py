import random

import pytest
import safetensors
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from regard.errors import FolderError, RunError
from regard.weights.tensors import (
    _tied,
    half,
    model_tensors,
    read_tensors,
    refuse_non_finite,
    restore_model,
    write_tensors,
)

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool]


class Tied(nn.Module):
    """Two embeddings tied with an output layer, which has a bias."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.source = nn.Embedding(5, 3)
        self.target = nn.Embedding(5, 3)
        self.output = nn.Linear(3, 5)
        self.target.weight = self.output.weight = self.source.weight
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))


@given(
    st.lists(st.lists(st.integers(0, 4), max_size=3), max_size=4),
    st.sampled_from(DTYPES),
    st.integers(0, 2**31),
)
@settings(max_examples=50, deadline=None)
def test_tensors_survive_the_disk_exactly(tmp_path_factory, shapes, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    tensors = {
        f"t{i}": (torch.randn(shape, generator=generator) * 9).to(dtype) for i, shape in enumerate(shapes)
    }
    path = tmp_path_factory.mktemp("tensors") / "x.safetensors"
    write_tensors(path, tensors)
    found = read_tensors(path)
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == dtype
        assert torch.equal(found[name], tensor)


def test_the_same_tensors_give_the_same_bytes_in_any_order(tmp_path):
    tensors = {name: torch.full((2, 2), float(i)) for i, name in enumerate("edcba")}
    write_tensors(tmp_path / "a", tensors)
    write_tensors(tmp_path / "b", dict(sorted(tensors.items())))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with safetensors.safe_open(tmp_path / "a", "pt") as file:
        assert len(file.metadata()) <= 1


def test_views_transposes_and_shared_memory_are_written_by_value(tmp_path):
    whole = torch.arange(12.0).view(3, 4)
    tensors = {"row": whole[1], "turned": whole.t(), "whole": whole, "grown": whole[:1].expand(2, 4)}
    write_tensors(tmp_path / "x", tensors)
    for name, tensor in read_tensors(tmp_path / "x").items():
        assert torch.equal(tensor, tensors[name])


def test_what_is_read_does_not_hang_on_the_file(tmp_path):
    write_tensors(tmp_path / "x", {"a": torch.ones(1000)})
    found = read_tensors(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"")
    assert found["a"].sum() == 1000


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_tensor_that_is_not_finite_is_refused_by_name(bad, dtype):
    tensors = {"a": torch.zeros(3), "n": torch.tensor([1.0, bad], dtype=dtype), "i": torch.tensor([1])}
    with pytest.raises(RunError, match=r"model\.safetensors was not saved: 'n' has NaN or infinity"):
        refuse_non_finite("model.safetensors", tensors)


def test_a_missing_an_unknown_and_a_pickled_file_are_refused_in_one_line(tmp_path):
    (tmp_path / "text").write_text("these are not the weights you are looking for")
    (tmp_path / "empty").write_bytes(b"")
    torch.save({"a": torch.zeros(2)}, tmp_path / "pickle.safetensors")
    for name in ("absent", "text", "empty", "pickle.safetensors", "."):
        with pytest.raises(FolderError) as raised:
            read_tensors(tmp_path / name)
        assert str(tmp_path) in raised.value.message
        assert "\n" not in raised.value.message


def test_a_damaged_file_is_refused_or_read_and_nothing_else_happens(tmp_path):
    """safetensors cannot detect every flipped bit, hence the manifest; but nothing may crash."""
    write_tensors(tmp_path / "x", {"a": torch.randn(4, 3), "b.c": torch.arange(5), "d": torch.ones(2).half()})
    good = (tmp_path / "x").read_bytes()
    header = 8 + int.from_bytes(good[:8], "little")
    draw = random.Random(0)
    mutants = [good[:length] for length in range(0, header, 3)]
    for _ in range(500):
        mutant = bytearray(good)
        for _ in range(draw.randint(1, 4)):
            mutant[draw.randrange(header)] = draw.choice(
                b'0123456789"{}[],:FIABOLU\x00\xff' + draw.randbytes(3)
            )
        mutants.append(bytes(mutant))
    refused = []
    for mutant in mutants:
        (tmp_path / "y").write_bytes(mutant)
        try:
            found = read_tensors(tmp_path / "y")
        except FolderError as error:
            refused.append(error.message)
        else:
            assert all(isinstance(tensor, torch.Tensor) for tensor in found.values())
    assert len(refused) > len(mutants) / 2
    assert not [message for message in refused if "\n" in message]


def test_tied_weights_are_stored_once_under_the_first_name():
    assert sorted(model_tensors(Tied())) == ["output.bias", "output.weight"]


def test_weights_tied_by_their_memory_alone_are_stored_once_too():
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight.data = model[0].weight.data
    assert sorted(model_tensors(model)) == ["0.weight"]


def test_a_restored_model_has_the_weights_and_its_own_ties():
    model, other = Tied(1), Tied(2)
    restore_model(other, model_tensors(model))
    for name, tensor in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor)
    assert other.source.weight is other.output.weight


def test_a_tied_weight_may_come_under_any_of_its_names():
    tensors = model_tensors(Tied(1))
    tensors["source.weight"] = tensors.pop("output.weight")
    other = Tied(2)
    restore_model(other, tensors)
    assert torch.equal(other.output.weight, tensors["source.weight"])


def test_float16_on_disk_is_float32_in_the_model():
    model, other = Tied(1), Tied(2)
    stored = half(model_tensors(model))
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    restore_model(other, stored)
    assert other.output.weight.dtype == torch.float32
    assert torch.equal(other.output.weight, model.output.weight.half().float())


def test_what_overflows_float16_is_refused_by_name():
    with pytest.raises(RunError, match="'b' does not fit into float16"):
        half({"a": torch.ones(1), "b": torch.tensor([1e6]), "n": torch.tensor([10**9])})


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"output.bias": None}, r"W: 'output.bias' \[5\] is missing"),
        ({"output.bias": torch.zeros(4)}, r"W: 'output.bias' is \[4\], the model's is \[5\]"),
        (
            {"output.bias": torch.zeros(5).long()},
            r"'output.bias' is torch.int64, the model's is torch.float32",
        ),
        ({"output.bias": torch.full((5,), torch.nan)}, "'output.bias' has NaN"),
        ({"source.weight": torch.zeros(5, 3)}, "'output.weight' and 'source.weight' are one tensor"),
        ({"output.bais": torch.zeros(2)}, r"the model has no weight 'output.bais' \[2\]"),
    ],
)
def test_weights_of_another_model_are_refused_and_the_first_that_differs_is_named(change, expected):
    model = nn.Module()
    model.source, model.output = nn.Embedding(5, 3), nn.Linear(3, 5)
    model.source.weight = model.output.weight
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    tensors = {"output.bias": torch.zeros(5), "output.weight": torch.zeros(5, 3)} | change
    with pytest.raises(FolderError, match=expected):
        restore_model(model, {name: tensor for name, tensor in tensors.items() if tensor is not None}, "W")
    for name, tensor in before.items():
        assert torch.equal(model.state_dict()[name], tensor)  # nothing was half restored


def test_a_misspelt_weight_gets_the_nearest_name_for_a_hint():
    with pytest.raises(FolderError) as raised:
        restore_model(Tied(), model_tensors(Tied()) | {"output.bais": torch.zeros(5)})
    assert raised.value.hint == "did you mean 'output.bias'?"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("I/O error: No space left on device (os error 28)", OSError, "No space left on device"),
        ("the header is too large", RunError, "w.safetensors: the header is too large"),
    ],
)
def test_an_error_of_the_library_is_that_of_the_disk_if_it_has_its_number(
    tmp_path, monkeypatch, text, kind, message
):
    def fail(*_):
        raise safetensors.SafetensorError(text)

    monkeypatch.setattr("safetensors.torch.save_file", fail)
    with pytest.raises(kind, match=message) as raised:
        write_tensors(tmp_path / "w.safetensors", {"w": torch.zeros(2)})
    assert getattr(raised.value, "errno", None) == (28 if kind is OSError else None)


def test_tensors_without_numbers_share_no_memory_and_those_with_one_may():
    empty, number = torch.zeros(0, 3), torch.ones(1)
    assert _tied({"a": empty, "b": empty}) == [["a"], ["b"]]
    assert _tied({"a": number, "b": number, "c": number.clone()}) == [["a", "b"], ["c"]]


def test_a_missing_file_is_not_called_damaged(tmp_path):
    path = tmp_path / "model.safetensors"
    with pytest.raises(FolderError, match=r"model\.safetensors is missing") as missing:
        read_tensors(path)
    path.write_bytes(b"nothing")
    with pytest.raises(FolderError) as broken:
        read_tensors(path)
    assert ["damaged" in each.value.hint for each in (missing, broken)] == [False, True]
