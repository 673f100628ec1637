"""DeepL's dialect: texts, HTML, XML and plain-text documents; glossaries are in `deepl_glossaries.py`.

What regard has not is refused by name: formality, style rules, context.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from starlette.responses import Response

from regard.documents.tag_rules import TagRules
from regard.serving.dialects.deepl_glossaries import DeepLGlossaries, language_code
from regard.serving.dialects.dialect import Call, Dialect, Route, error_response, json_response
from regard.serving.dialects.fields import Fields, fields_of, uploaded_text, wrong
from regard.serving.dialects.pairs import model_between, sources_of, targets_by_source, translated
from regard.serving.glossaries import GlossaryStore, dictionary_of
from regard.serving.http_error import HttpProblem, unsupported
from regard.serving.kept_files import KeptFile, KeptFiles
from regard.serving.languages import language_name
from regard.verbs.generation.glossary import Dictionary, occurring
from regard.verbs.shared.text_options import SplitMode

TAG_NAMES = {"html": re.compile(r"[a-z][^\s/<>]*"), "xml": re.compile(r"[^\W\d][^\s/<>]*")}
LIMIT = 10**12  # characters: there is no quota
SPLITS: dict[str, SplitMode] = {"1": "auto", "0": "off"}
# of formatting nothing is ever corrected; characters are always shown, and there are no beta languages
WITHOUT_EFFECT = ("preserve_formatting", "show_billed_characters", "enable_beta_languages", "filename")
MODEL_TYPES = ("latency_optimized", "prefer_quality_optimized")  # of which there is one here
IMPOSSIBLE = {
    "context": "each sentence is translated alone",
    "custom_instructions": "a translation model takes none",
    "style_id": "there are no style rules",
    "translation_memory_id": "there is no translation memory",
    "translation_memory_threshold": "there is no translation memory",
    "tag_handling_version": "there is one version",
    "output_format": "a document keeps its format",
}
TAG_FIELDS = ("splitting_tags", "non_splitting_tags", "ignore_tags", "outline_detection")
OUTLINE = {"": True, "1": True, "true": True, "0": False, "false": False}  # values of outline_detection
MOST_GLOSSARIES = 5  # of a request
FIELDS = (
    *("text", "source_lang", "target_lang", "split_sentences", "formality", "tag_handling", "model_type"),
    *("glossary_id", "glossary_ids", *WITHOUT_EFFECT, *TAG_FIELDS, *IMPOSSIBLE),
)
DOCUMENT_FIELDS = ("file", *(name for name in FIELDS if name != "text"))


@dataclass(frozen=True, kw_only=True)
class Asked:
    """How the texts of a request are to be translated, and the source language of each."""

    target: str
    sources: list[str]
    rules: TagRules | None  # None: no markup
    split: SplitMode
    glossaries: list[Dictionary]
    model_type: str | None = None  # that was asked for


class DeepLDialect(Dialect):
    """DeepL's dialect."""

    name: ClassVar[str] = "deepl"

    def __init__(self, glossaries: GlossaryStore) -> None:
        self._glossaries, self._files, self._characters = glossaries, KeptFiles(), 0

    def routes(self) -> list[Route]:
        return [
            Route("POST", "/v2/translate", self.translate, "Translate texts.", form=True),
            Route("GET", "/v2/languages", self.languages, "List the languages.", query=("type",)),
            Route("GET", "/v2/usage", self.usage, "How many characters were translated since the start."),
            Route("POST", "/v2/document", self.upload, "Translate a plain-text document.", form=True),
            Route("POST", "/v2/document/{}", self.document, "The state of a document.", form=True),
            Route("POST", "/v2/document/{}/result", self.result, "The content of a document.", form=True),
            *DeepLGlossaries(self._glossaries).routes(),
        ]

    def error(self, problem: HttpProblem, request_id: str) -> Response:
        status = 403 if problem.status == 401 else None  # DeepL's for every key
        return error_response(problem, {"message": problem.message, "detail": problem.hint}, status)

    async def translate(self, call: Call) -> Response:
        fields = await fields_of(call)
        fields.refuse_others(FIELDS)
        given = fields.texts("text")
        if given is None:
            raise HttpProblem(400, "text is missing", "send text", parameter="text")
        texts = [given] if isinstance(given, str) else given
        asked = await self._asked(call, fields, texts)
        answers = await self._translated(call, texts, asked)
        return json_response(
            {
                "translations": [
                    {
                        "detected_source_language": source.upper(),
                        "text": answer,
                        "billed_characters": len(text),
                        **({"model_type_used": MODEL_TYPES[0]} if asked.model_type else {}),
                    }
                    for text, source, answer in zip(texts, asked.sources, answers, strict=True)
                ]
            }
        )

    async def languages(self, call: Call) -> Response:
        fields = await fields_of(call, may_be_empty=True)
        fields.refuse_others(("type",))
        kind = fields.text("type", "source")
        if kind not in ("source", "target"):
            raise HttpProblem(400, "type must be source or target", "leave it out", parameter="type")
        known = targets_by_source(call.service.models)
        codes = (
            list(known) if kind == "source" else sorted({each for some in known.values() for each in some})
        )
        formality = {} if kind == "source" else {"supports_formality": False}
        return json_response(
            [{"language": code.upper(), "name": language_name(code), **formality} for code in codes]
        )

    async def usage(self, call: Call) -> Response:
        (await fields_of(call, may_be_empty=True)).refuse_others(())
        return json_response({"character_count": self._characters, "character_limit": LIMIT})

    async def upload(self, call: Call) -> Response:
        fields = await fields_of(call)
        fields.refuse_others(DOCUMENT_FIELDS)
        file = fields.file("file")
        if file is None:
            raise HttpProblem(400, "file is missing", "send a plain-text file", parameter="file")
        text = await uploaded_text(file, fields.text("filename"))
        asked = await self._asked(call, fields, [text])
        [translation] = await self._translated(call, [text], asked)
        identifier = self._files.keep(f"translated.{asked.target}.txt", translation, len(text))
        return json_response({"document_id": identifier[:20], "document_key": identifier[20:]})

    async def document(self, call: Call) -> Response:
        """The state of a document, which is translated when its upload is answered."""
        file = await self._kept(call)
        return json_response(
            {"document_id": call.path, "status": "done", "billed_characters": file.characters}
        )

    async def result(self, call: Call) -> Response:
        file = await self._kept(call)
        headers = {"Content-Disposition": f'attachment; filename="{file.name}"'}
        return Response(file.content, media_type="text/plain; charset=utf-8", headers=headers)

    async def _kept(self, call: Call) -> KeptFile:
        fields = await fields_of(call)
        fields.refuse_others(("document_key",))
        file = self._files.get(call.path + (fields.text("document_key") or ""))
        if file is None:
            raise HttpProblem(404, "there is no such document", "a document is kept for ten minutes")
        return file

    async def _asked(self, call: Call, fields: Fields, texts: list[str]) -> Asked:
        """What a request asks for; refuses what cannot be honoured."""
        rules, split = _handling(fields)
        target, sources = await _languages(call, fields, texts)
        glossaries = self._dictionaries(fields, target)
        return Asked(
            target=target,
            sources=sources,
            rules=rules,
            split=split,
            glossaries=glossaries,
            model_type=fields.text("model_type"),
        )

    def _dictionaries(self, fields: Fields, target: str) -> list[Dictionary]:
        """The dictionaries of the request's glossaries, in their order."""
        ids = _glossary_ids(fields)
        if not ids:
            return []
        source = language_code(fields.text("source_lang"))
        if not source:
            hint = "send source_lang"
            raise HttpProblem(
                400, "source_lang is missing: glossary_id needs it", hint, parameter="source_lang"
            )
        try:
            return [dictionary_of(self._glossaries.get(each), (source, target)) for each in ids]
        except HttpProblem as problem:
            raise HttpProblem(
                400, f"glossary_id: {problem.message}", problem.hint, parameter="glossary_id"
            ) from None

    async def _translated(self, call: Call, texts: Sequence[str], asked: Asked) -> list[str]:
        entries = partial(occurring, dictionaries=asked.glossaries) if asked.glossaries else None
        answers = await translated(
            call,
            texts,
            asked.sources,
            asked.target,
            rules=asked.rules,
            split=asked.split,
            entries=entries,
        )
        self._characters += sum(map(len, texts))
        return [best for best, *_ in answers]


