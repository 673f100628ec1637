"""The process in which llama.cpp computes what a certificate compares.

A job comes by standard input and the answer goes to standard output, both as JSON. Nothing of regard's models
is loaded here. llama.cpp has no beam search: here each hypothesis is read from where it differs from the one
before.
"""

import json
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from regard.exports.gguf_package import llama_cpp

FILE = "model.gguf"
FLOAT32 = 0  # ggml's number of the type
READ = 512  # tokens of a context


class Reader:
    """A file that llama.cpp reads; of ids it keeps the keys and values of those that it has read last."""

    def __init__(self, path: Path, threads: int, longest: int) -> None:
        self.model = llama_cpp().Llama(
            str(path), n_ctx=longest, n_batch=longest, n_threads=threads, n_threads_batch=threads,
            logits_all=True, type_k=FLOAT32, type_v=FLOAT32, verbose=False,
        )  # fmt: skip
        self.held: list[int] = []

    def log_probs(self, ids: Sequence[int], first: int = 0) -> np.ndarray:
        """The log-probabilities of what follows each id, from the one at `first` on."""
        pairs = enumerate(zip(self.held, ids, strict=False))
        same = next((place for place, (one, two) in pairs if one != two), min(len(self.held), len(ids)))
        self.model.n_tokens = min(same, len(ids) - 1)  # llama.cpp forgets what follows
        self.model.eval(list(ids[self.model.n_tokens :]))
        self.held = list(ids)
        logits = np.asarray(self.model.scores[first : len(ids)], np.float64)
        shifted = logits - logits.max(axis=-1, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))

    def search(self, ids: Sequence[int], size: int, longest: int, end: int) -> tuple[list[int], float]:
        """The best output of a beam and its mean log-probability, with its end if it has one.

        A beam stops when as many hypotheses as its size have ended; one of the greatest length is cut.
        """
        running: list[tuple[float, list[int]]] = [(0.0, [])]
        finished: list[tuple[float, list[int]]] = []
        for length in range(1, longest + 1):
            last = len(ids) + length - 2
            totals = np.stack([total + self.log_probs([*ids, *output], last)[0] for total, output in running])
            order = np.argsort(-totals, axis=None, kind="stable")[: 2 * size]
            candidates = [(float(totals.flat[each]), *divmod(int(each), totals.shape[1])) for each in order]
            grown = []
            for place, (total, row, token) in enumerate(candidates[:1] if size == 1 else candidates):
                output = [*running[row][1], token]
                if token != end:
                    grown.append((total, output))
                elif place < size:
                    finished.append((total / length, output))
            running = grown[:size]
            ended = len(finished)
            if length == longest or not running:
                finished += [(total / length, output) for total, output in running]
            elif ended < size:
                continue
            break
        score, output = max(finished, key=lambda each: (each[0], [-number for number in each[1]]))
        return output, score


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Greedy and beam outputs of the sources, log-probabilities of the forced outputs, ids of texts."""
    pairs = [[*given, *output] for given, output in job["forced"]]
    longest = max([*map(len, pairs), *(len(ids) + job["longest"] for ids in job["sources"]), READ])
    if job["most_positions"] is not None:
        longest = min(longest, job["most_positions"])
    reader = Reader(Path(job["folder"]) / FILE, job["threads"], longest)
    return {
        "greedy": [reader.search(ids, 1, job["longest"], job["end"]) for ids in job["sources"]],
        "beam": [reader.search(ids, job["beam"], job["longest"], job["end"]) for ids in job["sources"]],
        "log_probs": [
            [float(found[place, number]) for place, number in enumerate(ids[1:])]
            for ids in pairs
            for found in [reader.log_probs(ids)]
        ],
        "ids": [reader.model.tokenize(text.encode(), add_bos=False, special=False) for text in job["texts"]],
        "versions": {
            "llama-cpp-python": version("llama_cpp_python"),
            "gguf": version("gguf"),
            "python": platform.python_version(),
        },
    }


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
