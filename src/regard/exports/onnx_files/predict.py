"""Classes of texts, labels of words, or words for masked places, by the ONNX graph of this folder.

It needs numpy, onnxruntime and tokenizers.

    python predict.py "a text" "another"
    python predict.py < texts.txt

A text that is not in the arguments is a line of the standard input. The output has the lines of
`regard classify`, `regard tag` or `regard fill`, whichever the model is for. A text that is too long or not
UTF-8 is named, has an empty line, and the program ends with 1.
"""

import argparse
import json
import os
import re
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import tokenizers

TOP = 5  # words for a masked place


class Reading(NamedTuple):
    """The ids of a text, and the predicted positions of words or masks; None for the whole text."""

    ids: list[int]
    places: list[int] | None
    words: list[str]  # of a tagger


class Model:
    """The graph and the tokeniser of a folder."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        self.config = json.loads((folder / "config.json").read_text("utf-8"))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads  # 0: one for each core
        options.log_severity_level = 3
        self.graph: Any = onnxruntime.InferenceSession(
            folder / "encoder.onnx", options, providers=["CPUExecutionProvider"]
        )
        self.source = self.config["source"]
        self.tokenizer = tokenizers.Tokenizer.from_file(str(folder / self.source["tokenizer"]))
        self.tokenizer.encode_special_tokens = True  # no text encodes to a special token
        self.unknown = set(self.source["unknown_ids"])

    def predict(self, text: str, line: int = 1) -> str:
        """The lines that are put out for a text, which is the one of this number."""
        read = self.read(text)
        if self.config["most_positions"] is not None and len(read.ids) > self.config["most_positions"]:
            raise ValueError(
                f"the text has {len(read.ids)} tokens, more than {self.config['most_positions']}"
            )
        if not read.places and read.places is not None:
            return ""
        [values] = self.outputs([read])
        if self.config["head"] == "regression":
            return f"{values[0, 0]:.6g}\n"
        chances = np.exp(log_softmax(values))
        labels = self.config["labels"]
        if self.config["head"] == "classification":
            return f"{labels[int(chances[0].argmax())]}\t{chances[0].max():.4f}\n"
        if self.config["head"] == "tokens":
            rows = zip(read.words, chances, strict=True)
            return "".join(f"{word}\t{labels[int(row.argmax())]}\n" for word, row in rows) + "\n"
        return "".join(
            f"{line}\t{number}\t{self.token(int(each))}\t{row[each]:.4f}\n"
            for number, row in enumerate(chances, start=1)
            for each in np.argsort(-row, kind="stable")[:TOP]
        )

    def outputs(self, texts: Sequence[Reading]) -> list[np.ndarray]:
        """The output of the graph for each text: a row of numbers for it, or for each of its places."""
        width = max(len(each.ids) for each in texts)
        pad = self.source["pad_id"]
        ids = np.array([[*each.ids, *[pad] * (width - len(each.ids))] for each in texts], np.int64)
        lengths = np.array([len(each.ids) for each in texts])
        [found] = self.graph.run(["output"], {"ids": ids, "lengths": lengths})
        found = found[:, None] if found.ndim == 1 else found
        rows = zip(found, texts, strict=True)
        return [row[None] if each.places is None else row[each.places] for row, each in rows]

    def read(self, text: str) -> Reading:
        """The ids of a text as the model reads it."""
        text = text.strip()
        if self.config["head"] == "tokens":
            return self.read_words(split_words(text))
        if self.config["head"] == "masked_language_model":
            return self.read_masks(text)
        return Reading(
            self.framed([number for word in self.words(text) for number in self.ids(word)]), None, []
        )

    def read_words(self, words: list[str]) -> Reading:
        """The ids of words, each predicted at its first id."""
        ids: list[int] = []
        places = []
        for word in words:
            places.append(1 + len(ids))
            parts = self.words(self.source["word_prefix"] + word)
            ids += [number for part in parts for number in self.ids(part)] or [self.source["unk_id"]]
        return Reading(self.framed(ids), places, words)

    def read_masks(self, text: str) -> Reading:
        """The ids of a text with masked tokens."""
        first, *others = re.split("|".join(map(re.escape, self.source["mask_spellings"])), text)
        spaced = self.source["spaces_begin_words"]  # the space before a mask then belongs to it
        first = first.rstrip() if spaced and others else first
        ids = [number for word in self.words(first) for number in self.ids(word)]
        places = []
        for place, segment in enumerate(others):
            places.append(1 + len(ids))
            segment = segment.rstrip() if spaced and place < len(others) - 1 else segment
            ids += [self.source["mask_id"], *self.after_a_word(segment)]
        return Reading(self.framed(ids), places, [])

    def after_a_word(self, segment: str) -> list[int]:
        """The ids of what follows a mask, as if that were a word."""
        first, *others = self.words("x" + segment)
        words = others if [first] == self.words("x") else self.words(segment)
        return [number for word in words for number in self.ids(word)]

    def framed(self, ids: list[int]) -> list[int]:
        """The ids between those of the beginning and the end; those of a whole text are cut to fit."""
        most = self.config["most_positions"]
        if most is not None and self.config["head"] in ("classification", "regression"):
            ids = ids[: max(0, most - 2)]
        return [self.source["bos_id"], *ids, self.source["eos_id"]]

    def words(self, text: str) -> list[str]:
        """The parts of a text that no token crosses."""
        normalizer, splitter = self.tokenizer.normalizer, self.tokenizer.pre_tokenizer
        text = normalizer.normalize_str(text) if normalizer else text
        return [word for word, _ in splitter.pre_tokenize_str(text)] if splitter else [text]

    def ids(self, word: str) -> list[int]:
        """The ids of such a part."""
        found = (token.id for token in self.tokenizer.model.tokenize(word))
        return [self.source["unk_id"] if number in self.unknown else number for number in found]

    def token(self, number: int) -> str:
        """A token as text; a special one by its name."""
        dropped = number in self.source["dropped_ids"]
        text = "" if dropped else self.tokenizer.decode([number], skip_special_tokens=False)
        return text.strip() or str(self.tokenizer.id_to_token(number))


def split_words(text: str) -> list[str]:
    """The words of a text, with punctuation before and after each as words of their own."""
    return [part for word in text.split() for part in word_parts(word)]


def word_parts(word: str) -> list[str]:
    """A word between the signs around it; a final full stop stays if the word has another ("U.S.")."""
    inside = [place for place, sign in enumerate(word) if not is_punctuation(sign)]
    if not inside:
        return runs(word)
    first, last = inside[0], inside[-1] + 1
    if word[last : last + 1] == "." and "." in word[first:last]:
        last += 1
    return [*runs(word[:first]), word[first:last], *runs(word[last:])]


def runs(signs: str) -> list[str]:
    """Signs, the same in a row as one."""
    return [found[0] for found in re.finditer(r"(.)\1*", signs)]


def is_punctuation(sign: str) -> bool:
    """True for punctuation and currency signs."""
    category = unicodedata.category(sign)
    return category.startswith("P") or category == "Sc"


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Log-probabilities, in double precision."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def read(text: str | bytes) -> str:
    """A text of the arguments, or a line."""
    try:
        return text.rstrip(b"\r\n").decode() if isinstance(text, bytes) else os.fsencode(text).decode()
    except UnicodeError:
        raise ValueError("not UTF-8") from None


def main() -> None:
    """The command."""
    arguments = argparse.ArgumentParser(description="Predict by the graph of this folder.")
    arguments.add_argument("texts", nargs="*", metavar="TEXT")
    given = arguments.parse_args()
    model = Model(Path(__file__).resolve().parent)
    status = 0
    for number, text in enumerate(given.texts or sys.stdin.buffer, start=1):
        try:
            text = read(text)
            lines = model.predict(text, number) if text.strip() else "\n"
        except ValueError as error:
            print(f"error: text {number}: {error}", file=sys.stderr)
            lines, status = "\n", 1
        print(lines, end="", flush=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
