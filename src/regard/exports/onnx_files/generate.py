"""Translate or continue texts by the ONNX graphs of this folder.

It needs numpy, onnxruntime and tokenizers.

    python generate.py "a text" "another"
    python generate.py < texts.txt
    python generate.py --beam 1 "a text"

A text that is not in the arguments is a line of the standard input. There is a line of output for each.
A text that is too long or not UTF-8 is named, has an empty line, and the program ends with 1.
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import tokenizers

Arrays = dict[str, np.ndarray]


class Hypothesis(NamedTuple):
    """Token ids that were put out, without the end; `ended`: there is one."""

    ids: list[int]
    score: float  # the mean log-probability of a token, the end included
    ended: bool


class Rules(NamedTuple):
    """What else a search obeys: other tokens that end a text, its first token, those that it never has."""

    end_ids: Sequence[int] = ()
    forced_id: int | None = None  # at no cost
    never_ids: Sequence[int] = ()


class Model:
    """The graphs and tokenisers of a folder."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        self.config = json.loads((folder / "config.json").read_text("utf-8"))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads  # 0: one for each core
        options.log_severity_level = 3

        def session(name: str) -> Any:
            return onnxruntime.InferenceSession(folder / name, options, providers=["CPUExecutionProvider"])

        self.encoder = session("encoder.onnx") if self.config["kind"] == "encoder_decoder" else None
        self.decoder = session("decoder.onnx")
        self.source, self.target = (
            tokenizers.Tokenizer.from_file(str(folder / self.config[side]["tokenizer"]))
            for side in ("source", "target")
        )
        self.source.encode_special_tokens = True  # no text encodes to a special token

    def generate(self, text: str, size: int | None = None, max_new_tokens: int | None = None) -> str:
        """The translation of a text, with the white space around it, or the text with its continuation."""
        bare = text.strip() if self.encoder else text
        known = self.readable(bare)
        if self.encoder and not known:
            return text.replace(bare, "")
        ids = self.encode(known)
        most, read = self.config["most_positions"], len(ids) + (self.encoder is not None)  # with its end
        if most is not None and read > most:
            raise ValueError(f"the text has {read} tokens, more than {most}")
        longest = self.longest(len(ids)) if max_new_tokens is None else max_new_tokens
        found = self.search(ids, size or self.config["beam"], longest, Rules(**self.config["rules"]))
        said = self.decode(found.ids if self.encoder else [*ids, *found.ids])
        return text.replace(bare, said) if self.encoder else said

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        side = self.config["source"]
        ids = self.source.encode(text, add_special_tokens=False).ids
        unknown = set(side["unknown_ids"])
        return [*side["first_ids"], *(side["unk_id"] if number in unknown else number for number in ids)]

    def readable(self, text: str) -> str:
        """The text without spaces that the model does not know: others are in their places."""
        return text.translate(str.maketrans(self.config["source"]["replaced"]))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids."""
        dropped = set(self.config["target"]["dropped_ids"])
        return self.target.decode([number for number in ids if number not in dropped], False)

    def longest(self, length: int) -> int:
        """The greatest number of output tokens for a text of `length` tokens."""
        limits, most = self.config["max_new_tokens"], self.config["most_positions"] or math.inf
        given = 1 if self.encoder else length  # tokens that the decoder reads first
        allowed = math.ceil(limits["ratio"] * length + limits["offset"])
        return int(max(1, min(allowed, limits["most"], most - given)))

    def search(self, ids: Sequence[int], size: int, longest: int, rules: Rules | None = None) -> Hypothesis:
        """The best hypothesis of a beam of `size`, 1 for greedy search, for the ids of a text.

        A beam stops when as many hypotheses as its size have ended. One of the greatest length is finished
        without an end. The best one has the greatest score.
        """
        rules = rules or Rules()
        ends = {self.config["target"]["eos_id"], *rules.end_ids}
        finished: list[Hypothesis] = []
        memory, first = self.begin(ids)
        log_probs, cache = self.step([first], memory, self.empty_cache())
        if rules.forced_id is not None:
            log_probs = np.where(np.arange(log_probs.shape[1]) == rules.forced_id, 0.0, -np.inf)[None]
        outputs, totals, num_ended = [[]], np.zeros(1), 0
        for length in range(1, longest + 1):
            kept: list[tuple[int, int, float]] = []  # row, token, log-probability of the whole
            log_probs[:, list(rules.never_ids)] = -np.inf
            for place, candidate in enumerate(candidates(totals[:, None] + log_probs, size)):
                row, token, total = candidate
                if total == -math.inf:
                    continue
                if token not in ends:
                    kept.append(candidate)
                elif place < size:
                    finished.append(Hypothesis(outputs[row], total / length, True))
                    num_ended += 1
                if size == 1:
                    break
            kept = kept[:size]
            outputs = [[*outputs[row], token] for row, token, _ in kept]
            totals = np.array([total for _, _, total in kept])
            if length == longest or not kept:
                finished += [Hypothesis(*each, False) for each in zip(outputs, totals / length, strict=True)]
            elif num_ended < size:
                rows = [row for row, _, _ in kept]
                cache = {name: value[rows] for name, value in cache.items()}
                memory = {name: value[:1].repeat(len(rows), axis=0) for name, value in memory.items()}
                log_probs, cache = self.step([[token] for _, token, _ in kept], memory, cache)
                continue
            break
        best = sorted(finished, key=lambda each: (-each.score, each.ids))
        return best[0]._replace(score=float(best[0].score))

    def begin(self, ids: Sequence[int]) -> tuple[Arrays, list[int]]:
        """The memory of a source and the first target ids; or none, and the prompt."""
        if self.encoder is None:
            return {}, list(ids)
        return self.read([ids]), [self.config["target"]["bos_id"]]

    def read(self, sources: Sequence[Sequence[int]]) -> Arrays:
        """What the decoder attends to: the keys and values of sources, and their lengths."""
        ends = [[*ids, self.config["source"]["eos_id"]] for ids in sources]
        inputs = {"ids": padded(ends), "lengths": np.array([len(ids) for ids in ends])}
        return {"lengths": inputs["lengths"], **run(self.encoder, inputs)}

    def empty_cache(self, rows: int = 1) -> Arrays:
        """The keys and values of no positions."""
        sizes = self.config["cache"]
        empty = np.zeros((rows, sizes["kv_heads"], 0, sizes["head_dim"]), np.float32)
        return {
            f"past_{each}_{layer}": empty for layer in range(sizes["layers"]) for each in ("key", "value")
        }

    def step(self, ids: Sequence[Sequence[int]], memory: Arrays, cache: Arrays) -> tuple[np.ndarray, Arrays]:
        """The log-probabilities of what follows the ids, equally many a row, and the longer cache."""
        outputs = run(self.decoder, {"ids": np.array(ids), **memory, **cache})
        logits = outputs.pop("logits")[:, -1]
        return log_softmax(logits), {f"past_{name}": value for name, value in outputs.items()}


def candidates(totals: np.ndarray, size: int) -> Iterator[tuple[int, int, float]]:
    """The best 2 * `size` pairs of a row and its next token, best first; of equal ones the lower id."""
    flat = totals.reshape(-1)
    best = np.argpartition(-flat, min(2 * size, flat.size - 1))[: 2 * size]
    rows, tokens = np.divmod(best, totals.shape[1])
    for place in np.lexsort((rows, tokens, -flat[best])):
        yield int(rows[place]), int(tokens[place]), float(flat[best[place]])


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Log-probabilities, in double precision."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def padded(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Rows of ids as an array, with zeros after the shorter ones."""
    width = max(map(len, rows))
    return np.array([[*row, *[0] * (width - len(row))] for row in rows], np.int64)


