"""Tables of tensor names: what is written is read back, and every tensor of a file is used exactly once."""

import pytest
import torch

from regard.errors import FolderError, RunError
from regard.weights.names import (
    Entry,
    linear,
    read_names,
    refuse_gaps,
    renamed,
    same,
    stacked_tensors,
    write_names,
)

ENTRIES = {
    "same": same("a", "x"),
    "transposed": same("a", "x", transposed=True),
    "stacked": Entry(ours="a", hf=("x", "y", "z"), widths=(1, 2, 3)),
    "stacked and transposed": Entry(ours="a", hf=("x", "y"), widths=(2, 4), transposed=True),
    "of another shape": Entry(ours="a", hf=("x",), shape=(2, 3, 4)),
    "with an offset": Entry(ours="a", hf=("x",), offset=1.5),
    "by heads": Entry(ours="a", hf=("x",), heads=2),
}
OWN = torch.arange(24.0).view(6, 4)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_tensor_is_read_back_as_it_was_written(name):
    entry = ENTRIES[name]
    parts = entry.write(OWN)
    assert [part.shape for part in parts] == entry.shapes(OWN.shape)
    assert all(part.is_contiguous() for part in parts)
    assert torch.equal(entry.read(parts, OWN.shape), OWN)
    assert torch.equal(OWN, torch.arange(24.0).view(6, 4)), "the model's own is unchanged"


def test_what_each_kind_of_entry_writes():
    assert torch.equal(ENTRIES["transposed"].write(OWN)[0], OWN.T)
    assert [len(part) for part in ENTRIES["stacked"].write(OWN)] == [1, 2, 3]
    assert torch.equal(ENTRIES["with an offset"].write(OWN)[0], OWN - 1.5)
    query, key, value = OWN.view(3, 2, 1, 4)  # two heads of one row each
    by_head = torch.stack([query, key, value], dim=1).flatten(0, 2)
    assert torch.equal(ENTRIES["by heads"].write(OWN)[0], by_head)


def test_a_layer_has_a_weight_and_a_bias_unless_it_has_none():
    assert linear("a", "x") == [same("a.weight", "x.weight"), same("a.bias", "x.bias")]
    assert linear("a", "x", bias=False) == [same("a.weight", "x.weight")]
    weight, bias = stacked_tensors("a", ("q", "k"), (2, 4))
    assert (weight.ours, weight.hf, weight.widths) == ("a.weight", ("q.weight", "k.weight"), (2, 4))
    assert (bias.ours, bias.hf, bias.widths) == ("a.bias", ("q.bias", "k.bias"), (2, 4))
    assert stacked_tensors("a", ("q", "k"), (2, 4), bias=False) == [weight]


TABLE = [same("a", "x"), Entry(ours="b", hf=("y", "z"), widths=(1, 2))]
SHAPES = {"a": torch.Size([2]), "b": torch.Size([3, 2])}
FILE = {"x": torch.ones(2), "y": torch.ones(1, 2).half(), "z": torch.zeros(2, 2)}


def test_a_file_becomes_our_tensors_in_float32():
    found = read_names(TABLE, FILE, SHAPES, where="file")
    assert torch.equal(found["b"], torch.tensor([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]))
    assert {tensor.dtype for tensor in found.values()} == {torch.float32}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"z": None}, r"file: 'z' \[2, 2\], the source of b \[3, 2\], is missing$"),
        ({"z": None, "w": torch.ones(7)}, r"is missing; 'w' \[7\] is left over"),
        ({"w": torch.ones(7)}, r"file: the model has no weight 'w' \[7\]$"),
        ({"w": torch.ones(7), "v": torch.ones(1), "u": torch.ones(1)}, r"'u' \[1\], nor 2 others"),
        ({"z": torch.zeros(2, 3)}, r"file: 'z' is \[2, 3\], not \[2, 2\], the source of b \[3, 2\]"),
        ({"x": torch.ones(2, dtype=torch.int64)}, "file: 'x' is torch.int64, not floating point"),
        ({"x": torch.tensor([1.0, torch.nan])}, "file: 'x' has NaN or infinity"),
        ({"x": torch.tensor([1.0, -torch.inf])}, "file: 'x' has NaN or infinity"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value[:30],
)
def test_what_does_not_fit_is_named(changes, message):
    tensors = {name: each for name, each in {**FILE, **changes}.items() if each is not None}
    with pytest.raises(FolderError, match=message) as refused:
        read_names(TABLE, tensors, SHAPES, where="file")
    assert refused.value.hint


def test_a_missing_bias_is_written_as_zeros_of_its_layer():
    table = [*linear("a", "x"), *stacked_tensors("b", ("q", "k"), (1, 2))]
    tensors = {"a.weight": torch.ones(2, 5).double(), "b.weight": torch.ones(3, 4)}
    written = write_names(table, tensors)
    assert set(written) == {f"{name}.{part}" for name in "xqk" for part in ("weight", "bias")}
    assert torch.equal(written["x.bias"], torch.zeros(2).double())
    assert torch.equal(written["k.bias"], torch.zeros(2))
    with pytest.raises(AssertionError):
        write_names([same("c.scale", "y")], {})
    with pytest.raises(RunError, match=r"'c' \[1\] has no counterpart"):
        write_names(table, {**tensors, "c": torch.ones(1)})


def test_a_table_has_each_tensor_of_the_model_once():
    refuse_gaps(TABLE, SHAPES)
    for table in ([*TABLE, same("a", "other")], TABLE[:1], [*TABLE, same("c", "z")]):
        with pytest.raises(AssertionError):
            refuse_gaps(table, SHAPES)


def test_names_are_changed_one_pattern_after_the_other_and_stay_different():
    changes = [(r"^model\.", ""), (r"layer(\d)", r"blocks.\1"), (r"blocks", "b")]
    found = renamed({"model.layer1.x": torch.ones(1), "y": torch.zeros(1)}, changes)
    assert list(found) == ["b.1.x", "y"]
    with pytest.raises(FolderError, match="two tensors have the name 'y'"):
        renamed({"model.y": torch.ones(1), "y": torch.zeros(1)}, changes)


def test_a_file_is_read_by_a_table_of_the_whole_model_only():
    for table in (TABLE[:1], [*TABLE, same("c", "w")]):
        with pytest.raises(AssertionError):
            read_names(table, FILE, SHAPES, where="file")


def test_an_entry_has_the_rows_of_each_of_its_tensors():
    entry = Entry(ours="b", hf=("y", "z"), widths=(3,))
    with pytest.raises(ValueError, match="zip"):
        read_names([entry], {"y": torch.ones(3, 2), "z": torch.ones(3, 2)}, {"b": SHAPES["b"]}, where="file")
    with pytest.raises(ValueError, match="zip"):
        write_names([entry], {"b": torch.ones(3, 2)})
