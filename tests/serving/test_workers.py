"""Workers: processes that answer the requests to one model, as its scheduler would."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from regard.errors import DataError, MissingExtra
from regard.serving.job import Job
from regard.serving.scheduler import Closed, QueueFull, QueueLimits, Scheduler
from regard.serving.worker_messages import Ended
from regard.serving.workers import CAN_FORK, QueuedRequests, WorkerHandle, Workers, _end_of
from regard.verbs.generation.controls import Controls
from regard.verbs.serve import AnswerSettings, ServedModel
from tests.serving.asking import ask, post
from tests.serving.test_scheduler import Seen
from tests.warm_process import run_python, start_python

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="workers are forks")
LINES = ["Where is the station?", "I am tired.", "He has three cats and a dog.", "hi", "Yes, I do.", "No."]


class Asked:
    """A job and what came of it."""

    def __init__(self, runner, answerer, pieces, **more):
        self.found, self.parts, self.error, self.done = {}, [], None, threading.Event()
        self.job = Job(
            answerer=answerer,
            pieces=pieces,
            answered=self.found.__setitem__,
            part=self.parts.append,
            finished=self._finished,
            **more,
        )
        runner.submit(self.job)

    def _finished(self, error):
        assert not self.done.is_set(), "finished twice"
        self.error = error
        self.done.set()

    def answers(self):
        assert self.done.wait(30)
        assert self.error is None, self.error
        return [self.found[place] for place in sorted(self.found)]


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


def settings(**controls):
    return AnswerSettings(task="translate", controls=Controls(**controls))


@pytest.mark.parametrize(
    "controls",
    [{}, pytest.param({"beam_size": 1}, marks=pytest.mark.nightly), {"sample": True, "seed": 7, "top_k": 20}],
)
def test_answers_are_those_of_the_scheduler(model, workers, controls):
    answerer, scheduler = model.answerer(settings(**controls)), Scheduler()
    asked = [Asked(workers, answerer, LINES[:number]) for number in range(1, len(LINES) + 1)]
    expected = [Asked(scheduler, answerer, LINES[:number]) for number in range(1, len(LINES) + 1)]
    assert [each.answers() for each in asked] == [each.answers() for each in expected]
    assert all(each.job.started for each in asked)
    assert not workers.busy
    scheduler.close(wait=True)


def test_scores_come_from_a_worker(model, workers):
    answerer, scheduler = model.answerer(AnswerSettings(task="score")), Scheduler()
    pairs = [("Yes.", "Ja."), ("No.", "Nein.")]
    assert Asked(workers, answerer, pairs).answers() == Asked(scheduler, answerer, pairs).answers()
    scheduler.close(wait=True)


def test_a_text_comes_in_parts(decoder_folder):
    model = ServedModel(decoder_folder())
    workers = Workers(model, 1)
    answerer = model.answerer(
        AnswerSettings(task="generate", controls=Controls(max_new_tokens=20, min_new_tokens=20))
    )
    asked = Asked(workers, answerer, ["To be"], in_parts=True)
    [answer] = asked.answers()
    assert len(asked.parts) > 1
    assert "".join(asked.parts) == answer.continuations[0].text
    workers.close(wait=True)


def test_requests_are_shared_between_the_workers(model, workers):
    answerer = model.answerer(settings())
    long = [f"This is sentence number {number}." for number in range(60)]
    asked = [Asked(workers, answerer, long) for _ in range(2)]
    assert [handle.busy for handle in workers._handles] == [True, True]
    assert asked[0].answers() == asked[1].answers()


def test_a_full_queue_and_wrong_controls_finish_a_request_with_their_error(model):
    workers = Workers(model, 1, limits=QueueLimits(requests=1, characters=1_000_000))
    answerer = model.answerer(settings())
    many = [
        Asked(workers, answerer, [f"This is sentence {number}." for number in range(80)]) for _ in range(8)
    ]
    for each in many:
        assert each.done.wait(60)
    refused = [each.error for each in many if each.error is not None]
    assert refused
    assert all(isinstance(error, QueueFull) and error.retry_after >= 1 for error in refused)
    assert many[0].error is None
    workers.abort()


def test_a_cancelled_request_leaves_and_its_neighbours_stay(model, workers):
    answerer = model.answerer(settings())
    lines = [f"This is sentence number {number}." for number in range(300)]
    dropped = [Asked(workers, answerer, lines) for _ in range(4)]
    kept = Asked(workers, answerer, LINES[:3])
    begun = time.monotonic()
    for each in dropped:
        workers.cancel(each.job)
    kept.answers()
    while workers.busy:
        assert time.monotonic() < begun + 20
        time.sleep(0.01)
    assert not any(each.done.is_set() for each in dropped)
    workers.cancel(kept.job)  # of what has ended nothing is left to cancel
    assert not workers.busy


def test_a_deadline_ends_a_request(model, workers):
    asked = Asked(workers, model.answerer(settings()), LINES * 200, deadline=time.monotonic() + 0.2)
    assert asked.done.wait(30)
    assert type(asked.error).__name__ == "DeadlinePassed"


def test_a_worker_that_dies_is_replaced_and_its_requests_are_refused(model, workers, capsys):
    answerer = model.answerer(settings())
    before = set(workers.processes)
    asked = [Asked(workers, answerer, LINES * 100) for _ in range(2)]
    for process in before:
        os.kill(process, signal.SIGKILL)
    for each in asked:
        assert each.done.wait(30)
        assert isinstance(each.error, Closed)
    ends = time.monotonic() + 20
    while before & set(workers.processes):
        assert time.monotonic() < ends
        time.sleep(0.01)
    assert Asked(workers, answerer, LINES[:2]).answers()
    assert capsys.readouterr().err.count("a worker has died (signal 9); another one is begun") == 2


def test_signals_for_the_server_end_no_worker(model, workers):
    before = workers.processes
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        asked = Asked(workers, model.answerer(settings()), LINES)
        for process in before:
            os.kill(process, getattr(signal, name))
        asked.answers()
        assert Asked(workers, model.answerer(settings()), LINES).answers(), name
        assert workers.processes == before, name


def test_closed_workers_answer_what_they_have_and_end(model):
    workers = Workers(model, 2)
    asked = [Asked(workers, model.answerer(settings()), LINES * 5) for _ in range(3)]
    workers.close()
    with pytest.raises(Closed):
        Asked(workers, model.answerer(settings()), LINES)
    workers.close(wait=True)
    assert all(each.answers() for each in asked)
    assert not any(os.path.exists(f"/proc/{process}") for process in workers.processes)


def test_aborted_workers_refuse_what_they_have(model):
    workers = Workers(model, 1)
    asked = Asked(workers, model.answerer(settings()), LINES * 200)
    workers.abort()
    assert asked.done.wait(10)
    assert isinstance(asked.error, Closed)
    assert not workers.busy


def test_a_failure_of_the_scheduler_ends_the_process(model, monkeypatch, capfd):
    def broken(self):
        raise RuntimeError("broken")

    with monkeypatch.context() as context:
        context.setattr(Scheduler, "_take_expired", broken)  # in the fork
        workers = Workers(model, 1)
    asked = Asked(workers, model.answerer(settings()), LINES)
    assert asked.done.wait(20)
    assert isinstance(asked.error, Closed)
    assert Asked(workers, model.answerer(settings()), LINES).answers()  # the new one is not broken
    assert "RuntimeError: broken" in capfd.readouterr().err
    workers.abort()


def test_a_worker_answers_though_it_began_while_an_answerer_was_made(model):
    begun = []
    model.lock.acquire()
    thread = threading.Thread(target=lambda: begun.append(Workers(model, 1)))
    thread.start()
    time.sleep(0.2)
    assert not begun  # it waits: a fork in the middle of a change would keep half of it
    model.lock.release()
    thread.join(20)
    assert Asked(begun[0], model.answerer(settings()), LINES[:1]).answers()
    begun[0].abort()


def test_a_worker_is_begun_again_though_that_fails_at_first(model, monkeypatch, capsys):
    workers = Workers(model, 1)
    begin, failures = WorkerHandle._started, [OSError("no memory"), OSError("no memory")]

    def failing(self):
        if failures:
            raise failures.pop()
        return begin(self)

    monkeypatch.setattr(WorkerHandle, "_started", failing)
    asked = Asked(workers, model.answerer(settings()), LINES * 100)
    os.kill(workers.processes[0], signal.SIGKILL)
    assert asked.done.wait(20)
    assert isinstance(asked.error, Closed)
    ends = time.monotonic() + 20
    while failures:
        assert time.monotonic() < ends
        time.sleep(0.01)
    assert Asked(workers, model.answerer(settings()), LINES).answers()
    assert "a worker cannot be begun: no memory" in capsys.readouterr().err
    workers.abort()


def test_no_worker_stays_if_one_of_them_cannot_be_begun(model, monkeypatch):
    begin, begun = WorkerHandle._started, []

    def once(self):
        if begun:
            raise OSError("no memory")
        begun.append(begin(self))
        return begun[0]

    monkeypatch.setattr(WorkerHandle, "_started", once)
    with pytest.raises(OSError, match="no memory"):
        Workers(model, 2)
    assert not begun[0][1].is_alive()


def test_an_interpreter_ends_with_workers_that_nobody_closed():
    script = (
        "from regard.serving.workers import Workers\n"
        "from regard.verbs.serve import ServedModel\n"
        "workers = Workers(ServedModel(), 1)\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stderr) == (0, "")


def test_errors_pass_between_processes():
    import pickle

    for error in (DataError("a", "b"), MissingExtra("x", "y", "z"), QueueFull(3), Closed()):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert (str(again), again.hint, vars(again)) == (str(error), error.hint, vars(error))


def test_a_request_is_answered_though_its_worker_dies(serving):
    server = serving(workers=1)
    workers = server.service.models.default.engine.runner
    found = []
    text = " ".join(f"This is sentence number {number}." for number in range(60))
    thread = threading.Thread(target=lambda: found.append(post(server, "/api/v1/translate", {"text": text})))
    thread.start()
    while not workers.busy:
        time.sleep(0.001)
    os.kill(workers.processes[0], signal.SIGKILL)
    thread.join(60)
    assert found[0].status == 200
    assert ask(server, "GET", "/health/ready").status == 200


def test_a_connection_that_the_server_closes_is_closed_though_workers_began_meanwhile(serving):
    import socket

    server = serving(workers=1)
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
        client.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(4096)
        before = server.service.models.default.engine
        server.loop.call_soon_threadsafe(server.server.reload)
        while server.service.models.default.engine is before:
            time.sleep(0.01)
        client.sendall(b"GET / HTTP/9\r\n\r\n")  # the answer is an error, and the end
        while client.recv(4096):
            pass


SERVER = [sys.executable, "-m", "regard", "serve", "--port", "0", "--workers", "2"]


def test_workers_end_with_a_killed_server():
    server = start_python(SERVER[1:])
    assert b"serving" in server.stderr.readline()
    workers = subprocess.run(["pgrep", "-P", str(server.pid)], capture_output=True, text=True).stdout.split()
    assert len(workers) == 2
    server.kill()
    ends = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{each}") for each in workers):
        assert time.monotonic() < ends
        time.sleep(0.02)
    server.communicate(timeout=60)


def test_a_server_whose_second_model_is_missing_ends():
    command = [*SERVER[1:], "--model", "a=" + str(model_folder()), "--model", "b=no/folder"]
    found = run_python(command, timeout=60)
    assert found.returncode == 2
    assert "no/folder" in found.stderr


def model_folder():
    from regard.verbs.shared.included_models import included_model

    return included_model()


def ended(queued, *batches):
    return Ended(number=1, error=None, started=None, queued=queued, batches=batches)


def test_the_requests_that_wait_are_those_of_all_workers_and_reported_when_they_change():
    observer = Seen()
    queued = QueuedRequests(observer)
    queued.report(11, ended(2, (3, 0.5), (1, 0.25)))
    queued.report(12, ended(5))
    queued.report(12, ended(5))
    queued.report(11, ended(0))
    queued.forget(12)
    queued.forget(13)  # of which nobody knew
    assert (observer.queued, observer.batches) == ([2, 7, 5, 0], [(3, 0.5), (1, 0.25)])
    nobody = QueuedRequests(None)
    nobody.report(11, ended(2, (3, 0.5)))
    nobody.forget(11)


@pytest.mark.parametrize(
    ("requests", "number", "each"), [(256, 2, 128), (256, 100, 16), (256, 16, 16), (5, 4, 5), (40, 1, 40)]
)
def test_the_places_of_the_queue_are_shared_but_each_worker_has_some(
    model, monkeypatch, requests, number, each
):
    given = []
    monkeypatch.setattr(
        "regard.serving.workers.WorkerHandle",
        lambda model, limits, threads, queued: given.append((limits, threads)),
    )
    Workers(model, number, threads=3, limits=QueueLimits(requests=requests, characters=7))
    assert given == [(QueueLimits(requests=each, characters=7), 3)] * number


def test_the_end_of_a_worker_is_a_signal_or_an_exit_code():
    assert [_end_of(code) for code in (-9, 0, 1, None)] == [
        "signal 9",
        "exit code 0",
        "exit code 1",
        "exit code None",
    ]
