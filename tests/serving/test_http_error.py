"""Each error has its HTTP status and a code that clients may rely on."""

import pytest

from regard.errors import ConfigError, FolderError, RunError
from regard.serving.http_error import HttpProblem, problem_of, unsupported
from regard.serving.scheduler import Closed, DeadlinePassed, QueueFull


@pytest.mark.parametrize(
    ("error", "status", "code", "retry_after"),
    [
        (QueueFull(7), 429, "overloaded", 7),
        (DeadlinePassed(), 504, "timeout", None),
        (Closed(), 503, "unavailable", 1),
        (ConfigError("wrong", "do it"), 400, "invalid_value", None),
        (FolderError("wrong", "do it"), 400, "model_cannot", None),
        (RunError("wrong", "do it"), 500, "model_failed", None),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_an_error_is_for_a_client(error, status, code, retry_after):
    found = problem_of(error)
    assert (found.status, found.code, found.retry_after) == (status, code, retry_after)
    assert (found.message, found.hint) == (error.message, error.hint)
    assert problem_of(found) is found


def test_hints_for_a_command_name_the_fields_of_a_request():
    found = problem_of(ConfigError("--top-k is 0", "leave out --num, or a --- b, or pre--fix"))
    assert (found.message, found.hint) == ("top_k is 0", "leave out num, or a --- b, or pre--fix")


def test_a_problem_is_one_line():
    assert HttpProblem(400, "wrong").text == "wrong"
    assert HttpProblem(400, "wrong", "do it").text == "wrong; do it"


def test_a_field_that_cannot_be_honoured_is_named():
    found = unsupported("logit_bias", "regard has none")
    assert (found.status, found.code, found.parameter) == (400, "unsupported_value", "logit_bias")
    assert found.text == "logit_bias is not supported: regard has none; leave out logit_bias"
    found = unsupported("n = 3", "one answer is given", of="n")
    assert (found.parameter, found.hint) == ("n", "leave out n")
    assert unsupported("n", "no", "n = 1").hint == "n = 1"
