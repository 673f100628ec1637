"""The contender that measures the peak speed: its entry, and its result."""

from benchmarks.common.contender import Entry, contenders

PEAK = "matrix products"


def peak_entry(threads: int) -> Entry:
    settings = {"threads": threads}
    return Entry(name=PEAK, make="benchmarks.common.peak:Peak", settings=settings, threads=threads)


def peak_of(threads: int) -> float:
    """The peak speed in GFLOP/s, measured in a process of its own."""
    with contenders([peak_entry(threads)]) as (peak,):
        return peak.ask("round", seconds=1.0)["gflop"]
