"""An uninterrupted run and a run that was stopped, killed or short of memory end in the same bits."""

import dataclasses
import json
import math

import pytest
import torch

from regard.data.corpus import CorpusSettings, LinePolicy, open_corpus
from regard.data.examples import PairExamples
from regard.data.loader import Loader, LoaderSettings
from regard.data.shards import write_shards
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizers
from regard.errors import Interrupted, RunError
from regard.models.adapters import AdapterSettings, merged
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.training.objective import CrossEntropy, Loss
from regard.training.optimizer import OptimizerSettings
from regard.training.schedule import ScheduleSettings
from regard.training.settings import TrainingSettings
from regard.training.snapshot import copies
from regard.training.trainable import choose_trainable
from regard.training.trainer import Trainer
from regard.weights.average import used_weights
from regard.weights.checkpoint import RunFolder, checkpoint_digest
from regard.weights.tensors import model_tensors
from tests.nightly import each_once

SETTINGS = TrainingSettings(
    max_steps=12,
    accumulate=2,
    save_every=4,
    validate_every=3,
    report_every=5,
    moving_average=0.9,
    keep=3,
    clip_norm=1.0,
    schedule=ScheduleSettings(warmup_steps=4, learning_rate=0.01),
)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    corpus = open_corpus(CorpusSettings(synthetic="reverse", size=150, length=5), LinePolicy(), folder)
    tokenizers = train_tokenizers(corpus, TokenizerSettings(kind="words"))
    write_shards(corpus, tokenizers, folder / "train", max_tokens=20)
    return folder / "train", tokenizers


def trainer(
    shards, run, settings=SETTINGS, *, stop=lambda: None, objective=None, reports=None, seed=1, sizes=None,
    chosen=None,
):  # fmt: skip
    """`chosen`: the weights that are trained; None are all."""
    folder, tokenizers = shards
    size = tokenizers.source.vocab_size
    table = {
        "src_vocab_size": size,
        "tgt_vocab_size": size,
        "d_model": 16,
        "num_heads": 2,
        "d_ff": 32,
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
        "dropout": 0.2,
    }
    config = EncoderDecoderConfig(**{**table, **(sizes or {})})

    def validate(model):
        return {"loss": float(sum(tensor.double().sum() for tensor in model_tensors(model).values()))}

    model = build_model(config, seed=seed)
    if chosen is not None:
        choose_trainable(model, seed=1, **chosen)
    return Trainer(
        model,
        objective or CrossEntropy(smoothing=0.1),
        Loader(PairExamples(folder, 0), LoaderSettings(batch_tokens=120), seed=settings.seed),
        settings,
        run,
        {"config.json": b"{}"},
        validate=validate,
        report=(reports if reports is not None else []).append,
        stop=stop,
    )


def trained(shards, path, settings=SETTINGS, **options):
    with RunFolder(path).lock() as run:
        trainer(shards, run, settings, **options).train()
        return checkpoint_digest(run.latest())


@pytest.fixture(scope="module")
def uninterrupted(shards, tmp_path_factory):
    path = tmp_path_factory.mktemp("uninterrupted") / "run"
    return trained(shards, path), path


def test_the_same_recipe_gives_the_same_bits_and_another_seed_others(shards, uninterrupted, tmp_path):
    assert trained(shards, tmp_path / "again") == uninterrupted[0]
    assert trained(shards, tmp_path / "other", dataclasses.replace(SETTINGS, seed=2)) != uninterrupted[0]


def test_numbers_that_are_read_one_update_later_are_in_each_checkpoint(
    shards, uninterrupted, tmp_path, monkeypatch
):
    """As on a GPU, where reading them at once would wait for the update."""
    monkeypatch.setattr("regard.training.trainer.may_be_read_later", lambda *_: True)
    assert trained(shards, tmp_path) == uninterrupted[0]


def test_the_random_state_of_pytorch_is_afterwards_what_it_was(shards, tmp_path):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    with RunFolder(tmp_path).lock() as run:
        trainer(shards, run).train()
    assert torch.rand(3).equal(expected)


