"""A recipe that needs no download, trained on the device by the command that users type.

python -m benchmarks.gpu.recipe [--device cuda] [--tiny]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECIPE, STEPS = "reverse", 600
SMALL = ("data.train.size=300", "data.valid.size=20", "data.test.size=20", "training.max_steps=4")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    asked = parser.parse_args()
    sets = SMALL if asked.tiny else (f"training.max_steps={STEPS}",)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [
            sys.executable,
            "-m",
            "regard",
            "train",
            RECIPE,
            "--out",
            str(run),
            "--device",
            asked.device,
        ]
        began = time.perf_counter()
        done = subprocess.run(
            [*command, *(part for each in sets for part in ("--set", each))], stdout=sys.stderr
        )
        took = time.perf_counter() - began
        if done.returncode:
            sys.exit(done.returncode)
        records = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    scores = [record for record in records if record["kind"] == "validation"][-1]
    print(json.dumps({"rows": [{"recipe": RECIPE, "seconds": took, **scores}]}))


if __name__ == "__main__":
    main()
