"""Random number generators survive JSON, and are given back as they were."""

import json
from contextlib import nullcontext

import torch

from regard.training.random_state import random_state, restore_random_state, seed_random, unchanged_random

CPU = torch.device("cpu")


def test_a_restored_generator_gives_the_same_numbers():
    torch.manual_seed(5)
    torch.rand(7)
    saved = json.loads(json.dumps(random_state(CPU)))
    expected = torch.rand(9), torch.nn.functional.dropout(torch.ones(99))
    torch.manual_seed(6)
    restore_random_state(saved, CPU)
    assert torch.equal(torch.rand(9), expected[0])
    assert torch.equal(torch.nn.functional.dropout(torch.ones(99)), expected[1])


def test_on_a_gpu_its_generator_is_saved_and_restored_too(monkeypatch):
    restored, gpu = [], torch.device("cuda")
    monkeypatch.setattr(
        torch.cuda, "get_rng_state", lambda device: torch.tensor([1, 2, 3], dtype=torch.uint8)
    )
    monkeypatch.setattr(
        torch.cuda, "set_rng_state", lambda state, device: restored.append((state.tolist(), device))
    )
    saved = random_state(gpu)
    assert sorted(saved) == ["cpu", "cuda"]
    assert sorted(random_state(CPU)) == ["cpu"]
    restore_random_state(saved, gpu)
    assert restored == [([1, 2, 3], gpu)]
    restore_random_state(saved, CPU)
    assert len(restored) == 1, "resumed on a CPU, its generator alone is"


def test_seeding_is_that_of_pytorch():
    torch.manual_seed(3)
    expected = torch.rand(4)
    seed_random(3, CPU)
    assert torch.rand(4).equal(expected)


def test_after_the_context_the_generator_is_as_it_was():
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    with unchanged_random(CPU):
        seed_random(9, CPU)
        torch.rand(5)
    assert torch.rand(4).equal(expected)


def test_seeding_and_restoring_is_that_of_the_device_alone(monkeypatch):
    held = {"cuda": 1, "mps": 2}
    for name, module in (("cuda", torch.cuda), ("mps", torch.mps)):

        def state(*_, name=name):
            return torch.tensor([held[name]], dtype=torch.uint8)

        def restore(new, *_, name=name):
            held[name] = int(new[0])

        monkeypatch.setattr(module, "get_rng_state", state)
        monkeypatch.setattr(module, "set_rng_state", restore)
        monkeypatch.setattr(module, "manual_seed", lambda seed, name=name: held.update({name: seed}))
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    for name, other in (("cuda", "mps"), ("mps", "cuda")):
        before, device = dict(held), torch.device(name)
        assert sorted(random_state(device)) == sorted(("cpu", name))
        with unchanged_random(device):
            seed_random(9, device)
            assert held == {**before, name: 9}
        assert held == before
        restore_random_state(random_state(torch.device(other)), device)
        assert held == before
    seed_random(5, CPU)
    assert held == {"cuda": 1, "mps": 2}
