"""A finished run gives the figures of recipes/README.md."""

import pytest

from tools.recipe_results import training_seconds


def test_the_time_of_a_training_is_that_of_its_tokens():
    records = [
        {"kind": "train", "target_tokens": 1000, "tokens_per_second": 100.0},
        {"kind": "validation", "loss": 1.0},
        {"kind": "train", "target_tokens": 3000, "tokens_per_second": 400.0},
        {"kind": "test", "scores": {}},
    ]
    assert training_seconds(records) == pytest.approx(15.0)
    assert training_seconds([]) == 0.0
