"""The batches of each update, on the model's device.

For a GPU a thread reads them ahead, into page-locked memory, so that the GPU need not wait for them.
"""

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from regard.data.batch import IGNORED, Batch, PairBatch, RowBatch, are_targets
from regard.data.loader import Loader
from regard.data.packed_pairs import PackedPairs, packed_pairs
from regard.data.process_share import EmptyShare
from regard.fast.fusible import LONGEST
from regard.training.numbers import is_asynchronous

AHEAD = 2  # updates whose batches are read ahead
PAUSE = 0.1  # seconds after which a thread that waits for room looks whether it should end


@dataclass(frozen=True, kw_only=True)
class UpdateBatches:
    """The batches of one update, and the loader's cursor after them."""

    batches: list[Batch]
    cursor: dict[str, int]

    def to(self, device: torch.device) -> "UpdateBatches":
        return replace(self, batches=[batch.to(device) for batch in self.batches])


class BatchReader:
    """Reads the batches of one update after another, `accumulate` each, from the loader's cursor on.

    `ignored` is the label that the objective ignores, if it is known. Close the reader before the loader's
    cursor is set.
    """

    def __init__(self, loader: Loader, accumulate: int, device: torch.device, ignored: int | None) -> None:
        self._loader, self._accumulate, self._device, self._ignored = loader, accumulate, device, ignored
        self._ended = threading.Event()
        self._ready: queue.Queue[UpdateBatches | BaseException] = queue.Queue(AHEAD)
        self._here = self._read()
        self._thread: threading.Thread | None = None
        if is_asynchronous(device):
            self._thread = threading.Thread(target=self._read_ahead, name="batches", daemon=True)
            self._thread.start()

    def next(self) -> UpdateBatches:
        """The next update's batches, on the device."""
        if self._thread is None:
            return next(self._here).to(self._device)
        found = self._ready.get()
        if isinstance(found, BaseException):
            raise found
        return found.to(self._device)

    def close(self) -> None:
        """Ends the reading ahead; the loader's cursor may then be set."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _read(self) -> Iterator[UpdateBatches]:
        batches = iter(self._loader)
        while True:
            group = [next(batches) for _ in range(self._accumulate)]
            yield UpdateBatches(batches=group, cursor=self._loader.cursor.to_dict())

    def _read_ahead(self) -> None:
        try:
            for group in self._here:
                prepared = [prepared_for_gpu(batch, self._ignored) for batch in group.batches]
                if not self._put(replace(group, batches=prepared)):
                    return
        except BaseException as error:  # noqa: BLE001, the training thread raises it
            self._put(error)

    def _put(self, found: UpdateBatches | BaseException) -> bool:
        """False if the reader was closed meanwhile."""
        while not self._ended.is_set():
            try:
                self._ready.put(found, timeout=PAUSE)
            except queue.Full:
                continue
            return True
        return False


def prepared_for_gpu(batch: Any, ignored: int | None) -> Any:
    """The batch with what was computed from it for a GPU, in page-locked memory if there is one.

    These are the places of the labels that count, and pairs without padding.
    """
    if isinstance(batch, EmptyShare):
        return EmptyShare(prepared_for_gpu(batch.other, ignored))
    if not isinstance(batch, RowBatch):
        return batch
    labels = getattr(batch, "labels", None)
    if ignored is not None and isinstance(labels, torch.Tensor):
        batch = replace(batch, targets=are_targets(labels.flatten(), ignored).nonzero().flatten())
    if ignored is not None and type(batch) is PairBatch:  # a subclass may have other inputs or labels
        batch = replace(batch, packed=_packed(batch, ignored))
    return batch.pinned() if torch.cuda.is_available() else batch


def _packed(batch: PairBatch, pad_id: int) -> PackedPairs | None:
    return packed_pairs(
        batch.src_ids,
        batch.src_lengths,
        batch.tgt_ids,
        batch.tgt_lengths,
        pad_id=pad_id,
        ignored=IGNORED,
        longest=LONGEST,
    )
