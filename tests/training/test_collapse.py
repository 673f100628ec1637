"""A collapsed run goes back and continues at half the rate, reproducibly; a healthy run is not changed."""

import dataclasses
import functools
import math
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard.data import TensorExamples
from regard.data.batch import IGNORED
from regard.data.corpus import CorpusSettings, LinePolicy, open_corpus
from regard.data.examples import PairExamples
from regard.data.loader import Loader, LoaderSettings
from regard.data.process_share import EmptyShare
from regard.data.shards import write_shards
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizers
from regard.errors import FolderError, Interrupted, OutputIsNaN, RecipeError, RunError
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.training.collapse import (
    DISTINCT,
    CollapseDetector,
    CollapseSettings,
    collapse_warning,
    distinct_outputs,
    target_entropy,
)
from regard.training.objective import CrossEntropy
from regard.training.schedule import ScheduleSettings
from regard.training.settings import TrainingSettings
from regard.training.state import TrainingState
from regard.training.trainer import Trainer
from regard.weights.checkpoint import RunFolder, checkpoint_digest

SETTINGS = TrainingSettings(
    max_steps=16,
    save_every=2,
    validate_every=2,
    report_every=3,
    moving_average=0.9,
    schedule=ScheduleSettings(warmup_steps=1, learning_rate=0.01),
    collapse=CollapseSettings(after=0),
)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    corpus = open_corpus(CorpusSettings(synthetic="reverse", size=150, length=5), LinePolicy(), folder)
    tokenizers = train_tokenizers(corpus, TokenizerSettings(kind="words"))
    write_shards(corpus, tokenizers, folder / "train", max_tokens=20)
    return folder / "train", tokenizers.source.vocab_size


def loader_of(shards):
    return Loader(PairExamples(shards[0], 0), LoaderSettings(batch_tokens=120), seed=1)


def trainer(shards, run, settings=SETTINGS, *, scores, seed=1, **options):
    """A trainer whose validation returns `scores(step, retries)`."""
    config = EncoderDecoderConfig(
        src_vocab_size=shards[1], tgt_vocab_size=shards[1], d_model=16, num_heads=2, d_ff=32,
        num_encoder_layers=1, num_decoder_layers=1, dropout=0.1,
    )  # fmt: skip
    made = Trainer(
        build_model(config, seed=seed),
        CrossEntropy(smoothing=0.1),
        loader_of(shards),
        settings,
        run,
        {"config.json": b"{}"},
        validate=lambda model: scores(made.state.step, made.state.watch.retries),
        report=lambda record: None,
        **options,
    )
    return made


def trained(shards, path, settings=SETTINGS, **options):
    with RunFolder(path).lock() as run:
        state = trainer(shards, run, settings, **options).train()
    return checkpoint_digest(RunFolder(path).latest()), state


def collapses(path):
    return [record for record in RunFolder(path).metrics() if record["kind"] == "collapse"]


def healthy(step, retries):
    return {"loss": 3.0 - step / 10, DISTINCT: 80.0}


def constant_at_first(step, retries):
    """Outputs are all equal until the rate is halved."""
    return {"loss": 3.0 - step / 100, DISTINCT: 80.0 if retries else 1.0}


def breaks_later(step, retries):
    """The run learns until step 6, in the second try too."""
    return healthy(step, retries) if retries or step <= 6 else {"loss": 5.0, DISTINCT: 1.0}


@pytest.fixture(scope="module")
def uninterrupted(shards, tmp_path_factory):
    """Runs to their end, by what they validate; each is trained once."""

    @functools.cache
    def folder(scores):
        path = tmp_path_factory.mktemp("alone")
        trained(shards, path, scores=scores)
        return path

    return folder


