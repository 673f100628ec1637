"""What a recipe's `[training]` section may say."""

from dataclasses import dataclass, field
from typing import Literal

from regard.errors import RecipeError
from regard.models.adapters import AdapterSettings
from regard.training.collapse import CollapseSettings
from regard.training.optimizer import OptimizerSettings
from regard.training.products import Products
from regard.training.schedule import ScheduleSettings

Metric = Literal[
    "loss",
    "bleu",
    "chrf",
    "exact_match",
    "error_rate",
    "accuracy",
    "macro_f1",
    "label_error_rate",
    "mean_absolute_error",
]

# Is more of it better?
METRICS: dict[Metric, bool] = {
    "loss": False,
    "bleu": True,
    "chrf": True,
    "exact_match": True,
    "error_rate": False,
    "accuracy": True,
    "macro_f1": True,
    "label_error_rate": False,
    "mean_absolute_error": False,
}


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How long, how fast, how regular, and how often to look and to save; all counts are of updates."""

    seed: int = 1
    max_steps: int = 10_000
    accumulate: int = 1  # batches an update, weighted by their tokens
    clip_norm: float = 0.0  # 0 clips nothing
    label_smoothing: float = 0.1
    loss: str = ""  # the name of a registered loss, in place of the task's own: see `register_loss`
    r_drop: float = 0.0  # weight of R-Drop's divergence; doubles the cost of an update
    moving_average: float = 0.0  # decay of the exponential moving average of weights, e.g. 0.998
    average_last: int = (
        0  # at the end, the mean of the last k checkpoints (or of their moving averages) is a candidate too
    )
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # auto: bfloat16 where a GPU has it
    products: Products = "auto"  # float32 matrix products on a CPU: the fastest library, or PyTorch's default
    report_every: int = 50
    validate_every: int = 500
    save_every: int = 500
    keep: int = 2  # checkpoints on disk; averaging keeps as many as it needs
    patience: int = 0  # validations without a better `best_metric` before stopping; 0 never stops
    best_metric: Metric = "loss"
    second_metric: Metric | None = None  # best is then where neither was ever better, stale where both were
    nonfinite_skips: int = 5  # updates in a row that may be skipped before rolling back
    collapse: CollapseSettings = field(default_factory=CollapseSettings)  # a second try at half the rate
    freeze: tuple[str, ...] = ()  # modules whose weights stay as they are, by the beginnings of their names
    adapter: AdapterSettings | None = None  # train low-rank adapters in the place of the weights
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)

    def __post_init__(self) -> None:
        for name in ("max_steps", "accumulate", "report_every", "validate_every", "save_every"):
            if getattr(self, name) < 1:
                raise RecipeError(
                    f"training.{name} must be 1 or more, not {getattr(self, name)}", "count updates"
                )
        for name in ("clip_norm", "r_drop", "average_last", "patience", "nonfinite_skips", "seed"):
            if getattr(self, name) < 0:
                raise RecipeError(
                    f"training.{name} must be 0 or more, not {getattr(self, name)}", "0 turns it off"
                )
        for name in ("label_smoothing", "moving_average"):
            if not 0 <= getattr(self, name) < 1:
                raise RecipeError(
                    f"training.{name} must lie in [0, 1), not {getattr(self, name)}", "0 turns it off"
                )
        if self.seed >= 2**62:
            raise RecipeError(f"training.seed is too large: {self.seed}", "any number below 2^62 makes a run")
        if self.average_last == 1:
            raise RecipeError(
                "training.average_last = 1 averages nothing", "0 turns it off; 5 to 10 is usual"
            )
        if self.second_metric == self.best_metric:
            raise RecipeError(
                f"training.second_metric is best_metric, {self.best_metric!r}",
                "leave it out, or name another",
            )
        if self.keep < 2:
            raise RecipeError(f"training.keep must be 2 or more, not {self.keep}", "one may be half written")

    @property
    def warmup(self) -> int:
        """Updates of the warm-up."""
        return self.schedule.warmup_of(self.max_steps)

    @property
    def kept_checkpoints(self) -> int:
        return max(self.keep, self.average_last)

    @property
    def choosing(self) -> tuple[Metric, ...]:
        """The metrics by which the best model is chosen: one or two."""
        return (self.best_metric, *([self.second_metric] if self.second_metric else []))
