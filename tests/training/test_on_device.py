"""Training on a device with a queue: the same numbers as on a CPU, and no wait between two reports."""

# ruff: noqa: F811

import dataclasses
import threading

import pytest
import torch

from regard.errors import Interrupted
from regard.fast import fusible, gpu_training, packed_training
from regard.layers.scaled_dot_product import plain_attention
from regard.training import packed_loss
from regard.training.gradients import Gradients
from regard.training.objective import CrossEntropy
from regard.training.trainer import Trainer
from regard.weights.checkpoint import RunFolder, checkpoint_digest
from tests.simulated_device import moved
from tests.training.test_packed_loss import counted_loss
from tests.training.test_trainer import SETTINGS, Broken, shards, trainer  # noqa: F401

SINGLE = dataclasses.replace(SETTINGS, accumulate=1, nonfinite_skips=2)


def on(device, shards, run, settings=SETTINGS, **options):
    """A trainer whose model is on this device."""
    current = trainer(shards, run, settings, **options)
    return Trainer(
        moved(current.model, device),
        current.gradients.objective,
        current.loader,
        settings,
        run,
        {"config.json": b"{}"},
        validate=current.validate,
        report=current.records.report,
        stop=current.stop,
    )


def trained_on(device, shards, path, settings=SETTINGS, **options):
    reports = []
    with RunFolder(path).lock() as run:
        on(device, shards, run, settings, reports=reports, **options).train()
        for record in reports:
            record.pop("tokens_per_second", None)
        return run.latest(), reports


def waits_by_step(queued, current):
    """Trains; what each update waited for, without the first ones, in which the types are checked."""
    found = []

    def stop():
        found.append(list(queued.waits))
        queued.waits.clear()

    current.stop = stop
    current.train()
    return found[CHECKED:]


CHECKED = 8
RARELY = dataclasses.replace(SETTINGS, max_steps=12, validate_every=100, save_every=100, report_every=2)


def test_an_update_makes_the_processor_wait_for_nothing(queued, shards, tmp_path):
    with RunFolder(tmp_path).lock() as run:
        steps = waits_by_step(queued, on(queued.device, shards, run, RARELY))
    assert len(steps) == RARELY.max_steps + 1 - CHECKED
    assert not any(steps), "reports included: their numbers are those of the update before"


@pytest.fixture
def packed_passes(queued, monkeypatch):
    """The passes without padding; on a simulated device plain formulas stand for a GPU's kernels."""
    found, usual = [], Gradients._packed_pass_of
    monkeypatch.setattr(
        Gradients, "_packed_pass_of", lambda self, packed: (found.append(packed), usual(self, packed))[1]
    )
    if queued.device.type == "simulated":
        monkeypatch.setattr(fusible, "GPUS", ("simulated",))
        monkeypatch.setattr(fusible, "has_triton", lambda: False)
        monkeypatch.setattr(packed_training, "has_attention_of_sequences", lambda *_: True)
        monkeypatch.setattr(packed_loss, "has_loss_of", lambda _: True)
        monkeypatch.setattr(gpu_training, "attention_of_sequences", attention_of_sequences)
        monkeypatch.setattr(packed_loss, "linear_cross_entropy", counted_loss)
    return found


def attention_of_sequences(query, key, value, bounds, key_bounds, longest, dropout, *, is_causal):
    """Attention of all sequences at once, of which each sees its own alone."""
    places = [torch.arange(each.size(2), device=bounds.device) for each in (query, key)]
    rows = [
        (place[:, None] >= ends[1:]).sum(1) for place, ends in zip(places, (bounds, key_bounds), strict=True)
    ]
    mask = rows[0][:, None] == rows[1]
    if is_causal:
        mask = mask & (places[1] <= places[0][:, None])
    return plain_attention(query, key, value, mask[None, None], dropout=dropout)


def test_an_update_without_padding_makes_the_processor_wait_for_nothing(
    queued, shards, tmp_path, packed_passes
):
    sizes = {"num_heads": 1, "src_vocab_size": 40, "tgt_vocab_size": 40}  # that a GPU has kernels for
    with RunFolder(tmp_path).lock() as run:
        steps = waits_by_step(queued, on(queued.device, shards, run, RARELY, sizes=sizes))
    assert not any(steps)
    assert len(packed_passes) >= 3, "on a GPU later ones are replayed"


