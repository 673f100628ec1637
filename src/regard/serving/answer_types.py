"""The answers of the dialects of OpenAI, LibreTranslate and DeepL as types, for the OpenAPI document."""

from typing import Any, Literal

import msgspec

from regard.serving.dialects.openai_types import Usage

Unset = msgspec.UnsetType
UNSET = msgspec.UNSET


class Answer(msgspec.Struct):
    """An object of an answer."""


# OpenAI


class OpenAIModel(Answer):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class OpenAIModels(Answer):
    object: Literal["list"]
    data: list[OpenAIModel]


class CompletionLogprobs(Answer):
    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]] | None
    text_offset: list[int]


class CompletionChoice(Answer):
    index: int
    text: str
    finish_reason: Literal["stop", "length"]
    logprobs: CompletionLogprobs | None


class Completion(Answer):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage


class RankedToken(Answer):
    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(RankedToken):
    top_logprobs: list[RankedToken]


class ChatLogprobs(Answer):
    content: list[TokenLogprob]
    refusal: None


class ChatMessage(Answer):
    role: Literal["assistant"]
    content: str
    refusal: None


class ChatChoice(Answer):
    index: int
    message: ChatMessage
    finish_reason: Literal["stop", "length"]
    logprobs: ChatLogprobs | None


class ChatCompletion(Answer):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class Embedding(Answer):
    object: Literal["embedding"]
    index: int
    embedding: list[float] | str  # base64 of float32


class EmbeddingUsage(Answer):
    prompt_tokens: int
    total_tokens: int


class Embeddings(Answer):
    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage


class DurationUsage(Answer):
    type: Literal["duration"]
    seconds: int


class TranscribedSegment(Answer):
    id: int
    start: float  # seconds
    end: float
    text: str


class Transcription(Answer):
    """The last four are there with response_format verbose_json."""

    text: str
    usage: DurationUsage
    task: Literal["transcribe", "translate"] | Unset = UNSET
    language: str | Unset = UNSET
    duration: float | Unset = UNSET
    segments: list[TranscribedSegment] | Unset = UNSET


# LibreTranslate


class CamelCase(Answer, rename="camel"):
    """An object whose fields are written in camel case."""


class DetectedLanguage(Answer):
    confidence: float  # per cent
    language: str


class LibreTranslation(CamelCase):
    translated_text: str | list[str]  # a list if `q` is one, and so are the others
    detected_language: DetectedLanguage | list[DetectedLanguage] | Unset = UNSET
    alternatives: list[str | list[str]] | Unset = UNSET


class TranslatedFile(CamelCase):
    translated_file_url: str


class NamedLanguage(Answer):
    code: str
    name: str


class SourceLanguage(NamedLanguage):
    targets: list[str]


class ChosenLanguages(Answer):
    source: NamedLanguage
    target: NamedLanguage


class FrontendSettings(CamelCase):
    api_keys: bool
    char_limit: int
    files_translation: bool
    frontend_timeout: int
    key_required: bool
    language: ChosenLanguages
    suggestions: bool
    supported_files_format: list[str]


# DeepL


class DeepLTranslation(Answer):
    detected_source_language: str
    text: str
    billed_characters: int


class DeepLTranslations(Answer):
    translations: list[DeepLTranslation]


class DeepLLanguage(Answer):
    language: str
    name: str
    supports_formality: bool | Unset = UNSET  # of target languages


class DeepLUsage(Answer):
    character_count: int
    character_limit: int


class UploadedDocument(Answer):
    document_id: str
    document_key: str


class DocumentState(Answer):
    document_id: str
    status: Literal["done"]
    billed_characters: int


class LanguagePair(Answer):
    source_lang: str
    target_lang: str


class GlossaryLanguages(Answer):
    supported_languages: list[LanguagePair]


class DictionaryInfo(LanguagePair):
    entry_count: int


class NamedGlossary(Answer):
    glossary_id: str
    name: str
    creation_time: str


class SingleGlossary(NamedGlossary):
    ready: bool
    source_lang: str
    target_lang: str
    entry_count: int


class SingleGlossaries(Answer):
    glossaries: list[SingleGlossary]


class GlossaryInfo(NamedGlossary):
    dictionaries: list[DictionaryInfo]


class GlossaryInfos(Answer):
    glossaries: list[GlossaryInfo]


class DictionaryEntries(LanguagePair):
    entries: str
    entries_format: Literal["tsv"]


class DictionariesEntries(Answer):
    dictionaries: list[DictionaryEntries]


ANSWERS: dict[tuple[str, str], Any] = {  # method and path of a route -> the type of its answer
    ("GET", "/v1/models"): OpenAIModels,
    ("GET", "/v1/models/{}"): OpenAIModel,
    ("POST", "/v1/completions"): Completion,
    ("POST", "/v1/chat/completions"): ChatCompletion,
    ("POST", "/v1/embeddings"): Embeddings,
    ("POST", "/v1/audio/transcriptions"): Transcription,
    ("POST", "/v1/audio/translations"): Transcription,
    ("POST", "/translate"): LibreTranslation,
    ("POST", "/detect"): list[DetectedLanguage],
    ("POST", "/translate_file"): TranslatedFile,
    ("GET", "/languages"): list[SourceLanguage],
    ("GET", "/frontend/settings"): FrontendSettings,
    ("POST", "/v2/translate"): DeepLTranslations,
    ("GET", "/v2/languages"): list[DeepLLanguage],
    ("GET", "/v2/usage"): DeepLUsage,
    ("POST", "/v2/document"): UploadedDocument,
    ("POST", "/v2/document/{}"): DocumentState,
    ("GET", "/v2/glossary-language-pairs"): GlossaryLanguages,
    ("GET", "/v2/glossaries"): SingleGlossaries,
    ("POST", "/v2/glossaries"): SingleGlossary,
    ("GET", "/v2/glossaries/{}"): SingleGlossary,
    ("GET", "/v3/glossaries"): GlossaryInfos,
    ("POST", "/v3/glossaries"): GlossaryInfo,
    ("GET", "/v3/glossaries/{}"): GlossaryInfo,
    ("PATCH", "/v3/glossaries/{}"): GlossaryInfo,
    ("GET", "/v3/glossaries/{}/entries"): DictionariesEntries,
    ("PUT", "/v3/glossaries/{}/dictionaries"): DictionaryInfo,
}
TEXT_ANSWERS = {  # route -> the content type of its answer
    ("GET", "/download_file/{}"): "text/plain",
    ("GET", "/metrics"): "text/plain",
    ("GET", "/v2/glossaries/{}/entries"): "text/tab-separated-values",
    ("POST", "/v2/document/{}/result"): "text/plain",
}