@pytest.mark.parametrize("stops", [(0,), (1,), (4,), (3, 7), (5, 6, 11)])
def test_a_run_stopped_and_resumed_ends_in_the_bits_of_the_uninterrupted_run(
    shards, uninterrupted, tmp_path, stops
):
    for step in stops:
        with RunFolder(tmp_path).lock() as run:
            # a resumed model's fresh weights must not matter
            current = trainer(shards, run, seed=1 if step == stops[0] else 99)
            current.stop = lambda current=current, step=step: 15 if current.state.step == step else None
            with pytest.raises(Interrupted, match=f"step {step}") as caught:
                current.train()
        assert caught.value.exit_code == 143
        assert run.latest().step == step, "no step is lost"
    assert trained(shards, tmp_path, seed=98) == uninterrupted[0]
    records = [RunFolder(path).metrics() for path in (tmp_path, uninterrupted[1])]
    for record in [*records[0], *records[1]]:
        record.pop("tokens_per_second", None)
    assert records[0] == records[1]
    best = [RunFolder(path).best().read_tensors("model.safetensors") for path in (tmp_path, uninterrupted[1])]
    assert all(torch.equal(best[0][name], best[1][name]) for name in best[1])


def test_a_damaged_newest_checkpoint_costs_its_steps_and_nothing_else(shards, uninterrupted, tmp_path):
    trained(shards, tmp_path)
    newest = max((tmp_path / "checkpoints").iterdir())
    weights = newest / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert trained(shards, tmp_path) == uninterrupted[0]