def run(session: Any, inputs: Arrays) -> Arrays:
    """The outputs of a graph by name."""
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def read(text: str | bytes) -> str:
    """A text of the arguments, or a line."""
    try:
        return text.rstrip(b"\r\n").decode() if isinstance(text, bytes) else os.fsencode(text).decode()
    except UnicodeError:
        raise ValueError("not UTF-8") from None


def main() -> None:
    """The command."""
    arguments = argparse.ArgumentParser(description="Translate or continue texts.")
    arguments.add_argument("texts", nargs="*", metavar="TEXT")
    arguments.add_argument(
        "--beam", type=int, metavar="SIZE", help="hypotheses of the beam search; 1 is greedy search"
    )
    arguments.add_argument("--max-new-tokens", type=int, metavar="COUNT")
    given = arguments.parse_args()
    for option, value in (("--beam", given.beam), ("--max-new-tokens", given.max_new_tokens)):
        if value is not None and value < 1:
            arguments.error(f"{option} must be 1 or more, not {value}")
    model = Model(Path(__file__).resolve().parent)
    status = 0
    for number, text in enumerate(given.texts or sys.stdin.buffer, start=1):
        try:
            text = read(text)
            line = model.generate(text, given.beam, given.max_new_tokens) if text.strip() else ""
        except ValueError as error:
            print(f"error: text {number}: {error}", file=sys.stderr)
            line, status = "", 1
        print(line, flush=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
