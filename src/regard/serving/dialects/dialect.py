"""What each dialect has: routes, the shape of its errors, and where its clients put their key."""

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, TypeVar

import msgspec
from starlette.responses import Response

from regard.serving.http_error import HttpProblem, unknown_field
from regard.serving.json_problem import BOM, json_problem
from regard.serving.request import ServedRequest
from regard.serving.service import Service

Body = TypeVar("Body")
Handler = Callable[["Call"], Awaitable[Any]]
AUTHORIZATION = {"bearer", "deepl-auth-key"}
ENCODER = msgspec.json.Encoder()
EXACT_INTEGERS = 2**53  # up to here a float holds every integer
JSON = "application/json"
GOT_FLOAT = "got `float`"  # in a message of msgspec
UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*?)`(?: - at `\$\.?([^`]*)`)?", re.DOTALL)
LONGEST = 500  # characters of a message that has the name of a field


@dataclass(frozen=True, kw_only=True)
class Call:
    """A request and the service that answers it; `path` holds the variable part of its path."""

    service: Service
    request: ServedRequest
    path: str = ""

    async def body(self, kind: type[Body]) -> Body:
        """The JSON body as this type.

        Raises:
            HttpProblem: it is not JSON, or another type; or the address has fields.
        """
        if self.request.content_type() != JSON:
            raise HttpProblem(415, "the body is not application/json", "send JSON", code="not_json")
        for name in self.request.http.query_params:
            raise HttpProblem(
                400,
                f"there is no field {name[:64]} in the address",
                "send it in the JSON body",
                parameter=name[:64],
                code="unknown_field",
            )
        return decoded(await self.request.body(self.service.limits), kind)


@dataclass(frozen=True)
class Route:
    """An operation: a method and a path, which may have a variable part, "{}".

    `about`: a line. `open`: it needs no key. `body` and `answer` are types, `query` the names of fields in
    the address, `texts` the types of an answer that is not JSON if a field says so, and `success` the status
    of a request that is answered, for the OpenAPI document.
    """

    method: str
    path: str
    handler: Handler
    about: str
    _: KW_ONLY
    open: bool = False
    while_draining: bool = False
    own_key: bool = False  # the handler checks the key, which is in the body
    body: Any = None
    form: bool = False
    query: Sequence[str] = ()
    answer: Any = None
    success: int = 200
    statuses: Sequence[int] = ()
    texts: Sequence[str] = ()

    @property
    def streams(self) -> bool:
        """True if the answer is a stream of events where the body says `stream`."""
        return "stream" in getattr(self.body, "__struct_fields__", ())


class Dialect(ABC):
    """A dialect of HTTP."""

    name: ClassVar[str]

    @abstractmethod
    def routes(self) -> list[Route]:
        """The operations."""

    @abstractmethod
    def error(self, problem: HttpProblem, request_id: str) -> Response:
        """The response for an error."""

    def key(self, request: ServedRequest) -> str | None:
        """The API key in the headers."""
        values = request.http.headers.getlist("authorization")
        if len(values) != 1:
            return None
        scheme, _, key = values[0].partition(" ")
        return key.strip() or None if scheme.lower() in AUTHORIZATION else None


def decoded(content: bytes, kind: type[Body]) -> Body:
    """JSON as this type. A number without a fraction is an integer however it is written, as 4.0.

    JSON Schema says so, and clients in JavaScript, Lua or R write integers in this way.

    Raises:
        HttpProblem: it is not JSON, or another type. No message repeats much of what was sent.
    """
    content = content.removeprefix(BOM)
    try:
        try:
            return msgspec.json.decode(content, type=kind)
        except msgspec.ValidationError as error:
            if GOT_FLOAT not in str(error):
                raise
            first = error
        try:
            return msgspec.convert(with_integers(msgspec.json.decode(content)), kind)
        except msgspec.ValidationError as error:
            raise (first if _place(first) == _place(error) else error) from None
    except msgspec.ValidationError as error:
        raise wrong_type(error, kind) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        raise HttpProblem(400, *json_problem(content), code="invalid_json") from None


def with_integers(value: Any) -> Any:
    """A decoded value whose floats without a fraction are integers, as far as floats hold them exactly."""
    if isinstance(value, dict):
        return {name: with_integers(each) for name, each in value.items()}
    if isinstance(value, list):
        return [with_integers(each) for each in value]
    exact = isinstance(value, float) and value.is_integer() and abs(value) <= EXACT_INTEGERS
    return int(value) if exact else value


def wrong_type(error: msgspec.ValidationError, kind: Any) -> HttpProblem:
    """The problem of a body that is not of this type; names the field."""
    if unknown := UNKNOWN_FIELD.fullmatch(str(error)):
        return unknown_field(unknown[1], _fields_at(kind, unknown[2] or ""))
    message, name = str(error).partition(" - at `")[0], _place(error)
    text = f"{name}: {message}" if name else message
    return HttpProblem(400, text[:LONGEST], "see /openapi.json", parameter=name, code="invalid_type")


def _place(error: msgspec.ValidationError) -> str | None:
    """The place of an error in a body, such as `messages[0]`; None if it has no name."""
    place = str(error).partition(" - at `")[2].removesuffix("`").removeprefix("$").removeprefix(".")
    return None if not place or place.startswith("[...]") else place


def _fields_at(kind: Any, place: str) -> list[str]:
    """The names of the fields of the object at a place of a body, such as `messages[0]`."""
    found = _parts(msgspec.inspect.type_info(kind))
    for name, _ in re.findall(r"(\w+)|(\[)", re.sub(r"\[[^]]*\]", "[", place)):
        found = [part for each in found for part in _inside(each, name)]
    return [field.encode_name for each in found for field in getattr(each, "fields", ())]


def _inside(kind: msgspec.inspect.Type, name: str) -> list[msgspec.inspect.Type]:
    """The types of the field of this name, or without a name of the items."""
    if not name:
        return _parts(getattr(kind, "item_type", None) or getattr(kind, "value_type", None))
    fields = getattr(kind, "fields", ())
    return [part for each in fields if each.encode_name == name for part in _parts(each.type)]


def _parts(kind: msgspec.inspect.Type | None) -> list[msgspec.inspect.Type]:
    """The type, or the types of which it is one."""
    if isinstance(kind, msgspec.inspect.Metadata):
        return _parts(kind.type)
    if isinstance(kind, msgspec.inspect.UnionType):
        return [part for each in kind.types for part in _parts(each)]
    return [] if kind is None else [kind]


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A value as JSON."""
    return Response(ENCODER.encode(value), status, media_type=JSON, headers=headers)


def error_response(problem: HttpProblem, body: Any, status: int | None = None) -> Response:
    """An error with the body of its dialect; `status`: the dialect's own, if it has another."""
    status = status or problem.status
    headers = {}
    if problem.retry_after is not None:
        headers["Retry-After"] = str(problem.retry_after)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return json_response(body, status, headers)
