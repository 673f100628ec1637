"""LibreTranslate's dialect: texts, lists, forms and JSON, plain-text files."""

import dataclasses
import ipaddress
from collections.abc import Sequence
from typing import Any, ClassVar

from starlette.responses import Response

from regard.documents.tag_rules import HTML_RULES
from regard.serving.dialects.dialect import Call, Dialect, Route, error_response, json_response
from regard.serving.dialects.fields import Fields, fields_of, uploaded_text
from regard.serving.dialects.pairs import model_between, sources_of, targets_by_source, translated
from regard.serving.http_error import HttpProblem
from regard.serving.kept_files import KeptFiles
from regard.serving.languages import detected, language_name
from regard.serving.request import ServedRequest

FIELDS = ("q", "source", "target", "format", "alternatives", "api_key")
DETECT_FIELDS = ("q", "api_key")
SUGGEST_FIELDS = ("q", "s", "source", "target", "api_key")
FILE_FIELDS = ("file", "source", "target", "api_key")
UNKNOWN_BYTES = 65_536  # of a body that is read before its client's key is known
PAUSE = 500  # milliseconds after which LibreTranslate's own page translates what is typed
SHOWN = 3  # languages that /detect returns at most, of at least
LEAST = 0.1  # that probability, and always the most probable one


