"""The bodies of OpenAI's dialect."""

from typing import Annotated, Any, Literal

import msgspec

BIAS = 100  # logit_bias of that much forbids a token, of -that much, or forces it
IMPOSSIBLE = (
    *("tools", "tool_choice", "functions", "function_call", "response_format", "modalities"),
    *("audio", "prediction", "reasoning_effort", "verbosity", "web_search_options"),
)
# impossible, as above
IN_MESSAGES = ("tool_calls", "tool_call_id", "function_call", "audio", "refusal", "annotations")
IN_PARTS = ("image_url", "input_audio", "file")
Bias = Annotated[float, msgspec.Meta(ge=-BIAS, le=BIAS)]
Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]
Temperature = Annotated[float, msgspec.Meta(ge=0, le=2)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class StreamOptions(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    include_usage: bool = False
    include_obfuscation: bool = False


class Sampling(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What both kinds of completions take, and regard's own controls of the same meaning."""

    model: str
    n: Count | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Temperature | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    logit_bias: dict[str, Bias] | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None


class CompletionRequest(Sampling, kw_only=True):
    prompt: str | list[str | int | list[int]] | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    logprobs: Annotated[int, msgspec.Meta(ge=0, le=5)] | None = None
    echo: bool | None = None
    best_of: int | None = None
    suffix: str | None = None


class ContentPart(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: Any = None
    input_audio: Any = None
    file: Any = None


class Message(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A message as a client writes it, or as it was answered and is sent back."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None
    name: str | None = None
    refusal: str | None = None
    annotations: list[Any] | None = None
    tool_calls: list[Any] | None = None
    tool_call_id: str | None = None
    function_call: Any = None
    audio: Any = None


class ChatRequest(Sampling, kw_only=True):
    messages: Annotated[list[Message], msgspec.Meta(min_length=1)]
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    max_completion_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None
    response_format: dict[str, Any] | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    functions: list[Any] | None = None
    function_call: Any = None
    modalities: list[str] | None = None
    audio: Any = None
    prediction: Any = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    web_search_options: Any = None


class EmbeddingRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    model: str
    input: str | list[str | int | list[int]]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    user: str | None = None


class Usage(msgspec.Struct, kw_only=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class OpenAIErrorBody(msgspec.Struct, kw_only=True):
    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(msgspec.Struct, kw_only=True):
    error: OpenAIErrorBody
