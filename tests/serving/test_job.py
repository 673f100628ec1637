"""A request as the scheduler counts it: its pieces, their places, the work that is left."""

import pytest

from regard.serving.job import MANY_PIECES, Job
from tests.serving.test_running_jobs import Counter
from tests.serving.test_scheduler import Echo


def made(answerer, pieces, **more):
    return Job(answerer=answerer, pieces=pieces, finished=lambda error: None, **more)


def test_pieces_are_taken_one_after_the_other_and_their_work_is_left_no_more():
    job = made(Echo(), ["a", "bcd", ""])
    assert (job.sizes, job.size, job.left, job.next) == ([2, 4, 1], 7, 3, 0)
    assert [job.take() for _ in range(3)] == [0, 1, 2]
    assert (job.size, job.next, job.left) == (0, 3, 3), "left are those that are not answered"


def test_the_places_of_the_pieces_are_all_of_the_request_or_those_given():
    assert list(made(Echo(), "ab").places) == [0, 1]
    assert list(made(Echo(), "ab", places=[7, 3]).places) == [7, 3]


def test_a_job_is_long_from_more_pieces_on_than_short_ones_have():
    assert not made(Counter(), ["1"] * MANY_PIECES).is_long
    assert made(Counter(), ["1"] * (MANY_PIECES + 1)).is_long


def test_only_what_is_decoded_comes_to_have_tokens():
    counter = Counter()
    counter.tokens_each = 7
    assert (made(counter, ["1"]).decoded, made(counter, ["1"]).most_tokens(0)) == (True, 7)
    assert (made(Echo(), ["1"]).decoded, made(Echo(), ["1"]).most_tokens(0)) == (False, 0)


def test_a_job_waits_for_ever_and_reports_to_nobody_by_default():
    job = made(Echo(), ["a"])
    assert job.deadline == float("inf")
    assert (job.cancelled, job.in_parts, job.started, list(job.shares)) == (False, False, None, [])
    assert job.answered(0, "a") is job.part("a") is None


@pytest.mark.parametrize("pieces", [[], ["a"]])
def test_jobs_with_the_same_pieces_are_two(pieces):
    assert made(Echo(), pieces) != made(Echo(), pieces)
