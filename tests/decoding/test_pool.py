"""Workers give the answers of a single process, in order; an error in a worker is raised here."""

import gc
import os
import signal
import subprocess
import sys
import time
import weakref

import pytest
import torch

from regard.decoding import pool as pools
from regard.decoding.batches import Decoder, decode_all
from regard.decoding.pool import JOBS_PER_WORKER, DecodingPool
from regard.decoding.sampling import Sampling
from regard.decoding.search import BeamSearch
from regard.errors import DataError, RunError
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from tests.warm_process import run_python


@pytest.fixture
def pool_of():
    started = []

    def start(call, size=2, **options):
        started.append(DecodingPool(call, size, **options))
        return started[-1]

    yield start
    for pool in started:
        pool.close()


def square(number):
    time.sleep(0.01)
    return number * number, os.getpid()


def refuse_three(number):
    if number == 3:
        raise DataError("three", "take four")
    return number


def test_answers_come_in_order_from_every_process(pool_of):
    answers = pool_of(square, size=3).map(list(range(60)))
    assert [answer for answer, _ in answers] == [number * number for number in range(60)]
    assert len({process for _, process in answers}) == 3
    assert os.getpid() in {process for _, process in answers}


def test_a_pool_works_again_and_without_jobs(pool_of):
    pool = pool_of(square)
    assert pool.map([]) == []
    assert [pool.map([number])[0][0] for number in (2, 3)] == [4, 9]


@pytest.mark.parametrize("jobs", [[3, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 3]])
def test_an_error_of_a_job_is_raised_whoever_had_it(pool_of, jobs):
    pool = pool_of(refuse_three)
    with pytest.raises(DataError, match="three") as caught:
        pool.map(jobs)
    assert caught.value.hint == "take four"
    assert pool.map([1, 2, 4, 5]) == [1, 2, 4, 5]  # and the pool still works


class Cycle:
    """Garbage that only a collection finds."""

    def __init__(self):
        self.itself = self


def collect(job):
    gc.collect()
    time.sleep(0.01)
    return os.getpid()


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forks on Linux alone")
def test_a_worker_collects_nothing_of_its_parent(pool_of, tmp_path):
    """A finaliser may wait for a lock that a thread of the parent held when the worker was forked."""
    gc.collect()
    gc.disable()
    try:
        cycle = Cycle()
        weakref.finalize(cycle, lambda: (tmp_path / str(os.getpid())).touch())
        del cycle
        pool = pool_of(collect)
        workers = set(pool.map([0] * 4)) - {os.getpid()}  # each collects all that the tests before it left
        gc.collect()
    finally:
        gc.enable()
    assert workers
    assert {path.name for path in tmp_path.iterdir()} == {str(os.getpid())}
    assert not gc.get_freeze_count()


def other_process(pool):
    return next(process for _, process in pool.map(list(range(20))) if process != os.getpid())


def test_without_a_worker_that_was_killed_one_process_continues(pool_of):
    """The system kills a process when memory runs out; what is done already is not done again."""
    warnings = []
    pool = pool_of(square, size=3, warn=warnings.append)
    other, done = other_process(pool), []

    def finished(index):
        done.append(index)
        if len(done) == 10:
            os.kill(other, signal.SIGKILL)

    answers = pool.map(list(range(60)), finished)
    assert [answer for answer, _ in answers] == [number * number for number in range(60)]
    assert sorted(done) == list(range(60))
    assert [process for _, process in pool.map([1, 2, 3])] == [os.getpid()] * 3
    assert len(warnings) == 1
    assert "a worker was killed" in warnings[0]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@pytest.mark.parametrize(
    ("number", "named"),
    [(signal.SIGUSR1, "a worker died of SIGUSR1 before"), (signal.SIGTERM, "a worker died before")],
)
def test_a_worker_that_died_otherwise_is_reported(pool_of, number, named):
    """What it worked on could end this process too. All others are ended by SIGTERM."""
    pool = pool_of(square)
    os.kill(other_process(pool), number)
    with pytest.raises(RunError, match=named):
        pool.map(list(range(20)))


