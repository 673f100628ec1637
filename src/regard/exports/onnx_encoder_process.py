"""The process in which onnxruntime computes what the certificate of an encoder compares.

It does so by the predict.py of the folder. A job comes by standard input and the answer goes to standard
output, both as JSON. Nothing of regard's models is loaded here.
"""

import base64
import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from regard.exports.onnx_process import module_of

ROWS = 16  # texts of a batch
SCRIPT = "predict.py"


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """How the texts are read, and the outputs of the rows."""
    script = module_of(Path(job["folder"]) / SCRIPT)
    model = script.Model(Path(job["folder"]), job["threads"])
    texts = [script.Reading(ids, places, []) for ids, places in zip(job["rows"], job["places"], strict=True)]
    outputs = [
        each for first in range(0, len(texts), ROWS) for each in model.outputs(texts[first : first + ROWS])
    ]
    read = [model.read(text) for text in job["texts"]]
    return {
        "read": [[each.ids, each.places] for each in read],
        "outputs": [base64.b64encode(each.astype(np.float32).tobytes()).decode() for each in outputs],
        "versions": {
            **{name: version(name) for name in ("onnx", "onnxruntime", "tokenizers", "numpy")},
            "python": platform.python_version(),
        },
    }


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
