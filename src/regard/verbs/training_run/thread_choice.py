"""The number of CPU threads of a run: measured once, so that a resumed run has the same bits."""

import itertools
import json
from collections.abc import Callable

import torch

from regard.data.loader import Loader
from regard.distributed.group import SINGLE
from regard.distributed.replicated import ReplicatedModel
from regard.fast.training import fused
from regard.models.model import Model
from regard.models.restored import restored
from regard.training.gradients import Gradients
from regard.training.objective import Objective
from regard.training.settings import TrainingSettings
from regard.training.threads import choose_threads
from regard.verbs.tasks.task import Say
from regard.weights.checkpoint import RunFolder
from regard.weights.strict_json import read_json

THREADS = "threads.json"  # file of a run folder: the number of threads
BATCHES = 4  # to measure with


def set_threads(run: RunFolder, measure: Callable[[], int], say: Say) -> None:
    """Set PyTorch's threads to the run's number, which `measure` returns if the run has none yet.

    A run that an older version began keeps PyTorch's number.
    """
    path, most = run.path / THREADS, torch.get_num_threads()
    if not path.is_file():
        chosen = most if run.latest() else measure()
        run.write_text(THREADS, json.dumps({"threads": chosen}) + "\n")
        if chosen != most:
            say(f"threads: {chosen}, because {most} are not faster here now; --threads sets the number")
    count = read_json(path)["threads"]
    if count > most:
        say(f"threads: {most}, since this process cannot have {count} as before; results will differ in bits")
    torch.set_num_threads(min(count, most))


def measured_threads(model: Model, objective: Objective, loader: Loader, settings: TrainingSettings) -> int:
    """The number of threads with which gradients are computed fastest; the model does not change."""
    most = torch.get_num_threads()
    if model.device.type != "cpu" or most == 1:
        return most
    gradients = Gradients(
        ReplicatedModel(model, SINGLE),
        objective,
        model.device,
        settings.precision,
        recompute=settings.recompute_activations,
    )
    batches = itertools.cycle(list(itertools.islice(loader.epoch(), BATCHES)))
    with torch.random.fork_rng(devices=[]), fused(model), restored(model):
        model.train()
        chosen = choose_threads(lambda: gradients([next(batches)], model.zero_grad), most)
        model.zero_grad()
    return chosen
