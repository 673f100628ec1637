"""Tiny Shakespeare, character by character, as regard prepares and batches it: nanoGPT's 6 x 6 x 384."""

from typing import Any, cast

from torch import Tensor

from benchmarks.common.program import BUILD
from benchmarks.work.flops import TextShape
from regard.models.decoder_only import DecoderOnlyConfig
from regard.training.objective import LabelCrossEntropy
from regard.verbs.recipes import recipe_path
from regard.verbs.shared.settings import load_recipe
from regard.verbs.tasks.language_model import prepare
from regard.verbs.tasks.task import Task

ROWS = 16  # blocks of 256 characters in a batch: what a CPU does in two seconds
RECIPE = "shakespeare-char"
ignored = -100
SHAPE = [
    "training.max_steps=1000000",
    "training.validate_every=1000000",
    "training.save_every=1000000",
    "training.report_every=1000",
    "training.schedule.kind=constant",
    "training.schedule.final=0",
    "training.schedule.learning_rate=0.001",
    "training.schedule.warmup_steps=1",
]


def training_task(dropout: str, *, small: bool = False) -> Task:
    """The task of the recipe, its data prepared, once, under build/.

    `dropout`: 0.2 of embeddings, of sub-layers and of attention weights, as nanoGPT has it; or all but
    the last, or none. `small`: batches of 2 blocks.
    """
    rates = {"everywhere": (0.2, 0.2), "paper": (0.2, 0.0), "none": (0.0, 0.0)}[dropout]
    rows = 2 if small else ROWS
    overrides = [
        *SHAPE,
        f"batches.batch_tokens={rows * 256}",
        f"model.dropout={rates[0]}",
        f"model.attention_dropout={rates[1]}",
    ]
    source = load_recipe(recipe_path(RECIPE), overrides)
    BUILD.mkdir(parents=True, exist_ok=True)
    return prepare(source, BUILD / "texts", say=lambda text: None)


def shape_of(config: Any) -> TextShape:
    config = cast(DecoderOnlyConfig, config)
    return TextShape(
        d_model=config.d_model, d_ff=config.d_ff, layers=config.num_layers, vocab_size=config.vocab_size
    )


def labels(batch: Any) -> Tensor:
    return batch.labels


def flop(config: Any, batch: Any) -> float:
    return shape_of(config).training(*batch.ids.shape)


def nll(model: Any, batch: Any) -> Tensor:
    return LabelCrossEntropy()(model, batch).nll / batch.num_targets
