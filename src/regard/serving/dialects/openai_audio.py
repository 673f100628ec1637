"""OpenAI's dialect for speech: transcripts of recordings, and their translations into English."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal

from starlette.responses import Response

from regard.serving.dialects.dialect import Call, Route, json_response
from regard.serving.dialects.fields import Fields, fields_of, wrong
from regard.serving.http_error import HttpProblem, unsupported
from regard.serving.models import Engine
from regard.verbs.generation.subtitles import subtitles
from regard.verbs.generation.transcripts import RecordingTranscript
from regard.verbs.shared.answerer import AnswerSettings, Recording
from regard.verbs.shared.text_options import SpeechOptions

TRANSCRIPTIONS, TRANSLATIONS = "/v1/audio/transcriptions", "/v1/audio/translations"
TRANSLATION_FIELDS = ("file", "model", "prompt", "response_format", "temperature")
GRANULARITIES = "timestamp_granularities[]"
TRANSCRIPTION_FIELDS = (
    *TRANSLATION_FIELDS,
    "language",
    GRANULARITIES,
    "stream",
    "include[]",
    "chunking_strategy",
)
WITH_TIMES = ("srt", "vtt", "verbose_json")  # formats
FORMATS = ("json", "text", *WITH_TIMES)
SpeechTask = Literal["transcribe", "translate"]
UNKNOWN_NAME = "the file"  # of an upload without a name
NEUTRAL = {  # what leaves the answer alone -> why nothing else is honoured
    "prompt": ((), "a window is read without a text before it"),
    "temperature": ((), "transcripts are searched, not sampled"),
    "stream": (("false", "0"), "a transcript is known at its end"),
    "include[]": ((), "no model here gives more"),
    "chunking_strategy": ((), "a recording is divided at the model's own timestamps"),
}


async def transcriptions(call: Call) -> Response:
    """The transcript of a recording in its own language."""
    return await _transcribed(call, TRANSCRIPTION_FIELDS, "transcribe")


async def translations(call: Call) -> Response:
    """The transcript of a recording in English."""
    return await _transcribed(call, TRANSLATION_FIELDS, "translate")


def _route(path: str, handler: Any, about: str) -> Route:
    return Route("POST", path, handler, about, form=True, texts=("text/plain",), statuses=(501,))


AUDIO_ROUTES = (
    _route(TRANSCRIPTIONS, transcriptions, "Transcribe a recording."),
    _route(TRANSLATIONS, translations, "Translate a recording into English."),
)


async def _transcribed(call: Call, names: Sequence[str], task: SpeechTask) -> Response:
    limits = call.service.limits
    fields = await fields_of(call, limits=dataclasses.replace(limits, upload_bytes=limits.recording_bytes))
    fields.refuse_others(names)
    _refuse_what_is_not_honoured(fields)
    response_format = fields.text("response_format") or "json"
    if response_format not in FORMATS:
        raise wrong("response_format", f"must be one of {', '.join(FORMATS)}")
    if fields.given(GRANULARITIES) is not None and response_format != "verbose_json":
        raise wrong(GRANULARITIES, "is for response_format verbose_json")
    slot = call.service.slot(fields.text("model"), "transcribe")
    recording = await _recording(call, fields, await call.service.models.engine(slot))
    speech = SpeechOptions(
        language=fields.text("language") or None, task=task, timestamps=response_format in WITH_TIMES
    )
    settings = AnswerSettings(task="transcribe", speech=speech)
    found = await call.service.answer(call.request, slot, settings, [recording])
    return _response(found.answers[0], response_format, task, recording.seconds)


def _refuse_what_is_not_honoured(fields: Fields) -> None:
    for name, (neutral, why) in NEUTRAL.items():
        given = (fields.text(name) or "").lower()
        if given not in ("", *neutral) and not (name == "temperature" and _number(given) == 0):
            raise unsupported(name, why)
    granularities = fields.texts(GRANULARITIES)
    named = {granularities} if isinstance(granularities, str) else {*(granularities or ())}
    if not named <= {"", "segment"}:
        raise unsupported(f"{GRANULARITIES} but segment", "times are those of segments", of=GRANULARITIES)


def _number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise wrong("temperature", "must be a number")
    return found


async def _recording(call: Call, fields: Fields, engine: Engine) -> Recording:
    """The sound of the uploaded file, at the model's rate.

    Raises:
        HttpProblem: there is no file. FolderError, DataError: see `ServedModel.recording`.
    """
    file = fields.file("file")
    if file is None:
        raise HttpProblem(400, "file is missing", "send a recording", parameter="file")
    most = call.service.limits.recording_seconds
    name = file.filename or UNKNOWN_NAME
    return await call.service.read(call.request, engine.model.recording, await file.read(), name, most)


def _response(transcript: RecordingTranscript, response_format: str, task: str, duration: float) -> Response:
    if response_format == "text":
        return Response(transcript.text + "\n", media_type="text/plain; charset=utf-8")
    segments = transcript.segments or ()
    if response_format in ("srt", "vtt"):
        return Response(subtitles(segments, response_format), media_type="text/plain; charset=utf-8")
    usage = {"type": "duration", "seconds": math.ceil(duration)}
    if response_format == "json":
        return json_response({"text": transcript.text, "usage": usage})
    return json_response(
        {
            "task": task,
            "language": transcript.language or "",
            "duration": round(duration, 2),
            "text": transcript.text,
            "segments": [{"id": number, **each.to_dict()} for number, each in enumerate(segments)],
            "usage": usage,
        }
    )
