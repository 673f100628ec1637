"""The process in which CTranslate2 computes what a certificate compares.

A job comes by standard input and the answer goes to standard output, both as JSON. Nothing of regard's models
is loaded here.
"""

import json
import platform
import sys
from collections.abc import Callable
from typing import Any

from regard.exports.ctranslate2_calls import (
    Output,
    continuations,
    text_log_probs,
    translation_log_probs,
    translations,
)
from regard.exports.ctranslate2_package import ctranslate2

Best = Callable[[int], list[list[Output]]]  # the size of a beam -> the best outputs of each source


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Greedy and beam outputs of the sources, and the log-probabilities of the forced outputs."""
    package = ctranslate2()
    best, log_probs = (_translated if job["kind"] == "encoder_decoder" else _continued)(package, job)
    return {
        "greedy": [each[0] for each in best(1)],
        "beam": [each[0] for each in best(job["beam"])],
        "log_probs": log_probs,
        "versions": {"ctranslate2": package.__version__, "python": platform.python_version()},
    }


def _translated(package: Any, job: dict[str, Any]) -> tuple[Best, list[list[float]]]:
    engine = package.Translator(job["folder"], device="cpu", intra_threads=job["threads"])
    given, outputs = ([pair[side] for pair in job["forced"]] for side in (0, 1))
    return (
        lambda size: translations(engine, job["sources"], size=size, longest=job["longest"]),
        translation_log_probs(engine, given, outputs),
    )


def _continued(package: Any, job: dict[str, Any]) -> tuple[Best, list[list[float]]]:
    engine = package.Generator(job["folder"], device="cpu", intra_threads=job["threads"])
    return (
        lambda size: continuations(engine, job["sources"], size=size, longest=job["longest"]),
        text_log_probs(engine, [[*given, *output] for given, output in job["forced"]]),
    )


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
