"""Bodies that come as JSON or as forms, for the OpenAPI document: from the dialects' names of fields."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.serving.dialects import deepl, deepl_glossaries, libretranslate, openai_audio
from regard.serving.dialects.dialect import JSON
from regard.serving.dialects.fields import FORMS as FORM_TYPES
from regard.serving.limits import DEFAULT_LIMITS

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
NOT_EMPTY: Schema = {**TEXT, "minLength": 1}
TEXTS: Schema = {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}
FILE: Schema = {"type": "string", "format": "binary"}
TEXT_FILE = {  # how a part with a file is sent
    "contentType": "text/plain",
    "headers": {
        "Content-Disposition": {"schema": TEXT, "example": 'form-data; name="file"; filename="text.txt"'}
    },
}
SOUND_FILE = {
    "contentType": "audio/wav, audio/flac, audio/mpeg, audio/ogg",
    "headers": {
        "Content-Disposition": {"schema": TEXT, "example": 'form-data; name="file"; filename="speech.wav"'}
    },
}
SCHEMAS: dict[str, Schema] = {  # of the fields that are not text, or only some texts
    "alternatives": {"type": "integer", "minimum": 0, "maximum": DEFAULT_LIMITS.candidates - 1},
    "enable_beta_languages": {},  # without effect, whatever it is
    "entries_format": {"enum": ["tsv", "csv"]},
    "file": FILE,
    "formality": {"enum": ["default", "prefer_more", "prefer_less"]},
    "format": {"enum": ["text", "html"]},
    "glossary_ids": TEXTS,
    "name": NOT_EMPTY,
    "outline_detection": {"enum": ["0", "1"]},
    "preserve_formatting": {},
    "show_billed_characters": {},
    "response_format": {"enum": list(openai_audio.FORMATS)},
    "source": NOT_EMPTY,
    "split_sentences": {"enum": ["0", "1"]},
    "tag_handling": {"enum": ["html"]},
    "target": NOT_EMPTY,
    "target_lang": NOT_EMPTY,
    openai_audio.GRANULARITIES: {"type": "array", "items": {"enum": ["segment"]}},
}
URLENCODED, MULTIPART = FORM_TYPES


@dataclass(frozen=True, kw_only=True)
class Form:
    """The names of the fields of a body, those that it needs, and the fields that may hold several texts."""

    names: Sequence[str]
    required: Sequence[str]
    several: Sequence[str] = ()
    file: Schema = field(default_factory=lambda: TEXT_FILE)

    def content(self) -> dict[str, Any]:
        """The content types of the body, each with the schema of its fields."""
        schema = {
            "type": "object",
            "properties": {name: self._schema(name) for name in self.names},
            "required": list(self.required),
            "additionalProperties": False,
        }
        if "file" in self.names:
            return {MULTIPART: {"schema": schema, "encoding": {"file": self.file}}}
        return {kind: {"schema": schema} for kind in (JSON, URLENCODED, MULTIPART)}

    def _schema(self, name: str) -> Schema:
        return TEXTS if name in self.several else SCHEMAS.get(name, TEXT)


def _possible(names: Sequence[str]) -> list[str]:
    """The fields of DeepL's that may be set."""
    return [name for name in names if name not in deepl.IMPOSSIBLE]


def _speech(names: Sequence[str]) -> Form:
    """A form with a recording, without the fields that may only have their neutral value."""
    possible = [name for name in names if name not in openai_audio.NEUTRAL]
    return Form(names=possible, required=("file", "model"), file=SOUND_FILE)


DOCUMENT_KEY = Form(names=("document_key",), required=("document_key",))
FORMS = {
    "/translate": Form(names=libretranslate.FIELDS, required=("q", "source", "target"), several=("q",)),
    "/detect": Form(names=libretranslate.DETECT_FIELDS, required=("q",)),
    "/suggest": Form(names=libretranslate.SUGGEST_FIELDS, required=("q", "s", "source", "target")),
    "/translate_file": Form(names=libretranslate.FILE_FIELDS, required=("file", "source", "target")),
    openai_audio.TRANSCRIPTIONS: _speech(openai_audio.TRANSCRIPTION_FIELDS),
    openai_audio.TRANSLATIONS: _speech(openai_audio.TRANSLATION_FIELDS),
    "/v2/translate": Form(names=_possible(deepl.FIELDS), required=("text", "target_lang"), several=("text",)),
    "/v2/document": Form(names=_possible(deepl.DOCUMENT_FIELDS), required=("file", "target_lang")),
    "/v2/document/{}": DOCUMENT_KEY,
    "/v2/document/{}/result": DOCUMENT_KEY,
    "/v2/glossaries": Form(
        names=deepl_glossaries.FIELDS,
        required=[name for name in deepl_glossaries.FIELDS if name != "entries_format"],
    ),
}
