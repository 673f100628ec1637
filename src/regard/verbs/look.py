"""Look: what a model does with a text, to be seen on a page, in a notebook, in files."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol, runtime_checkable

from regard.errors import FolderError
from regard.inspection.switches import Ablation, ablated
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_only import EncoderOnly
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.models.vision import VisionTransformer
from regard.verbs.any_model import AnyModel, open_model
from regard.verbs.arguments import checked
from regard.verbs.box import USES
from regard.verbs.controls import MODEL_BEAM, BeamSize
from regard.verbs.keyword_fields import keyword_fields
from regard.verbs.looking.decoder_only_reader import DecoderOnlyReader
from regard.verbs.looking.encoder_decoder_reader import EncoderDecoderReader
from regard.verbs.looking.encoder_only_reader import EncoderOnlyReader
from regard.verbs.looking.inspected_run import AnswerToken, InspectedRun
from regard.verbs.looking.look import Look
from regard.verbs.looking.request import Changes, Request
from regard.verbs.looking.streaming import Turn
from regard.verbs.looking.vision_reader import VisionReader
from regard.verbs.runtime import RUNTIME, Runtime
from regard.weights.model_folder import LoadedModel

__all__ = ["Changes", "Look", "Looker", "Request", "look"]


@runtime_checkable
class ModelReader(Protocol):
    """How one kind of model reads a text and answers.

    Raises:
        DataError: the text is too long, or nothing.
    """

    def read(self, request: Request) -> InspectedRun: ...

    def stream(self, request: Request, turn: Turn) -> Iterator[AnswerToken]: ...


class Looker:
    """A model, loaded once, to look at many texts with.

    Threads may share a looker: they take turns at the model.

    Args:
        model: a model or run folder, or what `regard.load` gives; the model in the box without.

    Raises:
        FolderError: the model reads no text.
    """

    @checked
    @keyword_fields
    def __init__(
        self,
        model: AnyModel | None = None,
        *,
        runtime: Runtime = RUNTIME,
    ) -> None:
        self.loaded = open_model(model, runtime)
        self._reader = reader_of(self.loaded)
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
            Request(
                text=text,
                target=target,
                prefix=prefix,
                prefix_ids=prefix_ids,
                **vars(beam),
                max_new_tokens=max_new_tokens,
                changes=changes or Changes(),
            )
        )

    def __call__(self, request: Request) -> Look:
        """What the model does with what is asked.

        Raises:
            DataError: the text is too long, or nothing. ConfigError: something is to be switched off that
                there is not.
        """
        with self._turn(request):
            run = self._reader.read(request)
        return Look(run, lock=self._lock, changed=lambda: self._changed(request), again=self)

    def stream(self, request: Request) -> Iterator[AnswerToken]:
        """The likeliest answer, token by token as it comes; nothing where the model writes none."""
        return self._reader.stream(request, lambda: self._turn(request))

    def _changed(self, request: Request) -> AbstractContextManager[Any]:
        """The model without what the request switches off."""
        changes = request.changes
        if not changes:
            return ExitStack()
        return ablated(
            self.loaded.model,
            Ablation(heads=changes.heads, layers=changes.layers, tokens=changes.tokens),
        )

    @contextmanager
    def _turn(self, request: Request) -> Iterator[None]:
        with self._lock, self._changed(request):
            yield


def reader_of(loaded: LoadedModel) -> ModelReader:
    """How this model reads a text or an image.

    Raises:
        FolderError: it reads neither.
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
    use = USES.get(loaded.config.kind, "was made for something else").format(path=loaded.path)
    raise FolderError(f"{loaded.path}: there is no view of a {loaded.config.kind} model", f"it {use}")


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
    runtime: Runtime = RUNTIME,
) -> Look:
    """What a model, or the one in the box, does with one text: attention, alignment, predictions, beam, ...

    Of a model of images `text` names one: FILE:NUMBER, counted from 0.

    Nothing is computed before it is asked for: `look.paths()` names what there is to see, `look.get(path)`
    computes it. The model answers; `target` forces another answer on it, `prefix` (or `prefix_ids`) the
    beginning of one. `changes` switches heads, layers or tokens off. For many texts keep a `Looker`.

    Args:
        text: what the model reads.
        model: a model or run folder, or what `regard.load` gives; the model in the box without.
        target: an answer to force on the model.
        prefix: the beginning of an answer to force on it.
        prefix_ids: the same by token numbers.
        max_new_tokens: of a text that goes on; 24 without, or what there is room for.
        changes: heads, layers and tokens to switch off.

    Raises:
        FolderError: the model reads no text. DataError: the text is too long, or nothing.
    """
    request = Request(
        text=text,
        target=target,
        prefix=prefix,
        prefix_ids=prefix_ids,
        **vars(beam),
        max_new_tokens=max_new_tokens,
        changes=changes or Changes(),
    )
    return Looker(model, runtime=runtime)(request)
