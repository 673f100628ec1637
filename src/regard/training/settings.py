"""The settings of a recipe's `[training]` section."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from regard.errors import RecipeError, did_you_mean
from regard.models.adapters import AdapterSettings
from regard.recipe import check_types
from regard.registry import refuse_unwritable_options
from regard.training.collapse import CollapseSettings
from regard.training.distillation import DistillationSettings
from regard.training.optimizer import OptimizerSettings
from regard.training.products import Products
from regard.training.schedule import ScheduleSettings

Metric = Literal[
    "loss",
    "bleu",
    "chrf++",
    "chrf",
    "exact_match",
    "error_rate",
    "accuracy",
    "macro_f1",
    "entity_f1",
    "label_error_rate",
    "mean_absolute_error",
]

# metric -> True if higher is better
METRICS: dict[Metric, bool] = {
    "loss": False,
    "bleu": True,
    "chrf++": True,
    "chrf": True,
    "exact_match": True,
    "error_rate": False,
    "accuracy": True,
    "macro_f1": True,
    "entity_f1": True,
    "label_error_rate": False,
    "mean_absolute_error": False,
}

# settings that a resumed run may have otherwise: no update depends on them but by a collapse or a stop
CHANGEABLE = (
    "max_steps", "report_every", "validate_every", "save_every", "keep", "patience", "recompute_activations",
)  # fmt: skip
SIGNS = {"+": True, "-": False}  # before the name of a metric of one's own: True if higher is better


def measured_name(metric: str) -> str:
    """The name of the score by which `metric` selects: without the sign of a metric of one's own."""
    return metric[1:] if metric[:1] in SIGNS else metric


