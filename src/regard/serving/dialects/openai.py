"""OpenAI's dialect: completions, chat completions, embeddings, models. Speech is in `openai_audio.py`.

A field that would change the answer and cannot be honoured is refused by name. Unknown fields are refused, as
by OpenAI. Fields that only describe the client or the account (`user`, `metadata`, `store`) have no effect.
"""

import asyncio
import base64
import struct
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from starlette.responses import Response

from regard.errors import ConfigError, RegardError
from regard.serving.dialects.controls import checked_controls, count_in, refuse_set
from regard.serving.dialects.dialect import ENCODER, Call, Dialect, Route, error_response, json_response
from regard.serving.dialects.openai_audio import AUDIO_ROUTES
from regard.serving.dialects.openai_controls import controls_of
from regard.serving.dialects.openai_messages import conversation, last_user_message
from regard.serving.dialects.openai_shapes import ChatShape, CompletionShape, Shape, TextLimit
from regard.serving.dialects.openai_types import (
    IMPOSSIBLE,
    IN_MESSAGES,
    ChatRequest,
    CompletionRequest,
    EmbeddingRequest,
    OpenAIError,
    OpenAIErrorBody,
    Sampling,
    StreamOptions,
    Usage,
)
from regard.serving.dialects.own import DIGITS, count_output
from regard.serving.event_stream import DONE, EventStream, event
from regard.serving.http_error import HttpProblem, problem_of, unsupported
from regard.serving.models import Engine, Slot
from regard.serving.request import ClientGone
from regard.verbs.shared.answerer import AnswerSettings, DecodingAnswerer, Task

