"""The bodies and the answers of regard's own dialect."""

from typing import Annotated, Any, Literal

import msgspec

from regard.serving.dialects.controls import control_fields

Text = Annotated[str, msgspec.Meta(description="A text.")]
Texts = Text | list[Text]
ModelName = Annotated[
    str | None, msgspec.Meta(description="The name of a model; by default the first that has the task.")
]


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    """A body without other fields than these."""


class EmbedRequest(Strict):
    text: Texts
    model: ModelName = None


class ClassifyRequest(Strict):
    text: Texts
    model: ModelName = None
    top: Annotated[int, msgspec.Meta(ge=1, description="How many classes, most probable first.")] = 1


class TagRequest(Strict):
    text: Texts
    model: ModelName = None
    words: Annotated[bool, msgspec.Meta(description="White space alone separates words.")] = False


class FillRequest(Strict):
    text: Annotated[Texts, msgspec.Meta(description="Texts with [MASK] in place of tokens.")]
    model: ModelName = None
    top: Annotated[int, msgspec.Meta(ge=1, description="How many tokens, most probable first.")] = 5


class ScoreRequest(Strict):
    text: Texts
    translation: Texts
    model: ModelName = None
    prefix: str | None = None


Count = Annotated[int, msgspec.Meta(ge=1)]
Unknown = Annotated[
    int, msgspec.Meta(ge=0, description="How many tokens of the text the model does not know.")
]
Alignments = Annotated[
    bool, msgspec.Meta(description="Which source tokens each token of a candidate comes from.")
]
Keep = Annotated[
    Literal["placeholders", "none"],
    msgspec.Meta(description="What stays as it is: placeholders such as {name} and %s, tags, addresses."),
]
TRANSLATE_FIELDS = [
    ("text", Texts),
    ("model", ModelName, None),
    ("n_best", Count, 1),
    ("prefix", str | None, None),
    ("split", Literal["auto", "on", "off"], "auto"),
    ("alignments", Alignments, False),
    ("keep", Keep, "none"),
    ("stream", bool, False),
]
GENERATE_FIELDS = [
    ("prompt", Texts),
    ("model", ModelName, None),
    ("num", Count, 1),
    ("chat", bool, False),
    ("system", str | None, None),
    ("stream", bool, False),
]
TranslateRequest: Any = msgspec.defstruct(
    "TranslateRequest", [*TRANSLATE_FIELDS, *control_fields()], bases=(Strict,), kw_only=True
)
GenerateRequest: Any = msgspec.defstruct(
    "GenerateRequest", [*GENERATE_FIELDS, *control_fields()], bases=(Strict,), kw_only=True
)


class Alignment(msgspec.Struct, kw_only=True):
    source_tokens: list[str]
    links: list[tuple[int, int]]  # places of a source token and a token of the candidate


class Candidate(msgspec.Struct, kw_only=True):
    text: str
    score: float
    log_prob: float
    tokens: list[str]
    token_log_probs: list[float]  # with those of the ends of texts or sentences
    log_probs_of_tokens: list[float]
    alignment: Alignment | msgspec.UnsetType = msgspec.UNSET


class Sentence(msgspec.Struct, kw_only=True):
    source: str
    text: str


class TranslatedText(msgspec.Struct, kw_only=True):
    text: str
    candidates: list[Candidate]
    sentences: list[Sentence]
    unknown_tokens: Unknown


class TranslateResponse(msgspec.Struct, kw_only=True):
    model: str
    precision: str
    translations: list[TranslatedText]


class GeneratedTexts(msgspec.Struct, kw_only=True):
    continuations: list[Candidate]
    unknown_tokens: Unknown  # of the prompt


class GenerateResponse(msgspec.Struct, kw_only=True):
    model: str
    precision: str
    results: list[GeneratedTexts]


class EmbedResponse(msgspec.Struct, kw_only=True):
    model: str
    vectors: list[list[float]]
    unknown_tokens: list[Unknown]  # of each text


class ClassProbability(msgspec.Struct, kw_only=True):
    label: str
    probability: float


class ClassifiedText(msgspec.Struct, kw_only=True):
    classes: list[ClassProbability]
    value: float | None
    unknown_tokens: Unknown


class ClassifyResponse(msgspec.Struct, kw_only=True):
    model: str
    results: list[ClassifiedText]


class TaggedWord(msgspec.Struct, kw_only=True):
    word: str
    label: str
    probability: float


class TaggedText(msgspec.Struct, kw_only=True):
    words: list[TaggedWord]
    unknown_tokens: Unknown


class TagResponse(msgspec.Struct, kw_only=True):
    model: str
    results: list[TaggedText]


class TokenProbability(msgspec.Struct, kw_only=True):
    token: str
    probability: float


class FilledText(msgspec.Struct, kw_only=True):
    masks: list[list[TokenProbability]]  # of each masked token, most probable first
    unknown_tokens: Unknown


class FillResponse(msgspec.Struct, kw_only=True):
    model: str
    results: list[FilledText]


class Score(msgspec.Struct, kw_only=True):
    log_prob: float
    token_log_probs: list[float]
    unknown_tokens: Unknown  # of both texts


class ScoreResponse(msgspec.Struct, kw_only=True):
    model: str
    scores: list[Score]


class ModelInfo(msgspec.Struct, kw_only=True):
    name: str
    loaded: bool
    kind: str | None
    tasks: list[str]
    parameters_bytes: int | None
    source_language: str | None
    target_language: str | None
    look: str | None  # the path of its page
    aligns: bool | None  # True if its translations can have alignments


class ModelsResponse(msgspec.Struct, kw_only=True):
    models: list[ModelInfo]


class ErrorResponse(msgspec.Struct, kw_only=True):
    error: str
    hint: str
    parameter: str | None
    request_id: str
