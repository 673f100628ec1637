"""regard's own dialect, below /api/v1: everything that the Python calls can do, strictly typed."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar

import msgspec
from starlette.responses import Response

from regard.errors import RegardError
from regard.serving.dialects.controls import controls_in, count_in
from regard.serving.dialects.dialect import ENCODER, Call, Dialect, Route, error_response, json_response
from regard.serving.dialects.own_types import (
    Alignment,
    Candidate,
    ClassifiedText,
    ClassifyRequest,
    ClassifyResponse,
    ClassProbability,
    EmbedRequest,
    EmbedResponse,
    ErrorResponse,
    FilledText,
    FillRequest,
    FillResponse,
    GeneratedTexts,
    GenerateRequest,
    GenerateResponse,
    ModelInfo,
    ModelsResponse,
    Score,
    ScoreRequest,
    ScoreResponse,
    Sentence,
    TaggedText,
    TaggedWord,
    TagRequest,
    TagResponse,
    TokenProbability,
    TranslatedText,
    TranslateRequest,
    TranslateResponse,
)
from regard.serving.engine import Engine
from regard.serving.event_stream import EventStream, event
from regard.serving.http_error import HttpProblem, problem_of, unsupported
from regard.serving.models import Slot
from regard.serving.service import LONG, Answered, length_of
from regard.verbs.classify import ClassPrediction
from regard.verbs.fill import FilledLine
from regard.verbs.generation.kept_texts import NOTHING
from regard.verbs.generation.translations import Translation
from regard.verbs.shared.answerer import AnswerSettings
from regard.verbs.tag import TaggedSentence

PREFIX = "/api/v1"
DIGITS = 6  # of vectors and probabilities: beyond them digits may depend on the batch


class OwnDialect(Dialect):
    """regard's own dialect."""

    name: ClassVar[str] = "regard"

    def routes(self) -> list[Route]:
        def post(verb: str, handler: Any, body: Any, answer: Any, about: str) -> Route:
            return Route("POST", f"{PREFIX}/{verb}", handler, about, body=body, answer=answer)

        return [
            post("translate", self.translate, TranslateRequest, TranslateResponse, "Translate texts."),
            post("generate", self.generate, GenerateRequest, GenerateResponse, "Continue prompts."),
            post("embed", self.embed, EmbedRequest, EmbedResponse, "Embed texts as vectors."),
            post("classify", self.classify, ClassifyRequest, ClassifyResponse, "Classify texts."),
            post("tag", self.tag, TagRequest, TagResponse, "Label the words of texts."),
            post("fill", self.fill, FillRequest, FillResponse, "Predict masked tokens."),
            post("score", self.score, ScoreRequest, ScoreResponse, "Score given translations."),
            Route("GET", f"{PREFIX}/models", self.models, "List the models.", answer=ModelsResponse),
        ]

    def error(self, problem: HttpProblem, request_id: str) -> Response:
        body = ErrorResponse(
            error=problem.message, hint=problem.hint, parameter=problem.parameter, request_id=request_id
        )
        return error_response(problem, body)

    async def translate(self, call: Call) -> Any:
        body = await call.body(TranslateRequest)
        limits = call.service.limits
        settings = AnswerSettings(
            task="translate",
            controls=controls_in(body, limits),
            count=count_in("n_best", body.n_best, limits),
            prefix=body.prefix,
            split=body.split,
            alignments=body.alignments,
            keep=() if body.keep == NOTHING else (body.keep,),
        )
        slot = call.service.slot(body.model, "translate")
        if body.alignments and not (await call.service.models.engine(slot)).model.aligns:
            raise unsupported("alignments", "this model has no attention to its source")
        if body.stream:
            return await self._stream(call, slot, settings, body.text)
        found = await call.service.answer(call.request, slot, settings, listed(body.text))
        count_output(call, [candidate for each in found.answers for candidate in each.candidates])
        unknown = await _unknown(found.engine, settings, [_sentences(each) for each in found.answers])
        translations = [_translated(*each) for each in zip(found.answers, unknown, strict=True)]
        precision = found.engine.model.precision
        return json_response(
            TranslateResponse(model=slot.name, precision=precision, translations=translations)
        )

    async def generate(self, call: Call) -> Any:
        body = await call.body(GenerateRequest)
        limits = call.service.limits
        settings = AnswerSettings(
            task="generate",
            controls=controls_in(body, limits),
            count=count_in("num", body.num, limits),
            chat=body.chat,
        )
        slot = call.service.slot(body.model, "generate")
        prompts = await _prompts(call, slot, body)
        if body.stream:
            return await self._stream(call, slot, settings, prompts)
        found = await call.service.answer(call.request, slot, settings, listed(prompts))
        count_output(call, [candidate for each in found.answers for candidate in each.continuations])
        unknown = await _unknown(found.engine, settings, [[each] for each in listed(prompts)])
        results = [
            GeneratedTexts(
                continuations=[_candidate(one) for one in each.continuations], unknown_tokens=number
            )
            for each, number in zip(found.answers, unknown, strict=True)
        ]
        precision = found.engine.model.precision
        return json_response(GenerateResponse(model=slot.name, precision=precision, results=results))

    async def embed(self, call: Call) -> Response:
        body = await call.body(EmbedRequest)
        found, unknown = await self._answered(call, body, AnswerSettings(task="embed"))
        vectors = [[round(x, DIGITS) for x in each.vector.tolist()] for each in found.answers]
        return json_response(EmbedResponse(model=found.slot.name, vectors=vectors, unknown_tokens=unknown))

    async def classify(self, call: Call) -> Response:
        body = await call.body(ClassifyRequest)
        top = min(body.top, call.service.limits.classes)
        settings = AnswerSettings(task="classify", count=top)
        found, unknown = await self._answered(call, body, settings)
        results = [_classified(*each) for each in zip(found.answers, unknown, strict=True)]
        return json_response(ClassifyResponse(model=found.slot.name, results=results))

    async def tag(self, call: Call) -> Response:
        body = await call.body(TagRequest)
        found, unknown = await self._answered(call, body, AnswerSettings(task="tag", words=body.words))
        results = [_tagged(*each) for each in zip(found.answers, unknown, strict=True)]
        return json_response(TagResponse(model=found.slot.name, results=results))

    async def fill(self, call: Call) -> Response:
        body = await call.body(FillRequest)
        settings = AnswerSettings(task="fill", count=min(body.top, call.service.limits.classes))
        await _refuse_many_masks(call, body)
        found, unknown = await self._answered(call, body, settings)
        results = [_filled(*each) for each in zip(found.answers, unknown, strict=True)]
        return json_response(FillResponse(model=found.slot.name, results=results))

    async def score(self, call: Call) -> Response:
        body = await call.body(ScoreRequest)
        sources, targets = listed(body.text), listed(body.translation)
        if len(sources) != len(targets):
            raise HttpProblem(
                400,
                f"there are {len(sources)} texts, but {len(targets)} translations",
                "send one translation for each text",
                parameter="translation",
            )
        slot = call.service.slot(body.model, "score")
        settings = AnswerSettings(task="score", prefix=body.prefix)
        pairs = list(zip(sources, targets, strict=True))
        found = await call.service.answer(call.request, slot, settings, pairs)
        unknown = await _unknown(found.engine, settings, [[pair] for pair in pairs])
        scores = [
            Score(log_prob=each.log_prob, token_log_probs=each.token_log_probs, unknown_tokens=number)
            for each, number in zip(found.answers, unknown, strict=True)
        ]
        return json_response(ScoreResponse(model=slot.name, scores=scores))

    async def models(self, call: Call) -> Response:
        return json_response(
            ModelsResponse(
                models=[
                    _info(slot, looks=call.service.looks is not None)
                    for slot in call.service.models.slots.values()
                ]
            )
        )

    async def _answered(self, call: Call, body: Any, settings: AnswerSettings) -> tuple[Answered, list[int]]:
        """The answers, and how many tokens of each text are unknown."""
        slot = call.service.slot(body.model, settings.task)
        found = await call.service.answer(call.request, slot, settings, listed(body.text))
        return found, await _unknown(found.engine, settings, [[text] for text in listed(body.text)])

    async def _stream(self, call: Call, slot: Slot, settings: AnswerSettings, text: Any) -> EventStream:
        if not isinstance(text, str):
            raise HttpProblem(
                400, "stream is for one text", "send one text, or leave out stream", parameter="stream"
            )
        if settings.alignments:
            raise unsupported(
                "alignments", "a streamed answer is text only", "leave out stream or alignments"
            )
        if settings.count > 1:
            raise HttpProblem(
                400, "stream is for one answer", "leave out stream or the count", parameter="stream"
            )
        parts = await call.service.parts(call.request, slot, settings, text)
        engine = await call.service.models.engine(slot)
        pieces = engine.model.answerer(settings).pieces([text])
        return EventStream(_events(parts, *await _unknown(engine, settings, pieces)))


