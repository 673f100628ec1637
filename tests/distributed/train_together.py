"""One of several processes that train small runs together; started by test_together.py."""

import contextlib
import dataclasses
import faulthandler
import hashlib
import json
import sys
from pathlib import Path

import torch

from regard.data.corpus import CorpusSettings, LinePolicy, open_corpus
from regard.data.examples import PairExamples
from regard.data.loader import Loader, LoaderSettings
from regard.data.process_share import ProcessShare
from regard.data.shards import write_shards
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizers
from regard.distributed.distributed_model import distribute
from regard.distributed.group import Group, join, leave
from regard.distributed.rank import Rank
from regard.distributed.settings import DistributedSettings
from regard.errors import Interrupted, UserError
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.training.collapse import DISTINCT, CollapseSettings
from regard.training.objective import CrossEntropy
from regard.training.schedule import ScheduleSettings
from regard.training.settings import TrainingSettings
from regard.training.share_objective import ShareObjective
from regard.training.trainer import Trainer
from regard.weights.checkpoint import RunFolder
from regard.weights.tensors import model_tensors

DEFAULTS = {
    "strategy": "ddp",
    "stop": 0,  # step at which the last process hears a signal
    "dropout": 0.0,
    "steps": 6,
    "batch_tokens": 50,  # seven rows, and one is left of fifty
    "double": False,
    "mean": False,  # the objective returns the mean over its targets
    "collapses": False,  # outputs that are all the same, until the rate is halved
    "average_last": 0,
    "again": False,  # the last checkpoint is written again, by these processes
    "log": "",  # a file for the lines that each process reads
}


def main(folder: Path, place: Rank, runs: dict[str, dict]) -> None:
    torch.set_num_threads(1)
    group = join(place)
    found = {"received": group.all_gather(["ä", group.rank])}
    for name, wanted in runs.items():
        run = RunFolder(folder / name)
        with run.lock() if group.is_first else contextlib.nullcontext():
            group.barrier()
            found[name] = train(run, group, {**DEFAULTS, **wanted})
    print(json.dumps(found))
    leave()


def train(run: RunFolder, group: Group, wanted: dict) -> dict:
    """Trains or resumes a run; returns its results."""
    examples = read(run.path.with_name("data"), group)
    model = build_model(config(wanted["dropout"]), seed=1)
    if wanted["double"]:
        model.double()
    reports = []
    settings = TrainingSettings(
        max_steps=wanted["steps"],
        report_every=1,
        save_every=wanted["steps"] // max(1, wanted["average_last"]),
        validate_every=wanted["steps"],
        clip_norm=1.0,
        moving_average=0.9,
        average_last=wanted["average_last"],
        schedule=ScheduleSettings(warmup_steps=2, learning_rate=0.01),
    )
    if wanted["collapses"]:
        settings = dataclasses.replace(
            settings, validate_every=2, save_every=2, collapse=CollapseSettings(after=0)
        )

    def validate(model):
        held_out = Loader(examples, LoaderSettings(batch_tokens=100), seed=2)
        losses = [objective(model, batch) for batch in held_out.epoch()]
        loss = {"loss": float(sum(loss.nll.double() for loss in losses))}
        if not wanted["collapses"]:
            return loss
        retries = trainer.state.watch.retries
        return {"loss": 1 / trainer.state.step, DISTINCT: 90.0 if retries else 1.0}

    shared = ProcessShare(examples, group.rank, group.size) if group.size > 1 else examples
    objective = mean_of_targets if wanted["mean"] else CrossEntropy(smoothing=0.1)
    strategy = distribute(model, DistributedSettings(strategy=wanted["strategy"]), group)
    trainer = Trainer(
        model,
        ShareObjective(objective),
        Loader(
            Logged(shared, wanted["log"], group.rank),
            LoaderSettings(batch_tokens=wanted["batch_tokens"]),
            seed=1,
        ),
        settings,
        run,
        {},
        validate=validate,
        report=reports.append,
        distributed=strategy,
    )
    # only one process hears of the signal, and all stop
    last = group.rank == group.size - 1
    trainer.stop = lambda: 15 if wanted["stop"] and last and trainer.state.step == wanted["stop"] else None
    try:
        trainer.train()
    except Interrupted:
        pass
    except UserError as error:
        return {"error": error.message}
    if wanted["again"]:
        trainer._saved_step = None
        trainer._save()
    held = sum(
        weight.to_local().numel() if hasattr(weight, "to_local") else weight.numel()
        for weight in model.parameters()
    )
    weights = hashlib.sha256()
    for tensor in model_tensors(model).values():
        whole = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
        weights.update(whole.detach().numpy().tobytes())
    return {"weights": weights.hexdigest(), "reports": reports, "held": held}


def mean_of_targets(model, batch):
    found = CrossEntropy()(model, batch)
    return dataclasses.replace(found, total=found.total / found.num_targets)


def read(folder: Path, group: Group) -> PairExamples:
    corpus = open_corpus(CorpusSettings(synthetic="reverse", size=50, length=6), LinePolicy(), folder)
    with group.first_alone():
        if not folder.exists():
            tokenizers = train_tokenizers(corpus, TokenizerSettings(kind="words"))
            write_shards(corpus, tokenizers, folder, max_tokens=20)
    return PairExamples(folder, 0)


def config(dropout: float) -> EncoderDecoderConfig:
    return EncoderDecoderConfig(
        src_vocab_size=14,
        tgt_vocab_size=14,
        d_model=16,
        num_heads=2,
        d_ff=32,
        num_encoder_layers=1,
        num_decoder_layers=1,
        dropout=dropout,
        tied="all",
    )


class Logged:
    """Examples that record which of them are in each batch."""

    def __init__(self, examples, log: str, rank: int) -> None:
        self.examples, self.log, self.rank = examples, log, rank
        self.lengths = examples.lengths

    def __len__(self) -> int:
        return len(self.examples)

    def batch(self, examples, epoch):
        batch = self.examples.batch(examples, epoch)
        if self.log:
            with Path(self.log).open("a") as file:
                file.write(json.dumps([epoch, self.rank, batch.lines.tolist(), batch.num_targets]) + "\n")
        return batch


if __name__ == "__main__":
    faulthandler.enable()
    where, rendezvous_url, rank, size, text = sys.argv[1:]
    main(
        Path(where),
        Rank(rank=int(rank), size=int(size), local_rank=int(rank), rendezvous_url=rendezvous_url),
        json.loads(text),
    )
