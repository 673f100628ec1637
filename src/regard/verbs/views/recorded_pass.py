"""The recorded pass of a run: it runs on first use, and all resources share it."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.inspection.passes import AttentionSite, attention_sites
from regard.inspection.record import blocks, record_model
from regard.inspection.recording import Recorded, Recording
from regard.layers.kernels import has_own_kernel
from regard.verbs.views.inspected_run import InspectedRun

Resource = dict | list | np.ndarray
ResourceFunction = Callable[[], Resource]


class RecordedPass:
    """A run, its attentions, and the recording of its forced pass.

    The recording has queries, keys, values and masks, but no weights, whose memory grows with the square of
    the length: `weights` computes those of one attention. Weights are recorded of the attentions whose kernel
    is not one of regard's; `no_weights` has those of them that have no weights.
    """

    def __init__(self, run: InspectedRun) -> None:
        self.run = run
        self.model = run.forced.model
        self.sites: dict[str, AttentionSite] = {site.name: site for site in attention_sites(self.model)}
        self.blocks = blocks(self.model) if self.has_keys else []  # a recurrent decoder has no blocks

    @cached_property
    def recording(self) -> Recording:
        """The recording of the forced pass."""
        parts = {name: self._parts_of(name) for name in self.sites}
        recorder = record_model(self.model, parts=parts, hidden=self.blocks, require_weights=False)
        with torch.no_grad(), recorder as recording:
            self._output = self.run.forced()
        return recording

    def _parts_of(self, name: str) -> tuple[Recorded, ...]:
        """The parts of one attention that are recorded: its weights only if nothing else gives them."""
        if not self.has_keys:
            return ("weights", "mask")
        if self.has_own_kernel(name):
            return ("value", "mask", "weights")
        return ("query", "key", "value", "mask", "bias")

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

    @cached_property
    def no_weights(self) -> dict[str, str]:
        """The attentions without weights, which are not weighted means of their values, and why.

        The pass runs for it only if a kernel is not one of regard's.
        """
        return dict(self.recording.no_weights) if any(map(self.has_own_kernel, self.sites)) else {}

    @property
    def shown_sites(self) -> list[AttentionSite]:
        """The attentions that have weights."""
        return [site for site in self.sites.values() if site.name not in self.no_weights]

    @property
    def writes(self) -> bool:
        """True if the model generates tokens."""
        return "written" in self.run.sequences

    @property
    def logits(self) -> Float[Tensor, "written vocab"]:
        """The logits of each written token."""
        return self.output[0]

    def weights(self, name: str) -> Float[Tensor, "heads rows columns"]:
        """The weights of one attention.

        Raises:
            ConfigError: it is one of `no_weights`.
        """
        return self.recording.weights(name)


def to_array(tensor: Tensor, kind: str = "float32") -> np.ndarray:
    """A tensor as a contiguous little-endian array of this type."""
    return np.ascontiguousarray(tensor.detach().cpu().numpy().astype(f"<{np.dtype(kind).str[1:]}"))
