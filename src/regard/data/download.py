"""One file from the network to the disk: in blocks, and taken up again where it was cut off."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from regard.errors import DataError

BLOCK = 1 << 16
TIMEOUT = 30.0  # seconds without a byte


def download(url: str, target: Path, progress: Callable[[int, int | None], None]) -> None:
    """Write what `url` gives to `target`; if `target` holds a beginning of it, ask for the rest only.

    `progress(bytes done, bytes in all or None)` is called after each block. A failure leaves what
    came so far in `target`, and raises DataError.
    """
    if not url.startswith(("https://", "http://")):
        raise DataError(f"{url}: not an address of the web", "use https://")
    target.parent.mkdir(parents=True, exist_ok=True)
    held = target.stat().st_size if target.exists() else 0
    request = urllib.request.Request(url, headers={"Accept-Encoding": "identity"})  # noqa: S310 (http or https, above)
    if held:
        request.add_header("Range", f"bytes={held}-")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310 # nosec B310
            done = held if answer.status == http.HTTPStatus.PARTIAL_CONTENT else 0
            length = answer.headers.get("Content-Length")
            total = done + int(length) if length else None
            with target.open("ab" if done else "wb") as file:
                while block := answer.read(BLOCK):
                    file.write(block)
                    done += len(block)
                    progress(done, total)
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and held:
            return  # it was whole already; the caller looks at its SHA-256
        raise DataError(
            f"{url}: the server answers {error.code} {error.reason}", "try again later, or fetch it by hand"
        ) from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(
            f"{url} cannot be reached: {reason}",
            "where there is no network, copy the data set from elsewhere and name its parent in REGARD_DATA",
        ) from None
    if total is not None and done != total:
        raise DataError(
            f"{url}: cut off after {done:,} of {total:,} bytes", "run it again: it goes on from there"
        )
