"""CTC agrees with a sum over all alignments; padding changes nothing; too short inputs are not hidden."""

import itertools
import math

import numpy as np
import pytest
import torch

from regard.data.transcriptions import Recordings, TranscriptionExamples
from regard.decoding.ctc import collapsed
from regard.models.build import build_model
from regard.models.conformer import Conformer, ConformerConfig
from regard.training.ctc import TemporalClassification
from regard.training.objective import Objective

TEXTS = (("a", "b"), ("b", "b"), (), ("a",))


@pytest.fixture
def model() -> Conformer:
    config = ConformerConfig(
        num_features=3,
        num_labels=3,
        d_model=8,
        num_heads=2,
        d_ff=16,
        num_layers=1,
        kernel_size=3,
        subsampling="stacked",
        subsampling_factor=2,
    )
    model = build_model(config, seed=0)
    assert isinstance(model, Conformer)
    return model.eval()


@pytest.fixture
def examples() -> TranscriptionExamples:
    draw = np.random.default_rng(0)
    frames = tuple(draw.normal(size=(length, 3)).astype(np.float32) for length in (8, 7, 4, 2))
    return TranscriptionExamples(Recordings(frames=frames, texts=TEXTS, name="test"), ("", "a", "b"))


def test_the_loss_is_minus_the_log_of_the_sum_over_alignments(model, examples):
    batch = examples.batch(np.arange(4), 0)
    loss = TemporalClassification()(model, batch)
    assert isinstance(TemporalClassification(), Objective)
    log_probs = model(*batch.inputs).log_softmax(-1)
    expected = 0.0
    for row, positions in enumerate(model.subsampled(batch.frame_lengths).tolist()):
        total = sum(
            math.exp(sum(log_probs[row, t, label].item() for t, label in enumerate(alignment)))
            for alignment in itertools.product(range(3), repeat=positions)
            if collapsed(alignment) == tuple(examples.numbers[row])
        )
        expected -= math.log(total)
    assert loss.total.item() == pytest.approx(expected, rel=1e-5)
    assert loss.nll.item() == loss.total.item()
    assert not loss.nll.requires_grad
    assert loss.num_targets == 5


def test_a_batch_is_the_sum_of_its_recordings(model, examples):
    together = TemporalClassification()(model, examples.batch(np.arange(4), 0)).total
    alone = sum(TemporalClassification()(model, examples.batch(np.array([i]), 0)).total for i in range(4))
    torch.testing.assert_close(together, alone)


def test_gradients_are_finite_and_reach_every_parameter(model, examples):
    TemporalClassification()(model, examples.batch(np.arange(4), 0)).total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def test_labels_without_an_alignment_have_an_infinite_loss_not_zero(model):
    """So that an error in the data check is visible."""
    short = Recordings(frames=(np.ones((4, 3), np.float32),), texts=(("b", "b"),), name="short")
    batch = TranscriptionExamples(short, ("", "a", "b")).batch(np.array([0]), 0)
    assert math.isinf(TemporalClassification()(model, batch).total.item())
