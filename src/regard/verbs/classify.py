"""Classify: texts in, their classes and probabilities out."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from regard import console
from regard.data.texts import EncodedText, encoded_text
from regard.errors import UserError
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.lines import stream_lines
from regard.verbs.shared.load_encoder import encoder_that, probabilities
from regard.verbs.shared.python_call import python_call
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.shared.suggested_recipes import needs_model
from regard.verbs.shared.text_options import ClassificationOptions
from regard.verbs.shared.text_verb import TextVerb, one_or_several
from regard.verbs.shared.unknown_tokens import UnknownTokenWarnings
from regard.verbs.tasks.text import logits_of

MAX_CHARACTERS = 100_000  # of a text; the rest is left out, with a warning
OPTIONS = ClassificationOptions()
ClassAnswer = str | float | list[tuple[str, float]] | None


@dataclass(frozen=True, kw_only=True)
class ClassProbability:
    """A class and its probability."""

    label: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class ClassPrediction:
    """A line and its classes, most probable first, none for an empty line; or the `value` of a regression.

    An image has its number as its line, no text, and the name of its file, if it has one.
    """

    line: int
    text: str
    candidates: tuple[ClassProbability, ...] = ()
    value: float | None = None
    is_number: bool = False  # of a regression: no class, but a value, or None for an empty line
    file: str | None = None

    @property
    def label(self) -> str | None:
        return self.candidates[0].label if self.candidates else None

    @property
    def probability(self) -> float | None:
        return self.candidates[0].probability if self.candidates else None

    def to_dict(self) -> dict[str, Any]:
        """The line of `regard classify --json`, rounded to digits that do not depend on the batch."""
        if self.is_number:
            value = None if self.value is None else float(f"{self.value:.6g}")
            return {"line": self.line, "text": self.text, "value": value}
        candidates = [
            {"label": each.label, "probability": round(each.probability, 6)} for each in self.candidates
        ]
        source = {"text": self.text} if self.file is None else {"file": self.file}
        return {"line": self.line, **source, "label": self.label, "candidates": candidates}


class Classifier(TextVerb[str, ClassPrediction]):
    """A model, loaded once, that classifies texts. An answer depends on its text alone.

    Args:
        model: a model or run folder, or what `regard.load` returns.
    """

    @needs_model
    @checked
    @keyword_fields
    def __init__(
        self,
        model: AnyModel,
        *,
        options: ClassificationOptions = OPTIONS,
        runtime: Runtime = DEFAULT_RUNTIME,
    ) -> None:
        self.loaded = open_model(model, runtime)
        self.model = encoder_that(
            "classifies texts", ("classification", "regression"), self.loaded, options.allow_fresh_head
        )
        self.is_regression = self.model.config.head == "regression"
        if self.is_regression and options.top > 1:
            raise UserError(
                f"top = {options.top} asks for the most probable classes, but this model predicts a number",
                "leave out --top",
            )
        self.tokenizer = self.loaded.tokenizers.source
        self.labels, self.options = self.loaded.labels, options
        self.unknown_tokens = UnknownTokenWarnings.of_model(self.loaded)

    def answers(self, texts: Sequence[str], first: int) -> Iterator[ClassPrediction]:
        filled = [place for place, line in enumerate(texts) if line and not line.isspace()]
        encoded = [self._encoded(texts[place], first + place) for place in filled]
        found = dict(zip(filled, self._predictions(encoded), strict=True))
        for place, line in enumerate(texts):
            facts = found.get(place, {})
            yield ClassPrediction(line=first + place, text=line, is_number=self.is_regression, **facts)

    def _predictions(self, texts: Sequence[EncodedText]) -> Iterator[dict[str, Any]]:
        for logits in logits_of(self.model, texts, self.tokenizer.pad_id, self.options.batch_tokens):
            if self.is_regression:
                yield {"value": float(logits[0])}
                continue
            [row] = probabilities(logits)
            yield {"candidates": candidates(row, self.labels, self.options.top)}

    def _encoded(self, line: str, number: int) -> EncodedText:
        """The ids of a line; a line that is too long is truncated, with a warning."""
        pieces = self.tokenizer.encode_words(line[:MAX_CHARACTERS].strip())
        max_tokens = self.model.max_length
        if len(line) > MAX_CHARACTERS or (max_tokens is not None and sum(map(len, pieces)) + 2 > max_tokens):
            console.warn(
                f"line {number} is too long ({len(line):,} characters): only its beginning is classified"
            )
        self.unknown_tokens.warn(f"line {number}", list(chain.from_iterable(pieces)))
        return encoded_text(pieces, [0], tokenizer=self.tokenizer, line=number, max_tokens=max_tokens)


def candidates(
    probabilities: Sequence[float], labels: Sequence[str], top: int
) -> tuple[ClassProbability, ...]:
    """The `top` most probable classes of one example; of equal ones the first."""
    best = sorted(range(len(probabilities)), key=lambda number: -probabilities[number])[:top]
    return tuple(ClassProbability(label=labels[number], probability=probabilities[number]) for number in best)


@needs_model
@python_call
def classify(
    text: str | Iterable[str],
    *,
    model: AnyModel,
    options: ClassificationOptions = OPTIONS,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> ClassAnswer | list[ClassAnswer]:
    """The class of a text, or of each text of several.

    An empty text has the class None; a regression model gives a number. With `top` above 1 the answer is a
    list of (label, probability), most probable first. For many calls keep a `Classifier`.

    Args:
        text: one text, or several.
        model: a model or run folder, or what `regard.load` returns.

    Raises:
        FolderError: the model does not classify, or its head is untrained and `allow_fresh_head` is not set.
        DataError: a text is not a str.
    """
    classifier = Classifier(model, options=options, runtime=runtime)
    return one_or_several(classifier, text, lambda each: class_answer(each, options.top))


@needs_model
@python_call
def classify_file(
    input: str | Path,
    *,
    model: AnyModel,
    options: ClassificationOptions = OPTIONS,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> list[ClassAnswer]:
    """The answers of `classify` to the lines of a file, plain or gzipped.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a text.
        model: a model or run folder, or what `regard.load` returns.
    """
    classifier = Classifier(model, options=options, runtime=runtime)
    return [class_answer(each, options.top) for each in classifier(stream_lines(input))]


def class_answer(classified: ClassPrediction, top: int) -> ClassAnswer:
    """What a Python call returns for one example: its class, with `top` above 1 a list with probabilities."""
    if classified.value is not None:
        return classified.value
    if top == 1:
        return classified.label
    return [(each.label, each.probability) for each in classified.candidates]


def columns_of(classifier: Classifier, into: str | None) -> tuple[str, ...]:
    """The columns that are added to a table: of the value, or of the label and its probability."""
    name = into or ("value" if classifier.is_regression else "label")
    return (name,) if classifier.is_regression else (name, f"{name}_probability")


def cells_of(classified: ClassPrediction) -> list[Any]:
    """What these columns have for a text; None for an empty one."""
    found = classified.to_dict()
    if classified.is_number:
        return [found["value"]]
    return [found["label"], found["candidates"][0]["probability"] if found["candidates"] else None]


def output_lines(classified: ClassPrediction, *, ranked: bool = False, as_json: bool = False) -> str:
    """A line of output: LABEL, PROBABILITY; `ranked`: LINE, LABEL, PROBABILITY for each candidate; or JSON.

    An empty text gives an empty line, and none when `ranked`. The lines of an image begin with its file, if
    it has one: FILE, LABEL, PROBABILITY.
    """
    if as_json:
        return json.dumps(classified.to_dict(), ensure_ascii=False) + "\n"
    if classified.value is not None:
        return f"{classified.value:.6g}\n"
    if ranked or classified.file is not None:
        name = classified.line if classified.file is None else classified.file
        return "".join(f"{name}\t{each.label}\t{each.probability:.4f}\n" for each in classified.candidates)
    if not classified.candidates:
        return "\n"
    return f"{classified.label}\t{classified.probability:.4f}\n"
