"""What is frozen is selected by names and patterns; besides adapters only new weights are trained."""

import re

import pytest
import torch

from regard.errors import ConfigError, RecipeError
from regard.models.adapters import AdapterSettings, adapters_of
from regard.models.build import build_model, count_parameters
from regard.models.encoder_only import EncoderOnlyConfig
from regard.training.trainable import choose_trainable


def model(head="classification", **options):
    labels = {"num_labels": 2} if head == "classification" else {}
    config = EncoderOnlyConfig(
        vocab_size=20, head=head, d_model=8, num_heads=2, d_ff=16, num_layers=2, **labels, **options
    )
    return build_model(config, seed=0)


def trained(found):
    return {name for name, parameter in found.named_parameters() if parameter.requires_grad}


def test_without_settings_all_is_trained():
    found = model()
    assert choose_trainable(found) == count_parameters(found)


def test_what_is_frozen_begins_with_one_of_the_names():
    found = model()
    names = {name for name, _ in found.named_parameters()}
    count = choose_trainable(found, freeze=["encoder.input", "encoder.blocks.0"])
    assert names - trained(found) == {
        name for name in names if name.startswith(("encoder.input.", "encoder.blocks.0."))
    }
    assert count == sum(parameter.numel() for parameter in found.parameters() if parameter.requires_grad)
    assert count < count_parameters(found)


@pytest.mark.parametrize(
    ("pattern", "frozen"),
    [
        ("*.norm*", lambda name: "norm" in name.rpartition(".")[0]),
        ("encoder.blocks.[01].*", lambda name: name.startswith("encoder.blocks.")),
        ("encoder.blocks.[!0]", lambda name: name.startswith("encoder.blocks.1.")),
        ("*.bias", lambda name: name.endswith(".bias")),
        ("*attention", lambda name: "attention." in name),
        ("encoder.blocks.?.feed_forward", lambda name: ".feed_forward." in name),
    ],
)
def test_a_pattern_matches_modules_and_weights_by_name(pattern, frozen):
    found = model()
    names = {name for name, _ in found.named_parameters()}
    choose_trainable(found, freeze=[pattern])
    assert names - trained(found) == {name for name in names if frozen(name)} != set()


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("encoder.blokcs.[01].*", r"did you mean 'encoder\.blocks"),
        ("*.nrom*", r"did you mean '\*\.norm'"),
        ("decoder.blocks.[01]", "did you mean 'encoder.blocks"),
        ("[x]", "known: encoder, head, and what is below them"),
        ("Encoder*", "did you mean 'encoder'"),
    ],
)
def test_a_pattern_that_matches_nothing_is_refused_with_the_nearest_name(pattern, hint):
    with pytest.raises(RecipeError) as caught:
        choose_trainable(model(), freeze=["head", pattern])
    assert f"nothing is called {pattern!r}" in caught.value.message
    assert re.search(hint, caught.value.hint)


def test_a_name_is_whole_words():
    """blocks.1 is not the beginning of blocks.10."""
    found = model(max_positions=8)
    with pytest.raises(RecipeError, match=r"encoder\.block'") as caught:
        choose_trainable(found, freeze=["encoder.block"])
    assert "did you mean 'encoder.blocks'?" in caught.value.hint


def test_a_single_weight_can_be_frozen_and_a_tied_one_by_either_name():
    first, second = model("masked_language_model"), model("masked_language_model")
    choose_trainable(first, freeze=["encoder.input.embedding.weight"])
    choose_trainable(second, freeze=["head.output.weight"])
    assert trained(first) == trained(second)
    assert "head.output.bias" in trained(first)


def test_nothing_left_to_train_is_refused():
    with pytest.raises(RecipeError, match="nothing to train"):
        choose_trainable(model(), freeze=["encoder", "head"])


def test_adapters_and_what_is_fresh_are_all_that_is_trained():
    found = model()
    count = choose_trainable(found, adapter=AdapterSettings(rank=2), fresh=["head.output.weight"], seed=3)
    assert len(adapters_of(found)) == 4
    assert {name for name in trained(found) if ".adapter." not in name} == {"head.output.weight"}
    assert count == sum(a.down.numel() + a.up.numel() for _, a in adapters_of(found).values()) + 16


def test_the_seed_initialises_the_adapters():
    twins = [model(), model(), model()]
    for twin, seed in zip(twins, (1, 1, 2), strict=True):
        choose_trainable(twin, adapter=AdapterSettings(rank=2), seed=seed)
    downs = [next(iter(adapters_of(twin).values()))[1].down for twin in twins]
    assert torch.equal(downs[0], downs[1])
    assert not torch.equal(downs[0], downs[2])


def test_adapters_that_have_no_place_are_refused():
    with pytest.raises(ConfigError, match="feed_foward"):
        choose_trainable(model(), adapter=AdapterSettings(targets=("feed_foward",)))
