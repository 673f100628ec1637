"""Times come in pairs as transformers makes them come, and segments end where it ends them."""

import numpy as np
import pytest
import torch

from regard.decoding.rules import GeneratedTokens
from regard.decoding.timestamps import BannedFirstTokens, Segment, TimestampRule, segments_of

VOCAB, EOS, FIRST = 40, 20, 24
PROMPT = (21, 22)
HISTORY = [
    [],
    [FIRST],
    [FIRST + 3],
    [5, FIRST + 6],
    [FIRST + 3, 5],
    [FIRST + 3, 5, FIRST + 6],
    [FIRST + 3, 5, FIRST + 6, FIRST + 6],
    [FIRST + 3, 5, FIRST + 6, FIRST + 6, 7, 8],
    [5, 6, 7],
]


def generated(ids):
    rows = torch.tensor([[*PROMPT, *ids]] * 8)
    return GeneratedTokens(rows, prefix_lengths=np.array([len(PROMPT)]), sentence=np.zeros(8, np.int64))


@pytest.mark.parametrize("ids", HISTORY, ids=str)
@pytest.mark.parametrize("latest", [None, 2])
@pytest.mark.parametrize("normalised", [True, False])
def test_the_rule_is_that_of_transformers(ids, latest, normalised):
    transformers = pytest.importorskip("transformers")
    processors = pytest.importorskip("transformers.generation.logits_process")
    config = transformers.GenerationConfig(
        eos_token_id=EOS, no_timestamps_token_id=FIRST - 1, max_initial_timestamp_index=latest
    )
    theirs = processors.WhisperTimeStampLogitsProcessor(config, begin_index=1 + len(PROMPT))
    scores = 2 * torch.randn(8, VOCAB, generator=torch.Generator().manual_seed(len(ids)))
    scores[::2, FIRST:] += 2
    scores = scores.log_softmax(dim=1) if normalised else scores
    expected = theirs(torch.tensor([[0, *PROMPT, *ids]] * 8), scores.clone())
    TimestampRule(first_id=FIRST, eos_id=EOS, latest_first=latest)(scores, generated(ids))
    assert torch.equal(scores, expected)


def test_a_token_as_probable_as_all_times_together_is_allowed():
    scores = torch.full((8, VOCAB), -torch.inf)
    scores[:, [5, FIRST + 9]] = 0.0
    TimestampRule(first_id=FIRST, eos_id=EOS)(scores, generated([FIRST + 3, 6]))
    assert scores[0].isfinite().nonzero()[:, 0].tolist() == [5, FIRST + 9]


def test_rows_with_other_tokens_have_their_own_times():
    rule = TimestampRule(first_id=FIRST, eos_id=EOS)
    rows = [[*PROMPT, *ids] for ids in ([FIRST, 5, FIRST + 4], [FIRST, 5, 6], [5, 6, 7])]
    together = torch.randn(3, VOCAB, generator=torch.Generator().manual_seed(1))
    alone = together.clone()
    zeros = np.zeros(3, np.int64)
    rule(together, GeneratedTokens(torch.tensor(rows), prefix_lengths=np.array([2]), sentence=zeros))
    for number, row in enumerate(rows):
        rule(
            alone[number : number + 1],
            GeneratedTokens(torch.tensor([row]), prefix_lengths=np.array([2]), sentence=zeros[:1]),
        )
    assert torch.equal(together, alone)


def test_first_tokens_are_banned_after_the_prompt_alone():
    rule = BannedFirstTokens(ids=(3, EOS))
    for ids, banned in (([], [3, EOS]), ([5], [])):
        scores = torch.zeros(8, VOCAB)
        rule(scores, generated(ids))
        assert (scores[0] == -torch.inf).nonzero()[:, 0].tolist() == banned


@pytest.mark.parametrize(
    ("ids", "parts", "step"),
    [
        ([5, 6], [([5, 6], 0, 60)], 61),  # without times all is one segment, and the window is done
        ([FIRST, 5, FIRST + 4], [([FIRST, 5, FIRST + 4], 0, 8)], 61),
        ([FIRST, 5], [([FIRST, 5], 0, 60)], 61),
        ([FIRST + 4, 5, FIRST], [([FIRST + 4, 5, FIRST], 0, 60)], 61),  # the last time says nothing
        ([], [([], 0, 60)], 61),
        (  # ended: nothing follows the last time
            [FIRST, 5, FIRST + 4, FIRST + 4, 6, FIRST + 9],
            [([FIRST, 5, FIRST + 4], 0, 8), ([FIRST + 4, 6, FIRST + 9], 8, 18)],
            61,
        ),
        (  # cut off: the next window begins at the last pair
            [FIRST, 5, 6, FIRST + 4, FIRST + 5, 6],
            [([FIRST, 5, 6, FIRST + 4, FIRST + 5], 0, 8)],
            8,
        ),
        (
            [FIRST, 5, FIRST + 4, FIRST + 4, 6, FIRST + 9, FIRST + 9],
            [([FIRST, 5, FIRST + 4], 0, 8), ([FIRST + 4, 6, FIRST + 9, FIRST + 9], 8, 18)],
            18,
        ),
        ([5, FIRST, FIRST], [([5, FIRST, FIRST], 0, 0)], 61),  # no window begins where the last one did
    ],
    ids=str,
)
def test_a_window_is_cut_at_pairs_of_times(ids, parts, step):
    expected = [Segment(ids=tuple(part), start=start, end=end) for part, start, end in parts]
    assert segments_of(ids, FIRST, 61) == (expected, step)
