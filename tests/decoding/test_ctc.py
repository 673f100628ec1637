"""Transcripts against all alignments of tiny cases; greedy, collapsing, beams, batches."""

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.decoding.control_fields import beam_of
from regard.decoding.ctc import BestAlignment, PrefixBeamSearch, alignment_search, collapsed

LABELS = 3  # the blank among them


def logits(length: int, seed: int, sharpness: float = 1.5) -> torch.Tensor:
    return sharpness * torch.randn(length, LABELS, generator=torch.Generator().manual_seed(seed))


def enumerated(log_probs: torch.Tensor) -> dict[tuple[int, ...], float]:
    """The log-probability of every transcript: the sum over all alignments that say it."""
    sums: dict[tuple[int, ...], float] = {}
    for alignment in itertools.product(range(LABELS), repeat=len(log_probs)):
        score = sum(log_probs[t, label].item() for t, label in enumerate(alignment))
        said = collapsed(alignment)
        sums[said] = sums.get(said, 0.0) + math.exp(score)
    return {said: math.log(probability) for said, probability in sums.items()}


@pytest.mark.parametrize(
    ("alignment", "said"),
    [
        ([], ()),
        ([0, 0], ()),
        ([1, 1, 1], (1,)),
        ([1, 0, 1], (1, 1)),
        ([0, 2, 2, 0, 0, 2, 1, 1], (2, 2, 1)),
    ],
)
def test_repeats_are_one_unless_a_blank_stands_between(alignment, said):
    assert collapsed(alignment) == said


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("length", [1, 2, 4, 6])
def test_a_large_beam_finds_the_most_probable_transcript_and_its_probability(length, seed):
    log_probs = logits(length, seed).double().log_softmax(-1)
    expected = enumerated(log_probs)
    found = PrefixBeamSearch(size=1000).search(log_probs.numpy())
    assert {each.ids for each in found} == set(expected)
    for each in found:
        assert each.log_prob == pytest.approx(expected[each.ids], abs=1e-9)
    assert found[0].ids == max(expected, key=lambda said: expected[said])
    assert [each.log_prob for each in found] == sorted((each.log_prob for each in found), reverse=True)


