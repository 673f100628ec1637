"""CLIP with random weights and odd sizes computes what it computes in transformers."""

import pytest
import torch

from regard.models.image_text import ImageText
from regard.verbs.convert import convert
from regard.weights.model_folder import load_model
from regard.weights.pretrained import load_pretrained
from tests.clip_folder import END, START, TEXT, VISION, clip, mask_of, padded, pictures
from tests.parity.conftest import theirs_of

pytest.importorskip("transformers")
ODD = {
    "as it is": {},
    "one head each": {"text": {"num_attention_heads": 1}, "vision": {"num_attention_heads": 1}},
    "many heads": {"text": {"num_attention_heads": 12}, "vision": {"num_attention_heads": 8}},
    "one layer and five": {"text": {"num_hidden_layers": 1}, "vision": {"num_hidden_layers": 5}},
    "other activations": {"text": {"hidden_act": "gelu"}, "vision": {"hidden_act": "gelu_new"}},
    "relu": {"text": {"hidden_act": "relu", "layer_norm_eps": 1e-3}, "vision": {"layer_norm_eps": 1e-2}},
    "narrow and wide": {"text": {"intermediate_size": 1}, "vision": {"intermediate_size": 133}},
    "a wide text": {"text": {"hidden_size": 60}, "vision": {"hidden_size": 6}, "projection_dim": 33},
    "one number": {"projection_dim": 1},
    "one patch": {"vision": {"patch_size": 12}},
    "grey, many patches": {"vision": {"patch_size": 1, "num_channels": 1}},
    "legacy end": {"text": {"eos_token_id": 2}},
    "an end of its own": {"text": {"eos_token_id": 7}},
    "a scale of its own": {"logit_scale_init_value": -1.5},
}


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def outputs(theirs, ids, lengths, images):
    return theirs(input_ids=ids, pixel_values=images, attention_mask=mask_of(ids, lengths))


@pytest.mark.parametrize("changes", ODD.values(), ids=ODD)
@torch.no_grad()
def test_features_and_logits_are_those_of_transformers(tmp_path, changes):
    theirs = clip(tmp_path, tokens=None, **changes)
    ours = load_pretrained(tmp_path).loaded.model
    assert isinstance(ours, ImageText)
    images = pictures({**VISION, **changes.get("vision", {})})
    ids, lengths = padded()
    mask = mask_of(ids, lengths)
    wanted = theirs.get_text_features(input_ids=ids, attention_mask=mask).pooler_output
    close(ours.text_features(ids, lengths), wanted)
    close(ours.image_features(images), theirs.get_image_features(pixel_values=images).pooler_output)
    found = ours(ids, lengths, images)
    expected = outputs(theirs, ids, lengths, images)
    close(found, expected.logits_per_text)
    close(found.T.softmax(dim=-1), expected.logits_per_image.softmax(dim=-1))


@pytest.mark.parametrize("pad", [0, 1, END])
@pytest.mark.parametrize("end", [2, END, 7])
@torch.no_grad()
def test_a_padded_text_has_the_vector_of_the_text_alone(tmp_path, pad, end):
    """By each rule for the end of a text, also where the padding is the end token, or has an id above it."""
    theirs = clip(tmp_path, "text", tokens=None, eos_token_id=end)
    ours = load_pretrained(tmp_path).loaded.model
    ids, lengths = padded(pad, end=7 if end == 7 else END)
    found = ours.text_features(ids, lengths)
    for row, length in enumerate(lengths):
        alone = ids[[row], :length]
        close(found[[row]], ours.text_features(alone, lengths[[row]]))
        close(found[[row]], theirs(input_ids=alone).text_embeds)


@torch.no_grad()
def test_the_first_of_several_ends_counts_and_by_the_old_rule_the_highest_id(tmp_path):
    ids, lengths = torch.tensor([[START, 5, END, 9, END, 3]]), torch.tensor([6])
    for folder, end in (("new", END), ("old", 2)):
        theirs = clip(tmp_path / folder, "text", tokens=None, eos_token_id=end)
        ours = load_pretrained(tmp_path / folder).loaded.model
        close(ours.text_features(ids, lengths), theirs(input_ids=ids).text_embeds)
    other = ids.where(ids != END, 4)  # then the start has the highest id
    close(ours.text_features(other, lengths), theirs(input_ids=other).text_embeds)


