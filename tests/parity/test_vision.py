"""Pretrained vision transformers have the outputs of transformers."""

import json

import numpy as np
import pytest
import torch

from regard.cli import run
from regard.errors import FolderError
from regard.inspection.record import record_attention
from regard.verbs.classify_images import ImageClassifier
from regard.verbs.convert import convert
from regard.weights.pretrained import load_pretrained
from tests.parity.vision_and_speech_cases import VISION, VIT


@pytest.fixture(params=VISION, ids=str, scope="module")
def pair(request, make):
    return make(request.param)


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
        close(recording.last_weights(f"blocks.{number}.self_attention"), there)


def test_loss_and_gradients_are_theirs(pair, images, gradients_by_file_name):
    labels = torch.tensor([2, 0, 1])
    theirs, logits = pair.theirs(images).logits, pair.ours(images)
    loss, their_loss = (torch.nn.functional.cross_entropy(each, labels) for each in (logits, theirs))
    close(loss, their_loss)
    pair.theirs.zero_grad()
    pair.ours.zero_grad()
    their_loss.backward()
    loss.backward()
    ours, there = gradients_by_file_name(pair)
    assert (
        len(there)
        == 16 * pair.config.num_layers + {None: 8, "token": 9, "head": 11}[pair.config.distillation]
    )
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


PREPROCESSORS = [
    {},
    {"do_normalize": False},
    {"do_rescale": False},
    {"do_rescale": False, "do_normalize": False},
    {"rescale_factor": 1 / 127.5, "image_mean": [1.0, 1.0, 1.0], "image_std": [1.0, 1.0, 1.0]},
    {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]},
    {"rescale_factor": 0.01, "do_normalize": True, "image_mean": 0.25, "image_std": 0.5},
]


@torch.no_grad()
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(each, id=str(each), marks=() if number in (0, 3, 6) else pytest.mark.nightly)
        for number, each in enumerate(PREPROCESSORS)
    ],
)
def test_pixels_are_scaled_as_there(make, settings, tmp_path, capsys):
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    theirs, folder = make(VIT[0]).theirs, make(VIT[0]).folder
    path = folder / "preprocessor_config.json"
    path.write_text(json.dumps(settings), "utf-8")
    images = np.random.default_rng(1).integers(0, 256, (4, 3, 12, 12), dtype=np.uint8)
    read = ViTImageProcessorPil(size={"height": 12, "width": 12}, **settings)(
        images=list(images), input_data_format="channels_first", return_tensors="pt"
    )
    shares = theirs(**read).logits.softmax(-1)
    convert(folder, out=tmp_path / "ours")
    convert(tmp_path / "ours", out=tmp_path / "back", to="hf")
    np.savez(tmp_path / "images.npz", images=images.transpose(0, 2, 3, 1))
    for model in (folder, tmp_path / "ours", tmp_path / "back"):
        found = list(ImageClassifier(model, top=3, device="cpu")(images))
        for each, expected in zip(found, shares, strict=True):
            reported = {one.label: one.probability for one in each.candidates}
            assert [reported[name] for name in ("cat", "dog", "fox")] == pytest.approx(
                expected.tolist(), abs=1e-4
            )
        assert run(["classify", "--input", str(tmp_path / "images.npz"), "--model", str(model)]) == 0
        assert capsys.readouterr().out.count("\n") == 4
    path.unlink()


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        ({"rescale_factor": 0}, "rescale_factor = 0.0"),
        ({"do_normalize": "no"}, "do_normalize = 'no' is not of type bool"),
        ({"image_mean": [0.1, 0.2]}, "image_mean = "),
        ({"image_std": [0.1, 0.2, 0]}, "image_std = "),
        ({"image_std": 0}, "image_std = 0.0"),
    ],
)
def test_scales_that_cannot_be_followed_are_refused(make, settings, reported):
    folder = make(VIT[0]).folder
    (folder / "preprocessor_config.json").write_text(json.dumps(settings), "utf-8")
    with pytest.raises(FolderError, match=reported):
        load_pretrained(folder)
    (folder / "preprocessor_config.json").unlink()
