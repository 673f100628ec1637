"""Pieces of jobs are decoded together; each leaves when it is done, or its job is cancelled."""

import threading
import time

import pytest

from regard.serving.job import MANY_PIECES, Job
from regard.serving.running_jobs import RunningJobs
from regard.serving.scheduler import (
    MOST_ROWS,
    PASSED_SECONDS,
    ROWS,
    RUNNING_TOKENS,
    Closed,
    DeadlinePassed,
    QueueLimits,
    Scheduler,
)
from regard.verbs.serve import AnswerSettings, DecodingAnswerer
from tests.serving.test_scheduler import Seen


class Countdown:
    """A running batch in which a piece "n" is done after n steps."""

    def __init__(self, answerer):
        self.answerer, self.left, self.tickets = answerer, {}, 0
        self.in_parts, self.parts = set(), []

    def add(self, piece, place, *, in_parts):
        if piece == "refused":
            raise ValueError(piece)
        self.tickets += 1
        if in_parts:
            self.in_parts.add(self.tickets)
        self.left[self.tickets] = [int(piece), piece]
        return self.tickets

    def cancel(self, ticket):
        self.left.pop(ticket, None)

    def step(self):
        self.answerer.gate.wait(10)
        self.answerer.most = max(self.answerer.most, len(self.left))
        if self.answerer.broken:
            raise MemoryError
        for each in self.left.values():
            each[0] -= 1
        self.parts = [(ticket, str(self.left[ticket][0])) for ticket in self.in_parts & self.left.keys()]
        done = [ticket for ticket, (left, _) in self.left.items() if left <= 0]
        return [(ticket, self.left.pop(ticket)[1]) for ticket in done]


class Counter(DecodingAnswerer):
    longest_answer = 100

    def __init__(self):
        super().__init__(AnswerSettings(task="generate"))
        self.most, self.broken, self.batches, self.tokens_each = 0, False, 0, 1
        self.gate = threading.Event()
        self.gate.set()

    def running(self):
        self.batches += 1
        return Countdown(self)

    def most_tokens(self, piece):
        return self.tokens_each

    def pieces(self, texts):
        return [[text] for text in texts]

    def joined(self, text, pieces, answers):
        return answers[0]


def job(answerer, *pieces, **more):
    return Job(answerer=answerer, pieces=pieces, finished=lambda error: None, **more)


def test_pieces_are_done_when_they_are_whatever_joined_before_them():
    running, counter = RunningJobs(), Counter()
    one, other = job(counter, "3", "1"), job(counter, "1")
    assert not [*running.add(one, 0), *running.add(one, 1), *running.add(other, 0)]
    assert running.step() == [(one, 1, "1"), (other, 0, "1")]
    assert running.pieces == 1
    assert [*running.step(), *running.step()] == [(one, 0, "3")]
    assert running.pieces == running.tokens == 0


def test_an_idle_batch_is_dropped_with_its_memory():
    running, counter = RunningJobs(), Counter()
    for _ in range(2):
        running.add(job(counter, "1"), 0)
        running.step()
    assert counter.batches == 2
    gone = job(counter, "5")
    running.add(gone, 0)
    gone.cancelled = True
    running.drop_cancelled()
    running.add(job(counter, "1"), 0)
    assert counter.batches == 4


def test_cancelled_jobs_leave_and_others_stay():
    running, counter = RunningJobs(), Counter()
    gone, kept = job(counter, "1", "1"), job(counter, "2")
    for each, place in ((gone, 0), (gone, 1), (kept, 0)):
        running.add(each, place)
    gone.cancelled = True
    assert running.drop_cancelled() == 2
    assert running.pieces == running.tokens == 1
    assert [*running.step(), *running.step()] == [(kept, 0, "2")]


def test_a_piece_that_cannot_join_fails_alone():
    running, counter = RunningJobs(), Counter()
    bad, good = job(counter, "refused"), job(counter, "1")
    [(failed, place, error)] = running.add(bad, 0)
    assert (failed, place) == (bad, 0)
    assert isinstance(error, ValueError)
    running.add(good, 0)
    assert running.step() == [(good, 0, "1")]