def test_probabilities_are_those_of_the_loss():
    rows = logits(7, 3)
    for each in PrefixBeamSearch(size=1000).search(rows.double().log_softmax(-1).numpy())[:6]:
        loss = F.ctc_loss(
            rows.double().log_softmax(-1)[:, None],
            torch.tensor([each.ids], dtype=torch.int64).view(1, -1),
            torch.tensor([7]),
            torch.tensor([len(each.ids)]),
            reduction="sum",
        )
        assert each.log_prob == pytest.approx(-loss.item(), abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_a_narrow_beam_never_claims_too_much(seed):
    log_probs = logits(6, seed).double().log_softmax(-1)
    expected = enumerated(log_probs)
    best = max(expected.values())
    for beam_size in (1, 2, 4):
        found = PrefixBeamSearch(size=beam_size).search(log_probs.numpy())[0]
        assert found.log_prob <= expected[found.ids] + 1e-9 <= best + 2e-9


def test_sums_over_alignments_beat_the_most_probable_alignment():
    """Two frames, blank 0.6 each: the best alignment has no label, but one label has probability over 1/2."""
    rows = torch.tensor([[[0.6, 0.4, 1e-9]] * 2]).log()
    lengths = torch.tensor([2])
    [greedy], [summed] = BestAlignment()(rows, lengths), PrefixBeamSearch(size=4)(rows, lengths)
    assert greedy.ids == ()
    assert greedy.log_prob == pytest.approx(2 * math.log(0.6), abs=1e-6)
    assert summed.ids == (1,)
    assert summed.log_prob == pytest.approx(math.log(0.64), abs=1e-6)


@pytest.mark.parametrize("search", [BestAlignment(), PrefixBeamSearch(size=4)])
def test_neither_padding_nor_neighbours_are_heard(search):
    rows = torch.stack([logits(6, 1), logits(6, 2), logits(6, 3)])
    lengths = torch.tensor([6, 3, 0])
    together = search(rows, lengths)
    rows[1, 3:], rows[2] = 50.0, torch.nan
    assert search(rows, lengths) == together
    alone = [search(rows[[row], :length], lengths[[row]])[0] for row, length in enumerate([6, 3, 0])]
    assert alone == together
    assert together[2].ids == ()
    assert together[2].log_prob == 0


def test_a_beam_of_one_is_the_best_alignment():
    assert alignment_search(beam_of(1)) == alignment_search(beam_of(None)) == BestAlignment()
    assert alignment_search(beam_of(3)) == PrefixBeamSearch(size=3)
    assert PrefixBeamSearch().size == 8


def test_greedy_is_the_most_probable_alignment():
    for seed in range(10):
        rows = logits(5, seed)
        log_probs = rows.log_softmax(-1)
        best = max(
            itertools.product(range(LABELS), repeat=5),
            key=lambda alignment: sum(log_probs[t, label].item() for t, label in enumerate(alignment)),
        )
        [found] = BestAlignment()(rows[None], torch.tensor([5]))
        assert found.ids == collapsed(best)


def test_sure_frames_leave_no_choice():
    rows = torch.full((1, 6, LABELS), -100.0)
    for t, label in enumerate([1, 1, 0, 1, 2, 2]):
        rows[0, t, label] = 0.0
    for search in (BestAlignment(), PrefixBeamSearch(size=1)):
        [found] = search(rows, torch.tensor([6]))
        assert found.ids == (1, 1, 2)
        assert found.log_prob == pytest.approx(0.0, abs=1e-6)


def plainly(frames: list[list[float]], beam_size: int) -> dict[tuple[int, ...], float]:
    """The twin in words: each label after each beginning, one after the other."""

    def add(one: float, other: float) -> float:
        one, other = max(one, other), min(one, other)
        return one if other == -math.inf else one + math.log1p(math.exp(other - one))

    beam = {(): (0.0, -math.inf)}
    for frame in frames:
        in_blank, in_label = defaultdict(lambda: -math.inf), defaultdict(lambda: -math.inf)
        for ids, (blank, label) in beam.items():
            in_blank[ids] = add(in_blank[ids], add(blank, label) + frame[0])
            if ids:
                in_label[ids] = add(in_label[ids], label + frame[ids[-1]])
            for number in range(1, len(frame)):
                before = blank if ids and number == ids[-1] else add(blank, label)
                if before > -math.inf:
                    longer = (*ids, number)
                    in_label[longer] = add(in_label[longer], before + frame[number])
        ends = {ids: (in_blank[ids], in_label[ids]) for ids in {**in_blank, **in_label}}
        best = sorted(ends, key=lambda ids: (-add(*ends[ids]), ids))
        beam = {ids: ends[ids] for ids in best[:beam_size]}
    return {ids: add(*ends) for ids, ends in beam.items()}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("labels", "beam_size"), [(1, 2), (2, 3), (5, 1), (5, 8), (30, 8)])
def test_all_labels_at_once_are_what_one_after_the_other_is(labels, beam_size, seed):
    generator = torch.Generator().manual_seed(seed)
    log_probs = (2.0 * torch.randn(12, labels, generator=generator)).double().log_softmax(-1)
    expected = plainly(log_probs.tolist(), beam_size)
    found = PrefixBeamSearch(size=beam_size).search(log_probs.numpy())
    assert [each.ids for each in found] == list(expected)
    assert [each.log_prob for each in found] == pytest.approx(list(expected.values()), abs=1e-9)


def test_what_is_impossible_is_left_to_the_last_and_equals_go_by_their_numbers():
    frames = np.log(np.array([[0.5, 0.25, 0.25, 1e-300], [0.5, 0.25, 0.25, 1e-300]]))
    frames[:, 3] = -np.inf
    for beam_size in (1, 3, 5, 100):
        expected = plainly(frames.tolist(), beam_size)
        found = PrefixBeamSearch(size=beam_size).search(frames)
        assert [each.ids for each in found] == list(expected)
        assert [each.log_prob for each in found] == pytest.approx(list(expected.values()))
