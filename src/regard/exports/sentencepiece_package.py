"""The package sentencepiece, imported when it is used: an extra of regard."""

from typing import Any

from regard.errors import MissingExtra


def sentencepiece() -> Any:
    """The package.

    Raises:
        MissingExtra: it, or protobuf, is not installed.
    """
    try:
        import sentencepiece as package
        from sentencepiece import sentencepiece_model_pb2  # noqa: F401 (which needs protobuf)
    except ImportError:
        raise MissingExtra("sentencepiece", "argos", "this export") from None
    return package


def model_proto(content: bytes = b"") -> Any:
    """The content of a SentencePiece file, to read or to fill."""
    sentencepiece()
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()  # pyright: ignore[reportAttributeAccessIssue] (made at import)
    proto.ParseFromString(content)
    return proto
