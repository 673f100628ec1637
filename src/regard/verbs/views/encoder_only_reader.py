"""How an encoder reads a text: a class, a tag for each word, guesses of what is hidden."""

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.tagged import before_words, pieces_of, words_of
from regard.data.tokenizer import Tokenizer
from regard.errors import DataError
from regard.inspection.passes import ForcedPass, encoder_pass
from regard.models.encoder_only import EncoderOnly
from regard.verbs.box import model_that
from regard.verbs.fill import SPELLINGS, in_context
from regard.verbs.load_encoder import probabilities
from regard.verbs.views.inspected_run import AnswerToken, InspectedRun, token_sequence
from regard.verbs.views.pieces import pieces
from regard.verbs.views.request import Request, refuse_answers, refuse_long
from regard.verbs.views.streaming import ModelTurn
from regard.weights.model_folder import LoadedModel

TOP = 10  # classes that are told
HIDDEN = "?"  # how a hidden token is named beside its guess
ANSWERS = ("classification", "regression", "tokens", "masked_language_model")


class EncoderOnlyReader:
    """Reads a text, and says of it what its head was made for."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.model = model_that("reads texts", EncoderOnly, loaded)
        self.tokenizer = loaded.tokenizers.source
        self.head = self.model.config.head

    def read(self, request: Request) -> InspectedRun:
        if not request.text.strip():
            raise DataError("the text is empty", "give a sentence to look at")
        refuse_answers(request)
        words = self._words(request.text)
        inner = [number for ids in words for number in ids]
        refuse_long(len(inner) + 2, "the text", self.model.max_length)
        ids = (self.tokenizer.bos_id, *inner, self.tokenizer.eos_id)
        request.changes.refuse_tokens_beyond(len(ids))
        forced = encoder_pass(self.model, ids, answer_rows=self._answer_rows(ids, words))
        return InspectedRun(
            loaded=self.loaded,
            request=request,
            forced=forced,
            sequences={"text": token_sequence(self.tokenizer, ids)},
            tokenizer=self.tokenizer,
            answer=self._answer(forced, words, request.text),
        )

    def stream(self, request: Request, turn: ModelTurn) -> Iterator[AnswerToken]:
        return iter(())

    def _words(self, text: str) -> list[list[int]]:
        """The ids of a text, those of each word by themselves."""
        if self.head == "tokens":
            before = before_words(self.tokenizer)
            words = [
                pieces_of(word, encode=self.tokenizer.encode_words, before=before) for word in words_of(text)
            ]
            return [list(ids) or [self.tokenizer.unk_id] for ids in words]
        if self.head == "masked_language_model":
            return self._hidden(text.strip())
        return self.tokenizer.encode_words(text.strip())

    def _hidden(self, text: str) -> list[list[int]]:
        """The same of a text that may hide tokens, as `regard fill` reads it."""
        spellings = dict.fromkeys((*SPELLINGS, *self.tokenizer.tokens([self._mask_id])))
        segments = re.split("|".join(map(re.escape, spellings)), text)
        first, *others = in_context(self.tokenizer, segments)
        return [first, *(ids for segment in others for ids in ([self._mask_id], segment))]

    @property
    def _mask_id(self) -> int:
        return self.tokenizer.unk_id if self.tokenizer.mask_id is None else self.tokenizer.mask_id

    def _answer_rows(self, ids: tuple[int, ...], words: list[list[int]]) -> tuple[int, ...] | None:
        """Of what the head says of each position, what was asked: the tag of each word, hidden tokens."""
        match self.head:
            case "tokens":
                return tuple(accumulate((len(word) for word in words[:-1]), initial=1))
            case "masked_language_model":
                return self._hidden_places(ids) or tuple(range(1, len(ids) - 1))
        return None

    def _hidden_places(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(place for place, number in enumerate(ids) if number == self._mask_id)

    def _answer(self, forced: ForcedPass, words: list[list[int]], text: str) -> dict[str, Any] | None:
        if self.head not in ANSWERS:
            return None
        with torch.no_grad():
            logits = forced()
        match self.head:
            case "classification":
                return {"labels": top_labels(self.loaded, logits)}
            case "regression":
                return {"value": float(logits[0])}
            case "tokens":
                return {"tags": word_tags(self.loaded, logits[0], words, words_of(text))}
        hidden = self._hidden_places(forced.sequences["text"])
        return {"tags": mask_predictions(self.tokenizer, logits[0], hidden)} if hidden else None


def top_labels(loaded: LoadedModel, logits: Float[Tensor, "1 labels"]) -> list[dict[str, Any]]:
    """The likeliest classes of a text or an image."""
    [shares] = probabilities(logits)
    best = sorted(range(len(shares)), key=lambda number: -shares[number])[:TOP]
    return [{"label": label_name(loaded, number), "probability": shares[number]} for number in best]


def word_tags(
    loaded: LoadedModel, logits: Float[Tensor, "text labels"], words: list[list[int]], forms: list[str]
) -> list[dict[str, Any]]:
    """What each word is, told at its first token."""
    found, place = [], 1
    for form, ids in zip(forms, words, strict=True):
        number, share = _likeliest(logits[place])
        tag = {"token": form, "tag": label_name(loaded, number), "probability": share, "position": place}
        found.append(tag)
        place += len(ids)
    return found


def mask_predictions(
    tokenizer: Tokenizer, logits: Float[Tensor, "text vocab"], hidden: tuple[int, ...]
) -> list[dict[str, Any]]:
    """What stands in each hidden place, likeliest, as if it were its tag."""
    found = []
    for place in hidden:
        number, share = _likeliest(logits[place])
        [token] = pieces(tokenizer, [number])
        found.append({"token": HIDDEN, "tag": token, "probability": share, "position": place})
    return found


def label_name(loaded: LoadedModel, number: int) -> str:
    return loaded.labels[number] if number < len(loaded.labels) else str(number)


def _likeliest(logits: Float[Tensor, " classes"]) -> tuple[int, float]:
    [shares] = probabilities(logits[None])
    best = max(range(len(shares)), key=shares.__getitem__)
    return best, shares[best]
