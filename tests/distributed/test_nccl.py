"""Collective operations and FSDP on one GPU by NCCL; skipped where there is none."""

import copy
import os

import pytest
import torch
import torch.distributed as dist

from regard.distributed.group import Group
from regard.distributed.replicated import ReplicatedModel
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.training.gradients import Gradients
from regard.training.objective import CrossEntropy
from tests.laws.test_family import pairs

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU of NVIDIA"),
]


@pytest.fixture
def channel(monkeypatch):
    """A process group of this process alone, by NCCL for tensors on the GPU."""
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", str(20_000 + os.getpid() % 20_000))
    dist.init_process_group("cpu:gloo,cuda:nccl", rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


def gradients(distributed, model):
    batch = pairs().to("cuda")
    sums = Gradients(distributed, CrossEntropy(smoothing=0.1), torch.device("cuda"), "float32")(
        [batch], model.zero_grad
    )
    found = {}
    for name, weight in model.named_parameters():
        grad = weight.grad
        found[name] = grad.full_tensor() if hasattr(grad, "full_tensor") else grad
    return sums, found


def model():
    sizes = {"d_model": 32, "num_heads": 4, "d_ff": 64, "num_encoder_layers": 1, "num_decoder_layers": 1}
    config = EncoderDecoderConfig(src_vocab_size=30, tgt_vocab_size=30, dropout=0.0, tied="none", **sizes)
    return build_model(config, seed=0).to("cuda").train()


def test_sums_of_one_process_are_its_own(channel):
    # A size of 2 makes the group call NCCL, which has one process.
    group, plain = Group(rank=0, size=2, process_group=channel), model()
    alone = gradients(ReplicatedModel(plain), plain)
    plain.zero_grad()
    summed = gradients(ReplicatedModel(plain, group), plain)
    assert summed[0] == alone[0]
    for name, gradient in alone[1].items():
        torch.testing.assert_close(summed[1][name], gradient, msg=name)


def test_a_model_sharded_over_one_gpu_has_the_gradients_of_the_whole(channel):
    from regard.distributed.sharded import ShardedModel

    whole = model()
    parted = copy.deepcopy(whole)
    alone = gradients(ReplicatedModel(whole), whole)
    sharded = ShardedModel(parted, Group(rank=0, size=1, process_group=channel))
    found = gradients(sharded, sharded.model)
    assert found[0] == pytest.approx(alone[0])
    for name, gradient in alone[1].items():
        torch.testing.assert_close(found[1][name], gradient, atol=1e-5, rtol=1e-4, msg=name)
