"""What cannot be sharded is refused before a process talks to another one."""

from unittest.mock import Mock

import pytest
import torch
from torch import nn

from regard.distributed.group import Group
from regard.distributed.sharded import ShardedModel
from regard.errors import ConfigError


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(0.5))
        self.gain = nn.Parameter(torch.ones(3))


def test_parameters_without_rows_are_refused_by_their_full_names():
    model, group = nn.ModuleDict({"first": Scaled(), "second": Scaled()}), Mock(spec=Group)
    with pytest.raises(ConfigError, match=r"first\.factor, second\.factor") as error:
        ShardedModel(model, group)
    assert "torch.ones(1)" in error.value.hint
    assert "ddp" in error.value.hint
    assert "gain" not in error.value.message
    assert not group.mock_calls