@pytest.mark.parametrize(("scores", "to", "at"), [(constant_at_first, 0, 6), (breaks_later, 6, 10)])
def test_a_collapsed_run_goes_back_to_where_it_still_learned_and_halves_the_rate(
    shards, tmp_path, scores, to, at
):
    _, state = trained(shards, tmp_path, scores=scores)
    assert state.step == SETTINGS.max_steps
    [found] = collapses(tmp_path)
    assert (found["step"], found["at"], found["to"]) == (to, at, to)
    assert "outputs" in found["why"]
    steps = [(record["kind"], record["step"]) for record in RunFolder(tmp_path).metrics()]
    assert len(set(steps)) == len(steps), "what was measured in vain is gone"
    rates = {
        record["step"]: record["learning_rate"]
        for record in RunFolder(tmp_path).metrics()
        if record["kind"] == "train"
    }
    usual = trainer(shards, RunFolder(tmp_path / "unused"), scores=scores).schedule
    assert {step: rate / usual(step) for step, rate in rates.items()} == {
        step: 0.5 if step > to else 1.0 for step in rates
    }


def test_from_nothing_is_from_the_same_weights(shards, tmp_path):
    """A second try from step 0 has the same bits as a run at half the rate."""
    trained(shards, tmp_path / "again", scores=constant_at_first)
    slower = dataclasses.replace(SETTINGS, schedule=ScheduleSettings(warmup_steps=1, learning_rate=0.005))
    trained(shards, tmp_path / "slower", slower, scores=healthy)
    one, other = (
        RunFolder(tmp_path / name).latest().read_tensors("model.safetensors") for name in ("again", "slower")
    )
    assert all(torch.equal(one[name], other[name]) for name in one)


PLACES = [(9, 0), (3, 1), (12, 1)]  # step and retry; the first and the fourth of them each time


@pytest.mark.parametrize(
    ("place", "scores"),
    [
        ((5, 0), breaks_later),
        ((7, 1), constant_at_first),
        pytest.param((7, 1), breaks_later, marks=pytest.mark.nightly),
        pytest.param((5, 0), constant_at_first, marks=pytest.mark.nightly),
        *(
            pytest.param(place, scores, marks=pytest.mark.nightly)
            for place in PLACES
            for scores in (constant_at_first, breaks_later)
        ),
    ],
)
def test_stopped_before_or_after_it_continues_to_the_same_bits(
    shards, uninterrupted, tmp_path, scores, place
):
    alone = uninterrupted(scores)
    with RunFolder(tmp_path / "stopped").lock() as run:
        current = trainer(shards, run, scores=scores)
        current.stop = lambda: 15 if (current.state.step, current.state.watch.retries) == place else None
        # one goes back to step 6, the other from it
        never = (place, scores) in [((3, 1), breaks_later), ((9, 0), constant_at_first)]
        with nullcontext() if never else pytest.raises(Interrupted):
            current.train()
    again, _ = trained(shards, tmp_path / "stopped", scores=scores, seed=99)
    assert again == checkpoint_digest(RunFolder(alone).latest())
    assert collapses(tmp_path / "stopped") == collapses(alone)


@pytest.mark.parametrize("call", ["remove_after", "cut_metrics"])
def test_killed_while_it_goes_back_it_comes_to_the_same_bits(
    shards, uninterrupted, tmp_path, monkeypatch, call
):
    alone = uninterrupted(breaks_later)
    usual = getattr(RunFolder, call)

    def killed(self, step):
        if step:  # not at the start
            raise KeyboardInterrupt
        usual(self, step)

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, call, killed)
        with pytest.raises(KeyboardInterrupt):
            trained(shards, tmp_path / "killed", scores=breaks_later)
    again, _ = trained(shards, tmp_path / "killed", scores=breaks_later)
    assert again == checkpoint_digest(RunFolder(alone).latest())
    assert RunFolder(tmp_path / "killed").metrics()[-1] == RunFolder(alone).metrics()[-1]
    assert collapses(tmp_path / "killed") == collapses(alone)


def test_a_healthy_run_is_never_disturbed(shards, tmp_path):
    entropy = target_entropy(loader_of(shards).epoch(0))
    _, state = trained(shards, tmp_path, scores=healthy, entropy=2 * entropy)
    assert state.watch.retries == 0, "a loss far below the entropy"
    assert not collapses(tmp_path)


