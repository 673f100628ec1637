"""Train a model on examples in memory or on disk: the training loop without recipe and command line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.examples import Examples
from regard.data.loader import Loader, LoaderSettings
from regard.models.model import Model
from regard.training.objective import Objective
from regard.training.settings import TrainingSettings
from regard.training.state import TrainingState
from regard.training.trainer import Trainer, Validate
from regard.weights.checkpoint import RunFolder
from regard.weights.model_folder import model_files


def fit(
    model: nn.Module,
    examples: Examples,
    out: str | Path,
    *,
    objective: Objective,
    settings: TrainingSettings,
    batches: LoaderSettings | None = None,
    valid: Examples | None = None,
    validate: Validate | None = None,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> TrainingState:
    """Train `model` in place, and keep checkpoints, metrics and the best weights in the folder `out`.

    Called again with the same arguments, it continues from the newest checkpoint to the same bits.

    Args:
        model: a model of regard or any module whose outputs the objective understands.
        examples: what it is trained on, e.g. `SequencePairs` or `TensorExamples`.
        objective: the loss, e.g. `CrossEntropy()` for encoder-decoders, `LabelCrossEntropy()` for logits.
        settings: updates, learning rate, optimiser, how often to validate and to save.
        batches: size and order of batches.
        valid: examples whose loss, in nats a target, is measured; `examples` where there are none.
        validate: measures the model instead; it returns a dictionary with `loss`.
        report: called with each record of `out`/metrics.jsonl.

    Raises:
        Stopped: a signal asked to stop; the current step was saved.
        RunError: losses stayed non-finite after going back to a checkpoint.
    """
    batches = batches or LoaderSettings()
    files = model_files(model.config, (), {}, "") if isinstance(model, Model) else {}
    with RunFolder(out).lock() as run:
        trainer = Trainer(
            model,
            objective,
            Loader(examples, batches, seed=settings.seed),
            settings,
            run,
            files,
            validate=validate or _mean_loss(objective, valid or examples, batches),
            report=report or (lambda record: None),
        )
        return trainer.train()


def _mean_loss(objective: Objective, examples: Examples, settings: LoaderSettings) -> Validate:
    """Validation by the mean negative log-likelihood of all targets of `examples`."""

    def validate(model: nn.Module) -> dict[str, float]:
        device = next(model.parameters()).device
        loader = Loader(examples, settings, seed=0)
        nll, targets = torch.zeros((), dtype=torch.float64), 0
        for batch in loader.epoch():
            loss = objective(model, batch.to(device))
            nll += loss.nll.double().cpu()
            targets += loss.num_targets
        return {"loss": float(nll) / max(1, targets)}

    return validate
