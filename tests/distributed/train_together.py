"""One of several processes that train a small run together; started by test_group.py."""

import contextlib
import hashlib
import json
import sys
from pathlib import Path

import torch

from regard.data.corpus import CorpusSettings, LinePolicy, open_corpus
from regard.data.examples import PairExamples
from regard.data.loader import Loader, LoaderSettings
from regard.data.shards import write_shards
from regard.data.tokenizer import TokenizerSettings, train_tokenizers
from regard.distributed.group import SINGLE, join, leave
from regard.errors import Interrupted
from regard.models.build import build
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.training.objective import CrossEntropy
from regard.training.schedule import ScheduleSettings
from regard.training.settings import TrainingSettings
from regard.training.trainer import Trainer
from regard.weights.checkpoint import RunFolder
from regard.weights.tensors import model_tensors


def main(folder: Path, meeting: Path, size: int, stop: int, dropout: float, rank: int) -> None:
    torch.set_num_threads(1)
    group = join(rank, size, meeting) if size > 1 else SINGLE
    shards = folder.with_name(f"{folder.name}-data")
    corpus = open_corpus(CorpusSettings(synthetic="reverse", size=200, length=5), LinePolicy(), folder)
    with group.first_alone():
        tokenizers = train_tokenizers(corpus, TokenizerSettings(kind="words"))
        write_shards(corpus, tokenizers, shards, max_tokens=20)
    vocab = tokenizers.source.vocab_size
    config = EncoderDecoderConfig(
        src_vocab_size=vocab,
        tgt_vocab_size=vocab,
        d_model=16,
        num_heads=2,
        d_ff=32,
        num_encoder_layers=1,
        num_decoder_layers=1,
        dropout=dropout,
    )
    settings = TrainingSettings(
        max_steps=6, report_every=1, save_every=6, validate_every=6, schedule=ScheduleSettings(warmup_steps=2)
    )
    reports = []
    run = RunFolder(folder)
    with run.lock() if group.is_first else contextlib.nullcontext():
        group.wait()
        trainer = Trainer(
            build(config, seed=1),
            CrossEntropy(),
            # all examples in one update, whatever the number of processes
            Loader(
                PairExamples(shards, 0),
                LoaderSettings(batch_tokens=2000 // size),
                seed=1,
                rank=rank,
                world_size=size,
            ),
            settings,
            run,
            {},
            validate=lambda model: {"loss": 1.0},
            report=lambda record: reports.append(record) if record["kind"] == "train" else None,
            group=group,
        )
        # only one process hears of the signal, and both stop
        trainer.stop = lambda: 15 if stop and rank == size - 1 and trainer.state.step == stop else None
        with contextlib.suppress(Interrupted):
            trainer.train()
    weights = hashlib.sha256()
    for tensor in model_tensors(trainer.model).values():
        weights.update(tensor.detach().numpy().tobytes())
    heard = group.all_values(["ä", rank])
    print(json.dumps({"weights": weights.hexdigest(), "heard": heard, "reports": reports}))
    leave()


if __name__ == "__main__":
    where, meet, count, at, drop, number = sys.argv[1:]
    main(Path(where), Path(meet), int(count), int(at), float(drop), int(number))
