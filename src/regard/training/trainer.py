"""The training loop (Vaswani et al. 2017, section 5), with checkpoints, resuming and recovery."""

import itertools
import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from regard.data.loader import Cursor, Loader
from regard.data.noise import derive_seed
from regard.distributed.distributed_model import DistributedModel
from regard.distributed.replicated import ReplicatedModel
from regard.errors import OutputIsNaN, RunError
from regard.fast.decoding_step import forget_step
from regard.fast.training import fused
from regard.models.adapters import merged
from regard.training.best import better, record_best, reset_best
from regard.training.best_weights import BestWeights, mean_of_last
from regard.training.checkpoints import Checkpoints
from regard.training.gradients import Gradients, objective_name, refuse_zero_gradient
from regard.training.launch import LaunchedUpdate, launch, may_be_read_later
from regard.training.lost_files import best_is_lost, choose_best_again, lost_record
from regard.training.objective import Objective, ignored_label, refuse_unused_forward
from regard.training.objective_trial import (
    is_own,
    refuse_model_of_probabilities,
    refuse_wrong_objective,
)
from regard.training.optimizer import build_optimizer
from regard.training.pace import Pace, Update
from regard.training.prefetch import BatchReader
from regard.training.random_state import random_state, restore_random_state, seed_random, unchanged_random
from regard.training.recomputation import refuse_without_blocks
from regard.training.records import Records, Report
from regard.training.run_writer import RunWriter
from regard.training.schedule import Schedule, schedule_width
from regard.training.settings import TrainingSettings
from regard.training.snapshot import copies
from regard.training.state import TrainingState
from regard.training.stopped_run import stopped
from regard.weights.average import MovingAverage
from regard.weights.checkpoint import Checkpoint, RunFolder
from regard.weights.tensors import model_tensors, restore_model

Validate = Callable[[Any], dict[str, float]]


