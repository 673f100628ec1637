"""A load generator that we did not write: locust, with users of three dialects."""

import pytest

from tests.serving.asking import ask
from tests.serving.generated_load import LOCUST, generated_load

PATHS = {"/api/v1/translate", "/v1/chat/completions", "/translate"}
pytestmark = pytest.mark.skipif(not LOCUST.exists(), reason="locust is not installed")


def test_users_of_three_dialects_get_only_answers(included):
    found = generated_load(included.url, users=6, seconds=3)
    assert set(found) == PATHS
    metrics = ask(included, "GET", "/metrics").content.decode()
    for path, number in found.items():
        assert f'regard_requests_total{{route="{path}",status="200"}}' in metrics
        assert number > 0


@pytest.mark.nightly
def test_refusals_are_no_failures(serving):
    server = serving(requests_per_minute=6)
    found = generated_load(server.url, users=6, seconds=3)
    refused = {name for name in found if name.endswith(" 429")}
    assert refused
    assert {name.removesuffix(" 429") for name in found} <= PATHS
    answered = sum(number for name, number in found.items() if name not in refused)
    assert 6 <= answered < 10  # the limit grows by one in ten seconds


@pytest.mark.nightly
def test_a_wrong_answer_is_a_failure(serving, decoder_folder):
    with pytest.raises(AssertionError, match="status 4"):
        generated_load(serving({"chars": decoder_folder()}).url, users=2, seconds=1)
