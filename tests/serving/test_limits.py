"""The limits of a server are documented: those who run it rely on them."""

import dataclasses

from regard.serving.limits import DEFAULT_LIMITS, ServerLimits
from regard.serving.scheduler import QueueLimits


def test_the_limits_of_a_server_that_sets_none():
    assert ServerLimits() == DEFAULT_LIMITS
    assert dataclasses.asdict(DEFAULT_LIMITS) == {
        "body_bytes": 1_000_000, "upload_bytes": 5_000_000, "recording_bytes": 25_000_000,
        "recording_seconds": 600.0, "header_bytes": 32_768, "header_seconds": 10.0,
        "body_seconds": 30.0, "write_seconds": 30.0, "keep_alive_seconds": 30, "connections": 2000,
        "answer_seconds": 120.0, "drain_seconds": 60.0, "texts": 128, "characters": 100_000,
        "candidates": 16, "hypotheses": 64, "proposed_tokens": 32, "new_tokens": 4096, "stops": 16,
        "classes": 1000, "masks": 512, "queue": {"requests": 256, "characters": 1_000_000},
    }  # fmt: skip
    assert DEFAULT_LIMITS.queue == QueueLimits()