async def _prompts(call: Call, slot: Slot, body: Any) -> Any:
    """The prompts of a request; in a chat what the model's template makes of each."""
    if not body.chat:
        if body.system is not None:
            raise HttpProblem(400, "system is for a chat", "send chat = true, too", parameter="system")
        return body.prompt
    call.service.check_texts(listed(body.prompt))
    model = (await call.service.models.engine(slot)).model
    system = [] if body.system is None else [{"role": "system", "content": body.system}]

    def rendered(prompt: str) -> str:
        return model.rendered([*system, {"role": "user", "content": prompt}])

    if isinstance(body.prompt, str):
        return await asyncio.to_thread(rendered, body.prompt)
    return await asyncio.to_thread(lambda: [*map(rendered, body.prompt)])


async def _events(parts: AsyncIterator[str], unknown: int) -> AsyncIterator[bytes]:
    """{"text": part} for each part, then {"done": true, ...}; an error comes as {"error": ...}."""
    try:
        async for part in parts:
            yield event(ENCODER.encode({"text": part}))
        yield event(ENCODER.encode({"done": True, "unknown_tokens": unknown}))
    except RegardError as error:
        problem = problem_of(error)
        yield event(ENCODER.encode({"error": problem.message, "hint": problem.hint}))


async def _unknown(engine: Engine, settings: AnswerSettings, texts: Sequence[Sequence[Any]]) -> list[int]:
    """How many tokens of each text, given in pieces, are unknown; of long texts counted in a thread."""
    count = engine.model.answerer(settings).count_unknown

    def counted() -> list[int]:
        return [sum(map(count, pieces)) for pieces in texts]

    is_long = sum(length_of(piece) for pieces in texts for piece in pieces) >= LONG
    return await asyncio.to_thread(counted) if is_long else counted()