def _glossary_ids(fields: Fields) -> list[str]:
    """The ids of the glossaries; of forms `glossary_ids` is a text with commas."""
    one = fields.text("glossary_id")
    several = fields.texts("glossary_ids")
    if one and several:
        raise HttpProblem(
            400,
            "glossary_id and glossary_ids do not go together",
            "leave one of them out",
            parameter="glossary_ids",
        )
    ids = several.split(",") if isinstance(several, str) else several or []
    found = [one] if one else [each.strip() for each in ids if each.strip()]
    if len(found) > MOST_GLOSSARIES:
        raise HttpProblem(
            400, f"a request may have {MOST_GLOSSARIES} glossaries", "send fewer", parameter="glossary_ids"
        )
    return found


def _handling(fields: Fields) -> tuple[TagRules | None, SplitMode]:
    """The rules of tags, None for plain text, and how texts are split; refuses what cannot be honoured."""
    for name, why in IMPOSSIBLE.items():
        if fields.given(name) not in (None, "", [], False):
            raise unsupported(name, why)
    if (fields.text("formality") or "default") not in ("default", "prefer_more", "prefer_less"):
        raise unsupported("formality", "no model here can choose it")
    if (kind := fields.text("model_type")) == "quality_optimized":
        raise unsupported(
            "model_type = quality_optimized", "there is one model for each pair", of="model_type"
        )
    if kind not in (None, *MODEL_TYPES):
        raise wrong("model_type", f"must be {' or '.join(MODEL_TYPES)}")
    rules = _tag_rules(fields)
    given = fields.given("split_sentences")
    split = "1" if given in (None, "") else str(given)
    if split not in SPLITS:
        raise unsupported(
            "split_sentences other than 0 and 1",
            "a line break always ends a sentence",
            of="split_sentences",
        )
    return rules, SPLITS[split]


