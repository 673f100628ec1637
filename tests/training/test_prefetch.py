"""Batches that a thread reads ahead are those that are read one by one; its errors reach the training."""

import threading

import pytest
import torch

from regard.data import LoaderSettings, TensorExamples
from regard.data.loader import Loader
from regard.data.process_share import EmptyShare
from regard.training import prefetch
from regard.training.prefetch import BatchReader, prepared_for_gpu

CPU = torch.device("cpu")


def loader():
    inputs = torch.arange(40.0)[:, None]
    labels = torch.arange(40) % 3
    return Loader(TensorExamples(inputs, labels), LoaderSettings(batch_examples=5), seed=1)


def updates(reader, count):
    found = [reader.next() for _ in range(count)]
    reader.close()
    return [([batch.lines.tolist() for batch in each.batches], each.cursor) for each in found]


@pytest.fixture
def queued(monkeypatch):
    """The processor as a device with a queue, for which a thread reads ahead."""
    monkeypatch.setattr(prefetch, "is_asynchronous", lambda device: True)


def test_each_update_has_so_many_batches_and_the_cursor_after_them():
    found = updates(BatchReader(loader(), 2, CPU, None), 6)
    assert all(len(batches) == 2 for batches, _ in found)
    assert len({str(cursor) for _, cursor in found}) == 6


def test_batches_that_are_read_ahead_are_the_same(queued):
    expected = updates(BatchReader(loader(), 2, CPU, None), 6)
    reader = BatchReader(loader(), 2, CPU, None)
    threads = [thread for thread in threading.enumerate() if thread.name == "batches"]
    assert len(threads) == 1
    assert threads[0].daemon, "it may not keep the process alive"
    assert updates(reader, 6) == expected
    assert not threads[0].is_alive(), "a closed reader reads no more"


def test_an_error_of_the_reading_thread_is_raised_in_the_training(queued):
    class Broken(Loader):
        def __iter__(self):
            raise OSError("the disk is gone")

    examples = TensorExamples(torch.zeros(4, 1), torch.zeros(4, dtype=torch.int64))
    reader = BatchReader(Broken(examples, LoaderSettings(batch_examples=2), seed=1), 1, CPU, None)
    with pytest.raises(OSError, match="the disk is gone"):
        reader.next()
    reader.close()


def test_labels_that_count_are_found_before_a_gpu_needs_them():
    batch = next(iter(loader()))
    places = (batch.labels != 1).nonzero().flatten()
    prepared = prepared_for_gpu(batch, 1)
    assert torch.equal(prepared.targets, places)
    assert torch.equal(prepared_for_gpu(EmptyShare(batch), 1).other.targets, places)
    assert prepared_for_gpu(batch, None).targets is None
    assert prepared_for_gpu("another batch", 1) == "another batch"
