"""Learning rate schedules: one learning rate for each update, counted from 1."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import nn

from regard.errors import RecipeError, UserError
from regard.models.model import Model
from regard.recipe import check_types
from regard.registry import (
    Registry,
    refuse_not_callable,
    refuse_other_arguments,
    refuse_other_options,
    refuse_unwritable_options,
)

DEFAULT_WARMUP_STEPS = 1000
DEFAULT_RATE = 1e-3  # the peak
PAPER_FACTOR = 1.0  # of equation 3 of Vaswani et al. 2017, in place of a peak
FORMER_FACTOR = 1e-3  # of kind = "noam", in a run that has updates and was given none
KINDS_WITH_FINAL = ("cosine", "linear")
OWN_KINDS = ("noam", "inverse_square_root", "cosine", "linear", "constant")
TRIED = 100  # updates whose rates a registered schedule is asked for before training
LARGEST = 1000  # factor of the learning rate: one that is larger is a number of updates
Factor = Callable[..., float]  # step, warmup, max_steps, and options -> factor of the peak
ARGUMENTS = ("step", "warmup", "max_steps")

SCHEDULES: Registry[Factor | None] = Registry(
    "schedule", dict.fromkeys(OWN_KINDS), how="register_schedule of regard.training"
)


def register_schedule(name: str) -> Callable[[Factor], Factor]:
    """Registers a learning rate schedule under a name, for `kind` in `[training.schedule]` of a recipe.

        @register_schedule("quadratic")
        def quadratic(step, warmup, max_steps):
            return ((max_steps - step) / (max_steps - warmup)) ** 2

    The function is called for each update after the warm-up: with its number, the number of warm-up updates
    and that of all updates. It returns the factor of `learning_rate`, 0 or more and above 0 for most
    updates, from these numbers alone, so that a resumed run has the same rates. The warm-up before and
    `cooldown` at the end are as for all kinds. `[training.schedule] options` are its other arguments.

    The schedule is registered in the process that calls this: call `regard.train` there, or register it in
    an installed package (see docs/extending.md). Registering a name again replaces its schedule.

    Raises:
        UserError: the name is empty or one of regard's own, or what is registered cannot be called.
    """
    register = SCHEDULES.register(name)

    def add(factor: Factor) -> Factor:
        refuse_not_callable(factor, f"the schedule {name!r}")
        register(factor)
        return factor

    return add


def refuse_unknown_schedule(name: str, options: Mapping[str, Any]) -> None:
    """Raise a RecipeError if no schedule has this name, or if it does not have these options."""
    if name not in SCHEDULES:
        raise RecipeError(
            f"training.schedule.kind: no schedule is registered as {name!r}", SCHEDULES.hint(name)
        )
    if options and (factor := SCHEDULES[name]):
        refuse_other_options(
            factor,
            f"the schedule {name!r}",
            ARGUMENTS,
            options,
            setting="training.schedule.options",
            trial=lambda: factor(2, 1, 2, **options),
            kind=RecipeError,
        )


@dataclass(frozen=True, kw_only=True)
class ScheduleSettings:
    """The settings of a learning rate schedule.

    Every kind first warms up linearly; update 1 already has a rate above 0.
    """

    # how the rate falls after the warm-up: noam, inverse_square_root, cosine, linear, constant, or a
    # registered one: see `register_schedule`
    kind: str = "inverse_square_root"
    # the peak, after the warm-up: 0.001 if it is not set; for noam the factor of d_model^-0.5: 1, the paper's
    learning_rate: float | None = None
    warmup_steps: int | None = None  # updates of the warm-up; 1000 if `warmup` is not given either
    warmup: float | None = None  # the length of the warm-up as a share of the run, in place of `warmup_steps`
    final: float = 0.0  # the last rate of cosine and linear, as a share of `learning_rate`; 0 for other kinds
    cooldown: float = 0.0  # the share of the run at its end in which the rate falls linearly to 0
    options: dict[str, Any] = field(default_factory=dict, hash=False)  # arguments of a registered one

    def __post_init__(self) -> None:
        check_types(self)
        if self.learning_rate is not None and self.learning_rate <= 0:
            hint = "1 is the paper's factor" if self.kind == "noam" else "try 0.001"
            raise RecipeError(f"learning_rate must be above 0, not {self.learning_rate}", hint)
        refuse_unwritable_options(self.options, "options", RecipeError)
        if self.options and self.kind in OWN_KINDS:
            raise RecipeError(
                f"options have no effect with kind = {self.kind!r}",
                "leave them out; they are the arguments of a registered schedule",
            )
        if self.warmup is not None and self.warmup_steps is not None:
            raise RecipeError(
                f"warmup = {self.warmup} and warmup_steps = {self.warmup_steps} are both given",
                "give only one of them; --set training.schedule.warmup_steps=null, or warmup=null, removes"
                " that of a recipe",
            )
        if self.warmup is not None and not 0 <= self.warmup < 1:
            raise RecipeError(
                f"warmup must lie in [0, 1), not {self.warmup}",
                "0.05 is the first 5 % of the run; warmup_steps counts updates",
            )
        if self.warmup_steps is not None and self.warmup_steps < 1:
            raise RecipeError(
                f"warmup_steps must be 1 or more, not {self.warmup_steps}", "1 means no warm-up"
            )
        if not 0 <= self.cooldown <= 1:
            raise RecipeError(
                f"cooldown must lie between 0 and 1, not {self.cooldown}", "0.3 is the last 30 %"
            )
        if not 0 <= self.final <= 1:
            raise RecipeError(f"final must lie between 0 and 1, not {self.final}", "0 ends at a rate of 0")
        if self.final and self.kind not in KINDS_WITH_FINAL:
            raise RecipeError(
                f"final = {self.final} has no effect with kind = {self.kind!r}",
                f"set it to 0, or take kind {' or '.join(map(repr, KINDS_WITH_FINAL))}",
            )

    @property
    def given_or_default_rate(self) -> float:
        """`learning_rate`, or where it is not given 0.001, for noam 1."""
        default = PAPER_FACTOR if self.kind == "noam" else DEFAULT_RATE
        return default if self.learning_rate is None else self.learning_rate

    def share_reached(self, max_steps: int) -> float:
        """The highest rate of a run of `max_steps`, as a share of the rate after the warm-up."""
        warmup, last = self.warmup_of(max_steps), cooldown_updates(self, max_steps)
        reached = (
            min(1.0, step / warmup) * cooldown_factor(step, last, max_steps)
            for step in (warmup, max_steps - last + 1, (max_steps + 1) // 2, max_steps)
            if 1 <= step <= max_steps
        )
        return max(reached)

    def warmup_of(self, max_steps: int) -> int:
        """The number of warm-up updates in a run of `max_steps`; 1 means no warm-up."""
        if self.warmup is not None:
            return max(1, round(self.warmup * max_steps))
        return DEFAULT_WARMUP_STEPS if self.warmup_steps is None else self.warmup_steps


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A schedule: `schedule(step)` is the learning rate of update `step` (1, 2, ... `max_steps`).

    Raises:
        RecipeError: no schedule is registered as `settings.kind`; or a registered one gives no number of 0 or
            more, 0 for most updates, or two numbers for one update.
    """

    settings: ScheduleSettings
    max_steps: int
    d_model: int

    def __post_init__(self) -> None:
        check_types(self)
        refuse_unknown_schedule(self.settings.kind, self.settings.options)
        if factor := SCHEDULES[self.settings.kind]:  # before hours are spent
            what = f"the schedule {self.settings.kind!r}"
            refuse_other_arguments(factor, what, ARGUMENTS, self.settings.options, kind=RecipeError)
            steps = self.tried_steps()
            rates = [self(step) for step in steps]
            self._refuse_other_rates(steps, rates, [self(step) for step in reversed(steps)][::-1])
            self._refuse_no_rates([step for step in steps if step > self.settings.warmup_of(self.max_steps)])

    def __call__(self, step: int) -> float:
        if step < 1:
            raise UserError(f"there is no update {step}", "the first update is 1")
        return self._rate(step) * self._cooldown(step)

    def tried_steps(self) -> list[int]:
        """Updates all over the run, the first and the last among them, for trials."""
        return sorted({max(1, round(self.max_steps * part / TRIED)) for part in range(TRIED + 1)})

    def _refuse_other_rates(self, steps: list[int], rates: list[float], again: list[float]) -> None:
        """Raise a RecipeError for a registered schedule that counts its calls, or has random numbers."""
        for step, rate, other in zip(steps, rates, again, strict=True):
            if rate != other:
                raise RecipeError(
                    f"the schedule {self.settings.kind!r} gives two rates for update {step}: {rate:.6g}, then"
                    f" {other:.6g}",
                    "compute the factor from step, warmup and max_steps alone: a resumed run asks again",
                )

    def _refuse_no_rates(self, steps: list[int]) -> None:
        """Raise a RecipeError for a registered schedule under which most updates change nothing."""
        zeros = [step for step in steps if not self._rate(step)]
        if len(zeros) > max(1, len(steps) / 2):  # the last one may be 0, also of a very short run
            raise RecipeError(
                f"the schedule {self.settings.kind!r} gives 0 for {len(zeros)} of {len(steps)} updates that"
                f" were tried, as for update {zeros[0]}",
                "such an update trains nothing: // rounds down, and a smaller max_steps ends a run earlier",
            )

    def _rate(self, step: int) -> float:
        """The rate before the cooldown."""
        warmup = self.settings.warmup_of(self.max_steps)
        if self.settings.kind == "noam":  # Vaswani et al. 2017, equation 3, times `learning_rate`
            factor = self.settings.given_or_default_rate * self.d_model**-0.5
            return factor * min(step**-0.5, step * warmup**-1.5)
        peak = self.settings.given_or_default_rate
        if step <= warmup:
            return peak * step / warmup
        if self.settings.kind == "inverse_square_root":
            return peak * math.sqrt(warmup / step)
        if self.settings.kind == "constant":
            return peak
        if factor := SCHEDULES[self.settings.kind]:
            return peak * self._factor(factor, step, warmup)
        progress = min(1.0, (step - warmup) / max(1, self.max_steps - warmup))
        # from 1, the peak, to 0, the final rate
        height = 1 - progress if self.settings.kind == "linear" else (1 + math.cos(math.pi * progress)) / 2
        return peak * (self.settings.final + (1 - self.settings.final) * height)

    def _factor(self, function: Factor, step: int, warmup: int) -> float:
        """What a registered schedule returns."""
        try:
            found: Any = function(step, warmup, self.max_steps, **self.settings.options)
        except Exception as error:
            raise RecipeError(
                f"the schedule {self.settings.kind!r} fails for update {step}:"
                f" {type(error).__name__}: {error}",
                "it is called for each update after the warm-up, the last one included",
            ) from error
        is_number = isinstance(found, int | float | np.integer | np.floating) and not isinstance(found, bool)
        if not is_number or not 0 <= found <= LARGEST:
            raise RecipeError(
                f"the schedule {self.settings.kind!r} gives {found!r} for update {step}",
                f"return a factor of the learning rate: a number, not a tensor, from 0 to {LARGEST:,}",
            )
        return float(found)

    def _cooldown(self, step: int) -> float:
        return cooldown_factor(step, cooldown_updates(self.settings, self.max_steps), self.max_steps)


