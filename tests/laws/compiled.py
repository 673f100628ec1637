"""Run alone, without checks of types: what torch.compile and torch.export make of a model, as JSON.

{variant: {"compiled": ..., "gradients": ..., "exported": ...}}, each the largest difference from eager.
"""

import json
import sys

import torch
from torch.export import Dim, export

from regard.models.build import build
from regard.models.encoder_decoder import EncoderDecoderConfig

SHAPES = {
    "src_ids": {0: Dim("batch"), 1: Dim("src_len", min=2, max=1024)},
    "src_lengths": {0: Dim("batch")},
    "tgt_ids": {0: Dim("batch"), 1: Dim("tgt_len", min=2, max=1024)},
}


def batch(rows: int, src_len: int, tgt_len: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(rows)
    src_ids = torch.randint(4, 30, (rows, src_len), generator=generator)
    tgt_ids = torch.randint(4, 30, (rows, tgt_len), generator=generator)
    lengths = torch.randint(1, src_len + 1, (rows,), generator=generator)
    lengths[0] = src_len
    return src_ids, lengths, tgt_ids


def differences(table: dict) -> dict[str, float]:
    model = build(EncoderDecoderConfig.from_table(table, src_vocab_size=30, tgt_vocab_size=30), seed=0).eval()
    compiled, found = torch.compile(model, backend="aot_eager"), {}
    first, second = batch(3, 7, 5), batch(4, 9, 6)
    found["compiled"] = max((compiled(*each) - model(*each)).abs().max().item() for each in (first, second))
    parameters = list(model.parameters())
    ours = torch.autograd.grad(model(*first).logsumexp(-1).sum(), parameters)
    theirs = torch.autograd.grad(compiled(*first).logsumexp(-1).sum(), parameters)
    found["gradients"] = max((a - b).abs().max().item() for a, b in zip(ours, theirs, strict=True))
    exported = export(model, first, dynamic_shapes=SHAPES, strict=True).module()
    found["exported"] = max((exported(*each) - model(*each)).abs().max().item() for each in (first, second))
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps({name: differences(table) for name, table in json.loads(sys.argv[1]).items()}))
