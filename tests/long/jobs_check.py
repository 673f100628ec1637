"""`make jobs-check`: jobs whose processes and machines are killed, whose disk and store fail.

    python tests/long/jobs_check.py [--quick] [--only PART]

Each part prints a line of figures; exit code 1 where one failed. The model is the included one. What a part
needs and does not find (moto, Ray, root for a disk of its own) is named, and the part is skipped.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from benchmarks.common.checks import Found, record_of
from tests.long import job_disk, job_parts, job_ray, job_simulation, job_speed

PARTS: dict[
    str, tuple[Callable[[Path, int], Found], int, int]
] = {  # part -> how often, in the long and the quick form
    "killed": (job_parts.killed, 20, 2),
    "killed_on_s3": (job_parts.killed_on_s3, 20, 3),
    "failing_store": (job_parts.failing_store, 400, 20),
    "failing_disk": (job_disk.failing_disk, 12, 1),
    "full_disk": (job_disk.full_disk, 3, 1),
    "on_ray": (job_ray.on_ray, 20, 2),
    "by_client": (job_ray.by_client, 40, 3),
    "speed": (job_speed.speed, 3, 1),
    "simulated": (job_simulation.simulated, 10_000, 100),
    "memory": (job_parts.memory, 300, 10),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a short form of each part")
    parser.add_argument("--only", choices=list(PARTS), action="append")
    options = parser.parse_args()
    record = record_of("jobs-check", parser, options)
    failed = False
    for name, (part, often, quick) in PARTS.items():
        if not options.only or name in options.only:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    said, figures = part(Path(folder), quick if options.quick else often)
                    record(name, figures)
                except job_parts.Skipped as reason:
                    said = f"skipped: {reason}"
                except AssertionError as error:
                    failed, said = True, f"FAILED: {error}"
            print(f"jobs-check: {name}: {said}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
