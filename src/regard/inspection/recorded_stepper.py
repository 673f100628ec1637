"""Follows the rows of a search: each hypothesis of a beam has its own picture, dropped ones too."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.decoding.step import CacheStepper, Stepper, multiple_of
from regard.errors import ConfigError
from regard.inspection.recording import Recording, RowPosition


class RecordedStepper:
    """A stepper that tells a recording of its model which rows a search moves, and what it says in each.

    Rows come in the multiples that they come in without a recording: what is found may differ in last bits.
    """

    def __init__(self, stepper: Stepper, recording: Recording) -> None:
        self.stepper, self.recording = stepper, recording
        self.said: list[tuple[int, Int64[Tensor, " rows"]]] = []  # moment and last tokens of each step

    @property
    def multiple(self) -> int:
        return multiple_of(self.stepper)

    def start(self, src_ids: Int64[Tensor, "rows src_len"], src_lengths: Int64[Tensor, " rows"]) -> None:
        """A search begins: what was heard before belongs to another one."""
        self.recording.forget()
        self.said.clear()
        self.stepper.start(src_ids, src_lengths)

    def step(self, ids: Int64[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        self._say(ids)
        return self.stepper.step(ids)

    def select(self, rows: Int64[Tensor, " new_rows"]) -> None:
        self.recording.moved(rows)
        self.stepper.select(rows)

    def seat(self, ids: Sequence[int], sentence: int = 0) -> RowPosition:
        """Where the hypothesis sat that has read these ids, the beginning mark first; of which sentence.

        Raises:
            ConfigError: no hypothesis of this search has read them.
        """
        wanted = list(ids)
        if 0 < len(wanted) <= len(self.said):
            moment, last = self.said[len(wanted) - 1]
            rows = torch.arange(len(last))
            read = torch.stack(
                [said[self.recording.rows_at(rows, moment, when)] for when, said in self.said[: len(wanted)]],
                dim=1,
            )
            sentences = self.recording.rows_at(rows, moment, 0)
            found = (read == torch.tensor(wanted)).all(dim=1) & (sentences == sentence)
            if found.any():
                return RowPosition(int(found.nonzero()[0]), moment)
        raise ConfigError(
            f"no hypothesis has read {wanted}", "give the ids with the beginning mark, in order"
        )

    def _say(self, ids: Int64[Tensor, " rows"]) -> None:
        self.said.append((self.recording.stepped(), ids.detach().cpu().clone()))


class RecordedLogitStepper(RecordedStepper):
    """The same for a model that tells logits."""

    stepper: CacheStepper

    def logits(self, ids: Int64[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        self._say(ids)
        return self.stepper.logits(ids)


def recorded(stepper: Stepper, recording: Recording) -> RecordedStepper:
    """`stepper`, which tells `recording` what a search does; to be used inside the `with` of `record`."""
    kind = RecordedLogitStepper if isinstance(stepper, CacheStepper) else RecordedStepper
    return kind(stepper, recording)
