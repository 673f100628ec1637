"""Training speed of a model on a GPU: target tokens a second, and the share of the card's peak in bfloat16.

    python -m benchmarks.gpu.train base|big|gpt2 [--device cuda] [--tiny]

The update is the trainer's own: batches read ahead, fused forms, clipping, Adam; batches are random, of the
sizes of the papers. FLOPs are those of `benchmarks/work/flops.py`; padding does not count.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.card import memory_gib, peak, synchronize
from benchmarks.work.flops import PairShape, TextShape
from regard.data.batch import Batch, collate
from regard.data.loader import Cursor
from regard.data.token_stream import TextBatch
from regard.distributed.replicated import ReplicatedModel
from regard.fast.training import fused
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.training.gradients import Gradients
from regard.training.launch import LaunchedUpdate, launch
from regard.training.objective import CrossEntropy, NextToken, Objective, ignored_label
from regard.training.optimizer import OptimizerSettings, build_optimizer
from regard.training.prefetch import BatchReader

WARM_UP, SECONDS, TINY_SECONDS = 20, 30.0, 0.1
BATCHES = 8
PAIR_VOCABULARY, PAIR_TOKENS = 37_000, 25_000  # Vaswani et al. 2017, section 5.1
TEXT_VOCABULARY, TEXT_LENGTH, TEXT_ROWS = 50_304, 1024, 16  # GPT-2's, rounded up as nanoGPT does


@dataclass(frozen=True, kw_only=True)
class Work:
    config: Any
    objective: Objective
    batches: list[Batch]
    flops: list[float]  # of an update with each batch


class Cycle:
    """The batches again and again, as a loader."""

    def __init__(self, batches: list[Batch]) -> None:
        self._batches, self.cursor = batches, Cursor()

    def __iter__(self) -> Iterator[Batch]:
        while True:
            yield from self._batches


def pairs(preset: str, tiny: bool) -> Work:
    vocabulary, tokens = (100, 200) if tiny else (PAIR_VOCABULARY, PAIR_TOKENS)
    small = {"d_model": 32, "num_heads": 4, "d_ff": 64, "num_encoder_layers": 1, "num_decoder_layers": 1}
    table = {"preset": preset, **(small if tiny else {})}
    config = EncoderDecoderConfig.from_table(table, src_vocab_size=vocabulary, tgt_vocab_size=vocabulary)
    random = np.random.default_rng(0)
    shape = PairShape(
        d_model=config.d_model,
        d_ff=config.d_ff,
        encoder_layers=config.num_encoder_layers,
        decoder_layers=config.num_decoder_layers,
        vocab_size=vocabulary,
    )
    batches, flops = [], []
    for longest in random.integers(12, 64, BATCHES):
        lengths = random.integers(max(4, longest - 6), longest + 1, (tokens // longest + 1, 2))
        sides = [[random.integers(4, vocabulary, length) for length in lengths[:, side]] for side in range(2)]
        targets = [np.concatenate([[2], ids, [3]]) for ids in sides[1]]
        batches.append(collate(sides[0], targets, np.arange(1, len(lengths) + 1), pad_id=0))
        flops.append(shape.training([(source, target + 1) for source, target in lengths.tolist()]))
    return Work(config=config, objective=CrossEntropy(smoothing=0.1), batches=batches, flops=flops)


def texts(tiny: bool) -> Work:
    vocabulary, length, rows = (100, 32, 4) if tiny else (TEXT_VOCABULARY, TEXT_LENGTH, TEXT_ROWS)
    small = {"d_model": 32, "num_heads": 4, "d_ff": 64, "num_layers": 1}
    table = {"dropout": 0.0, "attention_dropout": 0.0, **(small if tiny else {})}  # as nanoGPT trains it
    config = DecoderOnlyConfig.from_table(table, vocab_size=vocabulary)
    generator = torch.Generator().manual_seed(0)
    batches: list[Batch] = []
    for _ in range(BATCHES):
        ids = torch.randint(4, vocabulary, (rows, length + 1), generator=generator)
        batches.append(
            TextBatch(ids=ids[:, :-1], labels=ids[:, 1:], documents=None, lines=torch.arange(1, rows + 1))
        )
    shape = TextShape(
        d_model=config.d_model, d_ff=config.d_ff, layers=config.num_layers, vocab_size=vocabulary
    )
    return Work(
        config=config, objective=NextToken(), batches=batches, flops=[shape.training(rows, length)] * BATCHES
    )


def measured(work: Work, device: torch.device, *, compiled: bool, tiny: bool) -> dict[str, Any]:
    """Tokens a second and their share of the peak, over some seconds of updates."""
    model = build_model(work.config, seed=1).to(device).train()
    if compiled:
        for name, module in model.named_modules():
            if name.rpartition(".")[0].endswith("blocks"):
                module.compile(dynamic=True)
    optimizer = build_optimizer(model, OptimizerSettings())
    gradients = Gradients(ReplicatedModel(model), work.objective, device, "auto")
    reader = BatchReader(Cycle(work.batches), 1, device, ignored_label(work.objective))  # type: ignore[arg-type]

    def update(step: int) -> LaunchedUpdate:
        return launch(
            reader.next(), step=step, rate=1e-4, clip_norm=1.0, gradients=gradients, optimizer=optimizer,
            average=None,
        )  # fmt: skip

    warm_up, seconds = (BATCHES, TINY_SECONDS) if tiny else (WARM_UP, SECONDS)
    memory_gib(device)
    try:
        with nullcontext() if compiled else fused(model):
            for step in range(warm_up * (4 if compiled else 1)):
                last = update(step)
            last.read()
            return _timed(update, work, device, seconds)
    finally:
        reader.close()


def _timed(
    update: Callable[[int], LaunchedUpdate], work: Work, device: torch.device, seconds: float
) -> dict[str, Any]:
    synchronize(device)
    began, steps, tokens, loss = time.perf_counter(), 0, 0, 0.0
    while steps % BATCHES or not steps or time.perf_counter() - began < seconds:
        launched = update(steps)
        steps += 1
        if steps % BATCHES == 0:
            found = launched.read()
            tokens += sum(batch.num_targets for batch in work.batches)
            loss = found.nll / found.num_targets
    synchronize(device)
    took = time.perf_counter() - began
    return {
        "target_tokens_per_second": tokens / took,
        "updates_per_second": steps / took,
        "tflops": sum(work.flops) * steps / BATCHES / took / 1e12,
        "loss": loss,
        "memory_gib": memory_gib(device),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", choices=("base", "big", "gpt2"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    asked = parser.parse_args()
    device = torch.device(asked.device)
    work = texts(asked.tiny) if asked.model == "gpt2" else pairs(asked.model, asked.tiny)
    speed, rows = peak(device, tiny=asked.tiny), []
    for compiled in (False,) if asked.tiny else (False, True):
        row: dict[str, Any] = {"model": asked.model, "form": "compiled blocks" if compiled else "as trained"}
        try:
            row |= measured(work, device, compiled=compiled, tiny=asked.tiny)
            row["share_of_peak"] = row["tflops"] / speed["used"]
        except Exception as error:
            if not compiled:
                raise
            row["failed"] = f"{type(error).__name__}: {str(error).splitlines()[:1]}"
        rows.append(row)
    print(json.dumps({"peak_tflops": speed, "rows": rows}))


if __name__ == "__main__":
    main()
