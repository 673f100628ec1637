"""Runs a decoder-only model on a text: it continues the text, or a continuation is forced.

If this is empty, the text alone is looked at. The model reads all of it, and the answer is the most likely
token after it: what the last token attends to and what is predicted there are seen too.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from regard.decoding.base_search import Search
from regard.decoding.batches import deterministic
from regard.decoding.continuation import ContinuationSettings, Prompt, continue_all, prompt_of, start
from regard.decoding.control_fields import Beam, BeamSize
from regard.decoding.controls import controls_with
from regard.decoding.decoding_loop import DecodingLoop
from regard.decoding.prompt_stepper import prompt_stepper
from regard.decoding.step import Stepper
from regard.errors import DataError
from regard.inspection.answer import answer_log_prob
from regard.inspection.passes import continuation_pass
from regard.models.decoder_only import DecoderOnly
from regard.verbs.generation.decoding_defaults import decoding_defaults
from regard.verbs.shared.model_loading import model_that
from regard.verbs.views.inspected_run import (
    AnswerToken,
    InspectedRun,
    SearchRecord,
    as_prefix,
    token_sequence,
)
from regard.verbs.views.request import MAX_TOKENS, LookRequest, refuse_many_tokens, refuse_other_ids
from regard.verbs.views.streaming import ModelLock, is_worth_streaming, stream_tokens
from regard.weights.model_folder import LoadedModel

DEFAULT_NEW_TOKENS = 24
UNLIMITED_CONTEXT = 0  # value of `max_context`: decoding sees the whole text, as the recorded pass does


@dataclass(frozen=True, kw_only=True)
class ForcedText:
    """The ids of a prompt, and the ids of its continuation that are forced."""

    prompt: tuple[int, ...]
    forced: tuple[int, ...]


class DecoderOnlyReader:
    """Continues a text by greedy or beam search."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.model = model_that("continues texts", DecoderOnly, loaded)
        self.settings = decoding_defaults(ContinuationSettings, loaded)
        self.tokenizer = loaded.tokenizers.source
        self.begin_id = self.tokenizer.bos_id if self.settings.begin else None

    def read(self, request: LookRequest) -> InspectedRun:
        forced_text = self._forced_text(request)
        prompt = self._prompt(forced_text)
        search = self.search(request)
        ids, ended = forced_text.forced, False
        if request.target is None:
            new = self._new_tokens(prompt, request)
            [found] = continue_all(
                search, self.model, [prompt], max_new_tokens=new, max_context=UNLIMITED_CONTEXT
            )
            if found:
                ids = (*forced_text.forced, *found[0].ids)
                ended = len(found[0].token_log_probs) > len(found[0].ids)
        elif not ids:  # the text alone is looked at: its last token is read too
            ids = (self._most_likely_next(prompt.context),)
        context = (*prompt.begin, *forced_text.prompt)
        whole = (*context, *ids, *((self.tokenizer.eos_id,) if ended else ()))
        if len(whole) < 2:
            raise DataError("there is nothing to predict in a text of one token", "give a longer text")
        request.changes.refuse_tokens_beyond(len(whole) - 1)
        prompt_end = max(len(context) - 1, 0)
        forced_pass = continuation_pass(self.model, whole, start=prompt_end)
        log_prob = answer_log_prob(forced_pass)
        answer = {
            "text": self._text(forced_text.prompt, ids),
            "log_prob": log_prob,
            "score": log_prob / search.length_penalty(max(len(whole) - 1 - prompt_end, 1)),
            "forced": prompt_end + len(forced_text.forced),
            "start": prompt_end,
        }
        return InspectedRun(
            loaded=self.loaded,
            request=request,
            forced=forced_pass,
            sequences={
                name: token_sequence(self.tokenizer, each) for name, each in forced_pass.sequences.items()
            },
            tokenizer=self.tokenizer,
            answer=answer,
            search_record=None
            if request.target is not None
            else self._search_record(search, prompt, request),
        )

    @torch.no_grad()
    def _most_likely_next(self, ids: tuple[int, ...]) -> int:
        """The model's most likely token after these."""
        with deterministic([self.model]):
            logits = self.model(torch.tensor([ids], device=self.model.device))
        return int(logits[0, -1].argmax())

    def stream(self, request: LookRequest, lock: ModelLock) -> Iterator[AnswerToken]:
        prompt = self._prompt(self._forced_text(request))
        if not is_worth_streaming(self.model, len(prompt.context), self.search(request)):
            return iter(())
        search = self.search(Beam())
        assert isinstance(search, DecodingLoop)
        new_tokens = self._new_tokens(prompt, request)
        request.changes.refuse_tokens_beyond(len(prompt.context) + new_tokens)
        decoding_request = prompt.request(new_tokens)
        return stream_tokens(
            search, lambda: self._stepper(prompt), decoding_request, self.tokenizer, self.model, lock
        )

    def _forced_text(self, request: LookRequest) -> ForcedText:
        """The ids of the text and of its forced continuation, tokenised as one text."""
        prompt = tuple(self.tokenizer.encode(request.text))
        if request.prefix_ids is not None:
            forced_text = self._from_ids(prompt, request.prefix_ids)
        else:
            forced_text = self._tokenize(request, prompt)
        refuse_many_tokens(
            len(forced_text.prompt) + len(forced_text.forced) + 1, "the text", self.model.max_length
        )
        return forced_text

    def _tokenize(self, request: LookRequest, prompt: tuple[int, ...]) -> ForcedText:
        after = request.target if request.target is not None else request.prefix or ""
        whole = tuple(self.tokenizer.encode(as_prefix(request.text + after, self.tokenizer)))
        if whole[: len(prompt)] != prompt:  # together they have other token boundaries
            whole = (*prompt, *self.tokenizer.encode(after))
        return ForcedText(prompt=prompt, forced=whole[len(prompt) :])

    def _from_ids(self, prompt: tuple[int, ...], prefix_ids: tuple[int, ...]) -> ForcedText:
        """The prompt and forced ids in `prefix_ids`, which begins with the prompt's predicted ids."""
        refuse_other_ids(prefix_ids, self.tokenizer.vocab_size)
        whole = prefix_ids if self.begin_id is not None else (*prompt[:1], *prefix_ids)
        if whole[: len(prompt)] != prompt:  # they replace the prompt
            return ForcedText(prompt=whole, forced=())
        return ForcedText(prompt=prompt, forced=whole[len(prompt) :])

    def _prompt(self, forced_text: ForcedText) -> Prompt:
        return prompt_of((*forced_text.prompt, *forced_text.forced), begin_id=self.begin_id)

    def _new_tokens(self, prompt: Prompt, request: LookRequest) -> int:
        """The number of tokens to generate; beyond the trained length only if the request says so."""
        length, trained = len(prompt.context), self.model.trained_length
        wanted = request.max_new_tokens or min(DEFAULT_NEW_TOKENS, self.settings.max_new_tokens)
        if request.max_new_tokens is None and trained is not None and length < trained:
            wanted = min(wanted, trained - length)
        return min(wanted, (self.model.max_length or MAX_TOKENS) - length, MAX_TOKENS - length)

    def search(self, beam: BeamSize) -> Search:
        return self.settings.changed(controls_with(beam.or_greedy)).strategy(
            pad_id=self.tokenizer.pad_id,
            unk_id=self.tokenizer.unk_id,
            bos_id=self.tokenizer.bos_id,
            eos_id=self.tokenizer.eos_id,
            tokenizer=self.tokenizer,
        )

    def _search_record(self, search: Search, prompt: Prompt, request: LookRequest) -> SearchRecord:
        new = self._new_tokens(prompt, request)
        return SearchRecord(
            search=search,
            decode=lambda search: continue_all(
                search, self.model, [prompt], max_new_tokens=new, max_context=UNLIMITED_CONTEXT
            )[0],
        )

    def _stepper(self, prompt: Prompt) -> Stepper:
        """A stepper that has read the prompt."""
        stepper = prompt_stepper(self.model, UNLIMITED_CONTEXT)
        start(stepper, [prompt])
        return stepper

    def _text(self, prompt: tuple[int, ...], ids: tuple[int, ...]) -> str:
        """The text of `ids` after the prompt."""
        before, whole = self.tokenizer.decode(prompt), self.tokenizer.decode((*prompt, *ids))
        return whole[len(before) :] if whole.startswith(before) else self.tokenizer.decode(ids)