def test_a_training_loss_stuck_at_the_entropy_of_the_targets_is_a_collapse(shards, tmp_path):
    """At a huge rate nothing is learned: two retries, one more warning, and the run continues to the end."""
    entropy = target_entropy(loader_of(shards).epoch(0))
    huge = dataclasses.replace(SETTINGS, schedule=ScheduleSettings(warmup_steps=1, learning_rate=50.0))
    _, state = trained(shards, tmp_path, huge, scores=lambda step, retries: {"loss": 9.0}, entropy=entropy)
    assert state.step == huge.max_steps
    assert [record["to"] for record in collapses(tmp_path)] == [0, 0, None]
    for record in collapses(tmp_path):
        assert "training loss" in record["why"]
        assert "does the loss" not in record["why"], "only one of your own is doubted"


def test_without_retries_a_collapse_is_only_reported(shards, tmp_path):
    off = dataclasses.replace(SETTINGS, collapse=CollapseSettings(after=0, retries=0))
    _, _ = trained(shards, tmp_path / "warned", off, scores=constant_at_first)
    _, _ = trained(
        shards, tmp_path / "never", off, scores=lambda *_: {**constant_at_first(*_), DISTINCT: 90.0}
    )
    assert [record["to"] for record in collapses(tmp_path / "warned")] == [None]
    one, other = (
        RunFolder(tmp_path / name).latest().read_tensors("model.safetensors") for name in ("warned", "never")
    )
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_young_run_is_not_judged(shards, tmp_path):
    young = dataclasses.replace(SETTINGS, collapse=CollapseSettings())
    trained(shards, tmp_path, young, scores=constant_at_first)
    assert not collapses(tmp_path)
    settings = CollapseSettings()
    assert settings.first_checked_step(1000, 100) == 500
    assert settings.first_checked_step(10_000, 100) == 2500, "a quarter of the run"
    assert settings.first_checked_step(10_000, 4000) == 6000, "warm-up is not a collapse"


def test_a_run_that_diverges_is_judged_at_any_age_and_starts_again(shards, tmp_path):
    """At a huge rate, in a run that is too young for any other check."""
    short = dataclasses.replace(
        SETTINGS,
        validate_every=5,
        save_every=5,
        collapse=CollapseSettings(),
        schedule=ScheduleSettings(warmup_steps=1, learning_rate=1e3),
    )
    _, state = trained(shards, tmp_path, short, scores=lambda *_: {"loss": 9.0}, entropy=1.0)
    assert state.step == short.max_steps
    assert [record["to"] for record in collapses(tmp_path)] == [0, 0, None]
    assert all("far above that of the first update" in record["why"] for record in collapses(tmp_path))


def raises_nan(times):
    """A validation whose decoding meets NaN until the run has gone back so many times."""

    def scores(step, retries):
        if retries < times:
            raise OutputIsNaN
        return healthy(step, retries)

    return scores


def test_a_validation_whose_output_is_nan_is_a_sign_and_the_run_starts_again(shards, tmp_path):
    young = dataclasses.replace(SETTINGS, collapse=CollapseSettings())
    _, state = trained(shards, tmp_path, young, scores=raises_nan(1))
    [found] = collapses(tmp_path)
    assert (found["to"], found["at"], found["why"]) == (0, 4, "the validation loss is NaN")
    assert state.best_step == young.max_steps


def test_a_run_without_a_single_score_ends_with_an_error_that_names_the_step(shards, tmp_path):
    with pytest.raises(RunError, match="diverged: no validation until step 16") as caught:
        trained(shards, tmp_path, scores=raises_nan(3))
    assert "learning_rate" in caught.value.hint
    assert not (tmp_path / "best").exists()


def test_a_state_of_an_older_version_has_no_counts_of_divergence():
    values = TrainingState(step=3).to_dict()
    older = {name: value for name, value in values["watch"].items() if name not in LATER}
    assert TrainingState.from_dict({**values, "watch": older}) == TrainingState(step=3)
    for changed in ({**older, "odd": 1}, {"nll": 0.0}):
        with pytest.raises(FolderError, match="watch"):
            TrainingState.from_dict({**values, "watch": changed})


LATER = ["start", "updates", "skipped_updates", "previous"]


# One validation after the other


def answer_of(losses, *, training, best_step=0, **options):
    """The detector's answer to the last of validations with these losses."""
    watch, found = CollapseDetector(), None
    for step, (loss, train) in enumerate(zip(losses, training, strict=True), start=1):
        watch.count(train * 100, 100)
        best = best_step or 1
        found = watch.add_validation(
            step, {"loss": loss}, entropy=None, checked=True, best_step=best, **options
        )
    return found


