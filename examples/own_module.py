"""Any `nn.Module`: trained by regard's loop with a loss of one's own, decoded by its beam search.

    python examples/own_module.py

The module here is a bigram model: the next token depends on the one before, and on nothing else.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.data import TensorBatch, TensorExamples
from regard.decoding import BeamSearch, LengthLimits, decode
from regard.training import Loss, ScheduleSettings, TrainingSettings, fit
from regard.weights import RunFolder

PAD, BOS, EOS = 0, 2, 3


class Bigram(nn.Module):
    """Token -> logits of the next one."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.logits = nn.Embedding(vocab_size, vocab_size)

    def forward(self, ids: Int64[Tensor, "batch len"]) -> Float[Tensor, "batch len vocab"]:
        return self.logits(ids)


def focal(model: Bigram, batch: TensorBatch) -> Loss:
    """Focal loss (Lin et al. 2017): targets that are likely already count little."""
    logits, labels = model(*batch.inputs).flatten(0, 1), batch.labels.flatten()
    nll = F.cross_entropy(logits, labels, reduction="none")
    return Loss(total=((1 - (-nll).exp()) ** 2 * nll).sum(), nll=nll.sum(), num_targets=len(labels))


if __name__ == "__main__":
    alphabet = torch.tensor([BOS, *range(4, 14), EOS])  # the only text: all letters in order
    texts = alphabet.repeat(64, 1)
    model = Bigram(14)
    schedule = ScheduleSettings(kind="constant", learning_rate=0.1, warmup_steps=1)
    settings = TrainingSettings(max_steps=100, validate_every=50, save_every=50, schedule=schedule)
    fit(model, TensorExamples(texts[:, :-1], texts[:, 1:]), "runs/bigram", objective=focal, settings=settings)

    best = RunFolder("runs/bigram").best()  # the weights with the best validation, which may not be the last
    assert best is not None
    model.load_state_dict(best.read_tensors("model.safetensors"))
    search = BeamSearch(size=3, n_best=2, bos_id=BOS, eos_id=EOS, limits=LengthLimits(offset=20))
    nothing, none = torch.full((1, 1), EOS), torch.ones(1, dtype=torch.int64)  # there is no source
    [found] = decode(lambda src_ids, src_lengths, tgt_ids: model(tgt_ids), nothing, none, search)
    for hypothesis in found:
        print(f"{hypothesis.score:.3f}", "".join(chr(ord("a") + token - 4) for token in hypothesis.ids))
