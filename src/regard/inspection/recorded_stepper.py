"""A stepper that tracks which rows a search keeps, so that each hypothesis has its own recording."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.decoding.step import CacheStepper, Stepper, multiple_of
from regard.errors import ConfigError
from regard.inspection.recording import Recording, RowPosition


class RecordedStepper:
    """A stepper that passes row selections and ids of a search on to a recording of its model.

    Log-probabilities may differ in the last bits from those without a recording, because a recorded model has
    no fast step (see record.py).
    """

    def __init__(self, stepper: Stepper, recording: Recording) -> None:
        self.stepper, self.recording = stepper, recording
        self.step_ids: list[tuple[int, Int64[Tensor, " rows"]]] = []  # time and input ids of each step

    @property
    def multiple(self) -> int:
        """The number of rows of a batch is a multiple of this."""
        return multiple_of(self.stepper)

    def start(self, src_ids: Int64[Tensor, "rows src_len"], src_lengths: Int64[Tensor, " rows"]) -> None:
        """Start a search and clear the recording of the one before."""
        self.recording.clear()
        self.step_ids.clear()
        self.stepper.start(src_ids, src_lengths)

    def step(self, ids: Int64[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        self._record_step(ids)
        return self.stepper.step(ids)

    def select(self, rows: Int64[Tensor, " new_rows"]) -> None:
        self.recording.select_rows(rows)
        self.stepper.select(rows)

    def row_position(self, ids: Sequence[int], sentence: int = 0) -> RowPosition:
        """The row of the hypothesis of this sentence that has read `ids`, beginning token included.

        Raises:
            ConfigError: no hypothesis of this search has read them.
        """
        wanted = list(ids)
        if 0 < len(wanted) <= len(self.step_ids):
            steps = self.step_ids[: len(wanted)]
            time, last_ids = steps[-1]
            rows = torch.arange(len(last_ids))
            histories = torch.stack(  # [rows, steps]: the ids that each row has read
                [step_ids[self.recording.rows_at(rows, time, step_time)] for step_time, step_ids in steps],
                dim=1,
            )
            sentences = self.recording.rows_at(rows, time, 0)  # at the start row i is sentence i
            matches = (histories == torch.tensor(wanted)).all(dim=1) & (sentences == sentence)
            if matches.any():
                return RowPosition(int(matches.nonzero()[0]), time)
        raise ConfigError(
            f"no hypothesis has read {wanted}", "give the ids in order, with the beginning-of-sequence id"
        )

    def _record_step(self, ids: Int64[Tensor, " rows"]) -> None:
        self.step_ids.append((self.recording.begin_step(), ids.detach().cpu().clone()))


class RecordedLogitStepper(RecordedStepper):
    """A `RecordedStepper` whose stepper also gives logits."""

    stepper: CacheStepper

    def logits(self, ids: Int64[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        self._record_step(ids)
        return self.stepper.logits(ids)


def recording_stepper(stepper: Stepper, recording: Recording) -> RecordedStepper:
    """`stepper`, wrapped to report to `recording`; use it inside the `with` of `record_model`."""
    kind = RecordedLogitStepper if isinstance(stepper, CacheStepper) else RecordedStepper
    return kind(stepper, recording)
