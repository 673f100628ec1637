"""Connectionist temporal classification (Graves et al. 2006): a loss for unaligned labels."""

from dataclasses import dataclass

import torch.nn.functional as F

from regard.data.transcriptions import TranscriptionBatch
from regard.models.conformer import Conformer
from regard.training.objective import Loss


@dataclass(frozen=True, kw_only=True)
class TemporalClassification:
    """The CTC loss: minus the log-probability of the labels, summed over all alignments; in nats per label.

    The target of a sequence without labels is blanks only. A sequence that is too short for its labels would
    have an infinite loss. `data/transcriptions.py` refuses such sequences; PyTorch's `zero_infinity` would
    hide them.
    """

    def __call__(self, model: Conformer, batch: TranscriptionBatch) -> Loss:
        log_probs = F.log_softmax(model(*batch.inputs).float(), dim=-1)
        nll = F.ctc_loss(
            log_probs.transpose(0, 1),
            batch.labels,
            model.subsampled(batch.frame_lengths),
            batch.label_lengths,
            blank=0,
            reduction="sum",
            zero_infinity=False,
        )
        return Loss(total=nll, nll=nll.detach(), num_targets=batch.num_targets)