def test_a_broken_batch_fails_its_pieces_and_no_others():
    running, broken, other = RunningJobs(), Counter(), Counter()
    broken.broken = True
    lost, kept = job(broken, "1"), job(other, "1")
    running.add(lost, 0)
    running.add(kept, 0)
    found = {each: answer for each, _, answer in running.step()}
    assert isinstance(found[lost], MemoryError)
    assert found[kept] == "1"
    assert not running.pieces


@pytest.fixture
def scheduler():
    made = Scheduler(QueueLimits(requests=64, characters=10_000))
    yield made
    made.close(wait=True)


def submitted(scheduler, answerer, *pieces, **more):
    done, found = threading.Event(), {}

    def finished(error):
        found["error"] = error
        done.set()

    made = Job(answerer=answerer, pieces=pieces, answered=found.__setitem__, finished=finished, **more)
    scheduler.submit(made)
    return made, done, found


def test_a_request_joins_those_that_are_decoded_and_leaves_before_them(scheduler):
    counter = Counter()
    counter.gate.clear()
    long, long_done, _ = submitted(scheduler, counter, "100000000")
    _, short_done, found = submitted(scheduler, counter, "2")
    counter.gate.set()
    assert short_done.wait(10)
    assert found == {0: "2", "error": None}
    assert not long_done.is_set()
    assert counter.most == 2
    scheduler.cancel(long)


def test_a_cancelled_request_leaves_while_it_is_decoded(scheduler):
    counter = Counter()
    made, done, _ = submitted(scheduler, counter, "100000000")
    while not counter.most:
        time.sleep(0.001)
    scheduler.cancel(made)
    _, other, _ = submitted(scheduler, counter, "1")
    assert other.wait(10)
    for _ in range(1000):
        if not scheduler.busy:
            break
        time.sleep(0.01)
    assert not scheduler.busy
    assert not done.is_set()


def test_a_deadline_ends_a_request_while_it_is_decoded(scheduler):
    counter = Counter()
    _, done, found = submitted(scheduler, counter, "100000000", deadline=time.monotonic() + 0.2)
    assert done.wait(10)
    assert isinstance(found["error"], DeadlinePassed)


def test_an_answer_in_parts_comes_as_it_is_known_and_beside_others(scheduler):
    counter, parts = Counter(), []
    counter.gate.clear()
    _, done, found = submitted(scheduler, counter, "4", in_parts=True, part=parts.append)
    _, other, _ = submitted(scheduler, counter, "2")
    counter.gate.set()
    assert done.wait(10)
    assert other.wait(10)
    assert parts == ["3", "2", "1", "0"]
    assert found == {0: "4", "error": None}


def test_a_request_with_many_long_texts_does_not_hold_up_another(scheduler):
    counter = Counter()
    long, _, _ = submitted(scheduler, counter, *["100000000"] * (MOST_ROWS + 5))
    while counter.most < ROWS:
        time.sleep(0.001)
    _, done, found = submitted(scheduler, counter, "2")
    assert done.wait(10)
    scheduler.cancel(long)
    assert found == {0: "2", "error": None}
    assert counter.most == ROWS
    assert counter.batches == 2  # that of long requests, and that of short ones