TYPES = {  # of an error, by its HTTP status
    **dict.fromkeys((400, 405, 413, 415), "invalid_request_error"),
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
WHY = "no model here does that"
WITHOUT_EFFECT = {  # values that ask for nothing else than a text
    "tool_choice": "none",
    "function_call": "none",
    "modalities": ["text"],
    "response_format": {"type": "text"},
    "reasoning_effort": "none",
}
TIERS = (None, "auto", "default")  # values of service_tier; all mean the only tier


class OpenAIDialect(Dialect):
    """OpenAI's dialect; an answer has the shape that `openai_shapes.py` gives it."""

    name: ClassVar[str] = "openai"

    def routes(self) -> list[Route]:
        def post(path: str, handler: Any, body: Any, about: str) -> Route:
            return Route("POST", path, handler, about, body=body)

        return [
            Route("GET", "/v1/models", self.models, "List the models."),
            Route("GET", "/v1/models/{}", self.model, "A model."),
            post("/v1/completions", self.completions, CompletionRequest, "Continue prompts, or translate."),
            post(
                "/v1/chat/completions",
                self.chat,
                ChatRequest,
                "Answer a conversation, or translate the last message.",
            ),
            post("/v1/embeddings", self.embeddings, EmbeddingRequest, "Embed texts as vectors."),
            *AUDIO_ROUTES,
        ]

    def error(self, problem: HttpProblem, request_id: str) -> Response:
        return error_response(problem, _error_of(problem))

    async def models(self, call: Call) -> Response:
        data = [_model(slot) for slot in call.service.models.slots.values()]
        return json_response({"object": "list", "data": data})

    async def model(self, call: Call) -> Response:
        return json_response(_model(call.service.models.slot(call.path)))

    async def completions(self, call: Call) -> Any:
        body = await call.body(CompletionRequest)
        refuse_set({"suffix": body.suffix}, {"suffix": "no model here fills in the text before a suffix"})
        if body.best_of is not None and body.best_of != (body.n or 1):
            raise unsupported("best_of", "only as many texts are computed as are returned")
        if body.echo and body.logprobs is not None:
            raise unsupported(
                "echo with logprobs", "the log-probabilities of a prompt are not computed", of="echo"
            )
        asked = await Asked.of(call, body, body.max_tokens, logprobs=body.logprobs)
        if body.prompt is None and asked.settings.task == "translate":
            raise HttpProblem(400, "prompt is missing", "send the text to translate", parameter="prompt")
        prompts = _texts(body.prompt, "prompt")
        if body.stream:
            return await asked.stream(prompts, CompletionShape(*asked.shape, prompts if body.echo else None))
        found = await call.service.answer(call.request, asked.slot, asked.settings, prompts)
        shape = CompletionShape(*asked.shape, prompts if body.echo else None)
        return asked.whole(prompts, found.answers, shape)

    async def chat(self, call: Call) -> Any:
        body = await call.body(ChatRequest)
        _refuse_chat(body)
        asked = await Asked.of(call, body, _most_tokens(body), chat=True, logprobs=_top_logprobs(body))
        if asked.settings.task == "translate":
            texts = [last_user_message(body.messages)]
        elif asked.engine.model.has_chat:
            texts = [await asyncio.to_thread(asked.engine.model.rendered, conversation(body.messages))]
        else:
            raise HttpProblem(
                400,
                f"{asked.slot.name} has no chat template",
                "use /v1/completions"
                if "generate" in asked.engine.model.tasks
                else "name a model that generates",
                parameter="model",
                code="unsupported_value",
            )
        if body.stream:
            return await asked.stream(texts, ChatShape(*asked.shape))
        found = await call.service.answer(call.request, asked.slot, asked.settings, texts)
        return asked.whole(texts, found.answers, ChatShape(*asked.shape))

    async def embeddings(self, call: Call) -> Response:
        body = await call.body(EmbeddingRequest)
        slot = call.service.models.slot(body.model)
        texts = _texts(body.input, "input")
        found = await call.service.answer(call.request, slot, AnswerSettings(task="embed"), texts)
        vectors = [[round(x, DIGITS) for x in each.vector.tolist()] for each in found.answers]
        if body.dimensions is not None and any(len(vector) != body.dimensions for vector in vectors):
            raise unsupported("dimensions", f"the vectors of {slot.name} have {len(vectors[0])} numbers")
        tokens = sum(found.engine.model.count_tokens(text) for text in texts)
        data = [
            {"object": "embedding", "index": number, "embedding": _encoded(vector, body.encoding_format)}
            for number, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return json_response({"object": "list", "data": data, "model": slot.name, "usage": usage})


class Asked:
    """A request for completions or a chat completion: its body, its model and regard's settings for it."""

    def __init__(
        self,
        call: Call,
        body: Sampling,
        slot: Slot,
        engine: Engine,
        settings: AnswerSettings,
        logprobs: int | None = None,
    ) -> None:
        self.call, self.body, self.slot, self.engine, self.settings = call, body, slot, engine, settings
        self.logprobs = logprobs  # the number of most probable tokens; None: no log-probabilities
        self.created = int(time.time())

    @classmethod
    async def of(
        cls,
        call: Call,
        body: Sampling,
        most: int | None,
        *,
        chat: bool = False,
        logprobs: int | None = None,
    ) -> "Asked":
        """The request in `body`, whose answers have at most `most` tokens (None: the model's own limit).

        `logprobs`: how many of the most probable tokens come with each token; None: no log-probabilities.

        Raises:
            HttpProblem: a field cannot be honoured, or is beyond the server's limits.
        """
        _refuse_options(body)
        slot = call.service.models.slot(body.model)
        engine = await call.service.models.engine(slot)
        task: Task = "translate" if "translate" in engine.model.tasks else "generate"
        limits = call.service.limits
        values = controls_of(body, most, engine, task)
        settings = AnswerSettings(
            task=task,
            controls=checked_controls(values, limits, {"max_new_tokens": _length_field(body)}),
            count=count_in("n", body.n or 1, limits),
            chat=chat and task == "generate" and engine.model.has_chat,
            alternatives=logprobs if logprobs or body.stream else None,
        )
        asked = cls(call, body, slot, engine, settings, logprobs)
        asked.refuse_count()
        if logprobs and not asked.answerer.records_alternatives:
            name = "top_logprobs" if chat else "logprobs"
            raise unsupported(f"{name} above 0", "this search records no other tokens of a step", of=name)
        return asked

    @property
    def answerer(self) -> DecodingAnswerer[Any, Any]:
        """What answers with these settings."""
        answerer = self.engine.model.answerer(self.settings)
        assert isinstance(answerer, DecodingAnswerer)
        return answerer

    def refuse_count(self) -> None:
        """Raise an HttpProblem if the search finds fewer than `n` texts.

        Raises:
            ConfigError: it does not find one, either.
        """
        count = self.settings.count
        if count == 1:
            return
        try:
            self.engine.model.answerer(self.settings)
        except ConfigError:
            self.engine.model.answerer(replace(self.settings, count=1))
            raise HttpProblem(
                400,
                f"this search finds fewer texts than n = {count}",
                "leave out n" if self.settings.task == "translate" else "leave out n, or raise temperature",
                parameter="n",
                code="invalid_value",
            ) from None

    @property
    def shape(self) -> tuple[str, int, TextLimit, int | None]:
        """The arguments of a `Shape`."""
        limit = TextLimit(
            most=self._most(),
            stops=bool(self.settings.controls.stop),
            searched=self.settings.task == "translate",
        )
        return self.slot.name, self.created, limit, self.logprobs

    def usage(self, texts: Sequence[str], completion_tokens: int) -> Usage:
        prompt_tokens = sum(self.engine.model.count_tokens(text) for text in texts)
        return Usage(
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            total_tokens=prompt_tokens + completion_tokens,
        )

    def whole(self, texts: Sequence[str], answers: Sequence[Any], shape: Shape) -> Response:
        """The response with all choices, those of the first text first."""
        candidates = [(place, each) for place, answer in enumerate(answers) for each in _candidates(answer)]
        count_output(self.call, [each for _, each in candidates])
        choices = [shape.choice(number, place, each) for number, (place, each) in enumerate(candidates)]
        usage = self.usage(texts, sum(len(each.tokens) for _, each in candidates))
        return json_response({**shape.head(), "choices": choices, "usage": usage})

    async def stream(self, texts: Sequence[str], shape: Shape) -> EventStream:
        """The response as a stream of events.

        Raises:
            HttpProblem: the request asks for several answers.
        """
        if len(texts) > 1 or self.settings.count > 1:
            raise unsupported(
                "stream with several answers",
                "they are not computed side by side",
                "n = 1, one prompt",
                of="stream",
            )
        parts = await self.call.service.parts(self.call.request, self.slot, self.settings, texts[0])
        return EventStream(self._events(texts, parts, shape))

    async def _events(
        self, texts: Sequence[str], parts: AsyncIterator[str], shape: Shape
    ) -> AsyncIterator[bytes]:
        options = self.body.stream_options or StreamOptions()
        head = shape.head(chunk=True)
        if options.include_usage:
            head["usage"] = None
        try:
            for first in shape.first_deltas():
                yield event(ENCODER.encode({**head, "choices": [first]}))
            async for part in parts:
                yield event(ENCODER.encode({**head, "choices": [shape.delta(part)]}))
            tokens = self.call.request.output_tokens
            reasons = {*map(shape.limit.finish_reason, self.call.request.streamed)}
            reason = "length" if "length" in reasons else "stop"
            yield event(ENCODER.encode({**head, "choices": [shape.last_delta(reason)]}))
            if options.include_usage:
                yield event(ENCODER.encode({**head, "choices": [], "usage": self.usage(texts, tokens)}))
            yield DONE
        except ClientGone:
            raise
        except RegardError as error:
            yield event(ENCODER.encode(_error_of(problem_of(error))))

    def _most(self) -> int:
        """The greatest number of tokens of a text, or of a sentence of a translation."""
        return self.answerer.longest_answer


def _refuse_options(body: Sampling) -> None:
    """Raise an HttpProblem for a field of both kinds of completions that cannot be honoured."""
    if body.stream_options is not None and not body.stream:
        raise HttpProblem(
            400, "stream_options is for a stream", "send stream = true, too", parameter="stream_options"
        )
    if body.stream_options is not None and body.stream_options.include_obfuscation:
        raise unsupported("include_obfuscation", "no padding is sent", of="stream_options")
    if body.service_tier not in TIERS:
        raise unsupported(
            f"service_tier {body.service_tier[:20]!r}", "all requests are alike", of="service_tier"
        )


def _length_field(body: Sampling) -> str:
    """The name of the field that limits the tokens of an answer, for messages."""
    return "max_tokens" if getattr(body, "max_completion_tokens", None) is None else "max_completion_tokens"


def _most_tokens(body: ChatRequest) -> int | None:
    """The value of `max_completion_tokens`, or of `max_tokens`, its older name; None if neither is given."""
    given = {each for each in (body.max_completion_tokens, body.max_tokens) if each is not None}
    if len(given) > 1:
        raise HttpProblem(
            400,
            "max_completion_tokens and max_tokens differ",
            "leave out max_tokens",
            parameter="max_tokens",
        )
    return given.pop() if given else None


def _refuse_chat(body: ChatRequest) -> None:
    """Raise an HttpProblem for a field of a chat that cannot be honoured, unless its value has no effect."""
    if body.parallel_tool_calls is not None:
        raise unsupported("parallel_tool_calls", WHY)
    for message in body.messages:
        refuse_set({name: getattr(message, name) for name in IN_MESSAGES}, dict.fromkeys(IN_MESSAGES, WHY))
    given = {name: getattr(body, name) for name in IMPOSSIBLE}
    fields = {name: value for name, value in given.items() if value != WITHOUT_EFFECT.get(name)}
    refuse_set(fields, dict.fromkeys(IMPOSSIBLE, WHY))


def _top_logprobs(body: ChatRequest) -> int | None:
    """How many of the most probable tokens come with each token; None: no log-probabilities."""
    if body.logprobs:
        return body.top_logprobs or 0
    if body.top_logprobs is not None:
        raise HttpProblem(
            400, "top_logprobs is for logprobs", "send logprobs = true, too", parameter="top_logprobs"
        )
    return None


def _texts(given: Any, name: str) -> list[str]:
    """The texts of the field `name`; one empty text if it is not given.

    Raises:
        HttpProblem: it has token ids, which OpenAI's API allows, or an empty list.
    """
    if given is None:
        return [""]
    texts = given if isinstance(given, list) else [given]
    if not texts:
        raise HttpProblem(400, f"{name} is empty", "send a text", parameter=name)
    if not all(isinstance(each, str) for each in texts):
        raise unsupported(f"{name} as tokens", "tokens differ between models", "send texts", of=name)
    return texts


def _error_of(problem: HttpProblem) -> OpenAIError:
    kind = TYPES.get(problem.status, "server_error")
    return OpenAIError(
        error=OpenAIErrorBody(message=problem.text, type=kind, param=problem.parameter, code=problem.code)
    )


def _candidates(answer: Any) -> Sequence[Any]:
    return answer.candidates if hasattr(answer, "candidates") else answer.continuations


def _encoded(vector: list[float], encoding: str) -> list[float] | str:
    if encoding == "float":
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _model(slot: Slot) -> dict[str, Any]:
    return {"id": slot.name, "object": "model", "created": slot.created, "owned_by": "regard"}
