"""The location of the user's cache, whose content can be downloaded or computed again."""

import os
import sys
from pathlib import Path


def user_cache(part: str) -> Path:
    """The folder `regard/PART` in the user's cache; it may not exist yet."""
    home = Path.home()
    if sys.platform == "darwin":
        cache = home / "Library" / "Caches"
    elif sys.platform == "win32":
        cache = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return cache / "regard" / part
