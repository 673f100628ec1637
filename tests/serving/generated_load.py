"""Requests that locust, as a program, sends to a server."""

import json
import os
import subprocess
import sys
from pathlib import Path

LOCUST = Path(sys.executable).parent / "locust"
USERS = Path(__file__).parent / "locustfile.py"


def generated_load(url, users, seconds):
    """The number of answers of each path, and of refusals (" 429" after the path).

    Raises:
        AssertionError: a request failed; it has what locust says.
    """
    command = [
        *(str(LOCUST), "--headless", "--json", "-f", str(USERS), "--host", url, "--loglevel", "WARNING"),
        *(
            "--users",
            str(users),
            "--spawn-rate",
            str(users),
            "--run-time",
            f"{seconds}s",
            "--stop-timeout",
            "60",
        ),
    ]
    environment = {**os.environ, "no_proxy": "127.0.0.1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=seconds + 120)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    found = json.loads(done.stdout)
    assert not any(each["num_failures"] for each in found), found
    return {each["name"]: each["num_requests"] for each in found}
