"""A learning rate schedule of one's own: cosine with warm restarts (Loshchilov and Hutter 2017).

    python examples/schedule.py

A recipe names it: `[training.schedule] kind = "restarts"`, and may set `options = { cycles = 5 }`. `regard
plot schedule` draws it if an installed package registers it.
"""

import math

import regard
from regard.training import Schedule, ScheduleSettings, register_schedule


@register_schedule("restarts")
def restarts(step: int, warmup: int, max_steps: int, cycles: int = 3) -> float:
    """Falls from 1 to 0 in each of the cycles after the warm-up."""
    progress = (step - warmup) / max(1, max_steps - warmup)  # from 0 to 1
    return (1 + math.cos(math.pi * (progress * cycles % 1.0))) / 2


SMALL = [  # sequences of five symbols, learned in seconds
    *(f"data.{part}.length=5" for part in ("train", "valid", "test")),
    "data.train.size=10000",
    "data.test.size=100",
    "batches.batch_tokens=700",
    "training.max_steps=300",
]

if __name__ == "__main__":
    settings = ScheduleSettings(kind="restarts", learning_rate=0.01, warmup_steps=20)
    schedule = Schedule(settings=settings, max_steps=300, d_model=64)
    print([round(schedule(step), 4) for step in range(20, 300, 40)])
    chosen = ['training.schedule.kind="restarts"', "training.schedule.cooldown=0"]
    run = regard.train("reverse", out="runs/restarts", overrides=[*chosen, *SMALL], quiet=True)
    print(regard.translate("3 1 4 1 5", model=run.model))
