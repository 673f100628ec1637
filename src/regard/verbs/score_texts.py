"""Score texts: how probable a language model finds each text, or each completion of a prompt."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from regard.data.masked_text import mask_id
from regard.data.texts import EncodedText, encoded_text
from regard.data.windows import scoring_windows
from regard.decoding.scoring import ForcedScore, next_token_log_probs
from regard.errors import DataError, UserError
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.lines import chunks, numbered
from regard.verbs.shared.load_encoder import encoder_that
from regard.verbs.shared.model_loading import config_class_of, model_that
from regard.verbs.shared.pretrained_recipe import evaluated_recipe, has_recipe, usual_window
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.shared.scored_lines import ScoredLine
from regard.verbs.shared.suggested_recipes import needs_model
from regard.verbs.shared.text_options import ScoringOptions
from regard.verbs.shared.text_verb import TextVerb
from regard.verbs.shared.unknown_tokens import UnknownTokenWarnings
from regard.verbs.tasks.language_model import LanguageModelRecipe
from regard.verbs.tasks.text import logits_of
from regard.weights.model_folder import LoadedModel

OPTIONS = ScoringOptions()
NAMES = ("log_prob", "num_tokens", "perplexity")  # the columns that a table gets
SCORES = "scores texts, as language models and masked ones do"
SPECIAL_TOKENS = 2  # around a text that an encoder reads
Completion = tuple[str, str]  # a prompt, and what follows it


class TextScorer(TextVerb[str, ScoredLine]):
    """A language model, loaded once, that scores texts. A score depends on its text alone.

    Each token is predicted from those before it. If the model was trained on texts with a begin and an end
    (`begin` in its generation.json), the first token is predicted from the begin token, and the end of the
    text is predicted, too. The end is not if the model is from a Hugging Face folder: other tools do not
    count it. Without a begin the first token has none before it and is not predicted, nor is an end. The
    options `begin` and `end` decide otherwise.
    A text of more tokens than the model was trained on is read in windows, as `regard.evaluate` reads it.

    A masked language model masks one token after the other, and predicts it from all others; the sum is the
    pseudo-log-likelihood (Salazar et al. 2020).

    Args:
        model: a model or run folder, or what `regard.load` returns.

    Raises:
        FolderError: the model is no language model. UserError: an option is for other models.
    """

    @needs_model
    @checked
    @keyword_fields
    def __init__(
        self, model: AnyModel, *, options: ScoringOptions = OPTIONS, runtime: Runtime = DEFAULT_RUNTIME
    ) -> None:
        self.loaded = open_model(model, runtime)
        if options.prefix is not None:
            raise UserError("prefix is for a model that translates", "put it before the texts")
        is_encoder = isinstance(self.loaded.config, EncoderOnlyConfig)
        self._scores = (_MaskedTokens if is_encoder else _NextTokens)(self.loaded, options)
        self._tokenizer = self.loaded.tokenizers.source
        self._unknown_tokens = UnknownTokenWarnings.of_model(self.loaded)

    def answers(self, texts: Sequence[str], first: int) -> Iterator[ScoredLine]:
        """The score of each text."""
        return self._answers([("", text) for text in texts], first)

    def completions(self, pairs: Iterable[Completion]) -> Iterator[ScoredLine]:
        """The score of each completion of a prompt, in order: the tokens of the prompt are read only.

        Both are joined as they are, so a completion begins with the space before its first word. A token
        that holds characters of both counts.

        Raises:
            DataError: a pair is not two texts.
        """
        for first, chunk in numbered(chunks(_checked(pairs), self.chunk)):
            yield from self._answers(chunk, first)

    def _answers(self, pairs: Sequence[Completion], first: int) -> Iterator[ScoredLine]:
        encoded = self._encoded(pairs)
        for line, (ids, _) in enumerate(encoded, start=first):
            self._unknown_tokens.warn(f"line {line}", ids)
        for line, found in enumerate(self._scores(encoded, first), start=first):
            yield ScoredLine(line=line, score=ForcedScore.of(found))

    def _encoded(self, pairs: Sequence[Completion]) -> list[tuple[list[int], int]]:
        """The ids of each prompt with its completion, and how many of them are the prompt's."""
        wholes = self._tokenizer.encode_batch([prompt + completion for prompt, completion in pairs])
        prompts = self._tokenizer.encode_batch([prompt for prompt, _ in pairs])
        return [
            (whole, _common(ids, whole) if prompt else 0)
            for (prompt, _), ids, whole in zip(pairs, prompts, wholes, strict=True)
        ]


