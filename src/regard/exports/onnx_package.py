"""The packages that write and read ONNX, imported when they are used: an extra of regard."""

from types import ModuleType

from regard.errors import MissingExtra


def require_onnx(purpose: str = "this export") -> None:
    """Raise a MissingExtra if one of the packages is not installed."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401 (torch's exporter uses it)
    except ImportError as error:
        name = str(error.name or "onnx").split(".")[0]
        raise MissingExtra(name, "onnx", purpose) from None


def onnx() -> ModuleType:
    """The package onnx.

    Raises:
        MissingExtra: it is not installed.
    """
    require_onnx()
    import onnx as package
    import onnx.numpy_helper

    return package
