"""Threads that share a model: a recording and an ablation are those of the thread that opened them."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier, Thread

import pytest
import torch

from regard.fast.decoding_step import fast_step
from regard.fast.native import kernels
from regard.inspection.record import blocks, record_model
from regard.inspection.switches import Ablation, ablated, layer_names
from regard.layers.kernels import current_attend, exchanged, kernel_of

NAME = "blocks.0.self_attention"


@contextmanager
def another_thread():
    """Runs what is given to it in one other thread."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda function: pool.submit(function).result()


def reading(model, ids):
    with torch.no_grad():
        return model(ids)


def test_calls_in_another_thread_are_not_recorded(forced_pass):
    forced = forced_pass("decoder_only")
    model, ids = forced.model, torch.tensor([[2, 9, 4]])
    before = reading(model, ids)
    with another_thread() as there, record_model(model, hidden=blocks(model), logits=True) as recording:
        assert torch.equal(there(lambda: reading(model, ids)), before)
        assert not any([*recording.calls_by_module.values(), *recording.outputs_by_module.values()])
        forced()
    assert recording.weights(NAME).size(1) == len(forced.sequences["read"])
    assert [len(calls) for calls in recording.calls_by_module.values()] == [1] * 2
    assert [len(calls) for calls in recording.outputs_by_module.values()] == [1] * 3  # 2 blocks, logits
    assert "attend" in vars(model.get_submodule(NAME))
    assert kernel_of(model.get_submodule(NAME)) is current_attend(model.get_submodule(NAME))


@pytest.mark.parametrize("kind", ["decoder_only", "encoder_decoder", "recurrent", "encoder_only"])
def test_what_one_thread_switches_off_is_on_in_the_others(forced_pass, kind):
    forced = forced_pass(kind)
    model = forced.model
    before = model(*forced.inputs).detach()
    off = [Ablation(tokens=(1,))]
    if kind != "recurrent":
        off.append(Ablation(layers=layer_names(model)[:2]))
        off.append(Ablation(heads={_first(model): (0, 1)}))
    for each in off:
        with another_thread() as there, ablated(model, each):
            assert torch.equal(there(lambda: model(*forced.inputs).detach()), before)
            assert not torch.allclose(model(*forced.inputs).detach(), before)
    assert torch.equal(model(*forced.inputs).detach(), before)


def _first(model):
    return next(name for name, module in model.named_modules() if hasattr(module, "attend"))


def test_kernels_exchanged_by_two_threads_in_turn_leave_the_first_one(forced_pass):
    module = forced_pass("decoder_only").model.get_submodule(NAME)
    own = module.attend
    here, there = exchanged(module, max), exchanged(module, min)
    with another_thread() as other:
        here.__enter__()
        other(there.__enter__)
        assert (current_attend(module), other(lambda: current_attend(module))) == (max, min)
        here.__exit__(None, None, None)
        assert (current_attend(module), other(lambda: current_attend(module))) == (own, min)
        other(lambda: there.__exit__(None, None, None))
    assert vars(module)["attend"] is own


def test_many_recordings_at_once_each_have_their_own_calls(forced_pass):
    model = forced_pass("decoder_only").model
    lengths, rounds = (3, 5, 7), 20
    expected = {length: _recorded(model, length) for length in lengths}
    begin, wrong = Barrier(len(lengths)), []

    def run(length):
        begin.wait()
        for _ in range(rounds):
            weights, calls = _recorded(model, length)
            if calls != 1 or not torch.equal(weights, expected[length][0]):
                wrong.append(length)

    threads = [Thread(target=run, args=(length,)) for length in lengths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert not hasattr(current_attend(model.get_submodule(NAME)), "inner_kernel")


def _recorded(model, length):
    ids = torch.arange(length)[None] + 2
    with torch.no_grad(), record_model(model, hidden=blocks(model)) as recording:
        model(ids)
    return recording.weights(NAME), len(recording.calls_by_module[NAME])


def test_a_fast_step_of_another_thread_is_not_used_while_this_one_records(forced_pass):
    model = forced_pass("encoder_decoder").model
    fast_step(model)
    with another_thread() as there, record_model(model):
        there(lambda: fast_step(model))
        assert fast_step(model) is None
    assert fast_step(model) is not None or not kernels.available()
