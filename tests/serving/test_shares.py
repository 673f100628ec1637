"""A long request on several workers: the same answers, to the bit; one end, one cancellation."""

import threading
import time

import pytest

from regard.errors import DataError
from regard.serving.job import Job
from regard.serving.scheduler import DeadlinePassed, Scheduler
from regard.serving.shares import LEAST, dealt, divided
from regard.serving.workers import CAN_FORK, Workers
from regard.verbs.generation.controls import Controls
from regard.verbs.serve import AnswerSettings, ServedModel
from tests.serving.asking import ask, post
from tests.serving.test_workers import Asked

forks = pytest.mark.skipif(not CAN_FORK, reason="workers are forks")
LINES = [
    f"{sentence} It is number {number}."
    for number in range(13)
    for sentence in ("Where is the station?", "No!", "I have three cats and a dog.")
]


@pytest.fixture(scope="module")
def model():
    found = ServedModel()
    found.prepare()
    return found


@pytest.fixture
def workers(model):
    made = Workers(model, 2)
    yield made
    made.abort()


def made(answerer, pieces, **more):
    return Job(answerer=answerer, pieces=pieces, finished=lambda error: None, **more)


def test_every_piece_is_dealt_once_and_the_work_is_even(model):
    answerer = model.answerer(AnswerSettings(task="translate"))
    pieces = ["a" * (1 + 7 * number % 50) for number in range(41)]
    shares = dealt(made(answerer, pieces), [(0, 0), (300, 1), (0, 0)])
    assert sorted(number for share in shares for number in share) == list(range(41))
    assert all(share == sorted(share) for share in shares)
    work = [sum(len(pieces[number]) + 1 for number in share) for share in shares]
    assert max(work[0], work[1] + 300, work[2]) - min(work[0], work[1] + 300, work[2]) <= 51


def test_the_longest_pieces_are_dealt_first(model):
    answerer = model.answerer(AnswerSettings(task="translate"))
    short = 2 * LEAST - 1
    job = made(answerer, ["a"] * short)
    job = made(answerer, [*job.pieces, "a" * (job.size - 1)])
    assert dealt(job, [(0, 0), (0, 0)]) == [[short], [*range(short)]]


def test_few_pieces_and_answers_that_depend_on_their_batch_stay_together(model):
    translate = model.answerer(AnswerSettings(task="translate"))
    score = model.answerer(AnswerSettings(task="score"))
    work = [(5, 1), (2, 1)]
    for job in (
        made(translate, ["a"] * (2 * LEAST - 1)),
        made(translate, ["a"], in_parts=True),
        made(score, [("a", "b")] * 100),
    ):
        assert dealt(job, work) == [[], list(range(len(job.pieces)))]
    assert dealt(made(translate, []), work) == [[], []]


def test_a_request_ends_once_with_its_last_share_or_its_first_error(model):
    answerer, ends = model.answerer(AnswerSettings(task="translate")), []
    job = Job(answerer=answerer, pieces=LINES, finished=ends.append)
    one, other = divided(job, [range(20), range(20, 39)])
    one.started, other.started = 5.0, 3.0
    other.finished(None)
    assert ends == []
    one.finished(None)
    assert (ends, job.started) == ([None], 3.0)
    job = Job(answerer=answerer, pieces=LINES, finished=ends.append)
    one, other = divided(job, [range(20), range(20, 39)])
    error = DataError("a", "b")
    other.finished(error)
    one.finished(None)
    assert ends == [None, error]
    assert one.cancelled


@forks
@pytest.mark.parametrize(
    "controls",
    [{}, pytest.param({"beam_size": 1}, marks=pytest.mark.nightly), {"sample": True, "seed": 7, "top_k": 20}],
)
def test_answers_are_those_of_one_scheduler(model, workers, controls):
    answerer = model.answerer(AnswerSettings(task="translate", controls=Controls(**controls)))
    scheduler = Scheduler()
    found = Asked(workers, answerer, LINES)
    assert [handle.busy for handle in workers._handles] == [True, True]
    assert found.answers() == Asked(scheduler, answerer, LINES).answers()
    assert found.job.started is not None
    scheduler.close(wait=True)


@forks
def test_a_cancelled_request_leaves_all_workers(model, workers):
    asked = Asked(workers, model.answerer(AnswerSettings(task="translate")), LINES * 20)
    time.sleep(0.05)
    workers.cancel(asked.job)
    ends = time.monotonic() + 20
    while workers.busy:
        assert time.monotonic() < ends
        time.sleep(0.01)
    assert not asked.done.is_set()


@forks
def test_a_deadline_ends_a_request_once_on_all_workers(model, workers):
    answerer = model.answerer(AnswerSettings(task="translate"))
    asked = Asked(workers, answerer, LINES * 40, deadline=time.monotonic() + 0.2)
    assert asked.done.wait(30)
    assert isinstance(asked.error, DeadlinePassed)
    workers.cancel(asked.job)
    ends = time.monotonic() + 20
    while workers.busy:
        assert time.monotonic() < ends
        time.sleep(0.01)
    assert len(Asked(workers, answerer, LINES).answers()) == len(LINES)


@forks
def test_a_long_text_of_a_server_is_answered_as_by_one_worker_and_short_ones_meanwhile(serving, included):
    text = " ".join(LINES)
    wanted = post(serving(workers=1), "/api/v1/translate", {"text": text}).content
    answers = []
    thread = threading.Thread(
        target=lambda: answers.append(post(included, "/api/v1/translate", {"text": text}))
    )
    thread.start()
    short = [post(included, "/api/v1/translate", {"text": "Thank you."}).json for _ in range(3)]
    thread.join(60)
    assert answers[0].content == wanted
    assert all(each["translations"][0]["text"] == "Danke." for each in short)
    stream = post(included, "/api/v1/translate", {"text": text, "stream": True}).events()
    assert b"done" in stream[-1]
    assert ask(included, "GET", "/health/ready").status == 200
