"""What to do about a certificate that does not hold."""

import pytest

from regard.exports.certified_export import failed
from tests.exports.engine_models import small_model

LINES = ["share of equal greedy tokens: 0.7435, at least 0.75"]


@pytest.mark.parametrize(
    ("quantization", "more_bits"), [("int8", "float16 or float32"), ("bfloat16", "float32")]
)
def test_a_model_that_fewer_bits_change_is_given_ways_out(quantization, more_bits):
    error = failed("CTranslate2", LINES, quantization, small_model("decoder_only").config)
    assert LINES[0] in error.message
    assert all(way in error.hint for way in (f"--quantization {more_bits}", "--texts", "train it longer"))


def test_a_flaw_of_an_exact_export_is_to_be_reported():
    assert "report" in failed("CTranslate2", LINES, "float32", small_model("decoder_only").config).hint
