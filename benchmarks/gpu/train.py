"""Training speed of a model on a GPU: target tokens a second, and the share of the card's peak in bfloat16.

    python -m benchmarks.gpu.train base|big|gpt2 [--device cuda] [--seconds S] [--tiny]

regard's update is the trainer's own: batches read ahead, fused forms, clipping, Adam. The peers have the same
weights and batches, which lie on the GPU already, autocast to bfloat16, clipping and PyTorch's fused Adam.
Batches are random, of the sizes of the papers. FLOPs are those of `benchmarks/work/flops.py`; padding does
not count.
"""

import argparse
import json
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.convert.to_hugging_face import pair_model, text_model
from benchmarks.convert.to_torch import transformer_weights
from benchmarks.gpu.card import memory_gib, peak, synchronize
from benchmarks.language import nanogpt
from benchmarks.training import marian
from benchmarks.training.plain import Translator
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

WARM_UP, SECONDS, TINY_SECONDS = 48, 15.0, 0.1
BATCHES, RATE = 8, 1e-4
PAIR_VOCABULARY, PAIR_TOKENS = 37_000, 25_000  # Vaswani et al. 2017, section 5.1
TEXT_VOCABULARY, TEXT_LENGTH, TEXT_ROWS = 50_304, 1024, 16  # GPT-2's, rounded up as nanoGPT does


@dataclass(frozen=True, kw_only=True)
class Work:
    config: Any
    objective: Objective
    batches: list[Batch]
    flops: list[float]  # of an update with each batch

    @property
    def num_targets(self) -> int:
        """Of all batches."""
        return sum(batch.num_targets for batch in self.batches)


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


Update = Callable[[int], Any]  # of the model, with the batch of this number


def regard(work: Work, device: torch.device, *, plain: bool = False) -> Generator[Update]:
    """regard's update; `plain`: without its fused forms."""
    model = build_model(work.config, seed=1).to(device).train()
    optimizer = build_optimizer(model, OptimizerSettings())
    gradients = Gradients(ReplicatedModel(model), work.objective, device, "auto")
    reader = BatchReader(Cycle(work.batches), 1, device, ignored_label(work.objective))  # type: ignore[arg-type]

    def update(step: int) -> LaunchedUpdate:
        return launch(
            reader.next(), step=step, rate=RATE, clip_norm=1.0, gradients=gradients, optimizer=optimizer,
            average=None,
        )  # fmt: skip

    try:
        with nullcontext() if plain else fused(model):
            yield update
    finally:
        reader.close()


def peer(
    model: nn.Module, logits: Callable[[nn.Module, Any], Tensor], work: Work, device: torch.device
) -> Generator[Update]:
    """The update of a plain loop."""
    model = model.to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, fused=True)
    smoothing, ignored = getattr(work.objective, "smoothing", 0.0), ignored_label(work.objective)
    batches = [batch.to(device) for batch in work.batches]

    def update(step: int) -> Tensor:
        batch: Any = batches[step % BATCHES]
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16):
            loss = F.cross_entropy(
                logits(model, batch).flatten(0, 1), batch.labels.flatten(), ignore_index=ignored or 0,
                label_smoothing=smoothing,
            )  # fmt: skip
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    yield update


def contenders(name: str, work: Work, device: torch.device) -> dict[str, Callable[[], Generator[Update]]]:
    """Whose updates are measured."""
    config, found = work.config, {"regard": lambda: regard(work, device)}
    weights = build_model(config, seed=1).state_dict()
    found["regard, modules as they are"] = lambda: regard(work, device, plain=True)
    if name == "gpt2":
        found["Hugging Face GPT-2"] = lambda: peer(
            text_model(config, weights),
            lambda model, batch: model(batch.ids, use_cache=False).logits,
            work,
            device,
        )
        found["nanoGPT, compiled"] = lambda: peer(
            cast(nn.Module, torch.compile(nanogpt.made(config, weights))),
            lambda model, batch: model(batch.ids),
            work,
            device,
        )
    else:
        found["Hugging Face Marian"] = lambda: peer(pair_model(config, weights), marian.logits, work, device)
        found["torch.nn.Transformer"] = lambda: peer(
            translator(config, weights), lambda model, batch: model(batch), work, device
        )
    return found


def translator(config: Any, weights: Any) -> nn.Module:
    model = Translator(config)
    model.load_state_dict(transformer_weights(config, weights))
    return model


def measured(
    work: Work, device: torch.device, make: Callable[[], Generator[Update]], seconds: float, tiny: bool
) -> dict[str, Any]:
    """Tokens a second over some seconds of updates."""
    memory_gib(device)
    updates = make()
    try:
        update = next(updates)
        for step in range(BATCHES if tiny else WARM_UP):
            update(step)
        synchronize(device)
        began, steps, found = time.perf_counter(), 0, None
        while steps % BATCHES or not steps or time.perf_counter() - began < seconds:
            found = update(steps)
            steps += 1
            if steps % BATCHES == 0:
                synchronize(device)
        took = time.perf_counter() - began
    finally:
        updates.close()
    return {
        "target_tokens_per_second": work.num_targets * steps / BATCHES / took,
        "updates_per_second": steps / took,
        "tflops": sum(work.flops) * steps / BATCHES / took / 1e12,
        "loss": loss_of(found),
        "memory_gib": memory_gib(device),
    }


def loss_of(found: Any) -> float:
    """The mean loss of an update."""
    if isinstance(found, LaunchedUpdate):
        numbers = found.read()
        return numbers.nll / numbers.num_targets
    return float(found.detach())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", choices=("base", "big", "gpt2"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each contender")
    parser.add_argument("--tiny", action="store_true")
    asked = parser.parse_args()
    device, seconds = torch.device(asked.device), TINY_SECONDS if asked.tiny else asked.seconds
    work = texts(asked.tiny) if asked.model == "gpt2" else pairs(asked.model, asked.tiny)
    speed, rows = peak(device, tiny=asked.tiny), []
    for name, make in contenders(asked.model, work, device).items():
        row: dict[str, Any] = {"model": asked.model, "form": name}
        try:
            row |= measured(work, device, make, seconds, asked.tiny)
            row["share_of_peak"] = row["tflops"] / speed["used"]
        except Exception as error:
            if name.startswith("regard"):
                raise
            row["failed"] = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        if device.type == "cuda":
            torch.cuda.empty_cache()
        rows.append(row)
    print(json.dumps({"peak_tflops": speed, "rows": rows}))


if __name__ == "__main__":
    main()
