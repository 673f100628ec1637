"""The random number generators that a model on a device uses: those of the CPU and of the device."""

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch


def random_state(device: torch.device) -> dict[str, str]:
    """The states of the random number generators that a model on `device` uses, in base64."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        states["mps"] = torch.mps.get_rng_state()
    return {name: base64.b64encode(bytes(state.tolist())).decode() for name, state in states.items()}


@contextmanager
def unchanged_random(device: torch.device) -> Iterator[None]:
    """A context after which the generators of the CPU and of `device` are as they were before."""
    before = random_state(device)
    try:
        yield
    finally:
        restore_random_state(before, device)


def seed_random(seed: int, device: torch.device) -> None:
    """Seeds the generators of the CPU and of `device`, and no others."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)


def restore_random_state(states: Mapping[str, str], device: torch.device) -> None:
    """Restores what `random_state` returned; on another type of device only the CPU's state."""
    for name, text in states.items():
        state = torch.tensor(list(base64.b64decode(text)), dtype=torch.uint8)
        if name == "cpu":
            torch.set_rng_state(state)
        elif name == device.type == "cuda":
            torch.cuda.set_rng_state(state, device)
        elif name == device.type == "mps":
            torch.mps.set_rng_state(state)
