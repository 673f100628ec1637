"""Torch's exporter calls functions with symbols for sizes, which are no ints: types are not checked then."""

import jaxtyping
import pytest
import torch

import regard


@pytest.fixture(autouse=True, scope="package")
def exporter_without_checks():
    own = torch.onnx.export

    def export(*given, **named):
        before = jaxtyping.config.jaxtyping_disable
        jaxtyping.config.update("jaxtyping_disable", True)
        try:
            return own(*given, **named)
        finally:
            jaxtyping.config.update("jaxtyping_disable", before)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.onnx, "export", export)
        yield


@pytest.fixture(scope="package")
def box_in_onnx(tmp_path_factory, exporter_without_checks):
    """The included model in ONNX, with int8 weights; two sentences are compared."""
    folder = tmp_path_factory.mktemp("box")
    (folder / "texts").write_text("A man is sleeping.\nTwo dogs run across the field.\n", "utf-8")
    return regard.export("en-de", to="onnx", out=folder / "out", quantization="int8", texts=folder / "texts")