def test_a_validation_loss_that_rises_from_the_start_is_a_collapse_unless_something_is_learned():
    rising, flat = [2.0, 2.1, 2.2, 2.3], [3.0, 2.5, 2.5, 2.6]
    assert "risen" in answer_of(rising, training=flat)
    assert answer_of(rising[:3], training=flat[:3]) is None, "three losses are too few"
    assert answer_of([2.0, 1.9, 2.2, 2.3, 2.4], training=[3.0, *flat]) is None, "it has fallen before"
    assert answer_of(rising, training=[3.0, 2.5, 2.0, 1.5]) is None, "it overfits, which is not a collapse"
    assert answer_of(rising, training=flat, best_step=3) is None, "a score has become better"
    assert answer_of([2.0, math.nan, 2.2, 2.3], training=flat) is None
    assert answer_of([2.0, 2.0, 2.1, 2.2], training=flat) is None, "the same loss is no rise"
    assert "4 times" in answer_of([*rising, 2.4], training=[3.0, 2.5, 2.5, 2.5, 2.5]), "it has not fallen"


def judged(losses, *, distinct=80.0, training=2.0, entropy=None):
    """The detector after validations with these losses at steps 1, 2, ..., and its last answer."""
    watch, found = CollapseDetector(), None
    for step, loss in enumerate(losses, start=1):
        watch.count(training * 50, 50)
        metrics = {"loss": loss, DISTINCT: distinct}
        found = watch.add_validation(step, metrics, entropy=entropy, checked=True, best_step=1)
    return watch, found


def test_a_sign_is_at_the_limit_and_two_in_a_row_are_a_collapse():
    falling = [2.0, 1.9]
    assert "5.0 %" in judged(falling, distinct=5.0)[1]
    assert judged(falling[:1], distinct=5.0)[1] is None, "one is not enough"
    assert judged(falling, distinct=5.1)[1] is None
    assert "training loss" in judged(falling, training=0.98, entropy=1.0)[1]
    assert judged(falling, training=0.97, entropy=1.0)[1] is None


def young(*validations, is_last=False, entropy=1.0):
    """The answers of the detector of a young run to validations, each (training losses, metrics).

    A training loss of None is an update that was skipped.
    """
    watch, answers = CollapseDetector(), []
    for step, (losses, metrics) in enumerate(validations, start=1):
        for loss in losses:
            if loss is None:
                watch.count_skipped()
            else:
                watch.count(loss * 10, 10)
        last = is_last and step == len(validations)
        answers.append(
            watch.add_validation(step, metrics, entropy=entropy, checked=False, best_step=1, is_last=last)
        )
    return answers


def test_a_last_validation_that_is_better_than_the_one_before_needs_a_second_sign():
    far = [9.0] * 5
    assert young(([2.0], {"loss": 3.0}), (far, {"loss": 2.9}), is_last=True) == [None, None]
    assert young(([2.0], {"loss": 3.0}), (far, {"loss": 3.0}), is_last=True)[1]


GOOD, NAN = {"loss": 2.0}, {"loss": math.nan}


@pytest.mark.parametrize(
    ("losses", "metrics", "why"),
    [
        ([2.0, *[7.0] * 4], GOOD, "far above"),
        ([2.0] * 4 + [None] * 5, GOOD, "5 of the last 9 updates were skipped"),
        ([None] * 6, GOOD, "6 of the last 6"),
        ([2.0], NAN, "NaN"),
    ],
    ids=["far above", "skipped", "all skipped", "NaN"],
)  # fmt: skip
def test_divergence_is_a_sign_at_any_age_and_one_is_enough_at_the_end(losses, metrics, why):
    assert young((losses, metrics)) == [None]
    [found] = young((losses, metrics), is_last=True)
    assert why in found


def test_a_validation_is_not_the_last_by_default():
    assert CollapseDetector().add_validation(1, NAN, entropy=None, checked=True, best_step=0) is None


