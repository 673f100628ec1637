"""One of several processes that train a model of 44 M parameters; the memory of each phase, for ranks.py.

    ranks_memory.py FOLDER URL RANK SIZE STRATEGY STEPS

The first process prints JSON, in MB: the size of the model; `peak`, the most memory of a process beyond what
it had before the model was built; and the most that a phase needed beyond what the process had before.
"""

import contextlib
import json
import sys
from pathlib import Path

import torch

from regard.data.loader import Loader, LoaderSettings
from regard.data.memory_examples import SequencePairs
from regard.data.process_share import ProcessShare
from regard.distributed.distributed_model import distribute
from regard.distributed.group import join, leave
from regard.distributed.rank import Rank
from regard.distributed.settings import DistributedSettings
from regard.models.build import build_model, build_uninitialised, count_parameters
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.training.objective import CrossEntropy
from regard.training.schedule import ScheduleSettings
from regard.training.settings import TrainingSettings
from regard.training.share_objective import ShareObjective
from regard.training.trainer import Trainer
from regard.weights.checkpoint import RunFolder

MB = 2**20
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
extra: dict[str, int] = {"peak": 0}


def resident(kind: str) -> int:
    """Memory in bytes: now (VmRSS), or the most since the last reset (VmHWM)."""
    [line] = [line for line in STATUS.read_text().splitlines() if line.startswith(f"{kind}:")]
    return int(line.split()[1]) * 1024


def measured(name: str):
    """Replaces a method of the trainer by one that measures its memory."""
    plain = getattr(Trainer, name)

    def method(self, *given):
        extra["peak"] = max(extra["peak"], resident("VmHWM") - base)
        RESET.write_text("5")
        before = resident("VmRSS")
        found = plain(self, *given)
        extra[name] = max(extra.get(name, 0), resident("VmHWM") - before)
        return found

    setattr(Trainer, name, method)


def main(folder: Path, process: Rank, strategy: str, steps: int) -> None:
    torch.set_num_threads(1)
    for name in ("_save", "_validate", "restore"):
        measured(name)
    group = join(process)
    run = RunFolder(folder / strategy)
    with run.lock() if group.is_first else contextlib.nullcontext():
        group.barrier()
        trainer = prepared(run, group, strategy, steps)
        trainer.train()
    extra["peak"] = max(extra["peak"], resident("VmHWM") - base)
    found = group.all_gather(extra)
    if group.is_first:
        size = count_parameters(trainer.model) * 4
        most = {name: max(each[name] for each in found) for name in extra}
        print(json.dumps({name: round(value / MB) for name, value in {"model": size, **most}.items()}))
    leave()


def prepared(run, group, strategy, steps):
    texts = [[number % 7 + 4] * 5 for number in range(8)]
    examples = SequencePairs(texts, texts)
    config = EncoderDecoderConfig(src_vocab_size=16, tgt_vocab_size=16, d_model=512, num_heads=8, d_ff=2048)
    model = build_uninitialised(config) if run.latest() else build_model(config, seed=1)
    objective = CrossEntropy()
    batches = list(Loader(examples, LoaderSettings(), seed=1).epoch())
    settings = TrainingSettings(
        max_steps=steps,
        save_every=steps,
        validate_every=steps,
        moving_average=0.9,
        schedule=ScheduleSettings(warmup_steps=2, learning_rate=0.001),
    )
    return Trainer(
        model,
        ShareObjective(objective),
        Loader(ProcessShare(examples, group.rank, group.size), LoaderSettings(), seed=1),
        settings,
        run,
        {},
        validate=lambda model: {"loss": sum(float(objective(model, each).nll) for each in batches)},
        report=lambda record: None,
        distributed=distribute(model, DistributedSettings(strategy=strategy), group),
    )


if __name__ == "__main__":
    where, url, rank, size, chosen, last = sys.argv[1:]
    here = Rank(rank=int(rank), size=int(size), local_rank=int(rank), rendezvous_url=url)
    base = resident("VmRSS")
    main(Path(where), here, chosen, int(last))
