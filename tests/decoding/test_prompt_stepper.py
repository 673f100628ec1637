"""A stepper of a decoder-only model that attends to the whole text, and one within a window."""

import pytest
import torch

from regard.decoding.continuation import ContinuationSettings, continue_all, prompts_of
from regard.decoding.prompt_stepper import PromptStepper, prompt_stepper
from regard.decoding.rolling_window import RollingWindow
from regard.fast.native import kernels
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig

VOCAB, WINDOW = 24, 7


def writer(**table):
    sizes = {"d_model": 32, "num_heads": 4, "d_ff": 48, "num_layers": 2, "positions": "rotary"}
    return build_model(DecoderOnlyConfig.from_table({**sizes, **table}, vocab_size=VOCAB), seed=1).eval()


@pytest.mark.parametrize("window", [None, WINDOW])
def test_a_stepper_has_read_nothing_before_it_starts_and_then_the_prompts(window):
    """The cache has the position at which it begins: by it what is recorded or replaced finds its place."""
    stepper = prompt_stepper(writer(trained_length=window))
    assert stepper.length == 0
    with torch.no_grad():
        stepper.start(torch.full((2, 10), 5), torch.tensor([10, 10]))
    assert stepper.length == 10
    first = RollingWindow(window).start(10) if window else 0
    assert {layer.first for layer in stepper.plain().layers} == {first}


@pytest.mark.skipif(not kernels.available(), reason="no C compiler")
def test_without_a_window_several_steps_are_taken_at_once(monkeypatch):
    taken, run = [], PromptStepper.run_steps
    monkeypatch.setattr(PromptStepper, "run_steps", lambda *given: taken.append(run(*given)) or taken[-1])
    search = ContinuationSettings(temperature=0.0, may_end=False).strategy()
    continue_all(search, writer(), prompts_of([[5, 6, 7]], begin_id=2), max_new_tokens=12)
    assert any(each is not None and each.tokens.size(1) for each in taken)
