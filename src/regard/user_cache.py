"""Where this user's cache is: what lies there can be had again."""

import os
import sys
from pathlib import Path


def user_cache(part: str) -> Path:
    """`regard/PART` in it. The folder need not be there."""
    home = Path.home()
    if sys.platform == "darwin":
        cache = home / "Library" / "Caches"
    elif sys.platform == "win32":
        cache = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return cache / "regard" / part
