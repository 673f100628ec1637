"""Connectionist temporal classification (Graves et al. 2006): labels of which none says when."""

from dataclasses import dataclass

import torch.nn.functional as F

from regard.data.transcriptions import TranscriptionBatch
from regard.models.conformer import Conformer
from regard.training.objective import Loss


@dataclass(frozen=True, kw_only=True)
class TemporalClassification:
    """Minus the log-probability of the labels, summed over all alignments that say them; nats per label.

    A sequence without labels is to be all blanks. Labels that need more positions than a sequence has
    could not be said by any alignment: their loss would be infinite. `data/transcriptions.py` refuses
    such sequences, so no loss is set to zero here (PyTorch's `zero_infinity`), which would hide them.
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
