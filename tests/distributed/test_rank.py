"""The rank of a process from its environment, and the settings of a distributed run."""

import pytest
import torch

from regard.distributed.member import is_connection_loss
from regard.distributed.rank import ALONE, Rank, own_rank
from regard.distributed.settings import DistributedSettings
from regard.errors import RecipeError, RunError
from regard.recipe import read
from regard.verbs.shared.settings import recipe_from
from regard.verbs.training_run.process_agreement import refuse_too_many

TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "29500"}
DATA = {"synthetic": "reverse", "size": 10, "length": 3}


@pytest.fixture
def environment(monkeypatch):
    def made(**names):
        for name in (*TORCHRUN, "REGARD_WORKER"):
            monkeypatch.delenv(name, raising=False)
        for name, value in names.items():
            monkeypatch.setenv(name, value)

    return made


def test_a_process_without_a_rank_is_alone(environment):
    environment()
    assert own_rank() == ALONE


def test_torchrun_sets_the_rank_of_a_process(environment):
    environment(**TORCHRUN)
    assert own_rank() == Rank(rank=5, size=8, local_rank=1, rendezvous_url="env://")


def test_a_process_knows_whether_torchrun_has_restarted_it(environment):
    environment(**TORCHRUN, TORCHELASTIC_RESTART_COUNT="0")
    assert not own_rank().is_restarted
    environment(**TORCHRUN, TORCHELASTIC_RESTART_COUNT="2")
    assert own_rank().is_restarted


def test_another_worker_of_ours_knows_its_place(environment):
    environment(REGARD_WORKER="1 2 file:///tmp/a folder/meeting")
    assert own_rank() == Rank(rank=1, size=2, local_rank=1, rendezvous_url="file:///tmp/a folder/meeting")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"RANK": "8"}, "RANK=8 is not below WORLD_SIZE=8"),
        ({"RANK": "one"}, "RANK=one is not below"),
        ({"WORLD_SIZE": ""}, "RANK=5 is not below WORLD_SIZE=$"),
    ],
)
def test_an_invalid_rank_is_refused(environment, changes, expected):
    environment(**{**TORCHRUN, **changes})
    with pytest.raises(RecipeError, match=expected):
        own_rank()


def test_a_process_without_a_gpu_of_its_own_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    place = Rank(rank=5, size=8, local_rank=1, rendezvous_url="env://")
    assert place.device(torch.device("cpu")) == torch.device("cpu")
    with pytest.raises(RecipeError, match="process 1 has no GPU: this machine has 1"):
        place.device(torch.device("cuda"))


def test_the_section_of_a_recipe_is_read_strictly():
    assert read(DistributedSettings, {"strategy": "fsdp2"}).strategy == "fsdp2"
    with pytest.raises(RecipeError, match="unknown key stratgy") as caught:
        read(DistributedSettings, {"stratgy": "ddp"})
    assert "'strategy'" in caught.value.hint
    with pytest.raises(RecipeError, match="strategy must be one of 'ddp', 'fsdp2'") as caught:
        read(DistributedSettings, {"strategy": "fsdp"})
    assert "'fsdp2'" in caught.value.hint


def recipe(tmp_path, **sections):
    data = {"train": DATA, "valid": {**DATA, "split": "valid"}}
    return recipe_from({"name": "several", "data": data, **sections}, "", tmp_path, "here").recipe


@pytest.mark.parametrize("name", ["batch_tokens", "batch_examples"])
def test_more_processes_than_a_batch_has_of_anything_are_refused(tmp_path, name):
    asked = recipe(tmp_path, batches={name: 3})
    refuse_too_many(asked, 3)
    with pytest.raises(RecipeError, match=f"batches.{name} = 3 cannot be shared among 4 processes"):
        refuse_too_many(asked, 4)


def test_adapters_are_not_cut_into_parts(tmp_path):
    asked = recipe(tmp_path, training={"adapter": {}}, distributed={"strategy": "fsdp2"})
    with pytest.raises(RecipeError, match=r"training\.adapter does not work with"):
        refuse_too_many(asked, 2)


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (RuntimeError("[../gloo/transport/tcp/pair.cc:553] Connection closed by peer"), True),
        (torch.distributed.DistBackendError("NCCL error"), True),
        (torch.OutOfMemoryError("CUDA out of memory"), False),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (RunError("gloo"), False),
    ],
)
def test_a_lost_process_is_distinguished_from_other_errors(error, lost):
    assert is_connection_loss(error) == lost