@pytest.mark.parametrize("kind", ["text", "text, bare"])
@torch.no_grad()
def test_a_text_tower_alone(tmp_path, kind):
    theirs = clip(tmp_path, kind, tokens=None)
    pretrained = load_pretrained(tmp_path)
    ids, lengths = padded()
    expected = theirs(input_ids=ids, attention_mask=mask_of(ids, lengths))
    wanted = expected.pooler_output if kind == "text, bare" else expected.text_embeds
    close(pretrained.loaded.model.text_features(ids, lengths), wanted)
    assert pretrained.loaded.config.d_model == (TEXT["hidden_size"] if kind == "text, bare" else 10)
    with pytest.raises(ValueError, match="no image tower"):
        pretrained.loaded.model.image_features(pictures(VISION))


@pytest.mark.parametrize("kind", ["images", "images, bare"])
@torch.no_grad()
def test_an_image_tower_alone(tmp_path, kind):
    theirs = clip(tmp_path, kind)
    pretrained = load_pretrained(tmp_path)
    images = pictures(VISION)
    expected = theirs(pixel_values=images)
    wanted = expected.pooler_output if kind == "images, bare" else expected.image_embeds
    close(pretrained.loaded.model.image_features(images), wanted)
    with pytest.raises(ValueError, match="no text tower"):
        pretrained.loaded.model.text_features(*padded())


def test_gradients_are_theirs(tmp_path):
    """Of the contrastive loss: each text is that of its image, and each image that of its text."""
    theirs = clip(tmp_path, tokens=None)
    ours = load_pretrained(tmp_path).loaded.model
    ids, lengths = (each[:3] for each in padded())
    images = pictures(VISION)
    logits, pairs = ours(ids, lengths, images), torch.arange(3)
    entropy = torch.nn.functional.cross_entropy
    ((entropy(logits, pairs) + entropy(logits.T, pairs)) / 2).backward()
    mask = mask_of(ids, lengths)
    theirs(input_ids=ids, pixel_values=images, attention_mask=mask, return_loss=True).loss.backward()
    close(ours.logit_scale.grad, theirs.logit_scale.grad)
    close(ours.image.first_norm.weight.grad, theirs.vision_model.pre_layrnorm.weight.grad)
    close(ours.image.class_token.grad, theirs.vision_model.embeddings.class_embedding.grad)
    close(ours.text.input.embedding.weight.grad, theirs.text_model.embeddings.token_embedding.weight.grad)
    close(ours.text_projection.weight.grad, theirs.text_projection.weight.grad)


@pytest.mark.parametrize("kind", ["both", "text", "text, bare", "images", "images, bare"])
@pytest.mark.parametrize("legacy", [False, True])
@torch.no_grad()
def test_folders_there_and_back_compute_the_same(tmp_path, kind, legacy):
    if legacy and kind.startswith("images"):
        pytest.skip("it reads no text")
    theirs = clip(tmp_path / "theirs", kind, text={"eos_token_id": 2} if legacy else {})
    family = convert(tmp_path / "theirs", out=tmp_path / "ours").family
    assert convert(tmp_path / "ours", out=tmp_path / "back", to="hf").family == family
    back, again = theirs_of(tmp_path / "back"), load_pretrained(tmp_path / "back").loaded.model
    ids, lengths = padded()
    named = {"input_ids": ids, "attention_mask": mask_of(ids, lengths)}
    if kind == "both":
        images = pictures(VISION)
        expected = outputs(theirs, ids, lengths, images).logits_per_text
        torch.testing.assert_close(outputs(back, ids, lengths, images).logits_per_text, expected)
        close(again(ids, lengths, images), expected)
    elif kind.startswith("text"):
        torch.testing.assert_close(back(**named).last_hidden_state, theirs(**named).last_hidden_state)
    else:
        images = pictures(VISION)
        expected = theirs(pixel_values=images).last_hidden_state
        torch.testing.assert_close(back(pixel_values=images).last_hidden_state, expected)


def test_other_families_have_its_activation_too(their_encoder, tmp_path):
    """Of the blocks and of the head; a model folder with it is read again."""
    folder, theirs, _ = their_encoder("BertForMaskedLM", hidden_act="quick_gelu")
    convert(folder, out=tmp_path / "ours")
    ids = torch.tensor([[2, 7, 9, 4, 3]])
    with torch.no_grad():
        found = load_model(tmp_path / "ours").model(ids, torch.tensor([5]))
        close(found, theirs(ids).logits)
