"""The main program of a contender's process: creates the contender, then answers requests.

    python -m benchmarks.common.child MODULE:CLASS '{"settings": ...}' MATMUL_PRECISION

Requests are read from standard input, answers written to standard output, both as lines of JSON. What the
contender prints goes to standard error. The process ends at the end of its input.
"""

import json
import os
import sys
import traceback
from importlib import import_module
from typing import Any, TextIO

from benchmarks.common import products
from benchmarks.common.unfit import Unfit


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    products.use(sys.argv[3])
    contender = _made(answers, sys.argv[1], json.loads(sys.argv[2]))
    if contender is None:
        return
    try:
        for line in sys.stdin:
            request = json.loads(line)
            _answer(answers, _called(contender, request))
    finally:
        if hasattr(contender, "close"):
            contender.close()


def _made(answers: TextIO, target: str, settings: dict[str, Any]) -> Any:
    """The contender; None if it cannot be created, and the answer says why."""
    module, _, name = target.partition(":")
    try:
        contender = getattr(import_module(module), name)(**settings)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] in ("regard", "benchmarks"):
            raise
        _answer(answers, {"absent": f"{error.name} is not installed"})
    except Unfit as unfit:
        _answer(answers, {"absent": str(unfit)})
    except Exception:  # noqa: BLE001, the parent reports it
        _answer(answers, {"error": traceback.format_exc()})
    else:
        _answer(answers, {"value": "ready"})
        return contender
    return None


def _called(contender: Any, request: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"value": getattr(contender, request["call"])(**request["arguments"])}
    except Unfit as unfit:
        return {"absent": str(unfit)}
    except Exception:  # noqa: BLE001
        return {"error": traceback.format_exc()}


def _answer(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
