"""Which positions of a text a decoder reads in a call: all of a pass, or those of a cached step."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import nn

from regard.errors import ConfigError
from regard.inspection.own_thread import in_this_thread
from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.cache import KeyValueCache
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.encoder_only import EncoderOnly
from regard.models.recurrent import Recurrent
from regard.models.speech_to_text import SpeechToText
from regard.models.vision import VisionTransformer

WITH_DECODER = EncoderDecoder | Recurrent | SpeechToText


@dataclass
class DecoderCall:
    """The latest call of a decoder: it reads the positions `start` to `start + length - 1` of the text."""

    start: int = 0
    length: int = 0
    cached: bool = False  # True: a cache has the positions before, and later calls continue it
    passes: int = 0  # begun so far: calls that continue no cache
    first: int = 0  # the position of the first token in the cache, above 0 in a rolling context window


@contextmanager
def decoder_calls(model: nn.Module) -> Iterator[DecoderCall]:
    """A context in which the call that it gives is kept up to date, for this thread.

    A call of a recurrent decoder counts as cached if a call before it has read a token: its first step is
    the pass over one token. Of a model that has no decoder of regard's, no call is seen.
    """
    call = DecoderCall()
    with ExitStack() as undo:
        for module, hook in _hooks(model, call):
            undo.callback(module.register_forward_pre_hook(in_this_thread(hook), with_kwargs=True).remove)
        yield call


@contextmanager
def refuse_calls(
    model: nn.Module, wrong: Callable[[DecoderCall], bool], message: str, hint: str
) -> Iterator[None]:
    """A context in which a call of the model's decoder that is `wrong` is a ConfigError, in this thread."""
    with ExitStack() as undo:
        call = undo.enter_context(decoder_calls(model))

        def refuse(module: nn.Module, inputs: Any) -> None:
            if wrong(call):
                raise ConfigError(message, hint)

        for module, _ in _hooks(model, call)[-1:]:  # after the hook that has seen a cache
            undo.callback(module.register_forward_pre_hook(in_this_thread(refuse)).remove)
        yield


def refuse_cached_calls(model: nn.Module, message: str, hint: str) -> AbstractContextManager[None]:
    """A context in which a cached call of the model's decoder is a ConfigError, in this thread."""
    return refuse_calls(model, lambda call: call.cached, message, hint)


def pass_number(model: nn.Module, call: DecoderCall, name: str, calls_before: int) -> int | None:
    """The number of the pass in which the module `name` is called; `call`: the decoder's latest.

    Steps with one cache are of one pass. An encoder reads a text at once, so each of its calls is a pass.
    None: the model is not of a kind whose cache is known.
    """
    if not isinstance(model, EncoderOnly | VisionTransformer | DecoderOnly | WITH_DECODER):
        return None
    return call.passes if is_of_decoder(model, name) else calls_before


def is_of_decoder(model: nn.Module, name: str) -> bool:
    """True if the outputs of the module `name` belong to positions of the text that a decoder reads."""
    if isinstance(model, DecoderOnly):
        return True
    if not isinstance(model, WITH_DECODER):
        return False
    above, _, last = name.rpartition(".")
    parent = model.get_submodule(above)
    of_source = isinstance(parent, MultiHeadAttention) and not isinstance(parent, SelfAttention)
    return name.partition(".")[0] != "encoder" and not (of_source and last in ("key", "value"))


def _hooks(model: nn.Module, call: DecoderCall) -> list[tuple[nn.Module, Callable[..., None]]]:
    """Modules that a decoder calls first, and the hooks that learn its positions from their inputs."""

    def embedding(_: nn.Module, inputs: Any, named: dict[str, Any]) -> None:  # ids, start
        call.start = named.get("start", inputs[1] if len(inputs) > 1 else 0)
        call.length, call.cached, call.first = inputs[0].size(1), call.start > 0, 0
        call.passes += not call.start

    def first_block(_: nn.Module, inputs: Any, named: dict[str, Any]) -> None:  # the cache is last
        cache = named.get("cache", inputs[-1])
        call.cached = isinstance(cache, KeyValueCache)
        if isinstance(cache, KeyValueCache):  # the embedding counts from the first token in the cache
            call.first, call.start = cache.first, cache.first + cache.length

    def recurrent(_: nn.Module, inputs: Any, named: dict[str, Any]) -> None:  # ids, source, state
        call.start, call.length = inputs[2].length, inputs[0].size(1)
        call.cached = call.start > 0
        call.passes += not call.start

    match model:
        case DecoderOnly():
            return [(model.input, embedding), (model.blocks[0], first_block)]
        case EncoderDecoder() | SpeechToText():
            decoder = model.decoder
            return [(decoder.input, embedding), (decoder.blocks[0], first_block)]
        case Recurrent():
            return [(model.decoder, recurrent)]
    return []
