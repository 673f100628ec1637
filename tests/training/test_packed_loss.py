"""An update of pairs without padding is that of the padded batch, on a CPU that is taken for a GPU.

Plain functions stand for the kernels of attention and of the loss.
"""

from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.data.batch import IGNORED
from regard.data.process_share import EmptyShare
from regard.distributed.replicated import ReplicatedModel
from regard.errors import UserError
from regard.fast.half_copies import copies_are_used
from regard.fast.training import fused
from regard.training import gradients as gradients_file
from regard.training import packed_loss
from regard.training.gradients import Gradients
from regard.training.objective import CrossEntropy
from regard.training.prefetch import prepared_for_gpu
from regard.training.share_objective import ShareObjective
from tests.data.test_packed_pairs import PAD, batch_of
from tests.fast.test_packed_training import LENGTHS, gpu, model_of

__all__ = ["gpu"]
CPU = torch.device("cpu")


@pytest.fixture
def computed(monkeypatch):
    """Gradients on a CPU that is taken for a GPU, and how many passes had no padding."""
    counts, usual = [], Gradients._packed_pass_of
    monkeypatch.setattr(gradients_file, "is_asynchronous", lambda device: True)
    monkeypatch.setattr(packed_loss, "has_loss_of", lambda _: True)
    monkeypatch.setattr(packed_loss, "linear_cross_entropy", counted_loss)
    monkeypatch.setattr(
        Gradients, "_packed_pass_of", lambda self, packed: (counts.append(1), usual(self, packed))[1]
    )

    def compute(model, batch, objective=None):
        counts.clear()
        objective = objective or CrossEntropy(smoothing=0.1, pad_id=PAD)
        model.zero_grad()
        with fused(model):
            gradients = Gradients(ReplicatedModel(model), objective, CPU, "float32")
            sums = gradients.compute([batch], model.zero_grad)
        return sums, [weight.grad.clone() for weight in model.parameters()], len(counts)

    return compute


def counted_loss(states, output, labels, smoothing):
    """The loss of labels that are not IGNORED, as the kernel computes it."""
    logits = output(states)
    return tuple(
        nn.functional.cross_entropy(
            logits, labels, reduction="sum", label_smoothing=each, ignore_index=IGNORED
        )
        for each in (smoothing, 0.0)
    )


def test_an_update_is_that_of_the_padded_batch(computed):
    model, batch = model_of(), prepared_for_gpu(batch_of(LENGTHS), PAD)
    sums, found, count = computed(model, batch)
    expected_sums, expected, none = computed(model, replace(batch, packed=None))
    assert (count, none) == (1, 0)
    assert sums[1:].tolist() == expected_sums[1:].tolist()
    torch.testing.assert_close(sums, expected_sums)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-3)


def test_a_batch_or_an_objective_that_cannot_be_packed_is_padded(computed, monkeypatch):
    class Mine:
        ignored = PAD

        def __call__(self, model, batch):
            return own(CrossEntropy(pad_id=PAD), model, batch)

    own = CrossEntropy.__call__

    batch = prepared_for_gpu(batch_of(LENGTHS), PAD)
    assert computed(model_of(positions="alibi"), batch)[2] == 0
    assert computed(model_of(src_vocab_size=64, tgt_vocab_size=64), batch)[2] == 0, (
        "no more classes than dimensions"
    )
    assert computed(model_of(), prepared_for_gpu(batch_of([(200, 3)]), PAD))[2] == 0
    assert computed(model_of(), batch_of(LENGTHS))[2] == 0
    assert computed(model_of(), batch, Mine())[2] == 0
    monkeypatch.setattr(CrossEntropy, "__call__", Mine.__call__)
    assert computed(model_of(), batch)[2] == 0


def test_the_objective_of_a_share_is_packed_unless_the_share_is_empty(computed):
    """As `regard train` has it."""
    batch, objective = prepared_for_gpu(batch_of(LENGTHS), PAD), CrossEntropy(smoothing=0.1, pad_id=PAD)
    sums, found, count = computed(model_of(), batch, ShareObjective(objective))
    expected_sums, expected, _ = computed(model_of(), batch, objective)
    assert count == 1
    assert torch.equal(sums, expected_sums)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    empty_sums, _, none = computed(model_of(), EmptyShare(batch), ShareObjective(objective))
    assert none == 0
    assert empty_sums[:2].tolist() == [0, 0]


def test_a_model_without_trained_weights_is_refused_by_name(computed):
    model, batch = model_of(), prepared_for_gpu(batch_of(LENGTHS), PAD)
    with pytest.raises(UserError, match="has no gradient"):
        computed(model.requires_grad_(False), batch)


def test_tensors_come_with_copies_only_where_nobody_asks_for_their_gradients(computed, monkeypatch):
    """A gradient of the tensor itself would lack what comes by its copy."""
    found = []

    def noted(*given):
        found.append(copies_are_used())
        return counted_loss(*given)

    class Mine:
        ignored = PAD

        def __call__(self, model, batch):
            found.append(copies_are_used())
            return CrossEntropy(pad_id=PAD)(model, batch)

    monkeypatch.setattr(packed_loss, "linear_cross_entropy", noted)
    batch = prepared_for_gpu(batch_of(LENGTHS), PAD)
    computed(model_of(), batch)
    computed(model_of(), batch, Mine())
    assert found == [True, False]