def test_two_validations_with_divergence_are_a_collapse_and_what_recovers_is_none():
    far = ([9.0] * 5, GOOD)
    assert young(([2.0], GOOD), far, far)[-1]
    assert young(([2.0], GOOD), far, ([1.0], GOOD), far)[-1] is not None, "a loss at the entropy is a sign"
    assert young(([2.0], GOOD), far, ([0.5], GOOD), far) == [None] * 4, "it has learned in between"
    assert young(([2.0], GOOD), ([1.0], GOOD), ([1.0], GOOD), is_last=True) == [None] * 3, "stuck, but young"


@pytest.mark.parametrize(
    ("losses", "entropy"),
    [
        ([2.0, *[4.5] * 4], 1.0), ([2.0, *[7.0] * 4], 3.5), ([2.0, *[7.0] * 4], None),
        ([2.0] * 5 + [None] * 5, 1.0), ([None] * 4, 1.0), ([2.0, *[9.0] * 3], 1.0),
    ],
    ids=[
        "twice the first", "below twice the entropy", "no entropy", "half were skipped", "few were skipped",
        "few updates",
    ],
)  # fmt: skip
def test_no_divergence(losses, entropy):
    assert young((losses, GOOD), is_last=True, entropy=entropy) == [None]


def test_a_validation_begins_a_new_count_of_updates():
    for few in ([9.0] * 4, [None] * 4):
        assert young(([2.0], GOOD), (few, GOOD), is_last=True) == [None, None]


def test_without_validation_a_training_loss_below_the_entropy_is_good():
    for loss, entropy, good_step in ((1.0, 2.0, 7), (1.99, 2.0, 0), (1.0, None, 0), (None, 2.0, 0)):
        watch = CollapseDetector()
        if loss is not None:
            watch.count(loss * 10, 10)
        watch.add_validation(7, {}, entropy=entropy, checked=True, best_step=0)
        assert watch.good_step == good_step


def test_a_validation_loss_that_rises_while_no_update_counts_is_no_collapse():
    watch = CollapseDetector()
    for step in range(1, 7):
        found = watch.add_validation(step, {"loss": 2.0 + step}, entropy=None, checked=True, best_step=1)
        assert found is None
    assert watch.rises == 5


def test_without_an_entropy_a_loss_that_also_rises_is_a_divergence():
    """As of objectives of one's own: the first update alone may have had easy targets."""
    far, further, nearer = ([9.0] * 5, {}), ([20.0] * 5, {}), ([8.0] * 5, {})
    assert "far above" in young(([2.0], {}), far, further, entropy=None)[-1]
    assert "far above" in young(([0.5], {}), ([1.5] * 5, {}), ([1.8] * 5, {}), entropy=None)[-1]
    assert young(([2.0], {}), far, nearer, nearer, entropy=None) == [None] * 4, "it falls"
    assert young(([2.0], {}), far, far, far, entropy=None) == [None] * 4, "it stays"
    assert young(([0.0], {}), nearer, far, further, entropy=None) == [None] * 4, "no multiple of nothing"
    assert young(([-2.0], {}), ([-3.0] * 5, {}), ([-2.5] * 5, {}), entropy=None) == [None] * 3, "a density"
    better = [(losses, {"loss": 3.0 - step}) for step, (losses, _) in enumerate((([2.0], {}), far, further))]
    assert young(*better, entropy=None) == [None] * 3, "the validation loss falls"


def test_a_registered_loss_may_stay_at_the_entropy_but_not_diverge():
    def last(training):
        watch, found = CollapseDetector(start=2.0), None
        for step in (1, 2):
            for _ in range(5):
                watch.count(training * 10, 10)
            found = watch.add_validation(
                step, {"loss": 2.0}, entropy=1.0, checked=True, best_step=1, entropy_is_sign=False
            )
        return found

    assert last(1.0) is None
    assert "far above" in last(9.0)


def test_a_good_validation_is_better_than_the_first_and_without_a_sign():
    assert judged([2.0])[0].good_step == 0
    assert judged([2.0, 2.0])[0].good_step == 0, "no better than the first"
    assert judged([2.0, 1.9, 1.95, 2.1])[0].good_step == 3
    assert judged([2.0, 1.9], distinct=1.0)[0].good_step == 0
    assert judged([math.nan, 1.9])[0].good_step == 0, "nothing to compare with"


