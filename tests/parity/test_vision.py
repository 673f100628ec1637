"""Vision transformers of other makers say what they said."""

import pytest
import torch

from regard.inspection.record import record_attention

CLASS = ("ViTForImageClassification", "ViTConfig")
LABELS = {"id2label": {0: "cat", 1: "dog", 2: "fox"}, "label2id": {"cat": 0, "dog": 1, "fox": 2}}
SMALL = {
    "hidden_size": 12,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "intermediate_size": 17,
    "image_size": 12,
    "patch_size": 4,
    **LABELS,
}
CASES = {
    "vit": (*CLASS, SMALL),
    "vit, one layer, grey": (*CLASS, {**SMALL, "num_hidden_layers": 1, "num_channels": 1, "patch_size": 3}),
    "vit, one patch a row": (
        *CLASS,
        {**SMALL, "patch_size": 12, "hidden_act": "relu", "layer_norm_eps": 1e-3},
    ),
}


@pytest.fixture(params=CASES, scope="module")
def pair(request, make):
    return make(request.param, *CASES[request.param])


@pytest.fixture
def images(pair):
    shape = (3, pair.config.channels, pair.config.image_size, pair.config.image_size)
    return torch.randn(shape, generator=torch.Generator().manual_seed(4))


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_logits_states_and_attentions_are_theirs(pair, images, listen):
    with listen([pair.ours.dropout, *pair.ours.blocks]) as states, record_attention(pair.ours) as recording:
        logits = pair.ours(images)
    theirs = pair.theirs(images, output_hidden_states=True, output_attentions=True)
    close(logits, theirs.logits)
    for here, there in zip(states[: len(pair.ours.blocks)], theirs.hidden_states[:-1], strict=True):
        close(here, there)
    for number, there in enumerate(theirs.attentions):
        close(recording.last(f"blocks.{number}.self_attention"), there)


def test_loss_and_gradients_are_theirs(pair, images, gradients_by_file_name):
    labels = torch.tensor([2, 0, 1])
    theirs = pair.theirs(images, labels=labels)
    loss = torch.nn.functional.cross_entropy(pair.ours(images), labels)
    close(loss, theirs.loss)
    pair.theirs.zero_grad()
    pair.ours.zero_grad()
    theirs.loss.backward()
    loss.backward()
    ours, there = gradients_by_file_name(pair)
    assert len(there) == 16 * pair.config.num_layers + 8
    for name, gradient in there.items():
        torch.testing.assert_close(
            ours[name], gradient, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


@torch.no_grad()
def test_the_way_back_is_equal(pair, images, given_back):
    close(given_back(pair)(images).logits, pair.theirs(images).logits)


@torch.no_grad()
def test_folders_there_and_back_say_the_same(pair, images, through_folders):
    loaded, theirs = through_folders(pair)
    torch.testing.assert_close(loaded.model(images), pair.ours(images), rtol=0, atol=0)
    close(pair.ours(images), theirs(images).logits)


def test_labels_are_theirs(pair):
    assert pair.pretrained.loaded.labels == ("cat", "dog", "fox")
