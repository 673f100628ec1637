"""Train a model on examples in memory or on disk: the training loop without recipe and command line."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.examples import Examples
from regard.data.loader import Loader, LoaderSettings
from regard.errors import ConfigError, DataError, UserError
from regard.models.model import Model
from regard.registry import refuse_not_callable
from regard.registry import refuse_other_arguments as refuse_uncallable_with
from regard.training.collapse import collapse_warning, target_entropy
from regard.training.fit_settings import refuse_unused_settings
from regard.training.gradients import refuse_other_than_loss
from regard.training.losses import CustomLoss, chosen_loss
from regard.training.objective import (
    CrossEntropy,
    LabelCrossEntropy,
    NextToken,
    Objective,
    refuse_other_inputs,
    refuse_other_padding,
    refuse_unused_forward,
)
from regard.training.objective_trial import refuse_model_of_probabilities
from regard.training.products import choose_precision, matmul_precision
from regard.training.r_drop import refuse_without_dropout, with_r_drop
from regard.training.rate_warning import rate_warning
from regard.training.records import Report
from regard.training.run_arguments import (
    forget_what_changed,
    refuse_other_arguments,
    run_arguments,
    with_factor_of_run,
)
from regard.training.schedule import schedule_width
from regard.training.settings import METRICS, TrainingSettings
from regard.training.state import TrainingState
from regard.training.trainable import choose_trainable
from regard.training.trainer import Trainer, Validate
from regard.weights.checkpoint import RunFolder
from regard.weights.model_folder import model_files

TARGETS = 2_000  # from which the entropy is computed: examples may be slow to read


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

    Called again with the same arguments, it continues from the newest checkpoint to the same bits; with a
    larger `max_steps` it trains further. Other arguments need another folder (`run_arguments.py` says what
    is compared).

    Afterwards `model` has the weights of the last update. `out`/best/model.safetensors has those of the best
    validation, `best_value`; with `moving_average` they are averages, and `model` has the raw weights.

        best = RunFolder(out).best()  # of regard.weights
        model.load_state_dict(best.read_tensors("model.safetensors"))

    A tied weight is stored under one of its names; `load_model` of regard.weights loads a model of regard,
    without tokenisers.

    Args:
        model: a model of regard or any module whose outputs the objective understands.
        examples: what it is trained on, e.g. `SequencePairs` or `TensorExamples`.
        objective: the loss, e.g. `CrossEntropy()` for encoder-decoders, `LabelCrossEntropy()` for logits.
        settings: updates, learning rate, optimiser, how often to validate and to save. What the objective or
            the model decides is refused if it is not the default: `label_smoothing`, `adapter`,
            `distillation`. The default `label_smoothing` of 0.1 cannot be distinguished from one that was
            set: it is accepted, and smooths nothing here. `r_drop` needs an objective of logits and labels.
            `products = "auto"` leaves PyTorch's precision as it is. `freeze` holds during the call.
        batches: size and order of batches; `max_tokens` is not for examples that exist already.
        valid: examples whose loss, in nats a target, is measured; `examples` where there are none.
        validate: measures the model instead; it returns a dictionary with `best_metric`, e.g. `loss`. For a
            score of yours the setting has a sign: best_metric = "-perplexity" if less is better,
            "+agreement" if more is.
        report: called with each record of `out`/metrics.jsonl.

    Raises:
        DataError: an embedding of the model does not have an id (on a CPU).
        ConfigError: the objective does not call the `forward` that a model of yours overrides, or cannot use
            this model or these examples, or `pad_id` is not the same in all of them; or the model gives
            probabilities in place of logits.
        RecipeError: a setting that has no effect here, or an unknown metric.
        FolderError: `out` holds a run that began with other arguments, or one with more updates.
        UserError: the objective returns no loss or one without a gradient, `validate` returns no
            `best_metric`, or gradients are turned off.
        Stopped: a signal asked to stop; the current step was saved.
        RunError: losses stayed non-finite after going back to a checkpoint.
    """
    refuse_other_inputs(model, objective, examples)
    for name, given, argument in (("validate", validate, "model"), ("report", report, "record")):
        if given is not None:
            refuse_not_callable(given, f"`{name}`")
            refuse_uncallable_with(given, f"`{name}`", (argument,))
    batches = batches or LoaderSettings()
    refuse_unused_settings(settings, batches, objective, has_validate=validate is not None)
    _refuse_without_gradients()
    base = chosen_loss(settings.loss, objective, settings.loss_options)
    used = with_r_drop(base, settings.r_drop)
    if settings.r_drop:
        refuse_without_dropout(model, settings.r_drop)
    refuse_unused_forward(model, used)
    refuse_other_padding(model, used, examples)
    refuse_other_padding(model, used, valid, "validation examples")

    def described():
        return run_arguments(model, used, settings, batches, examples, valid, validate)

    files = model_files(model.config, (), {}, "") if isinstance(model, Model) else {}
    with _frozen(model, settings.freeze), _products(model, settings), RunFolder(out).lock() as run:
        settings, note = with_factor_of_run(run, settings)
        if note:
            warnings.warn(note, stacklevel=2)
        arguments = described()
        refuse_other_arguments(run, arguments, settings.max_steps)
        loader = Loader(examples, batches, seed=settings.seed)
        trainer = Trainer(
            model,
            used,
            loader,
            settings,
            run,
            files,
            validate=_checked(validate or _mean_loss(base, valid or examples, batches), settings),
            report=_warning_of_collapse(report),
            entropy=_entropy(base, loader),
            entropy_is_sign=False,
        )
        if validate is None:
            tried = (used, trainer.distributed, valid or examples, trainer.device)
            refuse_model_of_probabilities(*tried, training=False)  # `train` tries the mode of training
        _warn_of_rates(run, settings, schedule_width(model, settings.schedule))
        try:
            return trainer.train()
        except IndexError as error:
            _refuse_unknown_ids(error)
            raise
        finally:
            forget_what_changed(run, arguments, described())


