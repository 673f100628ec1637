"""Contenders that do next to nothing."""

from typing import Any

from benchmarks.common.unfit import Unfit


class Adder:
    """Adds numbers."""

    def __init__(self, *, first: int) -> None:
        self._first, self._asked = first, 0

    def round(self, *, second: int) -> dict[str, Any]:
        self._asked += 1
        if second > 10:
            raise Unfit(f"{second} is too much")
        return {"seconds": 1.0, "sum": self._first + second}

    def asked(self) -> int:
        return self._asked


class Absent:
    """A peer that nobody has."""

    def __init__(self) -> None:
        import no_such_package  # type: ignore[import-not-found]  # noqa: F401