class _NextTokens:
    """The log-probability of each token, given those before it."""

    def __init__(self, loaded: LoadedModel, options: ScoringOptions) -> None:
        self._model = model_that(SCORES, DecoderOnly, loaded)
        self._tokenizer, self._batch_tokens = loaded.tokenizers.source, options.batch_tokens
        begins = bool(loaded.generation.get("begin", True))
        ends = begins and (loaded.generation.get("may_end") is None or has_recipe(loaded))
        self._begin = [self._tokenizer.bos_id] * (begins if options.begin is None else options.begin)
        self._end = [self._tokenizer.eos_id] * (ends if options.end is None else options.end)
        self._block, self._context = _window_of(loaded)

    def __call__(self, texts: Sequence[tuple[list[int], int]], first: int) -> Iterator[list[float]]:
        """Those of each text, given as ids of which some at the beginning are read only."""
        windows: list[list[int]] = []
        predicted: list[tuple[int, int]] = []  # of each window: its text, and the first token that counts
        for number, (ids, read) in enumerate(texts):
            whole = [*self._begin, *ids, *self._end]
            wanted = max(1, len(self._begin) + read)
            for begin, new, end in scoring_windows((0, len(whole) - 1), self._block, self._context):
                if end >= wanted:
                    windows.append(whole[begin : end + 1])
                    predicted.append((number, max(new + 1, wanted) - begin - 1))
        found = next_token_log_probs(
            self._model, windows, batch_tokens=self._batch_tokens, pad_id=self._tokenizer.pad_id
        )
        scores: list[list[float]] = [[] for _ in texts]
        for (number, skipped), log_probs in zip(predicted, found, strict=True):
            scores[number] += log_probs[skipped:]
        yield from scores


class _MaskedTokens:
    """The log-probability of each token, given all others."""

    def __init__(self, loaded: LoadedModel, options: ScoringOptions) -> None:
        self._model = encoder_that(SCORES, ("masked_language_model",), loaded, False)
        self._tokenizer, self._batch_tokens = loaded.tokenizers.source, options.batch_tokens
        options.refuse_ends("a model that reads from left to right")

    def __call__(self, texts: Sequence[tuple[list[int], int]], first: int) -> Iterator[list[float]]:
        """Those of each text, given as ids of which some at the beginning are read only."""
        for line, (ids, read) in enumerate(texts, start=first):
            most = self._model.max_length
            if most is not None and len(ids) + SPECIAL_TOKENS > most:
                raise DataError(
                    f"text {line} is too long: {len(ids)} tokens and two special tokens, but the model has"
                    f" only {most} positions",
                    "shorten it",
                )
            masked = [self._masked(ids, place, line) for place in range(read, len(ids))]
            logits = logits_of(self._model, masked, self._tokenizer.pad_id, self._batch_tokens)
            yield [
                float(row.double().log_softmax(-1)[token])
                for row, token in zip(map(torch.squeeze, logits), ids[read:], strict=True)
            ]

    def _masked(self, ids: Sequence[int], place: int, line: int) -> EncodedText:
        """The text with one token masked."""
        hidden = [*ids[:place], mask_id(self._tokenizer), *ids[place + 1 :]]
        text = encoded_text([hidden], [0], tokenizer=self._tokenizer, line=line)
        return dataclasses.replace(text, places=np.array([1 + place], np.int32))  # 1: the begin token


def scores_texts(model: AnyModel | None) -> bool:
    """True if a model is scored on texts, not on pairs; reads no weights. None is the included model."""
    if model is None:
        return False
    kind = type(model.config) if isinstance(model, LoadedModel) else config_class_of(model)
    return issubclass(kind, DecoderOnlyConfig | EncoderOnlyConfig)


def columns_of(into: str | None) -> tuple[str, ...]:
    """The columns that are added to a table."""
    _, *others = NAMES
    return NAMES if into is None else (into, *(f"{into}_{name}" for name in others))


def cells_of(scored: ScoredLine) -> list[Any]:
    """What these columns have for a text."""
    return [scored.to_dict()["log_prob"], scored.score.num_tokens, scored.rounded_perplexity]


def _window_of(loaded: LoadedModel) -> tuple[int, int]:
    """The tokens of a window, and how many of them at least are before one that is predicted."""
    recipe = evaluated_recipe(loaded, "texts").recipe
    if not isinstance(recipe, LanguageModelRecipe):  # a registered task
        block = usual_window(loaded)
        return block, block // 2
    return recipe.task.block, recipe.context


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids at the beginning are the same."""
    places = range(min(len(one), len(other)))
    return next((place for place in places if one[place] != other[place]), len(places))


def _checked(pairs: Iterable[Any]) -> Iterator[Completion]:
    for number, pair in enumerate(pairs, start=1):
        match pair:
            case (str(prompt), str(completion)):
                yield prompt, completion
            case _:
                raise DataError(f"pair {number} is not a prompt and its completion", "give two texts")