def _tag_rules(fields: Fields) -> TagRules | None:
    """What tags do; None for plain text."""
    tags = fields.text("tag_handling")
    if tags not in (None, "", *TAG_NAMES):
        raise unsupported(
            "tag_handling other than html and xml", "no other markup is read", of="tag_handling"
        )
    splitting, inline, ignored = (_names(fields, name, tags or "html") for name in TAG_FIELDS[:3])
    outline = OUTLINE.get(_lowered(fields.given("outline_detection")))
    if outline is None:
        raise wrong("outline_detection", "must be 0 or 1")
    if both := (inline & splitting) or ((inline | splitting) & ignored):
        raise HttpProblem(
            400,
            f"{min(both)[:20]} is in two lists of tags",
            "leave it out of one",
            parameter="non_splitting_tags" if inline & splitting else "ignore_tags",
        )
    if tags:
        return TagRules(
            ignored=ignored, splitting=splitting, inline=inline, outline=outline, xml=tags == "xml"
        )
    for name in TAG_FIELDS:
        if fields.given(name) not in (None, "", [], 0, "0", "false"):
            raise HttpProblem(400, f"{name} is for HTML and XML", "send tag_handling, too", parameter=name)
    return None


def _names(fields: Fields, name: str, markup: str) -> frozenset[str]:
    """The tags of a field: a list, or a text with commas. In HTML capitals do not count."""
    given = fields.texts(name) or []
    listed = ",".join([given] if isinstance(given, str) else given).split(",")
    stripped = [each.strip() for each in listed if each.strip()]
    names = frozenset(stripped if markup == "xml" else map(str.lower, stripped))
    for each in sorted(names):
        if not TAG_NAMES[markup].fullmatch(each):
            raise wrong(name, f"has {each[:20]!r}, which is not a name of a tag")
    return names


def _lowered(value: Any) -> str:
    return "" if value is None else str(value).lower()


async def _languages(call: Call, fields: Fields, texts: list[str]) -> tuple[str, list[str]]:
    """The target language, and the source language of each text."""
    target = language_code(fields.text("target_lang"))
    if not target:
        raise HttpProblem(400, "target_lang is missing", "send target_lang", parameter="target_lang")
    source = language_code(fields.text("source_lang"))
    call.service.check_texts(texts)
    try:
        if source:
            model_between(call.service.models, source, target)
            sources = [source] * len(texts)
        else:
            sources = [language for language, _ in await sources_of(call, texts, target)]
    except HttpProblem as problem:
        name = f"{problem.parameter}_lang"
        raise wrong(name, f"not supported: {problem.message}; {problem.hint}") from None
    return target, sources
