"""The recorded pass of a run: it runs on first use, and all resources share it."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.inspection.passes import AttentionSite, attention_sites
from regard.inspection.record import blocks, record_model
from regard.inspection.recording import Recording
from regard.layers.kernels import has_own_kernel
from regard.verbs.views.inspected_run import InspectedRun

Resource = dict | list | np.ndarray
ResourceFunction = Callable[[], Resource]


class RecordedPass:
    """A run, its attentions, and the recording of its forced pass.

    The recording has queries, keys, values and masks, but no weights, whose memory grows with the square of
    the length: `weights` computes those of one attention. Weights are recorded if an attention has a kernel
    that is none of regard's.
    """

    def __init__(self, run: InspectedRun) -> None:
        self.run = run
        self.model = run.forced.model
        self.sites: dict[str, AttentionSite] = {site.name: site for site in attention_sites(self.model)}
        self.blocks = blocks(self.model) if self.has_keys else []  # a recurrent decoder has no blocks

    @cached_property
    def recording(self) -> Recording:
        """The recording of the forced pass."""
        parts = ("query", "key", "value", "mask", "bias") if self.has_keys else ("weights", "mask")
        if self.has_keys and any(map(self.has_own_kernel, self.sites)):
            parts = (*parts, "weights")
        with torch.no_grad(), record_model(self.model, parts=parts, hidden=self.blocks) as recording:
            self._output = self.run.forced()
        return recording

    @cached_property
    def output(self) -> Tensor:
        """The model's output: logits of the written tokens, or the output of an encoder's head."""
        _ = self.recording
        return self._output

    @property
    def bytes_held(self) -> int:
        """The memory of the recording and the model's output; 0 before the first use."""
        recording: Recording | None = self.__dict__.get("recording")
        return 0 if recording is None else recording.bytes_held + self._output.nbytes

    def forget(self) -> None:
        """Delete the recording; the next use runs the pass again."""
        self.__dict__.pop("recording", None)

    @property
    def has_keys(self) -> bool:
        """True if attentions have queries and keys; those of a recurrent decoder do not."""
        return self.run.loaded.config.kind != "recurrent"

    def has_own_kernel(self, name: str) -> bool:
        """True if the weights of this attention are not regard's softmax of its scores."""
        return has_own_kernel(self.model.get_submodule(name))

    @property
    def writes(self) -> bool:
        """True if the model generates tokens."""
        return "written" in self.run.sequences

    @property
    def logits(self) -> Float[Tensor, "written vocab"]:
        """The logits of each written token."""
        return self.output[0]

    def weights(self, name: str) -> Float[Tensor, "heads rows columns"]:
        """The weights of one attention."""
        return self.recording.weights(name)


def to_array(tensor: Tensor, kind: str = "float32") -> np.ndarray:
    """A tensor as a contiguous little-endian array of this type."""
    return np.ascontiguousarray(tensor.detach().cpu().numpy().astype(f"<{np.dtype(kind).str[1:]}"))
