"""The limits of a server: sizes, times and counts. Each has a default; none can be switched off."""

from dataclasses import dataclass, field

from regard.serving.scheduler import QueueLimits


@dataclass(frozen=True, kw_only=True)
class ServerLimits:
    """What a client may ask for. Sizes are in bytes or characters, times in seconds."""

    body_bytes: int = 1_000_000
    upload_bytes: int = 5_000_000
    recording_bytes: int = 25_000_000
    recording_seconds: float = 600.0  # of sound
    header_bytes: int = 32_768  # all headers of a request together, and its first line
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    write_seconds: float = 30.0  # for a client that reads slowly
    keep_alive_seconds: int = 30
    connections: int = 2000
    answer_seconds: float = 120.0
    drain_seconds: float = 60.0  # after SIGTERM
    texts: int = 128  # of a request
    characters: int = 100_000  # of all texts of a request together
    candidates: int = 16
    hypotheses: int = 64  # of one text: of a beam, or samples
    proposed_tokens: int = 32
    new_tokens: int = 4096
    stops: int = 16
    classes: int = 1000
    masks: int = 512  # of all texts of a request together
    queue: QueueLimits = field(default_factory=QueueLimits)


DEFAULT_LIMITS = ServerLimits()
