"""The verb `look`: what a model does with a text, on a page, in a notebook or in files."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from regard.errors import FolderError
from regard.inspection.repeated_blocks import with_distinct_blocks
from regard.inspection.switches import Ablation, ablated
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_only import EncoderOnly
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.models.vision import VisionTransformer
from regard.verbs.generation.controls import MODEL_BEAM, BeamSize
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.model_loading import use_of
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.views.decoder_only_reader import DecoderOnlyReader
from regard.verbs.views.encoder_decoder_reader import EncoderDecoderReader
from regard.verbs.views.encoder_only_reader import EncoderOnlyReader
from regard.verbs.views.inspected_run import AnswerToken, InspectedRun
from regard.verbs.views.look import Look
from regard.verbs.views.request import Changes, LookRequest
from regard.verbs.views.streaming import ModelLock
from regard.verbs.views.vision_reader import VisionReader
from regard.weights.model_folder import LoadedModel

__all__ = ["Changes", "Look", "LookRequest", "Looker", "look"]


@runtime_checkable
class ModelReader(Protocol):
    """Runs one kind of model on a request, at once or token by token.

    Raises:
        DataError: the text is empty or too long.
    """

    def read(self, request: LookRequest) -> InspectedRun: ...

    def stream(self, request: LookRequest, lock: ModelLock) -> Iterator[AnswerToken]: ...


class Looker:
    """A loaded model, for looks at many texts.

    Threads may share a looker; they use the model in turn.

    Args:
        model: a model or run folder, or the result of `regard.load`; by default the included model.

    Raises:
        FolderError: there are no looks for this kind of model.
    """

    @checked
    @keyword_fields
    def __init__(
        self,
        model: AnyModel | None = None,
        *,
        runtime: Runtime = DEFAULT_RUNTIME,
    ) -> None:
        loaded = open_model(model, runtime)
        model_with_names = with_distinct_blocks(loaded.model)
        self.loaded = loaded if model_with_names is loaded.model else replace(loaded, model=model_with_names)
        self._reader = make_reader(self.loaded)
        self._lock = threading.RLock()

    @checked
    @keyword_fields
    def look(
        self,
        text: str,
        *,
        target: str | None = None,
        prefix: str | None = None,
        prefix_ids: tuple[int, ...] | None = None,
        beam: BeamSize = MODEL_BEAM,
        max_new_tokens: int | None = None,
        changes: Changes | None = None,
    ) -> Look:
        """What the model does with a text; see `look`."""
        return self(
            LookRequest(
                text=text,
                target=target,
                prefix=prefix,
                prefix_ids=prefix_ids,
                **vars(beam),
                max_new_tokens=max_new_tokens,
                changes=changes or Changes(),
            )
        )

    def __call__(self, request: LookRequest) -> Look:
        """What the model does with a request.

        Raises:
            DataError: the text is empty or too long. ConfigError: a part to switch off does not exist.
        """
        with self._exclusive(request):
            run = self._reader.read(request)
        return Look(run, lock=self._lock, with_changes=lambda: self._with_changes(request), factory=self)

    def stream(self, request: LookRequest) -> Iterator[AnswerToken]:
        """The tokens of the greedy answer as they are generated; none if the model does not generate."""
        return self._reader.stream(request, lambda: self._exclusive(request))

    def _with_changes(self, request: LookRequest) -> AbstractContextManager[Any]:
        """A context in which the parts that the request switches off are off."""
        changes = request.changes
        if not changes:
            return ExitStack()
        return ablated(
            self.loaded.model,
            Ablation(heads=changes.heads, layers=changes.layers, tokens=changes.tokens),
        )

    @contextmanager
    def _exclusive(self, request: LookRequest) -> Iterator[None]:
        """A context in which only this thread uses the model, with the request's changes."""
        with self._lock, self._with_changes(request):
            yield


def make_reader(loaded: LoadedModel) -> ModelReader:
    """The reader for this kind of model.

    Raises:
        FolderError: there is none.
    """
    match loaded.model:
        case SequenceToSequence():
            return EncoderDecoderReader(loaded)
        case DecoderOnly():
            return DecoderOnlyReader(loaded)
        case EncoderOnly():
            return EncoderOnlyReader(loaded)
        case VisionTransformer():
            return VisionReader(loaded)
    raise FolderError(
        f"{loaded.path}: `look` does not support {loaded.config.kind} models", f"it {use_of(loaded)}"
    )


@checked
@keyword_fields
def look(
    text: str,
    model: AnyModel | None = None,
    *,
    target: str | None = None,
    prefix: str | None = None,
    prefix_ids: tuple[int, ...] | None = None,
    beam: BeamSize = MODEL_BEAM,
    max_new_tokens: int | None = None,
    changes: Changes | None = None,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> Look:
    """What a model does with one text: attention, alignment, predictions, beam and more.

    For an image classifier `text` is FILE:NUMBER, an image counted from 0.

    `look.paths()` names the resources, and `look.get(path)` computes one on first use. The model answers by
    itself; `target` forces another answer, `prefix` (or `prefix_ids`) the beginning of one. `changes`
    switches heads, layers or tokens off. For many texts keep a `Looker`.

    Args:
        text: the input.
        model: a model or run folder, or the result of `regard.load`; by default the included model.
        target: an answer to force; an empty one of a decoder-only model: look at the text alone.
        prefix: the beginning of an answer to force.
        prefix_ids: the same as token ids.
        max_new_tokens: limit of a decoder-only model's continuation; by default 24, or what fits its length.
        changes: heads, layers and tokens to switch off.

    Raises:
        FolderError: there are no looks for this kind of model. DataError: the text is empty or too long.
    """
    request = LookRequest(
        text=text,
        target=target,
        prefix=prefix,
        prefix_ids=prefix_ids,
        **vars(beam),
        max_new_tokens=max_new_tokens,
        changes=changes or Changes(),
    )
    return Looker(model, runtime=runtime)(request)
