"""Run alone, without checks of types: what torch.compile and torch.export make of each model, as JSON.

{specimen: {"compiled": ..., "gradients": ..., "exported": ...}}, each the largest difference from eager.
After --inductor come specimens whose code is generated and built too: {specimen: {"compiled": ...}}.
"""

import gc
import json
import sys
from collections.abc import Callable

import torch
from test_family import SPECIMENS, Specimen, made
from torch import Tensor
from torch.export import Dim, export

# Two shapes of input for one compiled or exported model; what is here may change from call to call.
SOURCE, TARGET = Dim("source", min=2, max=512), Dim("target", min=2, max=512)
BATCH = Dim("batch", min=2)
DYNAMIC = {
    "encoder_decoder": ({0: BATCH, 1: SOURCE}, {0: BATCH}, {0: BATCH, 1: TARGET}),
    "encoder_only": ({0: BATCH, 1: SOURCE}, {0: BATCH}),
    "decoder_only": ({0: BATCH, 1: SOURCE},),
    "vision": ({0: BATCH},),
}


def differences(specimen: Specimen) -> dict[str, float]:
    model, first = made(specimen).eval(), specimen.inputs()
    compiled, found = torch.compile(model, backend="aot_eager"), {}
    found["compiled"] = apart(compiled, model, first)
    parameters = list(model.parameters())
    ours = torch.autograd.grad(model(*first).logsumexp(-1).sum(), parameters)
    theirs = torch.autograd.grad(compiled(*first).logsumexp(-1).sum(), parameters)
    found["gradients"] = max((a - b).abs().max().item() for a, b in zip(ours, theirs, strict=True))
    shapes = DYNAMIC.get(specimen.kind)
    exported = export(model, first, dynamic_shapes=shapes, strict=True).module()
    found["exported"] = apart(exported, model, first)
    if shapes:
        twice = tuple(torch.cat([each, each]) for each in first)
        found["exported"] = max(found["exported"], apart(exported, model, twice))
    return found


def built(specimen: Specimen) -> dict[str, float]:
    model, inputs = made(specimen).eval(), specimen.inputs()
    compiled = torch.compile(model, backend="inductor", dynamic=False)
    with torch.no_grad():
        return {"compiled": apart(compiled, model, inputs)}


def apart(one: Callable, other: Callable, inputs: tuple[Tensor, ...]) -> float:
    return (one(*inputs) - other(*inputs)).abs().max().item()


if __name__ == "__main__":
    gc.disable()  # a compilation makes millions of objects that stay until its end
    torch.set_num_threads(1)
    names = sys.argv[1:]
    measure = built if names[0] == "--inductor" else differences
    print(json.dumps({name: measure(SPECIMENS[name]) for name in names if name in SPECIMENS}))
