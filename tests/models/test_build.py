"""A config becomes a model: sizes, seeds, ties."""

import torch

from regard.models.build import build, count_parameters
from regard.models.config import config_from


def test_the_tiny_preset_has_the_parameters_of_its_paper():
    model = build(config_from({"preset": "tiny"}, 9712, 9712), seed=0)
    assert count_parameters(model) == 9_712 * 128 + 4 * 132_480 + 4 * 198_784 == 2_568_192


def test_a_model_reads_ids_and_gives_logits():
    model = build(config_from({"preset": "tiny"}, 50, 50), seed=0)
    logits = model(torch.tensor([[4, 5, 3], [6, 3, 0]]), torch.tensor([3, 2]), torch.tensor([[2, 7], [2, 8]]))
    assert logits.shape == (2, 2, 50)
