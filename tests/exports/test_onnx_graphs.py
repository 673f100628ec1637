"""A graph that cannot be traced is an error of the model; a signal during its export is not."""

import signal

import pytest
import torch
from torch import nn

from regard.errors import Interrupted, RunError
from regard.exports.onnx_graphs import save_graph


class Failing(nn.Module):
    """A graph whose tracing raises this error."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def forward(self, x):
        raise self.error


def save(error, path):
    inputs = (torch.ones(2),)
    save_graph(Failing(error), path, inputs, ({0: "batch"},), input_names=["x"], output_names=["y"])


def test_a_signal_is_not_reported_as_a_flaw_of_the_export(tmp_path):
    pytest.importorskip("onnxscript")
    with pytest.raises(Interrupted, match="stopped by SIGTERM") as caught:
        save(Interrupted(signal.SIGTERM, "stopped by SIGTERM"), tmp_path / "a.onnx")
    assert caught.value.exit_code == 143
    assert not (tmp_path / "a.onnx").exists()


def test_what_torch_cannot_trace_is_named(tmp_path):
    pytest.importorskip("onnxscript")
    with pytest.raises(RunError, match=r"cannot export a\.onnx: ValueError: a branch"):
        save(ValueError("a branch"), tmp_path / "a.onnx")
