"""API keys: hashed in memory, compared in constant time, each with a limit on its requests."""

import hashlib
import hmac
import math
import time
from dataclasses import dataclass, field
from pathlib import Path

from regard.errors import FolderError, UserError
from regard.serving.http_error import HttpProblem

MIN_KEY_CHARACTERS = 16
MAX_FILE_BYTES = 1_000_000
HINT = "name a file with one API key a line"


@dataclass(kw_only=True)
class RateLimit:
    """A token bucket: `per_minute` requests a minute on average, and bursts of as many."""

    per_minute: int
    tokens: float = field(init=False)
    last_refill: float = field(init=False)  # seconds of `time.monotonic`

    def __post_init__(self) -> None:
        self.tokens, self.last_refill = float(self.per_minute), time.monotonic()

    def take(self) -> float:
        """Take a token. Returns 0, or the number of seconds until there is one."""
        now = time.monotonic()
        rate = self.per_minute / 60
        self.tokens = min(self.per_minute, self.tokens + (now - self.last_refill) * rate)
        self.last_refill = now
        if self.tokens < 1:
            return (1 - self.tokens) / rate
        self.tokens -= 1
        return 0.0


class ApiKeys:
    """The keys that may use the server. Without keys everybody may.

    `per_minute` limits the requests of each key, or of all clients together if there are no keys; None and 0
    set no limit.
    """

    def __init__(self, keys: list[str], per_minute: int | None = None) -> None:
        self._hashes = [_hash(key) for key in keys]
        self._limits = [RateLimit(per_minute=per_minute) for _ in keys] if per_minute else []
        self._anonymous = RateLimit(per_minute=per_minute) if per_minute and not keys else None

    @property
    def required(self) -> bool:
        """True if a request needs a key."""
        return bool(self._hashes)

    def check(self, key: str | None) -> None:
        """Count a request of this key.

        Raises:
            HttpProblem: 401 if it is missing or not known, 429 if its limit is reached.
        """
        if not self.required:
            self._enforce(self._anonymous)
            return
        if not key:
            raise HttpProblem(
                401, "an API key is missing", "send Authorization: Bearer KEY", code="missing_api_key"
            )
        index = self._index(key)
        if index is None:
            raise HttpProblem(
                401, "this API key is not known", "ask whoever runs this server", code="invalid_api_key"
            )
        self._enforce(self._limits[index] if self._limits else None)

    def _index(self, key: str) -> int | None:
        """The index of this key. Every key is compared, so that the time does not tell which one it is."""
        given = _hash(key)
        found = None
        for index, known in enumerate(self._hashes):
            if hmac.compare_digest(known, given):
                found = index
        return found

    def _enforce(self, limit: RateLimit | None) -> None:
        if limit and (wait := limit.take()):
            seconds = math.ceil(wait)
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
        FolderError: it cannot be read. UserError: it is too large, has no key, or a short one.
    """
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
        text = content.decode("utf-8-sig")  # editors of Windows write a byte order mark
    except OSError as error:
        raise FolderError(f"{file}: {error.strerror}", HINT) from None
    except UnicodeDecodeError:
        raise FolderError(f"{file} is not UTF-8", HINT) from None
    if len(content) > MAX_FILE_BYTES:
        raise UserError(f"{file} has more than {MAX_FILE_BYTES:,} bytes", HINT)
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), start=1)]
    keys = [(number, key) for number, key in lines if key and not key.startswith("#")]
    if not keys:
        raise UserError(f"{file} has no API key", "write one a line; `openssl rand -hex 24` makes one")
    for number, key in keys:
        if len(key) < MIN_KEY_CHARACTERS:
            raise UserError(
                f"{file}:{number}: a key of {len(key)} characters, less than {MIN_KEY_CHARACTERS}",
                "`openssl rand -hex 24` makes one",
            )
    return [key for _, key in keys]


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
