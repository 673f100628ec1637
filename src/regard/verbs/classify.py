"""Classify: text in, its class and how sure the model is out; a line for a line, in order."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from regard import console
from regard.data.texts import EncodedText, encoded_text
from regard.verbs.any_model import AnyModel, open_model
from regard.verbs.arguments import checked
from regard.verbs.lines import stream
from regard.verbs.load_encoder import encoder_that, probabilities
from regard.verbs.suggested_recipes import needs_model
from regard.verbs.tasks.text import logits_of
from regard.verbs.texts import strings

CHUNK = 1024  # lines that are read, sorted by length and looked at before the first of them is given out
MAX_CHARACTERS = 100_000  # of a text; what follows is left out, which is said


@dataclass(frozen=True, kw_only=True)
class ClassProbability:
    """A class, and how likely the model thinks it."""

    label: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class Classified:
    """A line and its classes, likeliest first. An empty line has none; a model of numbers gives `value`."""

    line: int
    text: str
    candidates: tuple[ClassProbability, ...] = ()
    value: float | None = None

    @property
    def label(self) -> str | None:
        return self.candidates[0].label if self.candidates else None

    @property
    def probability(self) -> float | None:
        return self.candidates[0].probability if self.candidates else None

    def to_dict(self) -> dict[str, Any]:
        """As `regard classify --json` prints it: with as many digits as do not depend on the other texts."""
        if self.value is not None:
            return {"line": self.line, "text": self.text, "value": float(f"{self.value:.6g}")}
        candidates = [
            {"label": each.label, "probability": round(each.probability, 6)} for each in self.candidates
        ]
        return {"line": self.line, "text": self.text, "label": self.label, "candidates": candidates}


class Classifier:
    """A model, loaded once, that classifies texts. What it says of a text depends on that text alone.

    Args:
        model: a model or run folder, or what `regard.load` gives.
        top: how many classes are told of each, likeliest first.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        allow_fresh_head: let a model speak whose head nobody has trained.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads; PyTorch's choice without.
    """

    @needs_model
    @checked
    def __init__(
        self,
        model: AnyModel,
        *,
        top: int = 1,
        batch_tokens: int = 4096,
        allow_fresh_head: bool = False,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        self.loaded = open_model(model, device, threads)
        heads = "classification", "regression"
        self.model = encoder_that("classifies texts", heads, self.loaded, allow_fresh=allow_fresh_head)
        self.tokenizer = self.loaded.tokenizers.source
        self.labels = self.loaded.labels
        self.top, self.batch_tokens = top, batch_tokens

    def __call__(self, texts: Iterable[str]) -> Iterator[Classified]:
        """What each text is, in order; `texts` may be without end.

        Raises:
            DataError: one of them is no string.
        """
        texts = strings(texts)
        return self.in_chunks(iter(lambda: list(islice(texts, CHUNK)), []))

    def in_chunks(self, chunks: Iterable[Sequence[str]]) -> Iterator[Classified]:
        """The same for texts that come several at a time: all of a chunk are looked at together."""
        first = 1
        for chunk in chunks:
            yield from self._classify(chunk, first)
            first += len(chunk)

    def _classify(self, lines: Sequence[str], first: int) -> Iterator[Classified]:
        there = [place for place, line in enumerate(lines) if line and not line.isspace()]
        texts = [self._text(lines[place], first + place) for place in there]
        found = dict(zip(there, self._answers(texts), strict=True))
        for place, line in enumerate(lines):
            yield Classified(line=first + place, text=line, **found.get(place, {}))

    def _answers(self, texts: Sequence[EncodedText]) -> Iterator[dict[str, Any]]:
        for logits in logits_of(self.model, texts, self.tokenizer.pad_id, self.batch_tokens):
            if self.model.config.head == "regression":
                yield {"value": float(logits[0])}
                continue
            [shares] = probabilities(logits)
            yield {"candidates": candidates(shares, self.labels, self.top)}

    def _text(self, line: str, number: int) -> EncodedText:
        """The ids of a line; of one that is too long those of its beginning, and that is said."""
        pieces = self.tokenizer.encode_words(line[:MAX_CHARACTERS].strip())
        most = self.model.max_length
        if len(line) > MAX_CHARACTERS or (most is not None and sum(map(len, pieces)) + 2 > most):
            console.warn(
                f"line {number} is too long ({len(line):,} characters): only its beginning is classified"
            )
        return encoded_text(pieces, [0], tokenizer=self.tokenizer, line=number, max_tokens=most)


def candidates(shares: Sequence[float], labels: Sequence[str], top: int) -> tuple[ClassProbability, ...]:
    """The `top` likeliest classes of one example; of equally likely ones the first."""
    best = sorted(range(len(shares)), key=lambda number: -shares[number])[:top]
    return tuple(ClassProbability(label=labels[number], probability=shares[number]) for number in best)


@needs_model
@checked
def classify(
    text: str | Iterable[str],
    *,
    model: AnyModel,
    top: int = 1,
    batch_tokens: int = 4096,
    allow_fresh_head: bool = False,
    device: str = "auto",
    threads: int | None = None,
) -> Any:
    """The class of a text, or of each text of several: None of an empty one, a number by a model of numbers.

    With `top` above 1 there is a list of that many (label, probability), likeliest first, in the place of
    each. For many calls keep a `Classifier`.

    Args:
        text: one text, or several.
        model: a model or run folder, or what `regard.load` gives.
        top: how many classes are told of each, likeliest first.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        allow_fresh_head: let a model speak whose head nobody has trained.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads; PyTorch's choice without.

    Raises:
        FolderError: the model does not classify, or nobody has trained its head and `allow_fresh_head`
            does not allow that.
        DataError: a text is no string.
    """
    classifier = Classifier(
        model,
        top=top,
        batch_tokens=batch_tokens,
        allow_fresh_head=allow_fresh_head,
        device=device,
        threads=threads,
    )
    found = [_answer(each, top) for each in classifier(text)]
    return found[0] if isinstance(text, str) else found


@needs_model
@checked
def classify_file(
    input: str | Path,
    *,
    model: AnyModel,
    top: int = 1,
    batch_tokens: int = 4096,
    allow_fresh_head: bool = False,
    device: str = "auto",
    threads: int | None = None,
) -> list[Any]:
    """What `classify` gives of each line of a file, plain or gzipped.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a text.
        model: a model or run folder, or what `regard.load` gives.
        top: how many classes are told of each, likeliest first.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        allow_fresh_head: let a model speak whose head nobody has trained.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads; PyTorch's choice without.
    """
    return classify(
        stream(input),
        model=model,
        top=top,
        batch_tokens=batch_tokens,
        allow_fresh_head=allow_fresh_head,
        device=device,
        threads=threads,
    )


def _answer(classified: Classified, top: int) -> Any:
    if classified.value is not None:
        return classified.value
    if top == 1:
        return classified.label
    return [(each.label, each.probability) for each in classified.candidates]


def printed(classified: Classified, *, ranked: bool = False, as_json: bool = False) -> str:
    """A line: LABEL, PROBABILITY; `ranked`: LINE, LABEL, PROBABILITY for each candidate; or JSON.

    An empty text gives an empty line, and when `ranked` none.
    """
    if as_json:
        return json.dumps(classified.to_dict(), ensure_ascii=False) + "\n"
    if classified.value is not None:
        return f"{classified.value:.6g}\n"
    if ranked:
        return "".join(
            f"{classified.line}\t{each.label}\t{each.probability:.4f}\n" for each in classified.candidates
        )
    if not classified.candidates:
        return "\n"
    return f"{classified.label}\t{classified.probability:.4f}\n"