class Trainer:
    """Trains `model` in place, in a run folder that another process can resume with the same bits.

    Args:
        model_files: the files that make a checkpoint a model folder: config, tokenisers, recipe.
        validate: scores the deployed weights (the moving average if there is one). It is an argument because
            training does not depend on decoding. It must not use the global random number generators. None:
            nothing is validated, and the last weights are kept.
        report: is called with each record that is added to `metrics.jsonl`.
        update: is called after each update, for a progress display.
        stop: returns the number of a signal that asks to stop, or None; called between updates.
        distributed: the model distributed over several processes, each with its own share of the loader's
            batches; by default this process alone. The first process validates and reports; all processes
            have the same state.
        entropy: of the training targets, in nats, for the detection of a collapse; None if it is not known,
            and in all processes except the first.
        entropy_is_sign: False if a loss at the entropy does not mean that nothing is learned.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        loader: Loader,
        settings: TrainingSettings,
        run: RunFolder,
        model_files: Mapping[str, bytes],
        *,
        validate: Validate | None,
        report: Report,
        update: Callable[[Update], None] = lambda update: None,
        stop: Callable[[], int | None] = lambda: None,
        distributed: DistributedModel | None = None,
        entropy: float | None = None,
        entropy_is_sign: bool = True,
    ) -> None:
        refuse_unused_forward(model, objective)
        if settings.recompute_activations:
            refuse_without_blocks(model)
        self.model, self.loader = model, loader
        self.settings, self.run = settings, run
        self.validate, self.update, self.stop = validate, update, stop
        self.distributed = distributed or ReplicatedModel(model)
        self.group = self.distributed.group
        self.records = Records(run, report, writes=self.group.is_first)
        writer = RunWriter(run, self.distributed)
        self.best = BestWeights(writer, model_files, learned_validation=validate is None)
        self.device = next(model.parameters()).device
        self.ignored = ignored_label(objective)
        self.gradients = Gradients(
            self.distributed,
            objective,
            self.device,
            settings.precision,
            recompute=settings.recompute_activations,
        )
        self.entropy, self.entropy_is_sign = self.group.broadcast(entropy), entropy_is_sign
        self.first_checked_step = settings.collapse.first_checked_step(settings.max_steps, settings.warmup)
        self.optimizer = build_optimizer(model, settings.optimizer)
        self.schedule = Schedule(
            settings=settings.schedule,
            max_steps=settings.max_steps,
            d_model=schedule_width(model, settings.schedule),
        )
        self.average = MovingAverage(model, settings.moving_average) if settings.moving_average else None
        self.checkpoints = Checkpoints(
            writer, self.distributed, self.optimizer, self.average, model_files, settings
        )
        self.state = TrainingState(cursor=loader.cursor.to_dict(), device=str(self.device))
        self.pace = Pace()
        self._counted = time.perf_counter()  # until when `state.seconds` was counted
        self._reader: BatchReader | None = None
        self._launched: list[LaunchedUpdate] = []  # updates whose numbers were not read yet
        self._saved_step: int | None = None
        self._best_was_lost = False

    def train(self) -> TrainingState:
        """Trains to the end, from the newest checkpoint if there is one.

        Raises:
            Stopped: a signal asked to stop; the current step was saved.
            RunError: losses stayed non-finite after rolling back, or all scores of validations were NaN.
            UserError: an objective of your own returns a mean, no likelihood, or a gradient of 0.
        """
        tried = self.gradients.objective, self.distributed, self.loader.examples, self.device
        refuse_model_of_probabilities(*tried)
        refuse_wrong_objective(*tried)
        with unchanged_random(self.device), fused(self.model):
            seed_random(self._seed(), self.device)
            if checkpoint := self.run.latest():
                self.restore(checkpoint)
            self.records.cut(self.state.step, self.state.watch.found)
            self._restore_lost_files()
            try:
                self._train()
            finally:
                self._close_reader()
        return self.state

    def _train(self) -> None:
        self.model.train()
        self._counted = time.perf_counter()
        self.records.restart(self.state.target_tokens)
        while True:
            self.pace.start()
            signal = self.group.maximum(self.stop() or 0)
            if signal or self._is_finished() or self._validation_is_due() or self._save_is_due():
                self._read_numbers()
            if self._validation_is_due() and not signal:
                self._check_collapse(self._validate())
            finished = self._is_finished()
            if finished or signal or self._save_is_due():
                self._save()
            if signal:
                raise stopped(signal, self.state, self.run, validates=self.validate is not None)
            if finished:
                break
            self._update()
        if self.validate is not None and not self.state.best_step:
            raise RunError(
                f"training diverged: no validation until step {self.state.step} has a score that is a number",
                "try a lower training.schedule.learning_rate, a longer warm-up or training.clip_norm = 1.0",
            )
        self._average_last()

    def _restore_lost_files(self) -> None:
        """Choose the best model again if it is lost, or write the record of its validation if that is."""
        lost = self.group.is_first and best_is_lost(self.run, self.state)
        self._best_was_lost = self.group.broadcast(lost)
        if self._best_was_lost:
            choose_best_again(self.state)
        elif self.group.is_first and (record := lost_record(self.run, self.settings, self.state)):
            self.records.add(record)

    def _seed(self) -> int:
        """The seed of this process's dropout masks, which changes after a rollback."""
        return self.settings.seed + 1_000_003 * self.group.rank + self.state.rollbacks

    # One update

    def _update(self) -> None:
        """One optimiser step with the gradients of `accumulate` batches, weighted by their tokens.

        On a GPU its numbers are read when the next update is in the GPU's queue.
        """
        state = self.state
        state.step += 1
        if self._reader is None:
            self._reader = BatchReader(self.loader, self.settings.accumulate, self.device, self.ignored)
        group = self._reader.next()
        state.cursor = group.cursor
        launched = launch(
            group,
            step=state.step,
            rate=self.schedule(state.step) * state.watch.rate_factor,
            clip_norm=self.settings.clip_norm,
            gradients=self.gradients,
            optimizer=self.optimizer,
            average=self.average,
        )
        self._launched.append(launched)
        self._read_numbers(left=1 if may_be_read_later(self.device, self.optimizer) else 0)

    def _read_numbers(self, left: int = 0) -> None:
        """Reads the numbers of the launched updates, except for the last `left`."""
        while len(self._launched) > left:
            self._count(self._launched.pop(0))

    def _count(self, launched: LaunchedUpdate) -> None:
        """Adds the numbers of an update to the state; handles an update that was skipped."""
        state, found = self.state, launched.read()
        if found.parts > len(launched.batches) * self.group.size:
            self.records.add({"kind": "out of memory", "step": launched.step, "batches": found.parts})
        if not found.is_finite:
            self._skip(launched)
            return
        if launched.step == 1 and not is_own(self.gradients.objective):
            refuse_zero_gradient(found.norm, self.gradients.objective)
        state.skipped_in_a_row = 0
        state.target_tokens += found.num_targets
        state.window_nll += found.nll
        state.window_tokens += found.num_targets
        state.watch.count(found.nll, found.num_targets)
        due = launched.step % self.settings.report_every == 0
        update = Update(
            step=launched.step,
            loss=found.nll / found.num_targets,
            learning_rate=launched.rate,
            targets=found.num_targets,
            seconds=self.pace.finish(),
            is_reported=due,
            left=self.pace.left(launched.step, self.settings, state.validations),
        )
        self.update(update)
        if due:
            self.records.add_update(launched, found.norm, state)

    # Non-finite losses

    def _skip(self, launched: LaunchedUpdate) -> None:
        """Counts a skipped update; after too many in a row, rolls back to the last checkpoint, once."""
        state = self.state
        state.skipped += 1
        state.skipped_in_a_row += 1
        state.watch.count_skipped()
        lines = sorted(itertools.chain(*self.group.all_gather(launched.lines())))
        self.records.add({"kind": "skipped", "step": launched.step, "lines": lines})
        if state.skipped_in_a_row <= self.settings.nonfinite_skips:
            return
        checkpoint = self.run.latest()
        if state.rollbacks or checkpoint is None:
            path = self.run.path / "nonfinite.json"
            if self.group.is_first:
                path.write_text(json.dumps({"step": launched.step, "lines": lines}) + "\n", "utf-8")
            times = f"{state.skipped_in_a_row} times in a row"
            raise RunError(
                f"loss or gradient not finite at step {launched.step}, {times}",
                f"the batch's lines are in {path}; a lower learning_rate or clip_norm = 1.0 often helps"
                + f"; does the loss {self.settings.loss!r} give NaN?" * bool(self.settings.loss),
            )
        self.records.add({"kind": "rollback", "step": launched.step, "to": checkpoint.step})
        self.restore(checkpoint)
        self.state.rollbacks = 1
        seed_random(self._seed(), self.device)

    # What is due

    def _is_finished(self) -> bool:
        patience = self.settings.patience
        if patience and self.state.validations_since_best >= patience:
            return True
        return self.state.step >= self.settings.max_steps

    def _validation_is_due(self) -> bool:
        step = self.state.step
        due = step % self.settings.validate_every == 0 or step >= self.settings.max_steps
        if self.validate is None and step >= self.settings.max_steps:  # also of a run that was made shorter
            return self.state.best_step < step
        return due and step > self.state.validated_step

    def _save_is_due(self) -> bool:
        return self.state.step % self.settings.save_every == 0

    # Validation

    def _validate(self) -> dict[str, float]:
        state = self.state
        began = time.perf_counter()
        state.validated_step = state.step
        averaged = self.average.applied(self.model) if self.average else nullcontext()
        with averaged, merged(self.model):
            metrics = self.group.broadcast(self.distributed.on_first(self._score))
            if self.validate is not None:
                self.records.add({"kind": "validation", "step": state.step, **metrics})
                is_best = record_best(metrics, self.settings, state)
            elif is_best := self._is_finished():
                state.best_step = state.step
            if is_best:
                self.best.keep(state.step, self.model)
        seconds = time.perf_counter() - began
        state.validations.count += 1
        state.validations.seconds += seconds
        self.pace.exclude(seconds)
        self.records.exclude(seconds)
        return metrics

    def _score(self, model: nn.Module) -> dict[str, float]:
        model.eval()
        metrics: dict[str, float] = {}
        if self.validate is not None:
            try:
                with torch.no_grad():
                    metrics = self.validate(model)
            except OutputIsNaN:
                metrics = dict.fromkeys(("loss", *self.settings.choosing), math.nan)
        forget_step(model)  # its weights will change, and training needs the memory of a GPU
        model.train()
        return metrics

    def _average_last(self) -> None:
        """Validates the mean of the last checkpoints, which becomes the best model if it is better."""
        step = self.state.step
        if not self.settings.average_last:
            return
        if self.group.broadcast(self.records.has_average(step)) and not self._best_was_lost:
            return
        of: list[int] = []
        with merged(self.model):
            own = copies(model_tensors(self.model))
            if self.group.is_first or self.distributed.is_sharded:
                mean, of = mean_of_last(self.run, self.settings, step, self.checkpoints.load)
                restore_model(self.model, mean)
            metrics = self.group.broadcast(self.distributed.on_first(self._score))
            if all(better(metrics, self.settings, self.state)):
                self.best.write_average(step, self.model)
            restore_model(self.model, own)
        self.records.add({"kind": "average", "step": step, "of": of, **metrics})

    # Collapse

    def _check_collapse(self, metrics: Mapping[str, float]) -> None:
        """Goes back if training has collapsed, as long as there are retries; then warns, once."""
        state, settings = self.state, self.settings.collapse
        why = state.watch.add_validation(
            state.step,
            metrics,
            entropy=self.entropy,
            checked=state.step >= self.first_checked_step,
            best_step=state.best_step,
            is_last=self._is_finished(),
            entropy_is_sign=self.entropy_is_sign,
        )
        if why is None or state.watch.is_over:
            return
        if "loss" in why and not is_own(self.gradients.objective):
            why += f" (does the loss {objective_name(self.gradients.objective)} fall as predictions improve?)"
        checkpoint = None
        if state.watch.retries < settings.retries:
            checkpoint = self.checkpoints.newest(until=state.watch.good_step)
        found = {"kind": "collapse", "step": state.step, "at": state.step, "to": None, "why": why}
        if checkpoint is None:
            state.watch.found.append(found)
            self.records.add(found)
        else:
            self._go_back(checkpoint, {**found, "step": checkpoint.step, "to": checkpoint.step})

    def _may_go_back(self) -> bool:
        """True if the checkpoint of the last good validation may be needed again."""
        settings, watch = self.settings.collapse, self.state.watch
        return watch.retries < settings.retries and not watch.is_over and not self._is_finished()

    def _go_back(self, checkpoint: Checkpoint, found: dict[str, Any]) -> None:
        """Continues from `checkpoint` at half the learning rate; later checkpoints are removed.

        The checkpoint is first written again with the collapse in its state. If the process is killed after
        that, the run resumes from it or from a later checkpoint, and both lead to the same state.
        """
        failed = self.state
        self.restore(checkpoint)
        state = self.state
        state.watch.found, state.watch.good_step = [*failed.watch.found, found], state.step
        state.seconds, state.validations = failed.seconds, failed.validations
        if failed.best_step > state.step:  # the next validation replaces RUN/best
            reset_best(state)
        self._saved_step = None
        self._save()
        if self.group.is_first:
            self.run.remove_after(state.step)
        self.records.cut(state.step, state.watch.found)
        self.group.barrier()

    # Checkpoints

    def _save(self) -> None:
        now = time.perf_counter()
        self.state.seconds += now - self._counted
        self._counted = now
        self.best.write()
        if self._saved_step == self.state.step:
            return
        self._saved_step = self.state.step
        self.state.random = self.group.all_gather(random_state(self.device))
        good = self.state.watch.good_step if self._may_go_back() else None
        self.checkpoints.save(self.state, also_kept=good)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restores the state of the run at `checkpoint`."""
        self.state = self.checkpoints.restore(checkpoint)
        self._restore_random()
        self._close_reader()
        self._launched.clear()
        self.loader.cursor = Cursor.from_dict(self.state.cursor)
        self._saved_step = self.state.step
        self.best.forget()
        self.records.restart(self.state.target_tokens)

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _restore_random(self) -> None:
        """Restores this process's random state; with another number of processes, seeds a new one."""
        if len(self.state.random) == self.group.size:
            restore_random_state(self.state.random[self.group.rank], self.device)
        else:
            seed_random(derive_seed(self._seed(), self.state.step), self.device)
