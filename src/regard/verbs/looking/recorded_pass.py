"""One watched pass of a run, made when it is first asked for, shared by all that asks."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.inspection.passes import AttentionSite, places
from regard.inspection.record import blocks, record
from regard.inspection.recording import Recording
from regard.layers.scaled_dot_product import attention_weights
from regard.verbs.looking.inspected_run import InspectedRun

Resource = dict | list | np.ndarray
Maker = Callable[[], Resource]


class RecordedPass:
    """A run, its attentions, and what was heard in its forced pass.

    Kept are queries, keys, values and masks, which are small, and not weights, which grow with the square of
    the length: those of one attention are computed of them when they are asked for.
    """

    def __init__(self, run: InspectedRun) -> None:
        self.run = run
        self.model = run.forced.model
        self.places: dict[str, AttentionSite] = {place.name: place for place in places(self.model)}
        self.blocks = blocks(self.model) if self.has_keys else []  # a recurrent decoder has steps, no blocks

    @cached_property
    def recording(self) -> Recording:
        parts = ("query", "key", "value", "mask", "bias") if self.has_keys else ("weights", "mask")
        with torch.no_grad(), record(self.model, parts=parts, hidden=self.blocks) as recording:
            self._output = self.run.forced()
        return recording

    @cached_property
    def output(self) -> Tensor:
        """What the model gave in that pass: logits of what is written, or what an encoder's head says."""
        _ = self.recording
        return self._output

    @property
    def bytes_held(self) -> int:
        """Of the recording and the model's output, if they are there yet."""
        made: Recording | None = self.__dict__.get("recording")
        return 0 if made is None else made.bytes_held + self._output.nbytes

    def forget(self) -> None:
        """Let the recording go; whoever needs it next runs the pass again."""
        self.__dict__.pop("recording", None)

    @property
    def has_keys(self) -> bool:
        """Whether attentions compare queries with keys; a recurrent decoder's does it in its own way."""
        return self.run.loaded.config.kind != "recurrent"

    @property
    def writes(self) -> bool:
        return "written" in self.run.sequences

    @property
    def logits(self) -> Float[Tensor, "written vocab"]:
        """Of each token written."""
        return self.output[0]

    def weights(self, name: str) -> Float[Tensor, "heads rows columns"]:
        """How much each row of an attention looks at each column."""
        heard = self.recording
        if not self.has_keys:
            return heard.weights(name)
        found = [heard.query(name), heard.key(name), heard.mask(name)]
        query, key, mask = (each[None] for each in found)
        bias = heard.bias(name)
        return attention_weights(query, key, mask, None if bias is None else bias[None])[0]


def array(tensor: Tensor, kind: str = "float32") -> np.ndarray:
    """A tensor as it travels."""
    return np.ascontiguousarray(tensor.detach().cpu().numpy().astype(f"<{np.dtype(kind).str[1:]}"))
