"""A warning when training becomes much slower because other programs use the cores too.

Threads then wait for each other at every matrix product. The run does not change its number of threads by
itself, because other numbers can give other bits.
"""

from collections import deque

import torch

from regard.training.pace import Update

FIRST = 3  # updates that are slow for other reasons
REFERENCE = 20  # updates whose mean speed is the usual one
RECENT = 20  # updates that are compared with it,
SECONDS = 30.0  # if they took that long
FACTOR = 4.0


class SlowdownWatch:
    """Compares the speed of recent updates with that of the first ones."""

    def __init__(self) -> None:
        self._seen = 0
        self._usual_targets = self._usual_seconds = 0.0
        self._recent: deque[Update] = deque(maxlen=RECENT)
        self._warned = False

    def warning(self, update: Update) -> str | None:
        """A warning, once, if the run has become slower than a quarter of its speed at the start."""
        self._seen += 1
        if self._seen <= FIRST:
            return None
        if self._seen <= FIRST + REFERENCE:
            self._usual_targets += update.targets
            self._usual_seconds += update.seconds
            return None
        self._recent.append(update)
        seconds = sum(each.seconds for each in self._recent)
        if self._warned or len(self._recent) < RECENT or seconds < SECONDS or torch.get_num_threads() == 1:
            return None
        now = sum(each.targets for each in self._recent) / seconds
        usual = self._usual_targets / self._usual_seconds
        if now * FACTOR > usual:
            return None
        self._warned = True
        return (
            f"training has slowed from {usual:,.0f} to {now:,.0f} targets a second: other programs use the"
            " cores; with --threads 1 (stop the run, and resume it so) it may be faster"
        )
