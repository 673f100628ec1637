"""A module gets all of its weights from another model, or none; the rest is reported."""

import pytest
import torch

from regard.errors import FolderError
from regard.models.build import build_model
from regard.models.encoder_only import EncoderOnlyConfig
from regard.weights.tensors import model_tensors
from regard.weights.transfer import modules_of, transfer

SMALL = {"vocab_size": 20, "d_model": 8, "num_heads": 2, "d_ff": 16, "num_layers": 2}


def model(head, *, seed=0, **options):
    return build_model(EncoderOnlyConfig(**{**SMALL, "head": head, **options}), seed=seed)


def weights(found):
    return {name: tensor.clone() for name, tensor in model_tensors(found).items()}


def test_a_model_of_the_same_shape_gives_everything():
    trained, new = model("classification", num_labels=3, seed=1), model("classification", num_labels=3)
    found = transfer(new, weights(trained))
    assert not found.fresh
    assert not found.unused
    assert all(torch.equal(tensor, weights(trained)[name]) for name, tensor in weights(new).items())


def test_an_encoder_keeps_what_it_has_learned_under_a_new_head():
    trained, new = weights(model("masked_language_model", seed=1)), model("classification", num_labels=3)
    before = weights(new)
    found = transfer(new, trained)
    after = weights(new)
    assert set(found.taken) == {name for name in after if name.startswith("encoder.")}
    assert all(torch.equal(after[name], trained[name]) for name in found.taken)
    assert all(torch.equal(after[name], before[name]) for name in found.fresh)
    assert set(found.fresh) == {name for name in after if name.startswith("head.")}
    assert modules_of(found.fresh, after) == ["head"]
    assert modules_of(found.unused, trained) == ["head"]


def test_a_module_is_taken_whole_or_not_at_all():
    """A bias that matches by chance is not copied if the weight of its module does not match."""
    trained, new = weights(model("regression", seed=1, pooler=False)), model("regression", pooler=False)
    trained["head.output.weight"] = torch.zeros(2, 8)
    found = transfer(new, trained)
    assert found.fresh == ("head.output.bias", "head.output.weight")
    assert set(found.unused) == set(found.fresh)


def test_what_means_something_else_is_not_taken_though_it_fits():
    trained, new = (
        weights(model("classification", num_labels=3, seed=1)),
        model("classification", num_labels=3),
    )
    found = transfer(new, trained, exclude=["head.output.weight"])
    assert found.fresh == ("head.output.bias", "head.output.weight")
    assert "head.pooler.layer.weight" in found.taken


def test_more_layers_are_fresh_and_fewer_leave_some_over():
    two, three = model("none", seed=1), model("none", num_layers=3)
    assert modules_of(transfer(three, weights(two)).fresh, weights(three)) == ["encoder.blocks.2"]
    found = transfer(two, weights(three))
    assert not found.fresh
    assert modules_of(found.unused, weights(three)) == ["encoder.blocks.2"]


def test_a_model_of_another_width_gives_nothing():
    with pytest.raises(FolderError, match="none of its weights") as caught:
        transfer(model("none"), weights(model("none", d_model=16, d_ff=32, vocab_size=21)))
    assert "[model]" in caught.value.hint


def test_modules_are_named_as_shortly_as_can_be():
    names = ["a.x.weight", "a.x.bias", "a.y.weight", "b.weight", "ab.weight"]
    assert modules_of(["a.x.weight", "a.x.bias"], names) == ["a.x"]
    assert modules_of(["a.x.weight", "a.x.bias", "a.y.weight"], names) == ["a"]
    assert modules_of(["a.x.bias", "b.weight"], names) == ["a.x.bias", "b"]
    assert modules_of([], names) == []
