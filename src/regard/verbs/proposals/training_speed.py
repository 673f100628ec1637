"""The training speed of a model on this machine, measured by real updates on a sample of the corpus."""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard.data.batch import Batch, PairBatch, collate
from regard.data.corpus import Pair
from regard.data.images import ImageExamples
from regard.data.loader import bucket_by_length
from regard.data.tokenizer import TokenizerPair
from regard.distributed.group import SINGLE
from regard.distributed.replicated import ReplicatedModel
from regard.fast.training import fused
from regard.models.model import Model
from regard.training.gradients import Gradients
from regard.training.objective import CrossEntropy, LabelCrossEntropy, Objective
from regard.training.optimizer import OptimizerSettings, build_optimizer
from regard.training.products import choose_precision, matmul_precision
from regard.training.settings import TrainingSettings
from regard.training.threads import choose_threads
from regard.training.threads import threads as with_threads
from regard.weights.average import MovingAverage

TIMED_PAIRS = 4000  # to tokenise and train on
TIMED_SECONDS = 3.0  # of timed updates
WARM_UP = 2  # updates that are not timed, since they allocate memory and compile kernels
MIN_UPDATES = 3


@dataclass(frozen=True, kw_only=True)
class Speed:
    """The training speed of one model on this machine."""

    target_tokens_per_second: float
    target_tokens_per_update: float
    target_tokens_per_pair: float
    threads: int  # with which it was measured


def timed_pairs(pairs: Sequence[Pair]) -> Sequence[Pair]:
    """`TIMED_PAIRS` of the pairs at most, evenly spaced, since a file may be sorted by length."""
    return pairs[:: -(-len(pairs) // TIMED_PAIRS)]


def measure_speed(
    model: Model,
    tokenizers: TokenizerPair,
    batch_tokens: int,
    pairs: Sequence[Pair],
    device: torch.device,
    threads: int | None = None,
) -> Speed:
    """Measure the training speed of a model on `pairs` for some seconds; its weights change.

    Args:
        threads: CPU threads; None is the number with which it is fastest, up to PyTorch's.
    """
    batches = _batches(pairs, tokenizers, batch_tokens)
    model = model.to(device).train()
    objective = CrossEntropy(smoothing=0.1, pad_id=tokenizers.target.pad_id)
    tokens_per_second, count = _timed(model, objective, batches, device, threads)
    targets = sum(batch.num_targets for batch in batches)
    return Speed(
        target_tokens_per_second=tokens_per_second,
        target_tokens_per_update=targets / len(batches),
        target_tokens_per_pair=targets / len(pairs),
        threads=count,
    )


def measure_image_speed(
    model: Model, images: ImageExamples, batch_size: int, device: torch.device, threads: int | None = None
) -> Speed:
    """Measure the training speed of an image classifier; targets are images. Its weights change."""
    order = np.random.default_rng(1).permutation(len(images))
    batches = [images.batch(order[at : at + batch_size], 0) for at in range(0, len(order), batch_size)]
    model = model.to(device).train()
    per_second, count = _timed(model, LabelCrossEntropy(smoothing=0.0), batches, device, threads)
    return Speed(
        target_tokens_per_second=per_second,
        target_tokens_per_update=float(batch_size),
        target_tokens_per_pair=1.0,
        threads=count,
    )


def _timed(
    model: Model, objective: Objective, batches: Sequence[Batch], device: torch.device, threads: int | None
) -> tuple[float, int]:
    """The targets per second of updates, and the CPU threads with which they were timed."""
    with torch.random.fork_rng(), fused(model):
        setting = choose_precision("auto", model.config.d_model, device)
        with matmul_precision(setting):
            update = _update(model, objective, batches, device)
            most = torch.get_num_threads()
            count = threads or (choose_threads(update, most) if device.type == "cpu" else most)
            with with_threads(count):
                return _measure(update), count


def _batches(pairs: Sequence[Pair], tokenizers: TokenizerPair, batch_tokens: int) -> list[PairBatch]:
    """The pairs as the loader batches them, in a random order."""
    source, target = tokenizers.source, tokenizers.target
    sources = [[*ids, source.eos_id] for ids in source.encode_batch([pair.source for pair in pairs])]
    targets = [
        [target.bos_id, *ids, target.eos_id] for ids in target.encode_batch([pair.target for pair in pairs])
    ]
    first = np.array([len(ids) - 1 for ids in targets])  # of the decoder's input, as the loader counts
    second = np.array([len(ids) for ids in sources])
    groups = bucket_by_length(np.arange(len(pairs)), first, second, batch_tokens)
    order = np.random.default_rng(1).permutation(len(groups))
    return [
        collate(
            [sources[i] for i in groups[number]],
            [targets[i] for i in groups[number]],
            [pairs[i].line for i in groups[number]],
            pad_id=target.pad_id,
        )
        for number in order
    ]


def _update(
    model: Model, objective: Objective, batches: Sequence[Batch], device: torch.device
) -> Callable[[], int]:
    """An update like the trainer's, of the next batch; it returns the number of target tokens."""
    distributed = ReplicatedModel(model, SINGLE)
    gradients = Gradients(distributed, objective, device, TrainingSettings.precision)
    optimizer, average = build_optimizer(model, OptimizerSettings()), MovingAverage(model, 0.99)
    endless = itertools.cycle(batches)

    def update() -> int:
        optimizer.zero_grad(set_to_none=True)
        # reads the loss, and so waits for the GPU as training does
        _, targets, _ = gradients([next(endless).to(device)], optimizer.zero_grad)
        distributed.clip(1.0)
        optimizer.step()
        average.update(model)
        return targets

    return update


def _measure(update: Callable[[], int]) -> float:
    """The target tokens per second of updates."""
    for _ in range(WARM_UP):
        update()
    start = time.perf_counter()
    updates = targets = 0
    while updates < MIN_UPDATES or time.perf_counter() - start < TIMED_SECONDS:
        targets += update()
        updates += 1
    return targets / (time.perf_counter() - start)
