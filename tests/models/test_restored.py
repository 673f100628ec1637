"""After a trial of a module its modes, buffers and the given parameters are as before."""

import torch
from torch import nn

from regard.models.restored import restored


def test_modes_statistics_and_parameters_are_restored():
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    module[1].eval()
    before = [each.clone() for each in module.state_dict().values()]
    with restored(module, *module.parameters()):
        module.train()
        module(torch.randn(8, 3))
        with torch.no_grad():
            module[0].weight += 1
    assert all(map(torch.equal, module.state_dict().values(), before))
    assert [each.training for each in module] == [True, False]
