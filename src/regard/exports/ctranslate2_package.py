"""The package ctranslate2, imported when it is used: an extra of regard."""

from typing import Any

from regard.errors import MissingExtra


def ctranslate2(purpose: str = "this export") -> Any:
    """The package.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import ctranslate2 as package
        import ctranslate2.specs
    except ImportError:
        raise MissingExtra("ctranslate2", "ctranslate2", purpose) from None
    return package
