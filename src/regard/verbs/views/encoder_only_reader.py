"""Runs an encoder on a text: classes, a number, a tag for each word, or predictions of masked tokens."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.masked_text import in_context, mask_id, split_at_masks
from regard.data.tagged import encode_word, split_words, word_prefix
from regard.data.tokenizer import Tokenizer
from regard.errors import DataError
from regard.inspection.passes import ForcedPass, encoder_pass
from regard.models.encoder_only import EncoderOnly
from regard.verbs.shared.load_encoder import probabilities
from regard.verbs.shared.model_loading import model_that
from regard.verbs.views.inspected_run import AnswerToken, InspectedRun, token_sequence
from regard.verbs.views.pieces import pieces
from regard.verbs.views.request import LookRequest, refuse_answers, refuse_many_tokens
from regard.verbs.views.streaming import ModelLock
from regard.weights.model_folder import LoadedModel

MAX_LABELS = 10  # of a classifier, most probable first
MASK_NAME = "?"  # the name of a masked token next to its prediction
HEADS_WITH_ANSWER = ("classification", "regression", "tokens", "masked_language_model")


class EncoderOnlyReader:
    """Gives the answer of the encoder's head for a text."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.model = model_that("reads texts", EncoderOnly, loaded)
        self.tokenizer = loaded.tokenizers.source
        self.head = self.model.config.head

    def read(self, request: LookRequest) -> InspectedRun:
        if not request.text.strip():
            raise DataError("the text is empty", "give a sentence to look at")
        refuse_answers(request)
        words = self._words(request.text)
        token_ids = [number for ids in words for number in ids]
        refuse_many_tokens(len(token_ids) + 2, "the text", self.model.max_length)
        ids = (self.tokenizer.bos_id, *token_ids, self.tokenizer.eos_id)
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

    def stream(self, request: LookRequest, lock: ModelLock) -> Iterator[AnswerToken]:
        return iter(())

    def _words(self, text: str) -> list[list[int]]:
        """The ids of a text, as one list for each word."""
        if self.head == "tokens":
            before = word_prefix(self.tokenizer)
            words = [
                encode_word(word, encode=self.tokenizer.encode_words, prefix=before)
                for word in split_words(text)
            ]
            return [list(ids) or [self.tokenizer.unk_id] for ids in words]
        if self.head == "masked_language_model":
            return self._mask_tokens(text.strip())
        return self.tokenizer.encode_words(text.strip())

    def _mask_tokens(self, text: str) -> list[list[int]]:
        """The ids of a text with mask tokens, as `regard fill` reads it."""
        first, *others = in_context(self.tokenizer, split_at_masks(self.tokenizer, text))
        return [first, *(ids for segment in others for ids in ([mask_id(self.tokenizer)], segment))]

    def _answer_rows(self, ids: tuple[int, ...], words: list[list[int]]) -> tuple[int, ...] | None:
        """The positions of the answer: the first token of each word, or masked tokens; None for all."""
        match self.head:
            case "tokens":
                return tuple(accumulate((len(word) for word in words[:-1]), initial=1))
            case "masked_language_model":
                return self._masked_positions(ids) or tuple(range(1, len(ids) - 1))
        return None

    def _masked_positions(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(position for position, number in enumerate(ids) if number == mask_id(self.tokenizer))

    def _answer(self, forced: ForcedPass, words: list[list[int]], text: str) -> dict[str, Any] | None:
        if self.head not in HEADS_WITH_ANSWER:
            return None
        with torch.no_grad():
            logits = forced()
        match self.head:
            case "classification":
                return {"labels": top_labels(self.loaded, logits)}
            case "regression":
                return {"value": float(logits[0])}
            case "tokens":
                return {"tags": word_tags(self.loaded, logits[0], words, split_words(text))}
        masked = self._masked_positions(forced.sequences["text"])
        return {"tags": mask_predictions(self.tokenizer, logits[0], masked)} if masked else None


def top_labels(loaded: LoadedModel, logits: Float[Tensor, "1 labels"]) -> list[dict[str, Any]]:
    """The most probable classes of a text or an image."""
    [probabilities_of] = probabilities(logits)
    best = sorted(range(len(probabilities_of)), key=lambda number: -probabilities_of[number])[:MAX_LABELS]
    return [{"label": label_name(loaded, number), "probability": probabilities_of[number]} for number in best]


def word_tags(
    loaded: LoadedModel,
    logits: Float[Tensor, "text labels"],
    words: list[list[int]],
    words_as_text: list[str],
) -> list[dict[str, Any]]:
    """The tag of each word, read at its first token."""
    found, position = [], 1
    for word, ids in zip(words_as_text, words, strict=True):
        number, probability = _most_likely(logits[position])
        tag = {
            "token": word,
            "tag": label_name(loaded, number),
            "probability": probability,
            "position": position,
        }
        found.append(tag)
        position += len(ids)
    return found


def mask_predictions(
    tokenizer: Tokenizer, logits: Float[Tensor, "text vocab"], masked: tuple[int, ...]
) -> list[dict[str, Any]]:
    """The most probable token at each masked position, in the form of `word_tags`."""
    found = []
    for position in masked:
        number, probability = _most_likely(logits[position])
        [token] = pieces(tokenizer, [number])
        found.append({"token": MASK_NAME, "tag": token, "probability": probability, "position": position})
    return found


def label_name(loaded: LoadedModel, number: int) -> str:
    return loaded.labels[number] if number < len(loaded.labels) else str(number)


def _most_likely(logits: Float[Tensor, " classes"]) -> tuple[int, float]:
    [probabilities_of] = probabilities(logits[None])
    best = max(range(len(probabilities_of)), key=probabilities_of.__getitem__)
    return best, probabilities_of[best]
