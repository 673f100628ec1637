"""API keys: hashed in memory, compared in constant time, each with a limit on its requests."""

import hashlib
import hmac
import time
from dataclasses import dataclass, field
from pathlib import Path

from regard.errors import FolderError, UserError
from regard.serving.http_error import HttpProblem

SHORTEST = 16  # characters
MOST_BYTES = 1_000_000


@dataclass(kw_only=True)
class RateLimit:
    """A bucket of tokens: `per_minute` requests on average, as many at once."""

    per_minute: int
    tokens: float = field(init=False)
    filled: float = field(init=False)

    def __post_init__(self) -> None:
        self.tokens, self.filled = float(self.per_minute), time.monotonic()

    def take(self) -> float:
        """Take a token. Returns 0, or the number of seconds until there is one."""
        now = time.monotonic()
        rate = self.per_minute / 60
        self.tokens = min(self.per_minute, self.tokens + (now - self.filled) * rate)
        self.filled = now
        if self.tokens < 1:
            return (1 - self.tokens) / rate
        self.tokens -= 1
        return 0.0


class ApiKeys:
    """The keys that may use the server. Without keys everybody may; `per_minute` limits each key."""

    def __init__(self, keys: list[str], per_minute: int | None = None) -> None:
        self._hashes = [_hash(key) for key in keys]
        self._limits = [RateLimit(per_minute=per_minute) for _ in keys] if per_minute else []
        self._anonymous = RateLimit(per_minute=per_minute) if per_minute and not keys else None

    @property
    def required(self) -> bool:
        """True if a request needs a key."""
        return bool(self._hashes)

    def check(self, key: str | None) -> None:
        """Raise an HttpProblem if this key may not be used now."""
        if not self.required:
            self._refuse_often(self._anonymous)
            return
        if not key:
            raise HttpProblem(
                401, "an API key is missing", "send Authorization: Bearer KEY", code="missing_api_key"
            )
        place = self._place(key)
        if place is None:
            raise HttpProblem(
                403, "this API key is not known", "ask whoever runs this server", code="invalid_api_key"
            )
        self._refuse_often(self._limits[place] if self._limits else None)

    def _place(self, key: str) -> int | None:
        """The number of this key. Every key is compared, so that the time does not depend on it."""
        given = _hash(key)
        found = None
        for place, each in enumerate(self._hashes):
            if hmac.compare_digest(each, given):
                found = place
        return found

    def _refuse_often(self, limit: RateLimit | None) -> None:
        if limit and (wait := limit.take()):
            seconds = max(1, round(wait + 0.5))
            raise HttpProblem(
                429,
                "too many requests in a minute",
                f"try again in {seconds} s",
                code="rate_limit",
                retry_after=seconds,
            )


def read_keys(file: Path) -> list[str]:
    """The keys in a file, one a line; empty lines and lines that begin with # are left out.

    Raises:
        FolderError: it cannot be read. UserError: it has no key, or a short one.
    """
    try:
        content = file.read_bytes()[:MOST_BYTES].decode("utf-8")
    except OSError as error:
        raise FolderError(f"{file}: {error.strerror}", "name a file with one API key a line") from None
    except UnicodeDecodeError:
        raise FolderError(f"{file} is not UTF-8", "name a file with one API key a line") from None
    keys = [line.strip() for line in content.split("\n")]
    keys = [key for key in keys if key and not key.startswith("#")]
    if not keys:
        raise UserError(f"{file} has no API key", "write one a line; `openssl rand -hex 24` makes one")
    for number, key in enumerate(keys, start=1):
        if len(key) < SHORTEST:
            raise UserError(
                f"{file}: key {number} has {len(key)} characters, less than {SHORTEST}",
                "`openssl rand -hex 24` makes one",
            )
    return keys


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