def former_factor_note(setting: str, giver: str) -> str:
    """The note of a run that keeps the factor that `kind = "noam"` had where none was given.

    `setting` is its name, and `giver` what does not give it, with a verb.
    """
    return (
        f"the run keeps {setting} = {FORMER_FACTOR}, the factor of kind = 'noam' that {giver} not give;"
        f" for a new run it is {PAPER_FACTOR:g}"
    )


def cooldown_updates(settings: ScheduleSettings, max_steps: int) -> int:
    """The number of updates of the cooldown in a run of `max_steps`."""
    return round(max_steps * settings.cooldown)


def cooldown_factor(step: int, length: int, max_steps: int) -> float:
    """The factor of a cooldown of `length` updates: 1 before it; 0 at the update after the last."""
    return 1.0 if not length else min(1.0, max(0.0, (max_steps - step + 1) / length))


def schedule_width(model: nn.Module, settings: ScheduleSettings) -> int:
    """`d_model`, by which the schedule of the paper scales; a module that is not a `Model` has none."""
    if isinstance(model, Model):
        return model.config.d_model
    if settings.kind == "noam":
        raise RecipeError(
            f"schedule.kind = 'noam' scales by d_model, and a {type(model).__name__} has no d_model",
            "take inverse_square_root, with the peak as learning_rate",
        )
    return 1
