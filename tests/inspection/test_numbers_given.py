"""Indices that a caller gives are whole numbers, of whatever type; all else is a ConfigError."""

import numpy as np
import pytest
import torch

from regard.errors import ConfigError
from regard.inspection.numbers_given import is_whole, refuse_other_indices, refuse_other_rows


@pytest.mark.parametrize(
    "given", [[0, 2], (0, 2), range(0, 3, 2), np.array([0, 2]), torch.tensor([0, 2]), iter([0, 2])]
)
def test_indices_may_come_in_any_sequence(given):
    assert refuse_other_indices("attention", "heads", given, 4) == (0, 2)


@pytest.mark.parametrize(
    "given",
    [
        *(3, "02", None, [1.5], [True, False]),
        *(np.array(3), np.array([True, False]), np.array([1.0])),
        *(torch.tensor(3), torch.tensor([True, False]), torch.tensor([1.0])),
    ],
)
def test_what_is_no_sequence_of_whole_numbers_is_refused(given):
    with pytest.raises(ConfigError, match="is not a sequence of whole numbers"):
        refuse_other_indices("attention", "heads", given, 4)


def test_a_truth_value_is_no_whole_number():
    assert not any(map(is_whole, (True, np.bool_(True), torch.tensor(True))))
    assert all(map(is_whole, (1, np.int64(1), torch.tensor(1))))
    with pytest.raises(ConfigError, match="has no row True"):
        refuse_other_rows([True], 2)
