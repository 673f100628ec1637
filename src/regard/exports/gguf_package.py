"""The packages gguf and llama-cpp-python, imported when they are used: an extra of regard."""

from typing import Any

from regard.errors import MissingExtra


def gguf() -> Any:
    """The package that writes files.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import gguf as package  # pyright: ignore[reportMissingImports] (it is not in `dev`)
    except ImportError:
        raise MissingExtra("gguf", "gguf", "this export") from None
    return package


def llama_cpp() -> Any:
    """The package that runs them.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import llama_cpp as package  # pyright: ignore[reportMissingImports] (pip compiles it)
    except ImportError:
        raise MissingExtra("llama_cpp", "gguf", "the certificate of this export") from None
    return package