def test_the_training_loss_of_a_validation_is_that_since_the_one_before():
    watch = CollapseDetector()
    for step, (nll, tokens) in enumerate([(30.0, 10), (50.0, 20), (8.0, 4)], start=1):
        watch.count(nll, tokens)
        watch.add_validation(step, {"loss": 2.0 + step}, entropy=None, checked=True, best_step=1)
        assert (watch.nll, watch.tokens) == (0.0, 0)
    assert watch.early == 2.5, "between the first and the second validation"
    assert watch.last == 5.0


@pytest.mark.parametrize(
    ("to", "then"), [(None, "continues unchanged"), (0, "starts again"), (1200, "goes back to step 1,200")]
)
def test_a_collapse_is_reported_in_one_line_with_what_may_help(to, then):
    line = collapse_warning({"kind": "collapse", "at": 3000, "to": to, "why": "all is equal"})
    assert "collapsed at step 3,000: all is equal" in line
    assert then in line
    assert "learning_rate" in line
    assert "\n" not in line


def test_few_references_give_no_metric():
    assert distinct_outputs(["a"] * 19, map(str, range(19))) == {}
    assert distinct_outputs(["a"] * 20, map(str, range(20))) == {DISTINCT: 5.0}
    assert distinct_outputs(["a", "b"] * 10, map(str, range(20))) == {DISTINCT: 10.0}
    assert distinct_outputs(["a"] * 40, map(str, range(40))) == {DISTINCT: 2.5}
    assert distinct_outputs(["yes", "no"] * 50, ["no", "yes"] * 50) == {}, "a task with two answers"


def test_the_entropy_is_that_of_the_targets_without_padding(shards):
    batches = list(loader_of(shards).epoch(0))
    shorter = batches[0].tgt_lengths.clone()
    shorter[0] -= 2
    batches.append(dataclasses.replace(batches[0], tgt_lengths=shorter))  # a row with padding
    counts = torch.zeros(shards[1])
    for batch in batches:
        for row, length in zip(batch.labels, batch.tgt_lengths, strict=True):
            for label in row[: length - 1]:
                counts[label] += 1
    expected = torch.distributions.Categorical(counts / counts.sum()).entropy()
    assert target_entropy(batches) == pytest.approx(float(expected), rel=1e-6)
    assert target_entropy([EmptyShare(batches[0]), *batches]) == target_entropy(batches)
    assert target_entropy([]) == 0.0


def test_a_single_target_has_no_entropy():
    examples = TensorExamples(torch.zeros(1, 1), torch.tensor([3]))
    assert target_entropy([examples.batch(np.arange(1), 0)]) == 0.0


def of_labels(labels):
    """A batch of a class of one's own."""
    return SimpleNamespace(
        labels=labels, lines=labels, num_targets=len(labels), to=lambda _: None, halves=lambda: None
    )


@pytest.mark.parametrize("labels", [torch.tensor([[0.25, 0.75], [1.0, 0.0]]), torch.tensor([1, -1])])
def test_labels_that_cannot_be_counted_have_no_entropy(labels):
    assert target_entropy([of_labels(labels)]) is None


def test_labels_on_a_device_are_counted(device):
    labels = torch.tensor([0, 1, IGNORED]).to(device)
    assert target_entropy([of_labels(labels)]) == pytest.approx(math.log(2))


def test_the_entropy_is_that_of_as_many_batches_as_have_enough_targets():
    def batch(*labels):
        return TensorExamples(torch.zeros(len(labels), 1), torch.tensor(labels)).batch(
            np.arange(len(labels)), 0
        )

    batches = [batch(5, 5, IGNORED), batch(0, 0), batch(0, 0, 0, 0)]
    assert target_entropy(batches, 2) == 0.0, "two of the same"
    assert target_entropy([batch(1, 2)]) == pytest.approx(math.log(2)), "each counts, also once"
    assert target_entropy(batches, 3) == target_entropy(batches, 4) == pytest.approx(math.log(2))
    assert target_entropy(batches, 5) == pytest.approx(math.log(4) - 0.75 * math.log(3))


@pytest.mark.parametrize("name", ["retries", "after"])
def test_a_value_that_cannot_work_is_refused_by_name(name):
    with pytest.raises(RecipeError, match=f"collapse.{name}"):
        CollapseSettings(**{name: -1})