def test_a_wait_would_be_seen(queued, shards, tmp_path):
    class Reading:
        base, ignored = None, 0

        def __call__(self, model, batch):
            loss = CrossEntropy(smoothing=0.1)(model, batch)
            assert float(loss.nll) > 0
            return loss

    with RunFolder(tmp_path).lock() as run:
        steps = waits_by_step(queued, on(queued.device, shards, run, RARELY, objective=Reading()))
    assert [len(step) for step in steps] == [RARELY.accumulate] * len(steps), steps[0]


def test_the_numbers_are_those_of_a_cpu(queued, shards, tmp_path):
    """Without dropout, whose masks are others; a device has none of the forms that are fused for a CPU."""
    settings = dataclasses.replace(SETTINGS, validate_every=3, precision="float32")
    found = {}
    for device in (torch.device("cpu"), queued.device):
        with RunFolder(tmp_path / device.type).lock() as run:
            reports = []
            current = on(device, shards, run, settings, reports=reports)
            for module in current.model.modules():
                if isinstance(module, torch.nn.Dropout):
                    module.p = 0.0
            current.train()
            found[device.type] = reports
    here, there = found.values()
    assert [(record["kind"], record["step"]) for record in here] == [
        (record["kind"], record["step"]) for record in there
    ]
    for one, two in zip(here, there, strict=True):
        for key in ("loss", "gradient_norm", "target_tokens", "epoch", "learning_rate"):
            if key in one and one["kind"] == "train":
                assert two[key] == pytest.approx(one[key], rel=1e-4), key


NIGHTLY = [pytest.param(stops, marks=pytest.mark.nightly) for stops in ((1,), (4,), (5, 6, 11))]


@pytest.mark.parametrize("stops", [(3, 7), *NIGHTLY])
def test_a_run_stopped_and_resumed_ends_in_the_bits_of_the_uninterrupted_run(queued, shards, tmp_path, stops):
    whole, records = trained_on(queued.device, shards, tmp_path / "whole")
    for step in stops:
        with RunFolder(tmp_path / "stopped").lock() as run:
            current = on(queued.device, shards, run, seed=1 if step == stops[0] else 99)
            current.stop = lambda current=current, step=step: 15 if current.state.step == step else None
            with pytest.raises(Interrupted, match=f"step {step}"):
                current.train()
        assert run.latest().step == step
    resumed, _ = trained_on(queued.device, shards, tmp_path / "stopped", seed=98)
    assert checkpoint_digest(resumed) == checkpoint_digest(whole)
    again = RunFolder(tmp_path / "stopped").metrics()
    for record in again:
        record.pop("tokens_per_second", None)
    assert again == records


def test_a_loss_that_is_not_finite_changes_no_weight_and_its_lines_are_named(queued, shards, tmp_path):
    found = {}
    for device in (torch.device("cpu"), queued.device):
        reports = []
        with RunFolder(tmp_path / device.type).lock() as run:
            bad = Broken(lambda call: call in (6, 12))
            state = on(device, shards, run, SINGLE, objective=bad, reports=reports).train()
            average = run.latest().read_tensors("average.safetensors")
        assert all(tensor.isfinite().all() for tensor in average.values())
        assert state.skipped == 2
        found[device.type] = [record for record in reports if record["kind"] == "skipped"], average["updates"]
    assert found["cpu"] == found[queued.device.type]
    assert [record["step"] for record in found["cpu"][0]] == [6, 12]


def test_too_many_in_a_row_go_back_to_the_last_checkpoint_once(queued, shards, tmp_path):
    bad = Broken(lambda call: call in (6, 7, 8))
    latest, reports = trained_on(queued.device, shards, tmp_path, SINGLE, objective=bad)
    assert [(record["step"], record["to"]) for record in reports if record["kind"] == "rollback"] == [(8, 4)]
    assert latest.step == SINGLE.max_steps


def test_an_error_in_the_data_is_raised_where_they_are_used(queued, shards, tmp_path):
    with RunFolder(tmp_path).lock() as run:
        current = on(queued.device, shards, run)

        def fail(examples, epoch):
            raise ZeroDivisionError("of the data")

        current.loader.examples.batch = fail
        with pytest.raises(ZeroDivisionError, match="of the data"):
            current.train()
    assert not [thread for thread in threading.enumerate() if thread.name == "batches"]


def test_a_run_moves_between_devices(queued, shards, tmp_path):
    """The steps of a fused optimiser are on its device, and in main memory on a CPU."""
    for device, steps in ((queued.device, 4), (torch.device("cpu"), 8), (queued.device, 12)):
        settings = dataclasses.replace(SETTINGS, max_steps=steps)
        latest, _ = trained_on(device, shards, tmp_path, settings)
        assert latest.step == steps
