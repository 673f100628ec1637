"""How a decoder without a source reads a text: it goes on with it, or is told how it goes on."""

from collections.abc import Iterator
from dataclasses import dataclass

from regard.decoding.base_search import DecodingLoop, Search
from regard.decoding.continuation import (
    ContinuationSettings,
    Prompt,
    continue_all,
    prompt_of,
    prompt_stepper,
    start,
)
from regard.decoding.controls import Beam, BeamSize
from regard.decoding.step import Stepper
from regard.errors import DataError
from regard.inspection.answer import answer_log_prob
from regard.inspection.passes import continuing
from regard.models.decoder_only import DecoderOnly
from regard.verbs.box import model_that
from regard.verbs.decoding_defaults import decoding_defaults
from regard.verbs.looking.inspected_run import AnswerToken, InspectedRun, SearchRecord, as_a_beginning, named
from regard.verbs.looking.request import MAX_TOKENS, Request, refuse_long
from regard.verbs.looking.streaming import Turn, said, worth_showing
from regard.weights.model_folder import LoadedModel

NEW_TOKENS = 24  # that a text goes on with, unless a request says how many
ALL = 0  # `max_context`: the whole text is seen, as in the pass that is shown


@dataclass(frozen=True, kw_only=True)
class ForcedText:
    """What a text begins with: its own ids, then those of the answer that are forced."""

    prompt: tuple[int, ...]
    forced: tuple[int, ...]


class DecoderOnlyReader:
    """Reads a text and goes on with it: by the likeliest tokens, or by a beam's."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.model = model_that("continues texts", DecoderOnly, loaded)
        self.settings = decoding_defaults(ContinuationSettings, loaded)
        self.tokenizer = loaded.tokenizers.source
        self._begin_id = self.tokenizer.bos_id if self.settings.begin else None

    def read(self, request: Request) -> InspectedRun:
        given = self._given(request)
        prompt = self._prompt(given)
        search = self._search(request)
        ids, ended = given.forced, False
        if request.target is None:
            new = self._room(prompt, request)
            [found] = continue_all(search, self.model, [prompt], max_new_tokens=new, max_context=ALL)
            if found:
                ids = (*given.forced, *found[0].ids)
                ended = len(found[0].token_log_probs) > len(found[0].ids)
        context = (*prompt.begin, *given.prompt)
        whole = (*context, *ids, *((self.tokenizer.eos_id,) if ended else ()))
        if len(whole) < 2:
            raise DataError("there is nothing to predict in a text of one token", "give a longer text")
        request.changes.refuse_tokens_beyond(len(whole) - 1)
        begins = max(len(context) - 1, 0)
        forced_pass = continuing(self.model, whole, start=begins)
        log_prob = answer_log_prob(forced_pass)
        answer = {
            "text": self._text(given.prompt, ids),
            "log_prob": log_prob,
            "score": log_prob / search.length_penalty(max(len(whole) - 1 - begins, 1)),
            "forced": begins + len(given.forced),
            "start": begins,
        }
        return InspectedRun(
            loaded=self.loaded,
            request=request,
            forced=forced_pass,
            sequences={name: named(self.tokenizer, each) for name, each in forced_pass.sequences.items()},
            tokenizer=self.tokenizer,
            answer=answer,
            searched=None if request.target is not None else self._searched(search, prompt, request),
        )

    def stream(self, request: Request, turn: Turn) -> Iterator[AnswerToken]:
        prompt = self._prompt(self._given(request))
        if not worth_showing(self.model, len(prompt.context), self._search(request)):
            return iter(())
        search = self._search(Beam())
        assert isinstance(search, DecodingLoop)
        room = self._room(prompt, request)
        request.changes.refuse_tokens_beyond(len(prompt.context) + room)
        asked = prompt.request(room)
        return said(search, lambda: self._stepper(prompt), asked, self.tokenizer, self.model, turn)

    def _given(self, request: Request) -> ForcedText:
        """The ids of a text, and of what is forced after it, cut into tokens as if they were one text."""
        prompt = tuple(self.tokenizer.encode(request.text))
        if request.prefix_ids is not None:
            given = self._given_ids(prompt, request.prefix_ids)
        else:
            given = self._given_text(request, prompt)
        refuse_long(len(given.prompt) + len(given.forced) + 1, "the text", self.model.max_length)
        return given

    def _given_text(self, request: Request, prompt: tuple[int, ...]) -> ForcedText:
        after = request.target if request.target is not None else request.prefix or ""
        whole = tuple(self.tokenizer.encode(as_a_beginning(request.text + after, self.tokenizer)))
        if whole[: len(prompt)] != prompt:  # together they are cut in other places
            whole = (*prompt, *self.tokenizer.encode(after))
        return ForcedText(prompt=prompt, forced=whole[len(prompt) :])

    def _given_ids(self, prompt: tuple[int, ...], written: tuple[int, ...]) -> ForcedText:
        """What is written begins with the prompt, but for what is read before anything is written."""
        size = self.tokenizer.vocab_size
        if any(not 0 <= number < size for number in written):
            raise DataError("prefix_ids has an id that is no token", f"ids are from 0 to {size - 1}")
        whole = written if self._begin_id is not None else (*prompt[:1], *written)
        if whole[: len(prompt)] != prompt:  # the prompt itself is another now
            return ForcedText(prompt=whole, forced=())
        return ForcedText(prompt=prompt, forced=whole[len(prompt) :])

    def _prompt(self, given: ForcedText) -> Prompt:
        return prompt_of((*given.prompt, *given.forced), begin_id=self._begin_id)

    def _room(self, prompt: Prompt, request: Request) -> int:
        """How many tokens the text goes on with; only if asked to, beyond the model's trained length."""
        length, trained = len(prompt.context), self.model.trained_length
        wanted = request.max_new_tokens or min(NEW_TOKENS, self.settings.max_new_tokens)
        if request.max_new_tokens is None and trained is not None and length < trained:
            wanted = min(wanted, trained - length)
        return min(wanted, (self.model.max_length or MAX_TOKENS) - length, MAX_TOKENS - length)

    def _search(self, beam: BeamSize) -> Search:
        return self.settings.changed(beam.or_greedy.controls).strategy(
            pad_id=self.tokenizer.pad_id,
            unk_id=self.tokenizer.unk_id,
            bos_id=self.tokenizer.bos_id,
            eos_id=self.tokenizer.eos_id,
            tokenizer=self.tokenizer,
        )

    def _searched(self, search: Search, prompt: Prompt, request: Request) -> SearchRecord:
        new = self._room(prompt, request)
        return SearchRecord(
            search=search,
            decode=lambda search: continue_all(
                search, self.model, [prompt], max_new_tokens=new, max_context=ALL
            )[0],
        )

    def _stepper(self, prompt: Prompt) -> Stepper:
        """One that has read as much of the prompt as is read at once."""
        stepper = prompt_stepper(self.model, ALL)
        start(stepper, [prompt])
        return stepper

    def _text(self, prompt: tuple[int, ...], ids: tuple[int, ...]) -> str:
        """What follows the prompt, as text."""
        before, whole = self.tokenizer.decode(prompt), self.tokenizer.decode((*prompt, *ids))
        return whole[len(before) :] if whole.startswith(before) else self.tokenizer.decode(ids)