async def _refuse_many_masks(call: Call, body: FillRequest) -> None:
    """Raise an HttpProblem if the texts have more masked tokens than a request may have."""
    texts, most = listed(body.text), call.service.limits.masks
    call.service.check_texts(texts)
    model = (await call.service.models.engine(call.service.slot(body.model, "fill"))).model
    if "fill" not in model.tasks:
        return  # refused with the task's name
    masks = sum(map(model.count_masks, texts))
    if masks > most:
        raise HttpProblem(
            413, f"the request has {masks:,} masked tokens, but may have {most}", "send several requests"
        )


def _sentences(translation: Translation) -> list[str]:
    return [each.source for each in translation.sentences] or [translation.source]


def listed(texts: str | list[str]) -> list[str]:
    """The texts as a list."""
    return [texts] if isinstance(texts, str) else texts


def count_output(call: Call, candidates: list[Any]) -> None:
    """Count the tokens of the candidates for the log and the metrics."""
    call.request.output_tokens = sum(len(each.tokens) for each in candidates)


def _candidate(one: Any) -> Candidate:
    alignment = getattr(one, "alignment", None)  # a continuation has none
    return Candidate(
        text=one.text,
        score=one.score,
        log_prob=one.log_prob,
        tokens=list(one.tokens),
        token_log_probs=list(one.token_log_probs),
        log_probs_of_tokens=list(one.log_probs_of_tokens),
        alignment=msgspec.UNSET
        if alignment is None
        else Alignment(source_tokens=list(alignment.source_tokens), links=list(alignment.links)),
    )


def _translated(translation: Translation, unknown: int) -> TranslatedText:
    return TranslatedText(
        text=translation.text,
        candidates=[_candidate(each) for each in translation.candidates],
        sentences=[Sentence(source=each.source, text=each.text) for each in translation.sentences],
        unknown_tokens=unknown,
    )


def _classified(prediction: ClassPrediction, unknown: int) -> ClassifiedText:
    classes = [
        ClassProbability(label=each.label, probability=round(each.probability, DIGITS))
        for each in prediction.candidates
    ]
    value = None if prediction.value is None else float(f"{prediction.value:.6g}")
    return ClassifiedText(classes=classes, value=value, unknown_tokens=unknown)


def _tagged(sentence: TaggedSentence, unknown: int) -> TaggedText:
    words = [
        TaggedWord(word=each.form, label=each.label, probability=round(each.probability, DIGITS))
        for each in sentence.words
    ]
    return TaggedText(words=words, unknown_tokens=unknown)


def _filled(line: FilledLine, unknown: int) -> FilledText:
    masks = [
        [TokenProbability(token=each.token, probability=round(each.probability, DIGITS)) for each in guesses]
        for guesses in line.masks
    ]
    return FilledText(masks=masks, unknown_tokens=unknown)


def _info(slot: Slot, *, looks: bool) -> ModelInfo:
    model = slot.engine.model if slot.engine is not None else None
    source, target = slot.languages or (None, None)
    return ModelInfo(
        name=slot.name,
        loaded=model is not None,
        kind=model.loaded.config.kind if model else None,
        tasks=list(model.tasks) if model else [],
        parameters_bytes=model.bytes if model else None,
        source_language=source,
        target_language=target,
        look=f"/look/{slot.name}/" if looks and not (model and "transcribe" in model.tasks) else None,
        aligns=model.aligns if model else None,
    )
