"""The contender that measures the peak: its entry, and its answer where that is all that is wanted."""

from benchmarks.common.contender import Entry, contenders

PEAK = "matrix products"


def peak_entry(threads: int) -> Entry:
    settings = {"threads": threads}
    return Entry(name=PEAK, make="benchmarks.common.peak:Peak", settings=settings, threads=threads)


def peak_of(threads: int) -> float:
    """GFLOP/s, in a process for the purpose."""
    with contenders([peak_entry(threads)]) as (peak,):
        return peak.ask("round", seconds=1.0)["gflop"]