def _entropy(objective: Objective, loader: Loader) -> float | None:
    """The entropy of the first targets of an objective of labels, with which its loss is compared."""
    base: Any = objective
    while isinstance(base, CustomLoss):
        base = base.base
    is_known = type(base) in (CrossEntropy, LabelCrossEntropy, NextToken)
    return target_entropy(loader.epoch(0), TARGETS) if is_known else None


def _warning_of_collapse(report: Report | None) -> Report:
    """`report`, with a warning of each collapse."""

    def reported(record: dict[str, Any]) -> None:
        if record["kind"] == "collapse":
            warnings.warn(collapse_warning(record), stacklevel=2)
        if report is not None:
            report(record)

    return reported


def _refuse_unknown_ids(error: IndexError) -> None:
    """Raise a DataError if this is PyTorch's for an id beyond an embedding (on a CPU)."""
    if "index out of range in self" in str(error):
        raise DataError(
            "an embedding does not have an id that it was given: of a token, or of a position",
            "ids are from 0 to the size of the vocabulary less 1; look for larger ones in the examples",
        ) from error


def _warn_of_rates(run: RunFolder, settings: TrainingSettings, d_model: int) -> None:
    """Warns of a run whose learning rate stays below its peak, unless it has ended."""
    checkpoint = run.latest()
    is_finished = checkpoint is not None and checkpoint.step >= settings.max_steps
    if not is_finished and (warning := rate_warning(settings, "ScheduleSettings({})", d_model=d_model)):
        warnings.warn(warning, stacklevel=3)


def _refuse_without_gradients() -> None:
    if torch.is_inference_mode_enabled() or not torch.is_grad_enabled():
        raise UserError(
            "fit cannot train while gradients are turned off",
            "call it outside torch.no_grad() and torch.inference_mode()",
        )


@contextmanager
def _frozen(model: nn.Module, patterns: Sequence[str]) -> Iterator[None]:
    """A context in which weights that match `patterns` are not trained; ConfigError if none is left."""
    before = {each: each.requires_grad for each in model.parameters()}
    if not any(before.values()):
        raise ConfigError(
            f"{type(model).__name__} has no weight that can be trained",
            "requires_grad_(True) makes weights trainable",
        )
    try:
        choose_trainable(model, freeze=patterns)
        yield
    finally:
        for parameter, requires_grad in before.items():
            parameter.requires_grad_(requires_grad)


def _products(model: nn.Module, settings: TrainingSettings):
    """The context of `settings.products`; "auto" changes nothing."""
    if settings.products == "auto":
        return nullcontext()
    device = next(model.parameters()).device
    return matmul_precision(choose_precision(settings.products, 0, device))


def _checked(validate: Validate, settings: TrainingSettings) -> Validate:
    """`validate`, whose result must be numbers by name, with the metrics that select the best model."""

    def checked(model: nn.Module) -> dict[str, float]:
        metrics = validate(model)
        if not isinstance(metrics, Mapping):
            raise UserError(
                f"`validate` returned {type(metrics).__name__}, not a dictionary of scores",
                f"return {{{settings.choosing[0]!r}: number}}",
            )
        if missing := [name for name in settings.choosing if name not in metrics]:
            known = ", ".join(map(repr, metrics)) or "nothing"
            found = next((name for name in metrics if isinstance(name, str)), "score")
            chosen = repr(found) if found in METRICS else f"'-{found}' (less is better) or '+{found}'"
            raise UserError(
                f"`validate` returned {known}, but not {missing[0]!r}, which selects the best model",
                f"return {missing[0]!r} too, or set training.best_metric to {chosen}",
            )
        return {name: _number(name, value) for name, value in metrics.items()}

    return checked


def _number(name: str, value: Any) -> float:
    if not isinstance(value, str):
        with suppress(TypeError, ValueError, RuntimeError):
            return float(value)
    raise UserError(f"`validate` returned {name!r} = {value!r}, which is not a number", "use floats")


def _mean_loss(objective: Objective, examples: Examples, settings: LoaderSettings) -> Validate:
    """Validation by the mean negative log-likelihood of all targets of `examples`."""

    def validate(model: nn.Module) -> dict[str, float]:
        device = next(model.parameters()).device
        loader = Loader(examples, settings, seed=0)
        nll, targets = torch.zeros((), dtype=torch.float64), 0
        for batch in loader.epoch():
            loss = objective(model, batch.to(device))
            refuse_other_than_loss(loss, objective)
            nll += loss.nll.double().cpu()
            targets += loss.num_targets
        return {"loss": float(nll) / max(1, targets)}

    return validate