@pytest.fixture
def ctrl_c():
    """Ctrl-C is answered, also where a shell's background job ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_worker(parent):
    time.sleep(0.01)
    try:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
    except KeyboardInterrupt:
        raise RunError("the worker heard it") from None
    return os.getpid()


@pytest.mark.usefixtures("ctrl_c")
def test_a_worker_does_not_hear_ctrl_c(pool_of):
    assert len(set(pool_of(interrupt_worker).map([os.getpid()] * 20))) == 2


ENDED = """
import os, signal, time
from regard.cli import _stop
from regard.decoding.pool import DecodingPool
from regard.errors import RunError
from regard.stop_signals import on_stop
on_stop(_stop)
pool = DecodingPool(lambda number: (time.sleep(0.01), os.getpid())[1], 4)
os.kill((set(pool.map(range(60))) - {os.getpid()}).pop(), signal.SIGBUS)
time.sleep(1)
try:
    pool.map(range(60))
except RunError as error:
    print(error)
pool._workers.shutdown(wait=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="workers of a fresh interpreter need a file")
def test_workers_that_are_ended_say_nothing():
    """The executor ends them by SIGTERM if one is killed. They are forks of the command line's process."""
    done = run_python(["-c", ENDED], timeout=60)
    assert "a worker died of SIGBUS" in done.stdout
    assert done.stderr == ""


KILLED = """
import os, time
from regard.decoding.pool import DecodingPool
pool = DecodingPool(lambda number: (time.sleep(0.01), os.getpid())[1], 3)
print(*{*pool.map(range(100))} - {os.getpid()}, flush=True)
pool.map([0] * 10000)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="workers of a fresh interpreter need a file")
def test_workers_end_when_their_parent_is_killed():
    parent = subprocess.Popen(
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    workers = parent.stdout.readline().split()
    assert len(workers) == 2
    parent.kill()
    try:
        reported = parent.communicate(timeout=20)[
            1
        ]  # their stderr is the parent's: open until all have ended
    except subprocess.TimeoutExpired:
        for worker in workers:
            os.kill(int(worker), signal.SIGKILL)
        raise
    assert reported == ""


@pytest.mark.parametrize("size", [2, 4])
def test_this_process_takes_the_first_job_that_no_worker_is_to_have(pool_of, size):
    reported = []
    pool_of(square, size).map(list(range(20)), reported.append)
    assert reported[0] == JOBS_PER_WORKER * (size - 1)


def test_this_process_waits_for_the_last_jobs(pool_of, monkeypatch):
    waits, wait = [], pools.wait
    monkeypatch.setattr(
        pools, "wait", lambda running, **how: waits.append(len(running)) or wait(running, **how)
    )
    assert pool_of(square).map([3])[0][0] == 9
    assert waits == [1]


def until_there(job):
    path, parent = job
    if os.getpid() == parent:
        raise DataError("this process fails")
    end = time.monotonic() + 5
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.01)


def test_workers_end_when_a_pool_is_closed_after_their_jobs(pool_of, tmp_path):
    pool, path = pool_of(until_there), tmp_path / "there"
    with pytest.raises(DataError):
        pool.map([(path, os.getpid())] * 3)
    thread = pool._workers._executor_manager_thread  # ends with the workers
    pool.close()
    assert thread.is_alive()
    path.touch()
    thread.join(10)
    assert not thread.is_alive()


def test_this_process_has_its_threads_back(pool_of):
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert pool_of(threads_there).map([0] * 8) == [1] * 8
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def threads_there(_):
    time.sleep(0.01)
    return torch.get_num_threads()


@pytest.mark.parametrize("search", [BeamSearch(size=3), Sampling(seed=3, n_best=2)])
def test_shared_batches_give_the_same_hypotheses(pool_of, search):
    config = EncoderDecoderConfig.from_table(
        {"d_model": 32, "num_heads": 2, "d_ff": 32, "num_encoder_layers": 1, "num_decoder_layers": 1},
        src_vocab_size=90,
        tgt_vocab_size=90,
    )
    model = build_model(config, 1)
    generator = torch.Generator().manual_seed(1)
    sources = [torch.randint(4, 90, (1 + n % 9,), generator=generator).tolist() for n in range(40)]
    pool = pool_of(Decoder(search, [model]))
    shared, alone = decode_all(search, model, sources, pool=pool), decode_all(search, model, sources)
    assert [[each.ids for each in hypotheses] for hypotheses in shared] == [
        [each.ids for each in hypotheses] for hypotheses in alone
    ]
    scores = [[each.score for hypotheses in found for each in hypotheses] for found in (shared, alone)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)


def test_each_job_is_reported_once_when_it_is_done(pool_of):
    reported = []
    pool_of(square).map(list(range(20)), reported.append)
    assert sorted(reported) == list(range(20))
