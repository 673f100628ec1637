"""Fill: text with hidden tokens in, what may stand in their places out, likeliest first."""

import dataclasses
import heapq
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from regard.data.texts import EncodedText, encoded_text
from regard.data.tokenizer import Tokenizer
from regard.errors import DataError
from regard.verbs.any_model import AnyModel, open_model
from regard.verbs.arguments import checked
from regard.verbs.lines import stream
from regard.verbs.load_encoder import encoder_that, probabilities
from regard.verbs.suggested_recipes import needs_model
from regard.verbs.tasks.text import logits_of
from regard.verbs.texts import strings

CHUNK = 1024  # lines that are read, sorted by length and looked at before the first of them is given out
SPELLINGS = "[MASK]", "<mask>"  # of a hidden token, whatever the model itself calls it
SOME_WORD = "x"


@dataclass(frozen=True, kw_only=True)
class TokenGuess:
    """A token that may be hidden, and how likely the model thinks that."""

    token: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class Filled:
    """A line, and for each of its hidden tokens some guesses, likeliest first. An empty line has none."""

    line: int
    text: str
    masks: tuple[tuple[TokenGuess, ...], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As `regard fill --json` prints it: with as many digits as do not depend on the other texts."""
        masks = [
            [{"token": each.token, "probability": round(each.probability, 6)} for each in guesses]
            for guesses in self.masks
        ]
        return {"line": self.line, "text": self.text, "masks": masks}


class Filler:
    """A model, loaded once, that guesses hidden tokens. What it says of a text depends on that text alone.

    Args:
        model: a model or run folder, or what `regard.load` gives.
        top: how many guesses are told of each hidden token.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        allow_fresh_head: let a model speak whose head nobody has trained.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads; PyTorch's choice without.

    Raises:
        FolderError: the model does not guess hidden tokens.
    """

    @needs_model
    @checked
    def __init__(
        self,
        model: AnyModel,
        *,
        top: int = 5,
        batch_tokens: int = 4096,
        allow_fresh_head: bool = False,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        self.loaded = open_model(model, device, threads)
        head = ("masked_language_model",)
        self.model = encoder_that("guesses hidden words", head, self.loaded, allow_fresh=allow_fresh_head)
        self.tokenizer = self.loaded.tokenizers.source
        self.top, self.batch_tokens = top, batch_tokens
        own = self.tokenizer.mask_id
        self._mask_id = self.tokenizer.unk_id if own is None else own  # ours are trained to guess <unk>
        self._spellings = dict.fromkeys((*SPELLINGS, *self.tokenizer.tokens([self._mask_id])))
        self._mask = re.compile("|".join(map(re.escape, self._spellings)))

    def __call__(self, texts: Iterable[str]) -> Iterator[Filled]:
        """What each text hides, in order; `texts` may be without end.

        Raises:
            DataError: one of them is no string, hides nothing, or is too long. Those before it are given out
                first.
        """
        texts = strings(texts)
        return self.in_chunks(iter(lambda: list(islice(texts, CHUNK)), []))

    def in_chunks(self, chunks: Iterable[Sequence[str]]) -> Iterator[Filled]:
        """The same for texts that come several at a time: all of a chunk are looked at together."""
        first = 1
        for chunk in chunks:
            yield from self._fill(chunk, first)
            first += len(chunk)

    def _fill(self, lines: Sequence[str], first: int) -> Iterator[Filled]:
        there: dict[int, EncodedText] = {}
        end, refused = len(lines), None
        for place, line in enumerate(lines):
            try:
                if line and not line.isspace():
                    there[place] = self._text(line, first + place)
            except DataError as error:
                end, refused = place, error
                break
        logits = logits_of(self.model, list(there.values()), self.tokenizer.pad_id, self.batch_tokens)
        found = dict(zip(there, map(self._guesses, logits), strict=True))
        for place in range(end):
            yield Filled(line=first + place, text=lines[place], masks=found.get(place, ()))
        if refused is not None:
            raise refused

    def _guesses(self, logits: Float[Tensor, "masks vocab"]) -> tuple[tuple[TokenGuess, ...], ...]:
        found = []
        for shares in probabilities(logits):
            best = heapq.nlargest(self.top, range(len(shares)), key=shares.__getitem__)
            found.append(
                tuple(TokenGuess(token=self._token(each), probability=shares[each]) for each in best)
            )
        return tuple(found)

    def _token(self, number: int) -> str:
        """As it stands in a text, without spaces around it; a mark by its name."""
        [piece] = self.tokenizer.tokens([number])
        return self.tokenizer.decode([number]).strip() or piece

    def _text(self, line: str, number: int) -> EncodedText:
        """The ids of a line with those places that are hidden."""
        segments = self._mask.split(line.strip())
        if len(segments) == 1:
            raise DataError(
                f"text {number} hides nothing",
                f"write {' or '.join(self._spellings)} where a token is hidden",
            )
        first, *others = in_context(self.tokenizer, segments)
        ids, places = list(first), []
        for segment in others:
            places.append(1 + len(ids))  # 1 for the mark at the beginning
            ids += [self._mask_id, *segment]
        most = self.model.max_length
        if most is not None and len(ids) + 2 > most:
            raise DataError(
                f"text {number} is too long: {len(ids)} tokens and two marks, but the model has learned only"
                f" {most} positions",
                "shorten it",
            )
        text = encoded_text([ids], [0] * len(places), tokenizer=self.tokenizer, line=number)
        return dataclasses.replace(text, places=np.array(places, np.int32))


def in_context(tokenizer: Tokenizer, segments: Sequence[str]) -> Iterator[list[int]]:
    """The ids of the parts of a text between which tokens are hidden, as if words stood there.

    Where a space belongs to the word after it, that before a hidden token is a part of the token.
    """
    spaced = len(tokenizer.words(f"{SOME_WORD} {SOME_WORD}")) == 2
    for number, segment in enumerate(segments):
        if spaced and number < len(segments) - 1:
            segment = segment.rstrip()
        words = tokenizer.encode_words(segment) if number == 0 else _after_a_word(tokenizer, segment)
        yield [each for word in words for each in word]


def _after_a_word(tokenizer: Tokenizer, segment: str) -> list[list[int]]:
    first, *others = tokenizer.words(SOME_WORD + segment)
    if [first] == tokenizer.words(SOME_WORD):
        return [tokenizer.word_ids(word) for word in others]
    return tokenizer.encode_words(segment)  # it goes on with the word: "un[MASK]able"


@needs_model
@checked
def fill(
    text: str | Iterable[str],
    *,
    model: AnyModel,
    top: int = 5,
    batch_tokens: int = 4096,
    allow_fresh_head: bool = False,
    device: str = "auto",
    threads: int | None = None,
) -> list[Any]:
    """For each hidden token of a text a list of (token, probability), likeliest first; or of several texts.

    Hidden is what the text calls [MASK] or <mask>, or by the model's own name for it. For many calls keep a
    `Filler`.

    Args:
        text: one text, or several.
        model: a model or run folder, or what `regard.load` gives.
        top: how many guesses are told of each hidden token.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        allow_fresh_head: let a model speak whose head nobody has trained.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads; PyTorch's choice without.

    Raises:
        FolderError: the model does not guess hidden tokens.
        DataError: a text is no string, hides nothing, or is too long.
    """
    filler = Filler(
        model,
        top=top,
        batch_tokens=batch_tokens,
        allow_fresh_head=allow_fresh_head,
        device=device,
        threads=threads,
    )
    found = [
        [[(each.token, each.probability) for each in guesses] for guesses in filled.masks]
        for filled in filler(text)
    ]
    return found[0] if isinstance(text, str) else found


@needs_model
@checked
def fill_file(
    input: str | Path,
    *,
    model: AnyModel,
    top: int = 5,
    batch_tokens: int = 4096,
    allow_fresh_head: bool = False,
    device: str = "auto",
    threads: int | None = None,
) -> list[Any]:
    """What `fill` gives of each line of a file, plain or gzipped.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a text.
        model: a model or run folder, or what `regard.load` gives.
        top: how many guesses are told of each hidden token.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        allow_fresh_head: let a model speak whose head nobody has trained.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads; PyTorch's choice without.
    """
    return fill(
        stream(input),
        model=model,
        top=top,
        batch_tokens=batch_tokens,
        allow_fresh_head=allow_fresh_head,
        device=device,
        threads=threads,
    )


def printed(filled: Filled, *, as_json: bool = False) -> str:
    """LINE, MASK, TOKEN, PROBABILITY between tabs for each guess; or a line of JSON."""
    if as_json:
        return json.dumps(filled.to_dict(), ensure_ascii=False) + "\n"
    return "".join(
        f"{filled.line}\t{number}\t{each.token}\t{each.probability:.4f}\n"
        for number, guesses in enumerate(filled.masks, start=1)
        for each in guesses
    )
