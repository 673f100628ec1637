"""Fill: texts with masked tokens in, the most probable tokens for them out."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from regard.data.masked_text import in_context, mask_id, split_at_masks, usual_spellings
from regard.data.texts import EncodedText, encoded_text
from regard.errors import DataError
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.lines import stream_lines
from regard.verbs.shared.load_encoder import encoder_that, most_probable
from regard.verbs.shared.python_call import python_call
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.shared.suggested_recipes import needs_model
from regard.verbs.shared.text_options import FillingOptions
from regard.verbs.shared.text_verb import TextVerb, one_or_several
from regard.verbs.tasks.text import logits_in_batches

OPTIONS = FillingOptions()
PROBABILITIES = 2**22  # of masked tokens that are ranked at a time
ESCAPED = str.maketrans({"\t": r"\t", "\n": r"\n", "\r": r"\r"})  # in the columns of guesses


@dataclass(frozen=True, kw_only=True)
class TokenGuess:
    """A token for a masked place, and its probability."""

    token: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class FilledLine:
    """A line, and predictions for each of its masked tokens, most probable first. An empty line has none."""

    line: int
    text: str
    masks: tuple[tuple[TokenGuess, ...], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The line of `regard fill --json`, rounded to digits that do not depend on the batch."""
        masks = [
            [{"token": each.token, "probability": round(each.probability, 6)} for each in guesses]
            for guesses in self.masks
        ]
        return {"line": self.line, "text": self.text, "masks": masks}


class Filler(TextVerb[str, FilledLine]):
    """A model, loaded once, that predicts masked tokens. A prediction depends on its text alone.

    Args:
        model: a model or run folder, or what `regard.load` returns.

    Raises:
        FolderError: the model does not predict masked tokens.
    """

    @needs_model
    @checked
    @keyword_fields
    def __init__(
        self, model: AnyModel, *, options: FillingOptions = OPTIONS, runtime: Runtime = DEFAULT_RUNTIME
    ) -> None:
        self.loaded = open_model(model, runtime)
        self.model = encoder_that(
            "predicts masked tokens", ("masked_language_model",), self.loaded, options.allow_fresh_head
        )
        self.tokenizer, self.options = self.loaded.tokenizers.source, options

    def answers(self, texts: Sequence[str], first: int) -> Iterator[FilledLine]:
        encoded: dict[int, EncodedText] = {}
        end, refused = len(texts), None
        for place, line in enumerate(texts):
            try:
                if (text := self.encoded(line, first + place)) is not None:
                    encoded[place] = text
            except DataError as error:
                end, refused = place, error
                break
        batch_tokens = self.options.batch_tokens
        numbers, kept = list(encoded), list(encoded.values())
        logits = logits_in_batches(self.model, kept, self.tokenizer.pad_id, batch_tokens)
        found = {numbers[each]: self._guesses(of_text) for each, of_text in logits}
        for place in range(end):
            yield FilledLine(line=first + place, text=texts[place], masks=found.get(place, ()))
        if refused is not None:
            raise refused

    def _guesses(self, logits: Float[Tensor, "masks vocab"]) -> tuple[tuple[TokenGuess, ...], ...]:
        found: list[tuple[TokenGuess, ...]] = []
        for some in logits.split(max(1, PROBABILITIES // logits.shape[1])):
            rows = most_probable(some, self.options.top)
            tokens = {number: self._token(number) for number in {each for row in rows for each, _ in row}}
            found += [tuple(TokenGuess(token=tokens[each], probability=p) for each, p in row) for row in rows]
        return tuple(found)

    def _token(self, number: int) -> str:
        """The token as text, without spaces around it; a special token by its name."""
        [piece] = self.tokenizer.tokens([number])
        return self.tokenizer.decode([number]).strip() or piece

    def encoded(self, line: str, number: int) -> EncodedText | None:
        """The ids of a line, and the positions of its masked tokens; None if it is empty.

        Raises:
            DataError: the line has no masked token, or is too long.
        """
        if not line or line.isspace():
            return None
        segments = split_at_masks(self.tokenizer, line.strip())
        if len(segments) == 1:
            raise DataError(
                f"text {number} has no masked token",
                f"write {' or '.join(usual_spellings(self.tokenizer))} in place of a token",
            )
        first, *others = in_context(self.tokenizer, segments)
        ids, places = list(first), []
        for segment in others:
            places.append(1 + len(ids))  # 1 for the token at the beginning
            ids += [mask_id(self.tokenizer), *segment]
        max_tokens = self.model.max_length
        if max_tokens is not None and len(ids) + 2 > max_tokens:
            raise DataError(
                f"text {number} is too long: {len(ids)} tokens and two special tokens, but the model has only"
                f" {max_tokens} positions",
                "shorten it",
            )
        text = encoded_text([ids], [0] * len(places), tokenizer=self.tokenizer, line=number)
        return dataclasses.replace(text, places=np.array(places, np.int32))


Guesses = list[list[tuple[str, float]]]


@needs_model
@python_call
def fill(
    text: str | Iterable[str],
    *,
    model: AnyModel,
    options: FillingOptions = OPTIONS,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> Guesses | list[Guesses]:
    """For each masked token of a text a list of (token, probability), most probable first; or of each text.

    A masked token is written [MASK] or <mask>, or by the model's own name for it. For many calls keep a
    `Filler`.

    Args:
        text: one text, or several.
        model: a model or run folder, or what `regard.load` returns.

    Raises:
        FolderError: the model does not predict masked tokens.
        DataError: a text is not a str, has no masked token, or is too long.
    """
    return one_or_several(Filler(model, options=options, runtime=runtime), text, _pairs)


@needs_model
@python_call
def fill_file(
    input: str | Path,
    *,
    model: AnyModel,
    options: FillingOptions = OPTIONS,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> list[Guesses]:
    """The answers of `fill` to the lines of a file, plain or gzipped.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a text.
        model: a model or run folder, or what `regard.load` returns.
    """
    return [_pairs(each) for each in Filler(model, options=options, runtime=runtime)(stream_lines(input))]


def _pairs(filled: FilledLine) -> Guesses:
    return [[(each.token, each.probability) for each in guesses] for guesses in filled.masks]


def output_lines(filled: FilledLine, *, as_json: bool = False) -> str:
    """LINE, MASK, TOKEN, PROBABILITY, separated by tabs, for each guess; or a line of JSON.

    A token that is a tab or a line end is written as `\\t`, `\\n` or `\\r`, so that a guess is one line.
    """
    if as_json:
        return json.dumps(filled.to_dict(), ensure_ascii=False) + "\n"
    return "".join(
        f"{filled.line}\t{number}\t{each.token.translate(ESCAPED)}\t{each.probability:.4f}\n"
        for number, guesses in enumerate(filled.masks, start=1)
        for each in guesses
    )
