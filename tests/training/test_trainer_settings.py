"""Each training setting has its effect and no other."""

import itertools
import math

import pytest
import torch
from torch import nn

from regard.data.batch import collate
from regard.data.corpus import CorpusSettings, LinePolicy, open_corpus
from regard.data.examples import PairExamples
from regard.data.loader import Loader, LoaderSettings
from regard.data.shards import write_shards
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizers
from regard.errors import Interrupted, RecipeError, RunError
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.training.collapse import CollapseSettings
from regard.training.objective import CrossEntropy
from regard.training.schedule import Schedule, ScheduleSettings
from regard.training.settings import TrainingSettings
from regard.training.trainer import Trainer
from regard.weights.average import UPDATES
from regard.weights.checkpoint import LEARNED_VALIDATION, RunFolder
from regard.weights.tensors import model_tensors

D_MODEL = 16
SHORT = {
    "max_steps": 4,
    "save_every": 1,
    "validate_every": 1,
    "report_every": 1,
    "precision": "float32",
    "schedule": ScheduleSettings(warmup_steps=2, learning_rate=0.01),
}


class Scores:
    """A validation with these scores, the last one repeated; it records the validated weights."""

    def __init__(self, *scores, metric="loss"):
        self.scores = itertools.chain(scores, itertools.repeat(scores[-1]))
        self.metric, self.shown = metric, []

    def __call__(self, model):
        self.shown.append(weights(model))
        return {self.metric: next(self.scores)}