@pytest.mark.parametrize("accumulate", [1, 4])
def test_the_grid_of_places_at_which_a_run_may_be_resumed(shards, tmp_path, accumulate):
    """Before the first step, within an epoch, at its end, before the last step."""
    settings = dataclasses.replace(SETTINGS, accumulate=accumulate, save_every=100, validate_every=100)
    epoch = trainer(shards, RunFolder(tmp_path / "unused")).loader.batches_in_epoch(0)
    steps = -(-3 * epoch // (2 * accumulate))  # an epoch and a half
    settings = dataclasses.replace(settings, max_steps=steps)
    alone = trained(shards, tmp_path / "alone", settings)
    for place in {0, max(1, epoch // (2 * accumulate)), max(1, epoch // accumulate), steps - 1}:
        path = tmp_path / f"stopped at {place}"
        with RunFolder(path).lock() as run:
            current = trainer(shards, run, settings)
            current.stop = lambda current=current, place=place: 15 if current.state.step == place else None
            with pytest.raises(Interrupted):
                current.train()
        assert trained(shards, path, settings) == alone, f"stopped at step {place}"


class Broken:
    """An objective whose loss is NaN at some calls."""

    def __init__(self, bad):
        self.bad, self.calls, self.base = bad, 0, CrossEntropy(smoothing=0.1)

    def __call__(self, model, batch):
        self.calls += 1
        loss = self.base(model, batch)
        if self.bad(self.calls):
            return Loss(total=loss.total * math.nan, nll=loss.nll * math.nan, num_targets=loss.num_targets)
        return loss


SINGLE = dataclasses.replace(SETTINGS, accumulate=1, nonfinite_skips=2)


def test_a_loss_that_is_not_finite_is_skipped_and_its_lines_are_named(shards, tmp_path):
    reports = []
    with RunFolder(tmp_path).lock() as run:
        current = trainer(shards, run, SINGLE, objective=Broken(lambda call: call == 6), reports=reports)
        state = current.train()
    assert state.skipped == 1
    assert state.step == SINGLE.max_steps
    skipped = [record for record in reports if record["kind"] == "skipped"]
    assert skipped[0]["step"] == 6
    assert skipped[0]["lines"] == sorted(set(skipped[0]["lines"]))
    assert all(tensor.isfinite().all() for tensor in model_tensors(current.model).values())


class Planted:
    """An objective that sets one value to a non-finite number, once."""

    def __init__(self, where, value):
        self.where, self.value, self.calls, self.base = where, value, 0, CrossEntropy(smoothing=0.1)

    def __call__(self, model, batch):
        self.calls += 1
        if self.calls != 6:
            return self.base(model, batch)
        weight = model.encoder.blocks[0].feed_forward.outer.weight
        if self.where == "weight":
            with torch.no_grad():
                weight[0, 0] = self.value
        if self.where == "activation":
            handle = model.encoder.register_forward_hook(lambda module, given, found: found * self.value)
        if self.where == "gradient":
            handle = weight.register_hook(lambda gradient: [gradient * self.value, handle.remove()][0])
        loss = self.base(model, batch)
        if self.where == "activation":
            handle.remove()
        return loss


@pytest.mark.parametrize(
    ("where", "value"),
    each_once(["weight", "activation", "gradient"], [math.nan, math.inf, -math.inf]),
    ids=str,
)
def test_a_non_finite_number_never_reaches_a_checkpoint(shards, tmp_path, where, value):
    """A step is skipped; a lost weight is restored from the last checkpoint."""
    reports = []
    with RunFolder(tmp_path).lock() as run:
        current = trainer(shards, run, SINGLE, objective=Planted(where, value), reports=reports)
        state = current.train()
    assert state.step == SINGLE.max_steps
    skipped = [record for record in reports if record["kind"] == "skipped"]
    assert skipped[0]["step"] == 6
    assert any(record["kind"] == "rollback" for record in reports) == (where == "weight")
    for checkpoint in RunFolder(tmp_path).checkpoints():
        for name in ("model.safetensors", "optimizer.safetensors", "average.safetensors"):
            for key, tensor in checkpoint.read_tensors(name).items():
                assert tensor.isfinite().all(), (checkpoint.step, name, key)


def test_too_many_in_a_row_go_back_to_the_last_checkpoint_once(shards, tmp_path):
    reports = []
    with RunFolder(tmp_path).lock() as run:
        bad = Broken(lambda call: call in (6, 7, 8))
        state = trainer(shards, run, SINGLE, objective=bad, reports=reports).train()
    assert [(record["step"], record["to"]) for record in reports if record["kind"] == "rollback"] == [(8, 4)]
    assert state.step == SINGLE.max_steps


def test_skips_with_a_good_update_between_them_are_not_in_a_row(shards, tmp_path):
    reports = []
    with RunFolder(tmp_path).lock() as run:
        bad = Broken(lambda call: call in (5, 6, 8, 9))  # twice two in a row, which is the limit
        state = trainer(shards, run, SINGLE, objective=bad, reports=reports).train()
    assert state.skipped == 4
    assert not any(record["kind"] == "rollback" for record in reports)


def test_a_loss_that_stays_bad_stops_the_run_with_the_lines_on_disk(shards, tmp_path):
    with RunFolder(tmp_path).lock() as run, pytest.raises(RunError, match="not finite at step") as caught:
        trainer(shards, run, SINGLE, objective=Broken(lambda call: call >= 6)).train()
    assert "nonfinite.json" in caught.value.hint
    assert json.loads((tmp_path / "nonfinite.json").read_text())["lines"]
    assert RunFolder(tmp_path).latest().step == 4


class Full:
    """An objective that runs out of memory in the backward pass of the fourth batch, second of an update."""

    def __init__(self):
        self.calls, self.base = 0, CrossEntropy(smoothing=0.1)

    def __call__(self, model, batch):
        self.calls += 1
        loss = self.base(model, batch)
        if self.calls == 4:
            loss.total.register_hook(self.fail)
        return loss

    def fail(self, _):
        raise torch.OutOfMemoryError("CUDA out of memory")


def test_out_of_memory_is_reported_and_the_repeated_update_is_the_same(shards, tmp_path):
    settings, found, reports = dataclasses.replace(SETTINGS, max_steps=2), [], []
    for name, objective in (("whole", CrossEntropy(smoothing=0.1)), ("halved", Full())):
        with RunFolder(tmp_path / name).lock() as run:
            current = trainer(shards, run, settings, objective=objective, reports=reports)
            for module in current.model.modules():
                if isinstance(module, torch.nn.Dropout):
                    module.p = 0.0
            current.train()
        found.append(run.latest().read_tensors("optimizer.safetensors"))
    assert [record for record in reports if record["kind"] == "out of memory"] == [
        {"kind": "out of memory", "step": 2, "batches": 4}
    ]
    for key in (key for key in found[0] if key.endswith("exp_avg")):  # sums of gradients; weights are not:
        torch.testing.assert_close(  # where a gradient is rounding alone, Adam makes steps of it
            found[1][key], found[0][key], atol=1e-5, rtol=1e-3, msg=key
        )


def test_patience_ends_a_run_that_gets_no_better(shards, tmp_path):
    settings = dataclasses.replace(SETTINGS, max_steps=60, validate_every=2, patience=3, save_every=50)
    with RunFolder(tmp_path).lock() as run:
        current = trainer(shards, run, settings)
        current.validate = lambda model: {"loss": 1.0}
        state = current.train()
        assert state.step == 2 + 3 * 2
        assert state.best_step == 2
        assert run.latest().step == state.step


@pytest.mark.parametrize("decay", [0.0, 0.9])
def test_the_mean_of_the_last_checkpoints_is_kept_where_it_is_better(shards, tmp_path, decay):
    """With a moving average, it is the mean of the moving averages, which were validated."""
    settings = dataclasses.replace(SETTINGS, moving_average=decay, average_last=3, save_every=2)
    file = "average.safetensors" if decay else "model.safetensors"
    scores = iter([1.0, 1.0, 1.0, 1.0, 0.5])  # four validations, then the average
    with RunFolder(tmp_path).lock() as run:
        current = trainer(shards, run, settings)
        current.validate = lambda model: {"loss": next(scores)}
        current.train()
        points = [point.read_tensors(file) for point in run.checkpoints()]
        best = run.best().read_tensors("model.safetensors")
    assert len(points) == 3
    for name, tensor in best.items():
        torch.testing.assert_close(tensor, sum(point[name] for point in points) / 3)


def test_a_finished_run_stays_finished(shards, tmp_path):
    first = trained(shards, tmp_path)
    before = RunFolder(tmp_path).metrics()
    assert trained(shards, tmp_path) == first
    assert RunFolder(tmp_path).metrics() == before


FREEZE = ("encoder.blocks", "decoder.blocks.0.self_attention")
FRESH = "decoder.blocks.0.feed_forward.outer.weight"
CHOSEN = {
    "frozen": {"freeze": FREEZE},
    "adapters": {"adapter": AdapterSettings(rank=2, dropout=0.1), "fresh": [FRESH]},
}


def weights_of(folder):
    return folder.read_tensors("model.safetensors")


@pytest.mark.parametrize("chosen", CHOSEN.values(), ids=CHOSEN)
def test_a_run_that_trains_some_weights_is_resumed_to_the_same_bits(shards, tmp_path, chosen):
    optimizer = OptimizerSettings(kind="adamw", weight_decay=0.1, layer_decay=0.7)
    settings = dataclasses.replace(SETTINGS, optimizer=optimizer, max_steps=8)
    with RunFolder(tmp_path / "whole").lock() as run:
        trainer(shards, run, settings, chosen=chosen).train()
    with RunFolder(tmp_path / "stopped").lock() as run:
        current = trainer(shards, run, settings, chosen=chosen)
        current.stop = lambda: 15 if current.state.step == 5 else None
        with pytest.raises(Interrupted):
            current.train()
    with RunFolder(tmp_path / "stopped").lock() as run:
        trainer(shards, run, settings, seed=99, chosen=chosen).train()
    whole, stopped = (RunFolder(tmp_path / name) for name in ("whole", "stopped"))
    assert checkpoint_digest(whole.latest()) == checkpoint_digest(stopped.latest())
    best = weights_of(whole.best()), weights_of(stopped.best())
    assert all(torch.equal(best[0][name], best[1][name]) for name in best[0])


def test_frozen_weights_stay_what_they_were_to_the_bit_through_decay_and_averages(shards, tmp_path):
    optimizer = OptimizerSettings(kind="adamw", weight_decay=0.1)
    settings = dataclasses.replace(SETTINGS, optimizer=optimizer, average_last=3, save_every=2)
    with RunFolder(tmp_path).lock() as run:
        current = trainer(shards, run, settings, chosen=CHOSEN["frozen"])
        before = {name: tensor.clone() for name, tensor in model_tensors(current.model).items()}
        scores = iter([4.0, 3.0, 2.0, 1.0, 0.5])
        current.validate = lambda model: {"loss": next(scores)}
        current.train()
        folders = [run.best(), run.latest()]
        averages = run.latest().read_tensors("average.safetensors")
    for found in (*map(weights_of, folders), averages):
        for name, tensor in before.items():
            assert torch.equal(found[name], tensor) == name.startswith(FREEZE), name


def test_what_training_with_adapters_leaves_is_a_plain_model(shards, tmp_path):
    with RunFolder(tmp_path).lock() as run:
        settings = dataclasses.replace(SETTINGS, moving_average=0.0)
        current = trainer(shards, run, settings, chosen=CHOSEN["adapters"])
        before = {name: tensor.clone() for name, tensor in model_tensors(current.model).items()}
        shown = []
        current.validate = lambda model: shown.append(set(model_tensors(model))) or {"loss": 1.0 / len(shown)}
        current.train()
        best, latest = weights_of(run.best()), weights_of(run.latest())
    plain = {name for name in before if ".adapter." not in name}
    assert set(best) == set(latest) == plain
    assert all(names == plain for names in shown), "it is validated as it will be used"
    changed = {name for name in plain if not torch.equal(best[name], before[name])}
    adapted = (
        ".query_key_value.weight",
        ".query.weight",
        ".key.weight",
        ".value.weight",
        "attention.output.weight",
    )
    assert changed == {name for name in plain if name.endswith(adapted)} | {FRESH}
    with merged(current.model):
        for name, tensor in model_tensors(current.model).items():
            assert torch.equal(tensor, latest[name])


def test_the_mean_of_the_last_checkpoints_of_a_run_with_adapters_is_a_plain_model_too(shards, tmp_path):
    settings = dataclasses.replace(SETTINGS, moving_average=0.0, average_last=3, save_every=2)
    scores = iter([1.0, 1.0, 1.0, 1.0, 0.5])
    with RunFolder(tmp_path).lock() as run:
        current = trainer(shards, run, settings, chosen=CHOSEN["adapters"])
        current.validate = lambda model: {"loss": next(scores)}
        current.train()
        points, best = [weights_of(point) for point in run.checkpoints()], weights_of(run.best())
        own = dict(model_tensors(current.model).items())
        last = run.latest().read_tensors("adapters.safetensors")
    for name, tensor in best.items():
        torch.testing.assert_close(tensor, sum(point[name] for point in points) / 3)
    assert all(torch.equal(tensor, own[name]) for name, tensor in last.items()), (
        "training's own are untouched"
    )


def test_a_checkpoint_with_adapters_and_a_moving_average_has_the_weights_it_is_validated_with(
    shards, tmp_path
):
    settings = dataclasses.replace(SETTINGS, moving_average=0.9)
    seen = []
    with RunFolder(tmp_path).lock() as run:
        current = trainer(shards, run, settings, chosen=CHOSEN["adapters"])
        current.validate = lambda model: (
            seen.append(copies(model_tensors(model))) or {"loss": 1.0 / len(seen)}
        )
        current.train()
        latest = run.latest()
    used, is_moving = used_weights(latest)
    assert is_moving
    assert used.keys() == seen[-1].keys()
    assert all(torch.equal(tensor, seen[-1][name]) for name, tensor in used.items())
    assert any(not torch.equal(tensor, used[name]) for name, tensor in weights_of(latest).items())


@pytest.mark.parametrize(("every", "steps"), [(5, [5, 10, 12]), (6, [6, 12]), (100, [12])])
def test_the_last_step_is_validated_once_whatever_the_interval(shards, tmp_path, every, steps):
    reports = []
    settings = dataclasses.replace(SETTINGS, validate_every=every)
    trained(shards, tmp_path, settings, reports=reports)
    assert [each["step"] for each in reports if each["kind"] == "validation"] == steps
