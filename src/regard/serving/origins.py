"""Pages of other sites that may ask this server (CORS).

https://fetch.spec.whatwg.org/#http-cors-protocol
"""

import re
from collections.abc import Collection, Iterable, Mapping

from regard.errors import UserError

ANY = "*"
ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@,*]+")  # a scheme and a host, perhaps with a port
NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,1000}")  # of headers, as a preflight lists them
READABLE = "retry-after, x-request-id"  # headers of an answer that a page may read beside the usual ones
KEPT_SECONDS = 600  # a browser need not ask again so long


def allowed_origins(given: Iterable[str], *, has_keys: bool) -> frozenset[str]:
    """The origins as browsers write them.

    Raises:
        UserError: one is not an origin, or all are allowed without keys.
    """
    found = frozenset(each.lower().removesuffix("/") for each in given)
    for origin in found - {ANY}:
        if not ORIGIN.fullmatch(origin):
            raise UserError(
                f"--allow-origin {origin} is not an origin", "give scheme and host: https://app.example.org"
            )
    if ANY in found and not has_keys:
        raise UserError(
            "--allow-origin * lets each page that a browser opens use this server",
            "name the origins, or let only those in who have a key: --api-keys FILE",
        )
    return found


def is_allowed(origin: str | None, allowed: Collection[str]) -> bool:
    """True for the origin of a page that may ask."""
    return origin is not None and bool({origin.lower(), ANY} & {*allowed})


def answer_headers(origin: str | None, allowed: Collection[str]) -> dict[str, str]:
    """The headers by which the browser lets a page of this origin read an answer."""
    if not allowed:
        return {}
    if origin is None or not is_allowed(origin, allowed):
        return {"vary": "origin"}
    return {
        "vary": "origin",
        "access-control-allow-origin": origin,
        "access-control-expose-headers": READABLE,
    }


def preflight_headers(asked: Mapping[str, str], methods: Iterable[str]) -> dict[str, str]:
    """The headers that answer the question of a browser, `asked`, whether a page may send its request."""
    names = asked.get("access-control-request-headers", "")
    found = {
        "access-control-allow-methods": ", ".join(sorted(methods)),
        "access-control-max-age": str(KEPT_SECONDS),
    }
    if NAMES.fullmatch(names):
        found["access-control-allow-headers"] = names
    if asked.get("access-control-request-private-network") == "true":
        found["access-control-allow-private-network"] = "true"
    return found
