"""The chromium of this machine, and how it is started so that it asks nobody anything of its own."""

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
    """Its path: what REGARD_CHROMIUM names, or the first that is found; None where there is none."""
    return os.environ.get("REGARD_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
