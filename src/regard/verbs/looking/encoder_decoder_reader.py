"""How a model with encoder and decoder reads a text: its answer is searched for, or forced."""

from collections.abc import Iterator

import torch

from regard.decoding.base_search import DecodingLoop, Search
from regard.decoding.batches import deterministic, max_positions, padded
from regard.decoding.controls import Beam, BeamSize
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.hypothesis import Request as Asked
from regard.decoding.scoring import forced_scores
from regard.decoding.settings import GenerationSettings
from regard.decoding.step import ModelStepper, Stepper
from regard.errors import DataError
from regard.inspection.passes import translating
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.verbs.box import model_that
from regard.verbs.decoding_defaults import decoding_defaults
from regard.verbs.looking.inspected_run import AnswerToken, InspectedRun, SearchRecord, as_a_beginning, named
from regard.verbs.looking.request import Request, refuse_long
from regard.verbs.looking.streaming import Turn, said, worth_showing
from regard.verbs.prefixes import default_prefix, prefix_of
from regard.verbs.search_results import translation_search as search_of
from regard.weights.model_folder import LoadedModel


class EncoderDecoderReader:
    """Reads a text, and writes what it means."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.model = model_that("translates", SequenceToSequence, loaded)
        self.settings = decoding_defaults(GenerationSettings, loaded).with_(n_best=1)
        self.source, self.target = loaded.tokenizers.source, loaded.tokenizers.target
        usual = default_prefix(self.settings.prefixes, "translation")
        self.before = prefix_of(usual, self.source, lower_capitals=self.settings.lower_capitals)

    def read(self, request: Request) -> InspectedRun:
        src_ids = self._source_ids(request)
        search = self._search(request)
        tgt_ids, log_prob, forced = self._answer(request, src_ids, search)
        score = log_prob / search.length_penalty(len(tgt_ids) + 1)
        marks = {"bos_id": self.target.bos_id, "eos_id": self.source.eos_id}
        pass_ = translating(self.model, src_ids, tgt_ids, **marks)
        tokenizers = {"source": self.source, "read": self.target, "written": self.target}
        return InspectedRun(
            loaded=self.loaded,
            request=request,
            forced=pass_,
            sequences={name: named(tokenizers[name], ids) for name, ids in pass_.sequences.items()},
            tokenizer=self.target,
            answer={
                "text": self.target.decode(tgt_ids),
                "log_prob": log_prob,
                "score": score,
                "forced": forced,
            },
            searched=None if request.target is not None else self._searched(request, src_ids, search),
        )

    def stream(self, request: Request, turn: Turn) -> Iterator[AnswerToken]:
        src_ids = self._source_ids(request)
        if not worth_showing(self.model, len(src_ids), self._search(request)):
            return iter(())
        search = self._search(Beam())
        assert isinstance(search, DecodingLoop)
        asked = self._asked(src_ids, self._prefix(request))
        return said(search, lambda: self._stepper(src_ids), asked, self.target, self.model, turn)

    def _answer(self, request: Request, src_ids: list[int], search: Search) -> tuple[list[int], float, int]:
        """The ids of the answer without its end, its log-probability, and how many of them were forced."""
        if request.target is not None:
            ids = self.target.encode(request.target.strip())
            refuse_long(len(ids) + 1, "the target", self.model.max_length)
            marks = {"pad_id": self.target.pad_id, "bos_id": self.target.bos_id, "eos_id": self.target.eos_id}
            [score] = forced_scores(self.model, [(src_ids, ids)], **marks)
            return ids, score.log_prob, len(ids) + 1
        prefix = self._prefix(request)
        refuse_long(len(prefix) + 1, "the prefix", self.model.max_length)
        found = self._found(search, src_ids, prefix)
        return found[0].ids, found[0].log_prob, len(prefix)

    def _searched(self, request: Request, src_ids: list[int], search: Search) -> SearchRecord:
        prefix = self._prefix(request)
        return SearchRecord(search=search, decode=lambda search: self._found(search, src_ids, prefix))

    def _found(self, search: Search, src_ids: list[int], prefix: tuple[int, ...]) -> list[Hypothesis]:
        with torch.no_grad(), deterministic([self.model]):
            [found] = search(self._stepper(src_ids), [self._asked(src_ids, prefix)])
        if not found:
            raise DataError("the model found no answer", "give it more room: max_length in generation.json")
        return found

    def _prefix(self, request: Request) -> tuple[int, ...]:
        if request.prefix_ids is not None:
            size = self.target.vocab_size
            if any(not 0 <= number < size for number in request.prefix_ids):
                raise DataError("prefix_ids has an id that is no token", f"ids are from 0 to {size - 1}")
            return request.prefix_ids
        return (
            tuple(self.target.encode(as_a_beginning(request.prefix, self.target))) if request.prefix else ()
        )

    def _source_ids(self, request: Request) -> list[int]:
        text = request.text
        ids = self.before.first(self.source.encode(self.before.before(text.strip())), self.source)
        if not text.strip():
            raise DataError("the text is empty", "give a sentence to look at")
        refuse_long(len(ids) + 1, "the text", self.model.max_length)
        request.changes.refuse_tokens_beyond(len(ids) + 1)
        return ids

    def _search(self, beam: BeamSize) -> Search:
        """The search with this beam; without one the model's own, greedy where that samples."""
        beam = beam.or_greedy if self.settings.samples else beam
        return search_of(self.settings.changed(beam.controls), self.loaded.tokenizers)

    def _asked(self, src_ids: list[int], prefix: tuple[int, ...]) -> Asked:
        return Asked(
            src_len=len(src_ids), prefix=prefix, most=max_positions([self.model]) - 1, source=tuple(src_ids)
        )

    def _stepper(self, src_ids: list[int]) -> Stepper:
        """One that has read the source."""
        stepper = ModelStepper(self.model)
        sources = padded(
            [[*src_ids, self.source.eos_id]], self.source.pad_id, most=max_positions([self.model])
        )
        stepper.start(*sources)
        return stepper
