"""The ASGI application: finds the operation of a request, checks who asks, and reports how it went."""

import asyncio
import re
import secrets
import time
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from regard import console
from regard.errors import RegardError
from regard.page.assets import SERVED_POLICY
from regard.serving.dialects.dialect import Call, Dialect, Route
from regard.serving.http_error import HttpProblem, problem_of
from regard.serving.origins import answer_headers, is_allowed, preflight_headers
from regard.serving.request import ClientGone, ServedRequest
from regard.serving.service import Service, length_of
from regard.verbs.shared.answerer import Recording

LOCAL_HOSTS = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?")
CLOSES = (408, 413, 415)  # of these the rest of the body is not read
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "content-security-policy": SERVED_POLICY,
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


class App:
    """Answers every HTTP request with something that its client understands."""

    def __init__(self, service: Service, dialects: Sequence[Dialect]) -> None:
        self.service, self.dialects = service, dialects
        self._exact: dict[str, dict[str, tuple[Dialect, Route]]] = {}
        self._variable: dict[str, dict[str, tuple[Dialect, Route]]] = {}
        for dialect in dialects:
            for route in dialect.routes():
                routes = self._variable if "{}" in route.path else self._exact
                routes.setdefault(route.path, {})[route.method] = (dialect, route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = ServedRequest(scope, receive)
        sender = _Sender(send, request.id, self.service, request.http.headers.get("origin"))
        dialect, label = self._dialect_of(scope["path"]), "none"
        self.service.in_flight += 1
        self.service.metrics.in_flight.inc()
        try:
            try:
                response = self._preflight(request, scope["method"], scope["path"])
                if response is None:
                    dialect, route, path = self._found(scope["method"], scope["path"])
                    label = route.path
                    self._admit(request, dialect, route)
                    response = await route.handler(Call(service=self.service, request=request, path=path))
            except RegardError as error:
                response = self._error(dialect, problem_of(error), request)
            except ClientGone:
                raise
            except asyncio.CancelledError:  # the server does not wait any longer
                if not self.service.draining:
                    raise
                response = self._error(dialect, ending(), request)
            except Exception as error:  # noqa: BLE001 (nothing above answers the client)
                console.warn(f"{request.id}: {type(error).__name__}: {error}")
                response = self._error(
                    dialect, HttpProblem(500, "the server failed", f"request {request.id}"), request
                )
            await response(scope, receive, sender)
        except ClientGone:
            self.service.metrics.cancelled.labels(request.model).inc()
        except Exception as error:
            console.warn(f"{request.id}: {type(error).__name__}: {error}")
            raise
        finally:
            await request.close()
            self.service.in_flight -= 1
            self.service.metrics.in_flight.dec()
            self._report(request, scope["method"], label, sender.status)

    def error_body(self, path: str, problem: HttpProblem) -> bytes:
        """What an error is in the dialect of a path, for requests that do not come as far as here."""
        return bytes(self._dialect_of(path).error(problem, secrets.token_hex(8)).body)

    def _dialect_of(self, path: str) -> Dialect:
        """The dialect whose errors a path gets, which may have no operation, or not for the method."""
        if routes := self._exact.get(path):
            return next(iter(routes.values()))[0]
        names = {"/v1/": "openai", "/v2/": "deepl", "/v3/": "deepl"}
        name = next((name for prefix, name in names.items() if f"{path}/".startswith(prefix)), "regard")
        return next(each for each in self.dialects if each.name == name)

    def _found(self, method: str, path: str) -> tuple[Dialect, Route, str]:
        """The operation, and the variable part of its path.

        Raises:
            HttpProblem: there is none.
        """
        methods, rest = self._methods(path)
        if not methods:
            raise HttpProblem(404, "there is nothing at this path", "see /openapi.json", code="not_found")
        found_route = methods.get("GET" if method == "HEAD" else method)
        if found_route is None:
            allowed = ", ".join(sorted(methods))
            raise HttpProblem(
                405, f"this path has no {method[:20]}", f"use {allowed}", code="method_not_allowed"
            )
        return *found_route, rest

    def _methods(self, path: str) -> tuple[dict[str, tuple[Dialect, Route]], str]:
        """The operations of a path by method, and the variable part of the path."""
        methods, rest = self._exact.get(path, {}), ""
        if not methods:
            for template, found in self._variable.items():
                part = _variable_part(template, path)
                if part and (not methods or not template.endswith("{}")):
                    methods, rest = found, part
        return methods, rest

    def _preflight(self, request: ServedRequest, method: str, path: str) -> Response | None:
        """The answer to a browser that asks whether a page of an allowed origin may send a request.

        None for other requests. It has no key, for the browser does not send the page's headers yet.
        """
        headers, methods = request.http.headers, self._methods(path)[0]
        is_question = methods and method == "OPTIONS" and "access-control-request-method" in headers
        if not is_question or not is_allowed(headers.get("origin"), self.service.origins):
            return None
        self._check_size(request)
        self._check_origin(request)
        return Response(status_code=204, headers=preflight_headers(headers, methods))

    def _admit(self, request: ServedRequest, dialect: Dialect, route: Route) -> None:
        """Raise an HttpProblem if this client may not ask this now."""
        self._check_size(request)
        self._check_origin(request)
        if self.service.draining and not route.while_draining:
            self.service.metrics.rejected.labels("draining").inc()
            raise ending()
        if not (route.open or route.own_key):
            self.service.keys.check(dialect.key(request))

    def _check_size(self, request: ServedRequest) -> None:
        """Refuse long headers. h11 bounds only those that have not come in a single read."""
        size = sum(len(name) + len(value) for name, value in request.http.headers.raw)
        if size > (most := self.service.limits.header_bytes):
            raise HttpProblem(
                431,
                f"the headers have {size:,} bytes, more than {most:,}",
                "send fewer",
                code="headers_too_long",
            )

    def _check_origin(self, request: ServedRequest) -> None:
        """Refuse pages of other sites, and other names for this machine (DNS rebinding).

        A server with keys may have any name: a page of another site has no key.
        """
        headers, any_name = request.http.headers, self.service.public or self.service.keys.required
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not (any_name or LOCAL_HOSTS.fullmatch(hosts[0])):
            raise HttpProblem(
                403, "the Host header does not name this server", "use its address", code="wrong_host"
            )
        origin = headers.get("origin")
        if origin is None or is_allowed(origin, self.service.origins):
            return
        if origin.partition("://")[2] != hosts[0]:
            raise HttpProblem(
                403,
                "the request comes from a page of another site",
                "use a server, or start this one with --allow-origin",
                code="cross_origin",
            )

    def _error(self, dialect: Dialect, problem: HttpProblem, request: ServedRequest) -> Any:
        if problem.status == 429:
            self.service.metrics.rejected.labels(problem.code or "overloaded").inc()
        if problem.status == 500:
            console.warn(f"{request.id}: {problem.message}")
        return dialect.error(problem, request.id)

    def _report(self, request: ServedRequest, method: str, label: str, status: int) -> None:
        seconds = time.monotonic() - request.begun
        self.service.metrics.requests.labels(label, str(status)).inc()
        self.service.metrics.seconds.labels(label).observe(seconds)
        if request.output_tokens:
            self.service.metrics.tokens.labels(request.model).inc(request.output_tokens)
        self.service.log.write(
            id=request.id,
            method=method if method.isalpha() and len(method) < 10 else "other",
            route=label,
            status=status,
            ms=_milliseconds(seconds),
            queue_ms=_milliseconds(request.queue_seconds),
            first_part_ms=_milliseconds(request.first_part_seconds),
            model=request.model or None,
            texts=len(request.texts) or None,
            characters=sum(map(length_of, request.texts)) or None,
            output_tokens=request.output_tokens or None,
            content=_written(request.texts) if self.service.log.texts else None,
        )


def _written(texts: Sequence[Any]) -> list[Any] | None:
    """The texts for the log, without recordings."""
    return [each for each in texts if not isinstance(each, Recording)] or None


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)


def ending() -> HttpProblem:
    """The refusal of a server that is ending."""
    return HttpProblem(503, "the server is ending", "try again", code="unavailable", retry_after=5)


def _variable_part(template: str, path: str) -> str:
    """What stands in the path for the "{}" of a template; empty if the path is another one.

    A slash may be in it only at the end of the template.
    """
    before, _, after = template.partition("{}")
    part = path[len(before) : len(path) - len(after)]
    if not (path.startswith(before) and path.endswith(after)) or (after and "/" in part):
        return ""
    return part


class _Sender:
    """`send` with the headers that every response has; remembers the status (499: the client left)."""

    def __init__(self, send: Send, request_id: str, service: Service, origin: str | None = None) -> None:
        self._send, self._id, self._service = send, request_id, service
        self._cors = answer_headers(origin, service.origins)
        self.status = 499

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = {name.decode().lower() for name, _ in message["headers"]}
            more = {**HEADERS, **self._cors, "x-request-id": self._id}
            if self.status in CLOSES or self._service.draining:
                more["connection"] = "close"
            added = [(name.encode(), value.encode()) for name, value in more.items() if name not in own]
            message = {**message, "headers": [*message["headers"], *added]}
        await self._send(message)
