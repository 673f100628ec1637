"""The process in which onnxruntime computes what a certificate compares.

It does so by the generate.py of the folder. A job comes by standard input and the answer goes to standard
output, both as JSON. Nothing of regard's models is loaded here.
"""

import importlib.util
import json
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROWS = 16  # forced sequences of a batch
SCRIPT = "generate.py"
Pair = Sequence[list[int]]  # what is given, and the ids that are forced after it


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Greedy and beam outputs of the sources, and the log-probabilities of the forced outputs."""
    script = loop_of(Path(job["folder"]))
    model = script.Model(Path(job["folder"]), job["threads"])
    end = model.config["target"]["eos_id"]

    def best(size: int) -> list[tuple[list[int], float]]:
        found = (model.search(ids, size, job["longest"]) for ids in job["sources"])
        return [([*each.ids, end] if each.ended else each.ids, each.score) for each in found]

    forced = _forced_outputs if job["kind"] == "encoder_decoder" else _forced_texts
    return {
        "greedy": best(1),
        "beam": best(job["beam"]),
        "log_probs": [
            each
            for first in range(0, len(job["forced"]), ROWS)
            for each in forced(script, model, job["forced"][first : first + ROWS])
        ],
        "versions": {
            **{name: version(name) for name in ("onnx", "onnxruntime", "tokenizers", "numpy")},
            "python": platform.python_version(),
        },
    }


def loop_of(folder: Path) -> Any:
    """The module generate.py of an export."""
    return module_of(folder / SCRIPT)


def module_of(path: Path) -> Any:
    """A file of an export as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _forced_outputs(script: Any, model: Any, pairs: Sequence[Pair]) -> list[list[float]]:
    """The log-probability of each id of these outputs, and of the end."""
    side = model.config["target"]
    rows = [[side["bos_id"], *output, side["eos_id"]] for _, output in pairs]
    memory = model.read([given for given, _ in pairs])
    return _next_log_probs(script, model, rows, memory)


def _forced_texts(script: Any, model: Any, pairs: Sequence[Pair]) -> list[list[float]]:
    """The log-probability of each id of these texts but the first."""
    return _next_log_probs(script, model, [[*given, *output] for given, output in pairs], {})


def _next_log_probs(
    script: Any, model: Any, rows: Sequence[list[int]], memory: dict[str, Any]
) -> list[list[float]]:
    """The log-probability of each id of each row but the first, read at once with an empty cache."""
    inputs = {"ids": script.padded(rows)[:, :-1], **memory, **model.empty_cache(len(rows))}
    log_probs = script.log_softmax(script.run(model.decoder, inputs)["logits"])
    return [
        [float(found[place, number]) for place, number in enumerate(row[1:])]
        for found, row in zip(log_probs, rows, strict=True)
    ]


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
