"""Multi30k, English to German, as regard prepares and batches it: the work of training and decoding."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from benchmarks.common.program import BUILD
from benchmarks.work.flops import PairShape
from regard.data.batch import PairBatch
from regard.data.catalogue import find_file
from regard.data.files import read_lines
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.training.objective import CrossEntropy
from regard.verbs.recipes import recipe_path
from regard.verbs.shared.settings import load_recipe
from regard.verbs.tasks.task import Task
from regard.verbs.tasks.translation import prepare
from regard.verbs.train import train
from regard.weights.checkpoint import RunFolder

ignored = 0  # the padding of regard's tokenisers
RECIPE = "multi30k-en-de"
SHAPE = [  # the workload of every figure in training; peers have no average of weights
    "model.d_model=256",  # and the paper's parts, whatever the recipe has
    "model.num_heads=4",
    "model.d_ff=1024",
    "model.num_encoder_layers=3",
    "model.num_decoder_layers=3",
    "model.norm_position=post",
    "model.norm=layer",
    "model.activation=relu",
    "model.positions=sinusoidal",
    "tokenizer.vocab_size=8000",
    "tokenizer.dropout=0.0",
    "batches.batch_tokens=4096",
    "training.max_steps=1000000",
    "training.validate_every=1000000",
    "training.save_every=1000000",
    "training.report_every=1000",
    "training.moving_average=0.0",
    "training.best_metric=loss",
    "training.schedule.kind=constant",
    "training.schedule.learning_rate=0.0005",
    "training.schedule.warmup_steps=1",
    "training.schedule.cooldown=0.0",
]


UPDATES = 1500  # to train the model of the decoding benchmark: nine minutes of two cores
TRAINED = [  # settings that learn most in so few updates, of parts that all contenders have
    *SHAPE,
    "model.norm_position=pre",
    "model.dropout=0.1",
    "batches.batch_tokens=2048",
    f"training.max_steps={UPDATES}",
    f"training.validate_every={UPDATES}",
    "training.save_every=250",
    "training.report_every=250",
    "training.schedule.kind=cosine",
    "training.schedule.learning_rate=0.002",
    "training.schedule.warmup_steps=150",
]


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Sentences to translate, and their references."""

    sources: list[str]
    references: list[str]


def training_task(dropout: str, *, small: bool = False) -> Task:
    """The task of the workload: see `prepared_task`."""
    return prepared_task(dropout, small=small)


def prepared_task(dropout: str, *, small: bool, more: Sequence[str] = ()) -> Task:
    """The task of the recipe in the workload's shape, its data prepared, once, under build/.

    `dropout`: 0.1 where section 5.4 of the paper has it, or of attention weights and inside the
    feed-forward layers too. `small`: batches of 512 tokens, to see that everything works.
    `more`: further settings of the recipe.
    """
    rate = 0.1 if dropout == "everywhere" else 0.0
    overrides = [
        *SHAPE,
        "model.dropout=0.1",
        f"model.attention_dropout={rate}",
        f"model.activation_dropout={rate}",
        *(["batches.batch_tokens=512"] if small else []),
    ]
    source = load_recipe(recipe_path(RECIPE), [*overrides, *more])
    BUILD.mkdir(parents=True, exist_ok=True)
    return prepare(source, BUILD / "pairs", say=lambda text: None)


def trained_model(workers: int) -> Path:
    """A model of the workload's size that has learned to translate; trained once, under build/."""
    run = BUILD / "trained-pairs"
    newest = RunFolder(run).latest() if run.exists() else None
    if newest is None or newest.step < UPDATES:
        train(recipe_path(RECIPE), out=run, overrides=TRAINED, threads=1, workers=workers)
    return run / "best"


def held_out(data_set: str) -> HeldOut:
    """test_2016_flickr of `multi30k_tok`, lower-cased and tokenised, or of `multi30k`, as it was written."""
    sides = [list(read_lines(find_file(f"{data_set}:test_2016_flickr.{side}"))) for side in ("en", "de")]
    return HeldOut(sources=sides[0], references=sides[1])


def shape_of(config: Any) -> PairShape:
    config = cast(EncoderDecoderConfig, config)
    return PairShape(
        d_model=config.d_model,
        d_ff=config.d_ff,
        encoder_layers=config.num_encoder_layers,
        decoder_layers=config.num_decoder_layers,
        vocab_size=config.tgt_vocab_size,
    )


def labels(batch: PairBatch) -> Tensor:
    return batch.labels


def flop(config: Any, batch: PairBatch) -> float:
    lengths = zip(batch.src_lengths.tolist(), (batch.tgt_lengths - 1).tolist(), strict=True)
    return shape_of(config).training(lengths)


def nll(model: Any, batch: PairBatch) -> Tensor:
    return CrossEntropy(pad_id=ignored)(model, batch).nll / batch.num_targets
