"""Workers answer as this process alone does, in order; what goes wrong in one is told here."""

import os
import signal
import time

import pytest
import torch

from regard.decoding.batches import Decoder, decode_all
from regard.decoding.pool import Pool
from regard.decoding.sampling import Sampling
from regard.decoding.search import BeamSearch
from regard.errors import DataError, RunError
from regard.models.build import build
from regard.models.encoder_decoder import EncoderDecoderConfig


@pytest.fixture
def pool_of():
    started = []

    def start(call, size=2):
        started.append(Pool(call, size))
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
    assert pool.map([1, 2, 4, 5]) == [1, 2, 4, 5]  # and it goes on


def test_a_worker_that_is_killed_is_told_of(pool_of):
    pool = pool_of(square)
    other = next(process for _, process in pool.map(list(range(20))) if process != os.getpid())
    os.kill(other, signal.SIGKILL)
    with pytest.raises(RunError, match="a worker ended"):
        pool.map(list(range(20)))


def test_this_process_has_its_threads_back(pool_of):
    threads = torch.get_num_threads()
    assert pool_of(threads_there).map([0] * 8) == [1] * 8
    assert torch.get_num_threads() == threads


def threads_there(_):
    time.sleep(0.01)
    return torch.get_num_threads()


@pytest.mark.parametrize("search", [BeamSearch(beam_size=3), Sampling(seed=3, n_best=2)])
def test_shared_batches_give_the_same_hypotheses(pool_of, search):
    config = EncoderDecoderConfig.from_table(
        {"d_model": 32, "num_heads": 2, "d_ff": 32, "num_encoder_layers": 1, "num_decoder_layers": 1},
        src_vocab_size=90,
        tgt_vocab_size=90,
    )
    model = build(config, 1)
    generator = torch.Generator().manual_seed(1)
    sources = [torch.randint(4, 90, (1 + n % 9,), generator=generator).tolist() for n in range(40)]
    pool = pool_of(Decoder(search, [model]))
    shared, alone = decode_all(search, model, sources, pool=pool), decode_all(search, model, sources)
    assert [[each.ids for each in hypotheses] for hypotheses in shared] == [
        [each.ids for each in hypotheses] for hypotheses in alone
    ]
    scores = [[each.score for hypotheses in found for each in hypotheses] for found in (shared, alone)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)
