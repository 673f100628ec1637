"""A Look at an image: patches instead of tokens, and head statistics that use the grid."""

import numpy as np
import pytest
import torch

from regard.errors import DataError
from regard.verbs.classify_images import ImageClassifier
from regard.verbs.look import Changes, Looker, LookRequest, look
from regard.verbs.views.resources import JSON_RESOURCES


@pytest.fixture(scope="module", params=["cls", "mean"])
def seeing(request, vision_folder):
    """A look at the third of some images, how it was pooled, and the model's folder."""
    folder = vision_folder(pooling=request.param)
    return look(f"{folder.parent / 'images.npz'}:2", folder, device="cpu"), request.param, folder


def test_the_classes_are_those_that_classify_gives(seeing):
    result, _, folder = seeing
    found = list(ImageClassifier(folder, top=3, device="cpu").file(folder.parent / "images.npz"))[2]
    reported = result.summary["answer"]["labels"]
    assert [each["label"] for each in reported] == [each.label for each in found.candidates]
    assert [each["probability"] for each in reported] == pytest.approx(
        [each.probability for each in found.candidates], abs=1e-6
    )


def test_patches_are_named_by_row_and_column_behind_the_token_of_the_class(seeing):
    result, pooling, folder = seeing
    tokens = result.summary["sequences"]["text"]["tokens"]
    patches = [f"{row},{column}" for row in range(3) for column in range(3)]
    assert tokens == (["<class>", *patches] if pooling == "cls" else patches)
    before = int(pooling == "cls")
    assert result.summary["image"] == {"rows": 3, "columns": 3, "patch_size": 4, "before": before}
    with np.load(folder.parent / "images.npz") as held:
        np.testing.assert_array_equal(np.asarray(result.get("image")), held["images"][2])


def test_every_resource_can_be_had_and_weights_sum_to_one(seeing):
    result, pooling, _ = seeing
    for path in result.paths():
        assert isinstance(result.get(path), np.ndarray) == (path not in JSON_RESOURCES), path
    count = 9 + (pooling == "cls")
    for place in result.summary["attentions"]:
        weights = np.asarray(result.get(f"attention/{place['name']}"))
        assert weights.shape == (2, count, count)
        np.testing.assert_allclose(weights.sum(axis=2), 1, atol=5e-3)
    assert np.asarray(result.get("positions/table")).shape == (count, 16)
    assert np.asarray(result.get("rollout/encoder")).shape == (count, count)


def test_a_heads_distance_is_that_of_patches_in_the_grid(seeing):
    result, pooling, _ = seeing
    before = int(pooling == "cls")
    weights = np.asarray(result.get("attention/blocks.0.self_attention")).astype(float)[:, before:, before:]
    centres = np.array([(row, column) for row in range(3) for column in range(3)], dtype=float)
    away = np.linalg.norm(centres[:, None] - centres[None], axis=2)
    expected = ((weights * away).sum(axis=2) / weights.sum(axis=2)).mean(axis=1)
    heads: list = result.get("heads")
    assert [head["distance"] for head in heads[:2]] == pytest.approx(expected, abs=2e-3)
    assert all(head["previous"] is None and head["next"] is None for head in heads)


def test_a_patch_that_is_switched_off_changes_nothing_any_more(vision_folder):
    """Whatever its pixels are, the answer is the same, whether classes are read of a token or of a mean."""
    for pooling in ("cls", "mean"):
        folder = vision_folder(pooling=pooling)
        place = int(pooling == "cls") + 4  # the middle
        file = folder.parent / "images.npz"
        with np.load(file) as held:
            pixels = held["images"]
        other = pixels.copy()
        other[:, 4:8, 4:8] = 255 - other[:, 4:8, 4:8]
        np.savez(folder.parent / "others.npz", images=other)
        looker, changes = Looker(folder, device="cpu"), Changes(tokens=(place,))
        answers = [
            looker(LookRequest(text=str(name), changes=off)).summary["answer"]["labels"]
            for name in (file, folder.parent / "others.npz")
            for off in (changes, Changes())
        ]
        assert answers[0] == answers[2]
        assert answers[1] != answers[3]
        changed: dict = looker(LookRequest(text=str(file))).get("ablation")
        [middle] = [each["change"] for each in changed["tokens"] if each["position"] == place]
        best = answers[1][0]
        [without] = [each["probability"] for each in answers[0] if each["label"] == best["label"]]
        assert middle == pytest.approx(np.log(without / best["probability"]), abs=1e-3)


def test_what_is_no_image_is_refused(vision_folder, tmp_path):
    folder = vision_folder()
    looker = Looker(folder, device="cpu")
    images = folder.parent / "images.npz"
    with pytest.raises(DataError, match="has no image 4") as refusal:
        looker.look(f"{images}:4")
    assert refusal.value.hint == "its 4 images count from 0"
    with pytest.raises(DataError, match="prefix is for a model that generates text"):
        looker.look(f"{images}:0", prefix="a")
    with pytest.raises(DataError, match="no image is named"):
        looker.look(" ")
    np.savez(tmp_path / "grey.npz", images=np.zeros((1, 12, 12, 4), np.uint8))
    with pytest.raises(DataError, match="4 channels, but the model reads 3"):
        looker.look(f"{tmp_path / 'grey.npz'}:0")
    first = looker.look(str(images))
    torch.testing.assert_close(first.run.forced.inputs, looker.look(f"{images}:0").run.forced.inputs)
