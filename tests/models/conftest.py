"""Fixtures of the tests of models."""

import pytest

from regard.models.registered import PARTS


@pytest.fixture
def parts_only_here(monkeypatch):
    """Parts that a test registers are gone after it."""
    for registry in PARTS.values():
        monkeypatch.setattr(registry, "added", dict(registry.added))
