"""Memory by corpus size: a corpus is tokenised to shards, read once, and trained on for some updates.

Measured is the peak of anonymous resident memory. Pages of mapped files do not count, because the system can
drop them at any time.
"""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.common.memory import peak_memory
from regard.data.corpus import CorpusSettings, LinePolicy, open_corpus
from regard.data.examples import PairExamples
from regard.data.loader import Loader, LoaderSettings
from regard.data.shards import write_shards
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizers
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.training.objective import CrossEntropy
from regard.training.settings import TrainingSettings
from regard.training.trainer import Trainer
from regard.weights.checkpoint import RunFolder

WORDS = 20_000
NEVER = 10**9


class Corpus:
    """The contender for one corpus size; each size has its own process, so that its memory is its own."""

    def __init__(self, *, lines: int, folder: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self._lines, self._folder = lines, Path(folder)
        self._corpus = open_corpus(
            CorpusSettings(source="source", target="target"), LinePolicy(), self._folder
        )
        self._tokenizers = train_tokenizers(self._corpus.first(20_000), TokenizerSettings(vocab_size=8000))

    def tokenise(self) -> dict[str, Any]:
        shards = self._folder / "shards"
        return _measured(lambda: write_shards(self._corpus, self._tokenizers, shards, max_tokens=256))

    def read(self) -> dict[str, Any]:
        """One epoch of batches."""
        loader = self._loader()
        return _measured(lambda: sum(len(batch) for batch in loader.epoch(0)))  # type: ignore[arg-type]

    def train(self, updates: int) -> dict[str, Any]:
        settings = TrainingSettings(
            max_steps=updates, validate_every=NEVER, save_every=NEVER, report_every=NEVER
        )
        size = self._tokenizers.source.vocab_size
        config = EncoderDecoderConfig.from_table({"preset": "tiny"}, src_vocab_size=size, tgt_vocab_size=size)
        trainer = Trainer(
            build_model(config, seed=1),
            CrossEntropy(smoothing=0.1),
            self._loader(),
            settings,
            RunFolder(self._folder / "run"),
            {},
            validate=lambda model: {"loss": 0.0},
            report=lambda record: None,
        )
        return _measured(trainer.train)

    def _loader(self) -> Loader:
        examples = PairExamples(self._folder / "shards", self._tokenizers.target.pad_id)
        return Loader(examples, LoaderSettings(batch_tokens=1024), seed=1)


def _measured(work: Callable[[], Any]) -> dict[str, Any]:
    began = time.perf_counter()
    with peak_memory() as peak:
        work()
    return {"seconds": time.perf_counter() - began, "peak": peak[0]}


def write_corpus(folder: Path, lines: int) -> None:
    """Random sentences of 4 to 24 words, whose frequencies follow Zipf's law: 1/n for the n-th word."""
    draw = random.Random(1)
    words = ["".join(draw.choices("aeiounrstlmd", k=draw.randint(2, 10))) for _ in range(WORDS)]
    weights = [1 / (rank + 10) for rank in range(WORDS)]
    with (folder / "source").open("w") as source, (folder / "target").open("w") as target:
        for _ in range(lines // 1000 + 1):
            drawn = iter(draw.choices(words, weights, k=48_000))
            for _ in range(min(1000, lines)):
                for file in (source, target):
                    file.write(" ".join(next(drawn) for _ in range(draw.randint(4, 24))) + "\n")
            lines -= min(1000, lines)
