"""A plain model whose layers are gathered one by one computes what the whole one does, for each kind.

The process is alone in its group here; test_together.py has two.
"""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import FileStore

from regard.distributed.group import Group
from regard.distributed.row_range import RowRange
from regard.distributed.sharded import ShardedModel
from regard.models.build import build_model, config_class
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from tests.laws.test_family import IDS, LENGTHS, SPECIMENS, TGT

SMALL = {"d_model": 16, "num_heads": 2, "d_ff": 32, "dropout": 0.0}


@pytest.fixture
def alone(tmp_path):
    """A group of this process, which communicates by gloo."""
    store = FileStore(str(tmp_path / "meeting"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield Group(rank=0, size=1, process_group=dist.group.WORLD, store=store)
    dist.destroy_process_group()


def shared(config, group):
    """A plain model, and one of the same weights that is sharded."""
    return build_model(config, seed=4).eval(), ShardedModel(build_model(config, seed=4).eval(), group)


def layers_present(model):
    """How many layers have their weights."""
    stacks = [each for name, each in model.named_modules() if name.rpartition(".")[2] == "blocks"]
    layers = [layer for stack in stacks if isinstance(stack, nn.ModuleList) for layer in stack]
    return sum(any(weight.device.type != "meta" for weight in layer.parameters()) for layer in layers)


@pytest.mark.parametrize("name", SPECIMENS)
@torch.no_grad()
def test_a_gathered_model_computes_what_the_whole_one_does(alone, name):
    specimen = SPECIMENS[name]
    if specimen.kind == "image_text":
        pytest.skip("it is not trained, and PyTorch shards no scalar")
    config = config_class(specimen.kind).from_table(specimen.table, **specimen.sizes)
    plain, sharded = shared(config, alone)
    found = []

    def compute(model):
        for module in model.modules():
            module.register_forward_hook(lambda *_: found.append(layers_present(model)))
        assert model.device == plain.device
        return model(*specimen.inputs())

    assert torch.equal(sharded.on_first(compute), plain(*specimen.inputs()))
    assert max(found) <= 1
    assert torch.equal(sharded.on_first(compute), plain(*specimen.inputs())), "and a second time"


@pytest.mark.parametrize(
    "table",
    [
        {"positions": "rotary", "activation": "swiglu", "num_kv_heads": 1},
        {"positions": "t5", "tied": "none"},
        {"norm_position": "post", "tied": "all"},
    ],
)
@torch.no_grad()
def test_steps_with_a_cache_are_those_of_the_whole_model(alone, table):
    sizes = {"src_vocab_size": 30, "tgt_vocab_size": 30, "num_encoder_layers": 2, "num_decoder_layers": 2}
    plain, sharded = shared(EncoderDecoderConfig.from_table({**SMALL, **sizes, **table}), alone)

    def steps(model):
        cache = model.start(model.encode(IDS, LENGTHS))
        return torch.cat([model.extend(TGT[:, [place]], cache) for place in range(TGT.size(1))], dim=1)

    assert torch.equal(sharded.on_first(steps), steps(plain))


@torch.no_grad()
def test_a_weight_that_is_not_there_cannot_be_read(alone):
    """A sum of weights that left some out would be wrong in silence."""
    _, sharded = shared(DecoderOnlyConfig(vocab_size=30, num_layers=2, **SMALL), alone)
    with pytest.raises(RuntimeError, match="meta"):
        sharded.on_first(lambda model: float(sum(weight.sum() for weight in model.parameters())))


@pytest.mark.parametrize("rows", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_all_rows_are_divided_as_pytorch_divides_them(rows, size):
    ranges = [RowRange.of((rows, 3), Group(rank=rank, size=size)) for rank in range(size)]
    numbers = [number for each in ranges for number in range(each.first, each.last)]
    assert numbers == list(range(rows))
    sizes = [len(part) for part in torch.arange(rows).chunk(size)] if rows else []
    assert [each.last - each.first for each in ranges] == sizes + [0] * (size - len(sizes))
    assert max(each.last - each.first for each in ranges) == ranges[0].most