class LibreTranslateDialect(Dialect):
    """LibreTranslate's dialect. Clients send their key as the field `api_key`."""

    name: ClassVar[str] = "libretranslate"

    def __init__(self) -> None:
        self._files = KeptFiles()

    def routes(self) -> list[Route]:
        of_post: dict[str, Any] = {"own_key": True, "form": True}
        return [
            Route("POST", "/translate", self.translate, "Translate texts.", **of_post),
            Route("POST", "/detect", self.detect, "Detect the language of a text.", **of_post),
            Route("POST", "/suggest", self.suggest, "Refused: nothing is stored.", **of_post),
            Route("POST", "/translate_file", self.translate_file, "Translate a plain-text file.", **of_post),
            Route("GET", "/download_file/{}", self.download, "Fetch a translated file.", open=True),
            Route("GET", "/languages", self.languages, "List the languages.", open=True),
            Route("GET", "/frontend/settings", self.settings, "The limits.", open=True),
        ]

    def error(self, problem: HttpProblem, request_id: str) -> Response:
        status = 403 if problem.code == "invalid_api_key" else None  # LibreTranslate's
        return error_response(problem, {"error": problem.text}, status)

    async def translate(self, call: Call) -> Response:
        fields = await self._fields(call, FIELDS)
        texts = fields.texts("q")
        if texts is None:
            raise _missing("q")
        source, target = _required(fields, "source"), _required(fields, "target")
        kind = fields.text("format", "text")
        if kind not in ("text", "html"):
            raise HttpProblem(400, f"format {str(kind)[:20]!r} is not supported", "format is text or html")
        alternatives = fields.number("alternatives")
        most = call.service.limits.candidates - 1
        if not 0 <= alternatives <= most:
            raise HttpProblem(400, f"alternatives must be from 0 to {most}", f"alternatives = {most}")
        if kind == "html" and alternatives:
            raise HttpProblem(400, "alternatives of HTML are not supported", "leave out alternatives")
        several = [texts] if isinstance(texts, str) else texts
        sources, detections = await _sources(call, several, source, target)
        answers = await translated(
            call,
            several,
            sources,
            target,
            alternatives=alternatives,
            rules=HTML_RULES if kind == "html" else None,
        )
        body: dict[str, Any] = {"translatedText": [each[0] for each in answers]}
        if source == "auto":
            body["detectedLanguage"] = detections
        if alternatives:
            body["alternatives"] = [each[1:] for each in answers]
        return json_response(
            body if not isinstance(texts, str) else {name: value[0] for name, value in body.items()}
        )

    async def detect(self, call: Call) -> Response:
        fields = await self._fields(call, DETECT_FIELDS)
        text = fields.text("q")
        if text is None:
            raise _missing("q")
        call.service.check_texts([text])
        first, *others = detected(text)
        shown = [first, *(each for each in others[: SHOWN - 1] if each[1] >= LEAST)]
        return json_response([_detection(*each) for each in shown])

    async def suggest(self, call: Call) -> Response:
        await self._fields(call, SUGGEST_FIELDS)
        raise HttpProblem(403, "Suggestions are disabled on this server", "regard stores no texts")

    async def translate_file(self, call: Call) -> Response:
        fields = await self._fields(call, FILE_FIELDS)
        file = fields.file("file")
        if file is None:
            raise _missing("file")
        source, target = _required(fields, "source"), _required(fields, "target")
        text = await uploaded_text(file)
        sources, _ = await _sources(call, [text], source, target)
        [[translation, *_]] = await translated(call, [text], sources, target)
        identifier = self._files.keep(f"translated.{target}.txt", translation, len(text))
        base = f"{_scheme(call.request)}://{call.request.http.headers['host']}"
        return json_response({"translatedFileUrl": f"{base}/download_file/{identifier}"})

    async def download(self, call: Call) -> Response:
        """A file by its id, which nobody else can guess."""
        file = self._files.get(call.path)
        if file is None:
            raise HttpProblem(404, "there is no such file", "a file is kept for ten minutes")
        headers = {"Content-Disposition": f'attachment; filename="{file.name}"'}
        return Response(file.content, media_type="text/plain; charset=utf-8", headers=headers)

    async def languages(self, call: Call) -> Response:
        known = targets_by_source(call.service.models)
        return json_response(
            [
                {"code": code, "name": language_name(code), "targets": targets}
                for code, targets in known.items()
            ]
        )

    async def settings(self, call: Call) -> Response:
        known = targets_by_source(call.service.models)
        source = next(iter(known), "auto")
        target = known[source][0] if source in known else "en"
        return json_response(
            {
                "apiKeys": call.service.keys.required,
                "charLimit": call.service.limits.characters,
                "filesTranslation": True,
                "frontendTimeout": PAUSE,
                "keyRequired": call.service.keys.required,
                "language": {
                    "source": {"code": source, "name": language_name(source)},
                    "target": {"code": target, "name": language_name(target)},
                },
                "suggestions": False,
                "supportedFilesFormat": [".txt"],
            }
        )

    async def _fields(self, call: Call, names: Sequence[str]) -> Fields:
        """The fields, which have these names, after the key among them or in a header is checked."""
        fields = await self._fields_after_key(call)
        fields.refuse_others(names)
        return fields

    async def _fields_after_key(self, call: Call) -> Fields:
        keys, header = call.service.keys, self.key(call.request)
        if header is not None or not keys.required:
            keys.check(header)
            return await fields_of(call)
        limits = call.service.limits
        small = dataclasses.replace(
            limits,
            body_bytes=min(limits.body_bytes, UNKNOWN_BYTES),
            upload_bytes=min(limits.upload_bytes, UNKNOWN_BYTES),
        )
        try:
            fields = await fields_of(call, limits=small)
        except HttpProblem as problem:
            if problem.status != 413:
                raise
            hint = "send the key as Authorization: Bearer KEY, or less text"
            raise HttpProblem(413, problem.message, hint, code=problem.code) from None
        keys.check(fields.text("api_key"))
        return fields


def _required(fields: Fields, name: str) -> str:
    value = fields.text(name)
    if not value:
        raise _missing(name)
    return value


def _missing(name: str) -> HttpProblem:
    return HttpProblem(400, f"Invalid request: missing {name} parameter", parameter=name)


async def _sources(
    call: Call, texts: Sequence[str], source: str, target: str
) -> tuple[list[str], list[dict[str, Any]]]:
    """The language of each text, and what was detected for "auto".

    Raises:
        HttpProblem: there is too much text, or no model translates between these languages.
    """
    call.service.check_texts(texts)
    if source != "auto":
        model_between(call.service.models, source, target)
        return [source] * len(texts), []
    found = await sources_of(call, texts, target)
    return [language for language, _ in found], [_detection(*each) for each in found]


def _scheme(request: ServedRequest) -> str:
    """http or https: the connection's, or what a proxy on this machine says of its client's."""
    http = request.http
    forwarded = http.headers.get("x-forwarded-proto", "").lower()
    if forwarded in ("http", "https") and http.client is not None and _is_loopback(http.client.host):
        return forwarded
    return http.url.scheme


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _detection(language: str, probability: float) -> dict[str, Any]:
    return {"confidence": round(100 * probability, 1), "language": language}
