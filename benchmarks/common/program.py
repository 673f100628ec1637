"""What all benchmark programs share: command-line options, writing of results, printing of tables."""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.common.machine import cores
from benchmarks.common.results import Result

BUILD = Path(__file__).parent.parent.parent / "build" / "benchmarks"  # prepared data, converted models


def argument_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser of the options that all benchmark programs have."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="run for seconds only, to check that everything works"
    )
    parser.add_argument(
        "--threads", type=int, default=cores(), help="number of threads [default: one per core]"
    )
    parser.add_argument("--rounds", type=int, help="number of rounds; each measures every contender once")
    return parser


def run(program: Callable[[argparse.Namespace], Result], parser: argparse.ArgumentParser) -> None:
    """Run a benchmark program; a user's error is reported in one line."""
    options = parser.parse_args()
    with _reported_errors():
        result = program(options)
        path = result.write(quick=options.quick or bool(getattr(options, "only", "")))
    print(f"\n{result.markdown()}\n\nwritten: {path}")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def _reported_errors() -> Iterator[None]:
    from regard.errors import UserError

    try:
        yield
    except UserError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        sys.exit(2)


def limit_threads(count: int = 1) -> None:
    """Limit the threads of this process, which only prepares data; call it before torch is imported."""
    os.environ["OMP_NUM_THREADS"] = str(count)
