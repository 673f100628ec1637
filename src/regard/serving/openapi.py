"""The OpenAPI document, generated from the routes of all dialects and the types of their bodies."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from regard.serving.answer_types import ANSWERS, TEXT_ANSWERS
from regard.serving.dialects.dialect import JSON, Dialect, Route
from regard.serving.dialects.openai_types import OpenAIError
from regard.serving.dialects.own_types import ErrorResponse
from regard.serving.form_fields import FORMS

REFERENCE = "#/components/schemas/{name}"
STATUSES = {
    400: "A field is wrong; the error names it.",
    401: "The key is missing or not known.",
    403: "The request comes from a page of another site, or DeepL's or LibreTranslate's key is not known.",
    404: "There is no such model, or nothing at this path.",
    405: "This path has no such method.",
    408: "The request came too slowly.",
    413: "The request is too large.",
    415: "The body is of another content type.",
    429: "Too many requests; Retry-After says when to try again.",
    456: "No more glossaries are kept.",
    501: "A library that the request needs is not installed.",
    503: "The server is ending, or a model cannot be loaded.",
    504: "The answer took longer than the request may take.",
}
WITH_BODY = (408, 413, 415, 429, 504)
NOT_OF_ALL = (456, 501)  # only of the operations that name it
METHODS_WITH_BODY = ("POST", "PUT", "PATCH")
MADE = {  # what a POST makes -> its identifier in the answer, and what else those below its path need of it
    "/v2/document": ("document_id", ("document_key",)),
    "/v2/glossaries": ("glossary_id", ()),
    "/v3/glossaries": ("glossary_id", ()),
}


def document(dialects: Sequence[Dialect], title: str, version: str) -> dict[str, Any]:
    """The whole document."""
    routes = [(dialect, route) for dialect in dialects for route in dialect.routes()]
    kinds = [kind for _, route in routes for kind in (route.body, _answer(route)) if kind is not None]
    _, components = msgspec.json.schema_components(
        [*kinds, ErrorResponse, OpenAIError], ref_template=REFERENCE
    )
    paths: dict[str, dict[str, Any]] = {}
    for dialect, route in routes:
        path = _path(route)
        paths.setdefault(path, {})[route.method.lower()] = _operation(dialect, route, path)
        if route.method == "POST" and route.path in MADE:
            answer = paths[path]["post"]["responses"][str(route.success)]
            answer["links"] = _links(route.path, [each for each in dialect.routes() if "{}" in each.path])
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(dialect: Dialect, route: Route, path: str) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.about,
        "tags": [dialect.name],
        "operationId": _operation_id(route),
        "responses": _responses(dialect, route),
        "security": [{}] if route.open else [{}, {"key": []}],
    }
    parameters = [("name", "path")] * ("{name}" in path) + [(name, "query") for name in route.query]
    if parameters:
        schema = {"type": "string", "minLength": 1}
        operation["parameters"] = [
            {"name": name, "in": place, "required": place == "path", "schema": schema}
            for name, place in parameters
        ]
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {JSON: {"schema": _schema(route.body)}},
        }
    elif route.form:
        operation["requestBody"] = {"required": True, "content": FORMS[route.path].content()}
    return operation


def _path(route: Route) -> str:
    return route.path.replace("{}", "{name}")


def _operation_id(route: Route) -> str:
    return f"{route.method.lower()}{re.sub('[^a-z0-9]+', '_', _path(route).lower())}"


def _links(path: str, routes: Sequence[Route]) -> dict[str, Any]:
    """The operations on what a POST to this path has made."""
    identifier, needed = MADE[path]
    found = {}
    for route in routes:
        if route.path.startswith(f"{path}/{{}}"):
            link: dict[str, Any] = {
                "operationId": _operation_id(route),
                "parameters": {"name": f"$response.body#/{identifier}"},
            }
            if needed:  # in a form
                link["requestBody"] = {name: f"$response.body#/{name}" for name in needed}
            found[_operation_id(route)] = link
    return found


def _answer(route: Route) -> Any:
    """The type of the answer of a route, if it is JSON."""
    return route.answer or ANSWERS.get((route.method, route.path))


def _responses(dialect: Dialect, route: Route) -> dict[str, Any]:
    kind = _answer(route)
    schema = {} if kind is None else _schema(kind)
    if kind is None:
        media = TEXT_ANSWERS.get((route.method, route.path))
        content = {media or "*/*": {"schema": {"type": "string"} if media else {}}}
    else:
        content = {JSON: {"schema": schema}}
    if route.streams:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    content |= {kind: {"schema": {"type": "string"}} for kind in route.texts}
    answer: dict[str, Any] = {"description": "The answer."}
    found = {str(route.success): answer if route.success == 204 else {**answer, "content": content}}
    expected = [
        status
        for status in STATUSES
        if status not in NOT_OF_ALL and (route.method in METHODS_WITH_BODY or status not in WITH_BODY)
    ]
    for status in sorted({*expected, *route.statuses}):
        error = _error_schema(dialect) if status not in route.statuses or route.answer is None else schema
        found[str(status)] = {
            "description": STATUSES[status],
            "content": {JSON: {"schema": error}},
        }
    return found


def _error_schema(dialect: Dialect) -> dict[str, Any]:
    if dialect.name == "openai":
        return _schema(OpenAIError)
    if dialect.name == "libretranslate":
        return {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
    if dialect.name == "deepl":
        text = {"type": "string"}
        return {"type": "object", "required": ["message"], "properties": {"message": text, "detail": text}}
    return _schema(ErrorResponse)


def _schema(kind: Any) -> dict[str, Any]:
    [schema], _ = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    return schema
