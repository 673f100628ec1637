"""Downloads a file over HTTP and resumes an interrupted download."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from regard.data.os_errors import os_errors
from regard.errors import DataError

BLOCK_BYTES = 1 << 16  # bytes
STALL_TIMEOUT = 30.0  # seconds without a byte


def download(url: str, target: Path, progress: Callable[[int, int | None], None]) -> None:
    """Downloads `url` to `target`; if `target` holds the beginning already, only the rest is requested.

    `progress(bytes done, total bytes)` is called after each block. If the server does not send the total, it
    is None until the end.

    Raises:
        DataError: the download failed; `target` keeps the part that arrived.
        FolderError, RunError: `target` cannot be written.
    """
    if not url.startswith(("https://", "http://")):
        raise DataError(f"{url}: not an HTTP address", "use https://")
    with os_errors("write", target):
        target.parent.mkdir(parents=True, exist_ok=True)
    held = target.stat().st_size if target.exists() else 0
    request = urllib.request.Request(url, headers={"Accept-Encoding": "identity"})  # noqa: S310 (http or https, above)
    if held:
        request.add_header("Range", f"bytes={held}-")
    try:
        answer = urllib.request.urlopen(request, timeout=STALL_TIMEOUT)  # noqa: S310 # nosec B310
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and held:
            return  # it was complete already; the caller verifies its SHA-256
        raise DataError(
            f"{url}: the server answers {error.code} {error.reason}",
            "try again later, or download it by hand",
        ) from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(
            f"{url} cannot be reached: {reason}",
            "without a network, copy the data set from elsewhere and set REGARD_DATA to its parent folder",
        ) from None
    with answer:
        _write_answer(answer, url, target, held, progress)


def _write_answer(
    answer: http.client.HTTPResponse,
    url: str,
    target: Path,
    held: int,
    progress: Callable[[int, int | None], None],
) -> None:
    """Writes what the server sends; behind the first `held` bytes if it sends only the rest."""
    done = held if answer.status == http.HTTPStatus.PARTIAL_CONTENT else 0
    length = answer.headers.get("Content-Length")
    total = done + int(length) if length else None
    reason = ""
    with os_errors("write", target):
        file = target.open("ab" if done else "wb", buffering=0)  # so that closing it writes nothing
    with file:
        while True:
            try:
                block = answer.read(BLOCK_BYTES)
            except (OSError, http.client.HTTPException) as error:
                reason = f": {error}"
                break
            if not block:
                break
            done += len(block)
            rest = memoryview(block)
            with os_errors("write", target):
                while rest:
                    rest = rest[file.write(rest) :]
            progress(done, total)
    if reason or (total is not None and done != total):
        of = "" if total is None else f" of {total:,}"
        raise DataError(
            f"{url}: interrupted after {done:,}{of} bytes{reason}", "run it again to resume the download"
        )
    if total is None:
        progress(done, done)
