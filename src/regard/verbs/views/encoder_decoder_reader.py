"""Runs an encoder-decoder on a text: its answer is decoded, or forced."""

from collections.abc import Iterator

import torch

from regard.decoding.base_search import Search
from regard.decoding.batches import deterministic, max_positions, padded
from regard.decoding.control_fields import Beam, BeamSize
from regard.decoding.controls import controls_with
from regard.decoding.decoding_loop import DecodingLoop
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.hypothesis import Request as DecodingRequest
from regard.decoding.scoring import forced_scores
from regard.decoding.settings import GenerationSettings
from regard.decoding.step import ModelStepper, Stepper
from regard.errors import DataError
from regard.inspection.passes import translation_pass
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.verbs.generation.decoding_defaults import decoding_defaults
from regard.verbs.generation.prefixes import source_prefix
from regard.verbs.generation.search_results import translation_search as make_search
from regard.verbs.shared.model_loading import model_that
from regard.verbs.views.inspected_run import (
    AnswerToken,
    InspectedRun,
    SearchRecord,
    as_prefix,
    token_sequence,
)
from regard.verbs.views.request import LookRequest, refuse_many_tokens, refuse_other_ids
from regard.verbs.views.streaming import ModelLock, is_worth_streaming, stream_tokens
from regard.weights.model_folder import LoadedModel


class EncoderDecoderReader:
    """Translates a text by the model's own search, or scores a forced translation."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.model = model_that("translates", SequenceToSequence, loaded)
        self.settings = decoding_defaults(GenerationSettings, loaded).with_(n_best=1)
        self.source, self.target = loaded.tokenizers.source, loaded.tokenizers.target
        self.prefix_rule = source_prefix(self.settings, "translation", self.source)

    def read(self, request: LookRequest) -> InspectedRun:
        src_ids = self._source_ids(request)
        search = self.search(request)
        tgt_ids, log_prob, forced = self._answer(request, src_ids, search)
        score = log_prob / search.length_penalty(len(tgt_ids) + 1)
        special_ids = {"bos_id": self.target.bos_id, "eos_id": self.source.eos_id}
        forced_pass = translation_pass(self.model, src_ids, tgt_ids, **special_ids)
        tokenizers = {"source": self.source, "read": self.target, "written": self.target}
        return InspectedRun(
            loaded=self.loaded,
            request=request,
            forced=forced_pass,
            sequences={
                name: token_sequence(tokenizers[name], ids) for name, ids in forced_pass.sequences.items()
            },
            tokenizer=self.target,
            answer={
                "text": self.target.decode(tgt_ids),
                "log_prob": log_prob,
                "score": score,
                "forced": forced,
            },
            search_record=None
            if request.target is not None
            else self._search_record(request, src_ids, search),
        )

    def stream(self, request: LookRequest, lock: ModelLock) -> Iterator[AnswerToken]:
        src_ids = self._source_ids(request)
        if not is_worth_streaming(self.model, len(src_ids), self.search(request)):
            return iter(())
        search = self.search(Beam())
        assert isinstance(search, DecodingLoop)
        decoding_request = self._decoding_request(src_ids, self._prefix(request))
        return stream_tokens(
            search, lambda: self._stepper(src_ids), decoding_request, self.target, self.model, lock
        )

    def _answer(
        self, request: LookRequest, src_ids: list[int], search: Search
    ) -> tuple[list[int], float, int]:
        """The answer's ids without end token, its log-probability, and the number of forced ids."""
        if request.target is not None:
            ids = self.target.encode(request.target.strip())
            refuse_many_tokens(len(ids) + 1, "the target", self.model.max_length)
            special_ids = {
                "pad_id": self.target.pad_id,
                "bos_id": self.target.bos_id,
                "eos_id": self.target.eos_id,
            }
            [score] = forced_scores(self.model, [(src_ids, ids)], **special_ids)
            return ids, score.log_prob, len(ids) + 1
        prefix = self._prefix(request)
        refuse_many_tokens(len(prefix) + 1, "the prefix", self.model.max_length)
        found = self._hypotheses(search, src_ids, prefix)
        return found[0].ids, found[0].log_prob, len(prefix)

    def _search_record(self, request: LookRequest, src_ids: list[int], search: Search) -> SearchRecord:
        prefix = self._prefix(request)
        return SearchRecord(search=search, decode=lambda search: self._hypotheses(search, src_ids, prefix))

    def _hypotheses(self, search: Search, src_ids: list[int], prefix: tuple[int, ...]) -> list[Hypothesis]:
        with torch.no_grad(), deterministic([self.model]):
            [found] = search(self._stepper(src_ids), [self._decoding_request(src_ids, prefix)])
        if not found:
            raise DataError("the model found no answer", "raise max_length in generation.json")
        return found

    def _prefix(self, request: LookRequest) -> tuple[int, ...]:
        if request.prefix_ids is not None:
            refuse_other_ids(request.prefix_ids, self.target.vocab_size)
            return request.prefix_ids
        return tuple(self.target.encode(as_prefix(request.prefix, self.target))) if request.prefix else ()

    def _source_ids(self, request: LookRequest) -> list[int]:
        text = request.text
        ids = self.prefix_rule.first(self.source.encode(self.prefix_rule.before(text.strip())), self.source)
        if not text.strip():
            raise DataError("the text is empty", "give a sentence to look at")
        refuse_many_tokens(len(ids) + 1, "the text", self.model.max_length)
        request.changes.refuse_tokens_beyond(len(ids) + 1)
        return ids

    def search(self, beam: BeamSize) -> Search:
        """The search with this beam; without one the model's own, greedy where that samples."""
        beam = beam.or_greedy if self.settings.samples else beam
        return make_search(self.settings.changed(controls_with(beam)), self.loaded.tokenizers)

    def _decoding_request(self, src_ids: list[int], prefix: tuple[int, ...]) -> DecodingRequest:
        return DecodingRequest(
            src_len=len(src_ids), prefix=prefix, most=max_positions([self.model]) - 1, source=tuple(src_ids)
        )

    def _stepper(self, src_ids: list[int]) -> Stepper:
        """A stepper that has read the source."""
        stepper = ModelStepper(self.model)
        sources = padded(
            [[*src_ids, self.source.eos_id]], self.source.pad_id, most=max_positions([self.model])
        )
        stepper.start(*sources)
        return stepper
