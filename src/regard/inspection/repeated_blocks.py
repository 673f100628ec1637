"""Names for blocks that a model applies several times, so that each time is recorded by itself."""

import copy
from typing import TypeVar

from torch import nn

from regard.inspection.names_given import refuse_other_module

AnyModel = TypeVar("AnyModel", bound=nn.Module)


def with_distinct_blocks(model: AnyModel) -> AnyModel:
    """The model; if a list of its modules has a block twice, a copy with the same weights that does not.

    What is recorded has the names of modules: of a block in two places the second call would be taken for
    other positions of the first. Weights are shared with `model`; a hook that is registered later is not.
    """
    refuse_other_module(model)
    if not any(len({*each}) < len(each) for each in _lists(model)):
        return model
    weights = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    copied = copy.deepcopy(model, dict(weights))
    for blocks in _lists(copied):
        seen = set[nn.Module]()
        for number, block in enumerate(blocks):
            blocks[number] = copy.deepcopy(block, dict(weights)) if block in seen else block
            seen.add(block)
    return copied


def _lists(model: nn.Module) -> list[nn.ModuleList]:
    return [each for each in model.modules() if isinstance(each, nn.ModuleList)]
