"""The chromium of this machine, and the options that keep it from making requests of its own."""

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MISSING = f"no browser here: none of {', '.join(NAMES)}, and REGARD_CHROMIUM names none"


def chromium() -> str | None:
    """Its path: that of REGARD_CHROMIUM, or the first that is found; None if there is none."""
    return os.environ.get("REGARD_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