class Clock:
    """A clock by which a step takes a second for each piece."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_long_requests_get_half_of_the_time_whatever_a_step_of_theirs_takes():
    clock = Clock()
    running, counter = RunningJobs(clock), Counter()
    steps = {True: 0, False: 0}

    class Timed(Countdown):
        def step(self):
            is_long = len(self.left) > MANY_PIECES
            steps[is_long] += 1
            clock.now += len(self.left)
            return super().step()

    counter.running = lambda: Timed(counter)
    many = job(counter, *["1000"] * 40)
    for number in range(40):
        running.add(many, number)
    for _ in range(3):
        running.step()
    assert steps == {True: 3, False: 0}  # alone they have all of it
    few = job(counter, "1000", "1000")
    for number in range(2):
        running.add(few, number)
    for _ in range(400):
        running.step()
    assert steps[False] == 400
    assert abs((steps[True] - 3) * 40 - steps[False] * 2) <= 40


def test_pieces_join_only_while_their_tokens_fit(scheduler):
    counter = Counter()
    counter.tokens_each = RUNNING_TOKENS // 3
    _, done, found = submitted(scheduler, counter, *"4321234")
    assert done.wait(10)
    assert [found[place] for place in range(7)] == [*"4321234"]
    assert counter.most == 3


def test_a_piece_that_needs_more_tokens_than_there_are_is_decoded_alone(scheduler):
    counter = Counter()
    counter.tokens_each = 2 * RUNNING_TOKENS
    _, done, _ = submitted(scheduler, counter, "2", "2")
    assert done.wait(10)
    assert counter.most == 1


def test_the_time_of_a_cancelled_request_is_not_that_of_the_next(scheduler):
    counter = Counter()
    before = dict(scheduler._seconds_per_character)
    made, _, _ = submitted(scheduler, counter, "100000000")
    time.sleep(0.3)
    scheduler.cancel(made)
    _, done, _ = submitted(scheduler, counter, "1")
    assert done.wait(10)
    time.sleep(0.05)
    assert scheduler._seconds_per_character[True] <= 2 * before[True]


def test_an_aborted_scheduler_refuses_what_is_not_answered():
    scheduler, counter = Scheduler(QueueLimits(requests=9, characters=1000)), Counter()
    _, done, found = submitted(scheduler, counter, "100000000")
    _, other, waiting = submitted(scheduler, counter, "100000000")
    while not counter.most:
        time.sleep(0.001)
    scheduler.abort()
    assert done.wait(1)
    assert other.wait(1)
    assert isinstance(found["error"], Closed)
    assert isinstance(waiting["error"], Closed)
    assert not scheduler.busy
    with pytest.raises(Closed):
        submitted(scheduler, counter, "1")


def test_a_broken_batch_and_one_that_nobody_could_join_leave_nothing_behind():
    running, counter = RunningJobs(), Counter()
    running.add(job(counter, "refused"), 0)
    running.add(job(counter, "1"), 0)
    assert counter.batches == 2, "the batch without a piece is dropped"
    counter.broken = True
    running.step()
    assert (running.pieces, running.tokens, running.jobs()) == (0, 0, set())
    counter.broken = False
    running.add(job(counter, "1"), 0)
    assert counter.batches == 3
    running.add(job(counter, "refused"), 0)
    running.add(job(counter, "1"), 0)
    assert counter.batches == 3, "a batch with a piece is kept when another is refused"


def test_pieces_are_counted_by_the_length_of_their_requests_and_by_step():
    running, counter = RunningJobs(Clock()), Counter()
    long = job(counter, *["2"] * (MANY_PIECES + 1))
    short = job(counter, "1", "2")
    for number in range(3):
        running.add(long, number)
    for number in range(2):
        running.add(short, number)
    assert running.stepped == 0
    assert running.pieces_by_length() == {True: 3, False: 2}
    assert (running.pieces, running.tokens, running.jobs()) == (5, 5, {long, short})
    running.step()
    assert (running.stepped, running.pieces) == (5, 4)
    running.step()
    assert (running.stepped, running.pieces) == (4, 0)
    running.step()
    assert running.stepped == 0


def test_jobs_expire_after_their_deadline():
    running, counter = RunningJobs(), Counter()
    one, other = job(counter, "1", deadline=5.0), job(counter, "1", deadline=6.0)
    running.add(one, 0)
    running.add(other, 0)
    assert running.expired(5.0) == set()
    assert running.expired(5.5) == {one}


@pytest.fixture
def still(monkeypatch):
    """A scheduler whose thread does nothing: the test takes its turns."""
    monkeypatch.setattr(Scheduler, "_run", lambda self: None)
    return Scheduler(QueueLimits(requests=1000, characters=100_000))


def test_a_piece_of_each_new_request_joins_before_more_pieces_of_those_that_have_begun(still):
    counter = Counter()
    few = [submitted(still, counter, "1", "1")[0] for _ in range(ROWS - 10)]
    taken = still._take_pieces()
    assert taken == [*((each, 0) for each in few), *((each, 1) for each in few[:10])]
    for each, number in taken:
        still._decoded.add(each, number)
    many = [submitted(still, counter, "1", "1")[0] for _ in range(MOST_ROWS - ROWS + 1)]
    assert still._take_pieces() == [(each, 0) for each in many[:-1]]
    assert all(each.started is not None for each in many[:-1])
    assert list(still._jobs)[: ROWS - 20] == few[10:], "who has begun waits for room"
    assert many[-1].started is None


def test_long_requests_and_short_ones_have_limits_of_their_own(still):
    counter = Counter()
    long = submitted(still, counter, *["1"] * (ROWS + 1))[0]
    short = submitted(still, counter, *["1"] * MANY_PIECES)[0]
    taken = still._take_pieces()
    assert sum(each is long for each, _ in taken) == ROWS
    assert sum(each is short for each, _ in taken) == MANY_PIECES
    assert list(still._jobs) == [long]


def test_the_tokens_that_are_decoded_may_fill_their_memory(still):
    counter = Counter()
    counter.tokens_each = RUNNING_TOKENS // 2
    asked = [submitted(still, counter, "1")[0] for _ in range(3)]
    assert still._take_pieces() == [(asked[0], 0), (asked[1], 0)]


def test_smaller_pieces_join_before_one_without_room_for_seconds_only(still, monkeypatch):
    now, counter = [1.0], Counter()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def joining():
        return [each for each, number in still._take_pieces() if still._decoded.add(each, number) == []]

    counter.most_tokens = lambda piece: sizes[piece]
    sizes = {"1": RUNNING_TOKENS // 2, "2": RUNNING_TOKENS * 3 // 4, "3": 1}
    first, large, small = (submitted(still, counter, piece)[0] for piece in "123")
    assert joining() == [first, small]
    now[0] += PASSED_SECONDS
    small = submitted(still, counter, "3")[0]
    assert joining() == [small]
    now[0] += 0.1
    late = submitted(still, counter, "3")[0]
    assert joining() == []
    while still._decoded.pieces:
        still._decoded.step()
    assert joining() == [large, late]
    assert large.no_room_since is None


def test_the_time_of_what_is_decoded_counts_from_one_answer_to_the_next(monkeypatch):
    """What the requests of a turn took is measured by the characters that are done, once."""
    now, measured = [0.0], []
    monkeypatch.setattr(Scheduler, "_run", lambda self: None)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    observer = Seen()
    scheduler, counter = Scheduler(observer=observer), Counter()
    monkeypatch.setattr(
        scheduler,
        "_measure",
        lambda seconds, size, *, decodes: measured.append((seconds, size)) if decodes else None,
    )
    step = scheduler._decoded.step

    def slowly():
        now[0] += 2.0
        return step()

    monkeypatch.setattr(scheduler._decoded, "step", slowly)
    jobs = [Job(answerer=counter, pieces=[piece], finished=lambda error: None) for piece in ("2", "3")]
    scheduler._decode([(job, job.take()) for job in jobs])
    assert (scheduler._spent, measured) == (2.0, [])
    scheduler._decode([])
    assert (scheduler._spent, measured) == (0.0, [(4.0, jobs[0].sizes[0])])
    assert observer.batches == [(2, 2.0), (2, 2.0)]
    scheduler._decode([])
    assert (scheduler._spent, measured[1:]) == (0.0, [(2.0, jobs[1].sizes[0])])
    scheduler._spent = 7.0  # of pieces that were cancelled
    scheduler._decode([])
    assert (scheduler._spent, len(measured)) == (0.0, 2)


def test_the_time_of_what_is_decoded_starts_again_when_a_request_is_cancelled(still):
    job = submitted(still, Counter(), "5")[0]
    still._decode(still._take_pieces())
    still._spent = 7.0
    assert still._take_pieces() == []
    assert still._spent == 7.0
    job.cancelled = True
    assert still._take_pieces() == []
    assert still._spent == 0.0


def test_long_requests_advance_when_short_ones_have_had_as_much_time():
    now = [0.0]

    class Timed(RunningJobs):
        """A step of long requests takes four seconds, one of short requests half a second."""

        def _advanced(self, key):
            now[0] += 4.0 if key[1] else 0.5
            return super()._advanced(key)

    jobs, counter = Timed(lambda: now[0]), Counter()
    for count in (MANY_PIECES + 1, 1):
        job = Job(answerer=counter, pieces=["100"] * count, finished=lambda error: None)
        assert jobs.add(job, job.take()) == []
        if count > 1:
            assert jobs.step() == []  # alone: its time does not count
    stepped = []
    for _ in range(17):
        assert jobs.step() == []
        stepped.append(jobs.stepped)
    assert stepped == [2, *[1] * 7, 2, *[1] * 7, 2]