class Remembering:
    """An objective that records its batches and losses."""

    def __init__(self):
        self.base, self.batches, self.losses = CrossEntropy(smoothing=0.3), [], []

    def __call__(self, model, batch):
        self.batches.append(batch)
        self.losses.append(self.base(model, batch))
        return self.losses[-1]


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Lines of one to nine words, so that batches differ in how many tokens they hold."""
    folder = tmp_path_factory.mktemp("data")
    lines = [" ".join("abcdefghi"[start : start + n]) for n in range(1, 10) for start in range(10 - n)]
    (folder / "pairs.tsv").write_text("".join(f"{line}\t{line[::-1]}\n" for line in lines))
    settings = CorpusSettings(file="pairs.tsv", format="tsv", source_field="0", target_field="1")
    corpus = open_corpus(settings, LinePolicy(), folder)
    tokenizers = train_tokenizers(corpus, TokenizerSettings(kind="words"))
    write_shards(corpus, tokenizers, folder / "train", max_tokens=20)
    return folder / "train", tokenizers.source.vocab_size


@pytest.fixture
def start(shards, tmp_path):
    """A trainer without dropout in a new run folder; equal settings give equal runs."""
    folder, vocab_size = shards
    numbers = itertools.count()

    def trainer(*, validate=None, objective=None, run=None, **settings):
        config = EncoderDecoderConfig(
            src_vocab_size=vocab_size,
            tgt_vocab_size=vocab_size,
            d_model=D_MODEL,
            num_heads=2,
            d_ff=32,
            num_encoder_layers=1,
            num_decoder_layers=1,
            dropout=0.0,
        )
        return Trainer(
            build_model(config, seed=1),
            objective or CrossEntropy(),
            Loader(PairExamples(folder, 0), LoaderSettings(batch_tokens=40), seed=1),
            TrainingSettings(**{**SHORT, **settings}),
            run or RunFolder(tmp_path / f"run {next(numbers)}"),
            {"config.json": b"{}"},
            validate=validate or Scores(1.0),
            report=lambda record: None,
        )

    return trainer


def weights(model):
    return {name: tensor.clone() for name, tensor in model_tensors(model).items()}


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def best(trainer):
    return trainer.run.best().read_tensors("model.safetensors")


def records(trainer, kind):
    return [record for record in trainer.run.metrics() if record["kind"] == kind]


def at_each_update(trainer, look):
    """The results of `look` just before each optimiser step."""
    found = []
    trainer.optimizer.register_step_pre_hook(lambda *_: found.append(look()))
    trainer.train()
    return found


def gradients(trainer):
    return [parameter.grad.clone() for parameter in trainer.model.parameters()]


def gradient_norm(trainer):
    return math.sqrt(sum(float(gradient.double().square().sum()) for gradient in gradients(trainer)))


def in_one(batches):
    """All rows of `batches` in one batch."""
    sources = [row[:n].tolist() for b in batches for row, n in zip(b.src_ids, b.src_lengths, strict=True)]
    targets = [row[:n].tolist() for b in batches for row, n in zip(b.tgt_ids, b.tgt_lengths, strict=True)]
    return collate(sources, targets, [line for b in batches for line in b.lines.tolist()], pad_id=0)


# One update


def test_an_update_of_four_batches_has_the_gradient_of_one_batch_of_all_their_rows(start):
    objective = Remembering()
    four, one = start(accumulate=4, max_steps=1, objective=objective), start(objective=Remembering())
    accumulated = at_each_update(four, lambda: gradients(four))[0]
    batches = objective.batches
    assert len({batch.num_targets for batch in batches}) > 1, "else any mean is the right one"
    nll, num_targets, _ = one.gradients([in_one(batches)], one.optimizer.zero_grad)
    assert num_targets == sum(batch.num_targets for batch in batches)
    assert len(batches) == 4
    assert records(four, "train")[0]["loss"] == pytest.approx(nll / num_targets, rel=1e-5)
    for several, at_once in zip(accumulated, gradients(one), strict=True):
        torch.testing.assert_close(several, at_once, rtol=0, atol=1e-6)


def test_gradients_are_those_of_the_mean_loss_over_target_tokens(start):
    current = start()
    batches = list(itertools.islice(current.loader, 3))
    current.gradients(batches, current.optimizer.zero_grad)
    got = gradients(current)
    current.model.zero_grad()
    labels = sum(batch.num_targets for batch in batches)
    sum(CrossEntropy()(current.model, batch).total / labels for batch in batches).backward()
    for gradient, expected in zip(got, gradients(current), strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)


def test_no_gradient_longer_than_clip_norm_reaches_the_optimiser(start):
    clipped = start(clip_norm=0.05)
    norms = at_each_update(clipped, lambda: gradient_norm(clipped))
    assert norms == pytest.approx([0.05] * SHORT["max_steps"], rel=1e-3)
    before = [record["gradient_norm"] for record in records(clipped, "train")]
    assert min(before) > 0.05, "what is reported is the norm before clipping"


def test_without_clip_norm_gradients_stay_as_they_are(start):
    current = start(clip_norm=0.0)
    norms = at_each_update(current, lambda: gradient_norm(current))
    assert norms == pytest.approx([r["gradient_norm"] for r in records(current, "train")], rel=1e-4)


def test_each_update_has_the_learning_rate_of_the_schedule(start):
    settings = ScheduleSettings(kind="noam", learning_rate=0.5, warmup_steps=2, cooldown=0.5)
    current = start(schedule=settings)
    rates = at_each_update(current, lambda: [group["lr"] for group in current.optimizer.param_groups])
    schedule = Schedule(settings=settings, max_steps=SHORT["max_steps"], d_model=D_MODEL)
    expected = [schedule(step) for step in range(1, SHORT["max_steps"] + 1)]
    assert len(set(expected)) == len(expected), "else a rate of the wrong step could be the right one"
    assert rates == [[rate, rate] for rate in expected]
    assert [record["learning_rate"] for record in records(current, "train")] == expected


def test_the_reported_loss_is_the_nats_a_token_since_the_last_report(start):
    objective = Remembering()
    current = start(objective=objective, accumulate=2, report_every=2)
    current.train()
    windows = [objective.losses[first : first + 4] for first in range(0, len(objective.losses), 4)]
    expected = [sum(float(l.nll) for l in w) / sum(l.num_targets for l in w) for w in windows]  # noqa: E741
    assert [record["loss"] for record in records(current, "train")] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("bfloat16", torch.bfloat16), ("float32", torch.float32), ("auto", torch.float32)],
)
def test_on_a_cpu_only_bfloat16_computes_in_bfloat16_and_weights_stay_wide(start, precision, dtype):
    current, dtypes = start(precision=precision, max_steps=2), set()
    for linear in (module for module in current.model.modules() if isinstance(module, nn.Linear)):
        linear.register_forward_hook(lambda module, args, output: dtypes.add(output.dtype))
    current.train()
    assert dtypes == {dtype}
    assert {tensor.dtype for tensor in model_tensors(current.model).values()} == {torch.float32}


# What is validated and kept as the best


def test_validation_sees_the_moving_average_and_the_best_model_is_it(start):
    scores = Scores(4.0, 3.0, 2.0, 1.0)
    current = start(moving_average=0.9, validate=scores)
    current.train()
    average = current.average.tensors()
    average.pop(UPDATES)
    assert same(scores.shown[-1], average)
    assert same(best(current), average)
    assert not same(weights(current.model), average)
    assert not same(scores.shown[0], average), "it moves"


def test_training_continues_from_its_own_weights_not_from_their_average(start):
    averaged, plain = start(moving_average=0.9), start(moving_average=0.0)
    averaged.train()
    plain.train()
    assert same(weights(averaged.model), weights(plain.model))


@pytest.mark.parametrize(("metric", "at"), [("bleu", 2), ("loss", 4)])
def test_the_best_model_has_the_highest_or_the_lowest_score_as_the_metric_wants(start, metric, at):
    scores = Scores(20.0, 30.0, 25.0, 10.0, metric=metric)
    current = start(best_metric=metric, validate=scores, save_every=4)  # kept until then
    state = current.train()
    assert state.best_step == at
    assert same(best(current), scores.shown[at - 1])


def test_the_best_weights_are_written_once_by_the_next_save(start, monkeypatch):
    written, usual = [], RunFolder.write_best

    def write_best(self, files, *, step, **more):
        written.append((step, self.latest().step))
        return usual(self, files, step=step, **more)

    monkeypatch.setattr(RunFolder, "write_best", write_best)
    current = start(validate=Scores(1.0, 2.0), max_steps=6, save_every=2)
    current.train()
    assert written == [(1, 0)], "before the checkpoint of step 2"
    assert LEARNED_VALIDATION not in current.run.best().manifest


@pytest.mark.parametrize("metric", ["bleu", "loss"])
def test_a_score_that_is_not_a_number_is_never_the_best(start, metric):
    scores = Scores(math.nan, 5.0, math.nan, math.nan, metric=metric)
    current = start(best_metric=metric, validate=scores, collapse=CollapseSettings(retries=0))
    state = current.train()
    assert (state.best_step, state.best_value) == (2, 5.0)
    assert same(best(current), scores.shown[1])


def test_where_no_score_is_a_number_there_is_no_best_model(start):
    current = start(validate=Scores(math.nan), average_last=2)
    with pytest.raises(RunError, match="no validation until step"):
        current.train()
    assert current.run.best() is None


# Two metrics


class Pairs(Scores):
    """A validation with these pairs of an accuracy and a loss."""

    def __call__(self, model):
        self.shown.append(weights(model))
        return dict(zip(("accuracy", "loss"), next(self.scores), strict=True))


TWO = {"best_metric": "accuracy", "second_metric": "loss"}


@pytest.mark.parametrize(
    ("scores", "best_step"),
    [
        ([(50.0, 2.0), (60.0, 1.0), (61.0, 1.1), (61.0, 0.9)], 4),  # of equals the one whose loss is lower
        ([(50.0, 2.0), (60.0, 1.0), (70.0, 1.1), (60.0, 0.9)], 2),  # each is better once, never both
        ([(50.0, 2.0), (50.0, 2.0), (50.0, 2.0), (49.0, 1.0)], 3),  # no worse will do: the last of equals
        ([(50.0, 2.0), (math.nan, 1.0), (60.0, math.nan), (60.0, 1.5)], 1),  # NaN is no better, but 1.0 was
    ],
)
def test_of_two_metrics_neither_was_ever_better_than_of_the_best_model(start, scores, best_step):
    """As in the code of Velickovic et al. 2018."""
    validate = Pairs(*scores)
    current = start(**TWO, validate=validate)
    assert current.train().best_step == best_step
    assert same(best(current), validate.shown[best_step - 1])


def test_a_metric_is_no_second_to_itself():
    with pytest.raises(RecipeError, match="second_metric is the same as best_metric, 'loss'"):
        TrainingSettings(second_metric="loss")


def test_patience_lasts_while_one_of_two_metrics_is_as_good_as_ever(start):
    scores = [(50.0, 2.0), (50.0, 3.0), (40.0, 1.9), (49.0, 2.0), (50.0, 2.0), (49.0, 2.0), (49.9, 1.91)]
    current = start(**TWO, patience=2, max_steps=20, validate=Pairs(*scores))
    assert current.train().step == 7


def test_the_average_too_has_to_be_no_worse_by_both(start):
    for last, shown in (((51.0, 1.0), 4), ((51.0, 2.1), 3), ((50.0, 2.0), 4)):
        scores = Pairs((40.0, 3.0), (45.0, 3.0), (46.0, 2.5), (50.0, 2.0), last)
        current = start(**TWO, average_last=3, validate=scores)
        current.train()
        assert same(best(current), scores.shown[shown])


@pytest.mark.parametrize("first", [pytest.param({}, marks=pytest.mark.nightly), TWO], ids=["one", "two"])
def test_a_run_stopped_anywhere_chooses_the_same_best_model(start, first):
    """The best model is in memory between saves; it is on disk before a checkpoint that refers to it."""
    scores = [(50.0, 2.0), (60.0, 1.5), (60.0, 1.2), (59.0, 1.2), (61.0, 1.1), (61.0, 1.3)]
    settings = {**first, "max_steps": 6, "save_every": 4}
    whole = start(**settings, validate=Pairs(*scores))
    expected = whole.train()
    for stop_at in range(1, 6):
        stopped = start(**settings, validate=Pairs(*scores))
        stopped.stop = lambda stopped=stopped, at=stop_at: 15 if stopped.state.step == at else None
        with pytest.raises(Interrupted):
            stopped.train()
        done = stopped.run.latest().read_json("state.json")["validated_step"]
        assert stopped.run.best() or not done
        resumed = start(**settings, validate=Pairs(*scores[done:]), run=stopped.run)
        state = resumed.train()
        assert (state.best_step, state.best_value) == (expected.best_step, expected.best_value)
        assert same(best(resumed), best(whole))


# The average of the last checkpoints


@pytest.mark.parametrize(("keep", "kept"), [(2, 3), (4, 4)])
def test_as_many_checkpoints_are_kept_as_the_average_needs_and_it_is_of_those(start, keep, kept):
    scores = Scores(4.0, 3.0, 2.0, 1.0, 0.5)
    current = start(keep=keep, average_last=3, validate=scores)
    current.train()
    steps = [4, 3, 2, 1]
    assert [point.step for point in current.run.checkpoints()] == steps[:kept]
    assert records(current, "average")[0]["of"] == steps[:3]
    points = [point.read_tensors("model.safetensors") for point in current.run.checkpoints()[:3]]
    for name, tensor in scores.shown[-1].items():
        torch.testing.assert_close(tensor, sum(point[name] for point in points) / 3)


def test_the_weights_before_training_are_no_part_of_the_average(start):
    current = start(average_last=5, validate=Scores(4.0, 3.0, 2.0, 1.0, 0.5))
    current.train()
    assert [point.step for point in current.run.checkpoints()] == [4, 3, 2, 1, 0]
    assert records(current, "average")[0]["of"] == [4, 3, 2, 1]


def test_the_average_is_of_what_a_run_saves_that_nothing_interrupts(start):
    """That is the last step too, and not one at which a signal came."""
    settings = {"max_steps": 5, "save_every": 2, "average_last": 3}
    stopped = start(**settings)
    stopped.stop = lambda: 15 if stopped.state.step == 3 else None
    with pytest.raises(Interrupted):
        stopped.train()
    resumed = start(**settings, run=stopped.run)
    resumed.train()
    assert records(resumed, "average")[0]["of"] == [5, 4, 2]


@pytest.mark.parametrize(("score", "shown"), [(0.5, 4), (1.5, 3), (math.nan, 3)])
def test_the_average_is_the_best_model_only_if_it_scores_better(start, score, shown):
    scores = Scores(4.0, 3.0, 2.0, 1.0, score)
    current = start(average_last=3, validate=scores)
    current.train()
    assert len(scores.shown) == 5
    assert same(best(current), scores.shown[shown])
    assert current.run.best().manifest["is_average"] is (shown == 4)


@pytest.mark.parametrize("count", [2, 3])
def test_after_the_average_the_model_has_its_own_weights_again(start, count):
    scores = Scores(4.0, 3.0, 2.0, 1.0, 0.5)
    current = start(average_last=count, validate=scores)
    current.train()
    own = current.run.latest().read_tensors("model.safetensors")
    assert same(weights(current.model), own)
    assert not same(scores.shown[-1], own)