def is_higher_better(metric: str) -> bool:
    """True if models with a higher score are better; False for what has no sign and is not of METRICS."""
    return METRICS.get(cast(Metric, metric), SIGNS.get(metric[:1], False))


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """The settings of the training loop; all intervals are in updates."""

    seed: int = 1  # of the initial weights, the order of the data, dropout and sampled noise
    max_steps: int = 10_000  # updates of the whole run; a resumed run can have another number
    accumulate: int = 1  # batches per update, weighted by their tokens
    clip_norm: float = 0.0  # the largest norm of the gradient; 0: no clipping
    label_smoothing: float = 0.1  # share of the target probability that is spread over all labels; 0: none
    loss: str = ""  # the name of a registered loss instead of the task's own: see `register_loss`
    loss_options: dict[str, Any] = field(default_factory=dict, hash=False)  # arguments of a registered loss
    r_drop: float = 0.0  # weight of R-Drop's divergence; doubles the cost of an update
    moving_average: float = 0.0  # decay of the exponential moving average of weights, e.g. 0.998
    average_last: int = 0  # also validate the mean of the last k checkpoints at the end
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # auto: bfloat16 if the GPU has it
    # on a CPU: the fastest library of float32 products, PyTorch's default, or bfloat16 by oneDNN
    products: Products = "auto"
    recompute_activations: bool = False  # in the backward pass, for less memory and more time
    report_every: int = 50  # updates between two lines of progress
    validate_every: int = 500  # updates between two validations
    save_every: int = 500  # updates between two checkpoints
    keep: int = 2  # checkpoints on disk; averaging keeps as many as it needs
    refit: bool = False  # then train again from the start, on the validation examples too
    patience: int = 0  # validations without a better `best_metric` before stopping; 0 never stops
    # the validation score that selects the best model: loss, bleu, chrf++ (which is chrF2++; formerly chrf),
    # exact_match, error_rate, accuracy, macro_f1, entity_f1, label_error_rate or mean_absolute_error; one of
    # your own has a sign: "-perplexity" if less is better, "+agreement" if more is
    best_metric: str = "loss"
    second_metric: str | None = None  # the best model then needs both metrics at their best or equal
    nonfinite_skips: int = 5  # consecutive updates that may be skipped before rolling back
    collapse: CollapseSettings = field(default_factory=CollapseSettings)  # a second try at half the rate
    # modules or weights that are not trained, by their names or by patterns: "encoder", "*.norm*"
    freeze: tuple[str, ...] = ()
    adapter: AdapterSettings | None = None  # train low-rank adapters instead of the weights
    distillation: DistillationSettings | None = None  # learn the probabilities of a teacher too
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)

    def __post_init__(self) -> None:
        check_types(self, "training")
        for name in ("max_steps", "accumulate", "report_every", "validate_every", "save_every"):
            if getattr(self, name) < 1:
                raise RecipeError(
                    f"training.{name} must be 1 or more, not {getattr(self, name)}", "count updates"
                )
        for name in ("clip_norm", "r_drop", "average_last", "patience", "nonfinite_skips", "seed"):
            if not 0 <= getattr(self, name) < math.inf:
                hint = "any whole number from 0 on" if name == "seed" else "0 turns it off"
                raise RecipeError(f"training.{name} must be 0 or more, not {getattr(self, name)}", hint)
        for name in ("label_smoothing", "moving_average"):
            if not 0 <= getattr(self, name) < 1:
                raise RecipeError(
                    f"training.{name} must lie in [0, 1), not {getattr(self, name)}", "0 turns it off"
                )
        refuse_unwritable_options(self.loss_options, "training.loss_options", RecipeError)
        if self.loss_options and not self.loss:
            raise RecipeError(
                "training.loss_options have no effect without training.loss",
                "leave them out, or name a registered loss",
            )
        if self.seed >= 2**62:
            raise RecipeError(f"training.seed is too large: {self.seed}", "give a number below 2^62")
        if self.distillation is not None and self.r_drop:
            raise RecipeError(
                "training.r_drop and training.distillation are both set",
                "leave out the one or the other: --set training.r_drop=0 leaves out that of a recipe",
            )
        if self.refit:
            self.refuse_selection("training.refit")
        if self.average_last == 1:
            raise RecipeError(
                "training.average_last = 1 is a single checkpoint", "0 turns it off; 5 to 10 is usual"
            )
        for name in ("best_metric", "second_metric"):
            _refuse_unknown_metric(name, getattr(self, name))
        if self.second_metric is not None and measured_name(self.second_metric) == self.choosing[0]:
            raise RecipeError(
                f"training.second_metric is the same as best_metric, {self.best_metric!r}",
                "leave it out, or give another",
            )
        if self.keep < 2:
            raise RecipeError(
                f"training.keep must be 2 or more, not {self.keep}", "the newest may be incomplete"
            )

    def refuse_selection(self, setting: str) -> None:
        """Refuse what needs validation, for a training run without it that `setting` asks for.

        Raises:
            RecipeError: `patience` or `average_last` is set.
        """
        for name in ("patience", "average_last"):
            if getattr(self, name):
                raise RecipeError(
                    f"{setting} and training.{name} are both set, but {name} needs validation data",
                    f"leave out the one or the other: --set {setting}=false, or --set training.{name}=0",
                )

    @property
    def warmup(self) -> int:
        """The number of warm-up updates."""
        return self.schedule.warmup_of(self.max_steps)

    @property
    def kept_checkpoints(self) -> int:
        """The number of checkpoints to keep on disk."""
        return max(self.keep, self.average_last)

    @property
    def choosing(self) -> tuple[str, ...]:
        """The names of the scores that select the best model: one or two."""
        return tuple(measured_name(each) for each in (self.best_metric, self.second_metric) if each)


def _refuse_unknown_metric(name: str, metric: str | None) -> None:
    """Raise a RecipeError for a metric that is neither regard's nor has a sign."""
    if metric is None or metric in METRICS:
        return
    own = measured_name(metric)
    if own in METRICS:
        raise RecipeError(f"training.{name} is {metric!r}, but regard knows {own!r}", f"write {own!r}")
    if own == metric or not own:
        known = ", ".join(map(repr, METRICS))
        hint = f"one of your own has a sign: '-{own}' if less is better, '+{own}' if more is"
        near = did_you_mean(metric, METRICS)
        raise RecipeError(
            f"training.{name} must be one of {known}, not {metric!r}",
            f"{near} {hint}" if near.endswith("?") else hint,
        )
