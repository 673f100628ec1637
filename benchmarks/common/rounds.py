"""Rounds: contenders take turns with a piece of work; each round begins with another contender.

If other processes of the machine used more than DISTURBED cores during a sample, it is measured once more. If
the second sample is no better, it counts, and the table reports the number of such samples.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.common import memory
from benchmarks.common.contender import Contender
from benchmarks.common.unfit import Unfit

PAUSE = 0.4  # seconds between two samples: OpenMP threads of some libraries spin for 0.2 s after their work
DISTURBED = 0.1


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A contender's report about a piece of work; `others`: cores that other processes used meanwhile."""

    answer: Mapping[str, Any]
    others: float

    def rate(self, unit: str) -> float:
        return self.answer[unit] / self.answer["seconds"]


Samples = dict[str, list[Sample]]


def sample(contender: Contender, call: str, arguments: Mapping[str, Any]) -> Sample:
    began, busy, own = time.perf_counter(), memory.busy_seconds(), memory.processor_seconds(contender.session)
    answer = contender.ask(call, **arguments)
    wall = time.perf_counter() - began
    others = memory.busy_seconds() - busy - (memory.processor_seconds(contender.session) - own)
    return Sample(answer=answer, others=max(0.0, others / wall))


def rounds(
    taking_part: Sequence[Contender],
    count: int,
    arguments: Mapping[str, Any],
    *,
    call: str = "round",
    warm_up: Mapping[str, Any] | None = None,
    again: bool = True,
    say: Callable[[str], None] = print,
) -> Samples:
    """`count` samples of each contender, after a warm-up call with the arguments `warm_up`.

    A contender that turns out to be unfit is left out from then on, and its `absent` says why.
    """
    samples: Samples = {each.name: [] for each in taking_part if each.absent is None}
    for number in range(-1 if warm_up is not None else 0, count):
        here = [each for each in taking_part if each.absent is None]
        first = number % len(here) if here else 0
        for contender in here[first:] + here[:first]:
            time.sleep(PAUSE)
            try:
                if number < 0:
                    contender.ask(call, **(warm_up or {}))
                    continue
                taken = sample(contender, call, arguments)
                if again and taken.others > DISTURBED:
                    second = sample(contender, call, arguments)
                    taken = min(taken, second, key=lambda each: each.others)
                samples[contender.name].append(taken)
            except Unfit as unfit:
                contender.absent = str(unfit)
                samples.pop(contender.name)
        say(f"round {number + 1} of {count}" if number >= 0 else "warmed up")
    return samples


def best(samples: Sequence[Sample], unit: str) -> float:
    return max(each.rate(unit) for each in samples)


def median(samples: Sequence[Sample], unit: str) -> float:
    return statistics.median(each.rate(unit) for each in samples)


def ratio(samples: Sequence[Sample], reference: Sequence[Sample], unit: str) -> float:
    """The median over the rounds of the speed relative to the reference in the same round."""
    return statistics.median(
        mine.rate(unit) / theirs.rate(unit) for mine, theirs in zip(samples, reference, strict=True)
    )


def disturbed(samples: Sequence[Sample]) -> int:
    return sum(each.others > DISTURBED for each in samples)
