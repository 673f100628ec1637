"""Examples in memory make the batches that training reads."""

import pytest
import torch

from regard.data import IGNORED, Loader, LoaderSettings, SequencePairs, TensorExamples
from regard.errors import DataError


def test_pairs_get_their_special_tokens_and_padding():
    examples = SequencePairs([[5], [6, 7]], [[8, 9], [10]], pad_id=0, bos_id=2, eos_id=3)
    [batch] = Loader(examples, LoaderSettings(), seed=1).epoch()
    rows = dict(
        zip(
            batch.lines.tolist(),
            zip(batch.src_ids.tolist(), batch.tgt_ids.tolist(), strict=True),
            strict=True,
        )
    )
    assert rows == {1: ([5, 3, 0], [2, 8, 9, 3]), 2: ([6, 7, 3], [2, 10, 3, 0])}
    assert batch.num_targets == 5


def test_rows_stay_beside_their_labels():
    inputs = torch.arange(30).reshape(10, 3)
    examples = TensorExamples(inputs, torch.where(torch.arange(10) < 8, torch.arange(10), IGNORED))
    batches = list(Loader(examples, LoaderSettings(batch_examples=4), seed=1).epoch())
    assert sum(batch.num_targets for batch in batches) == 8
    for batch in batches:
        torch.testing.assert_close(batch.inputs[0], inputs[batch.lines - 1])
    assert sorted(line for batch in batches for line in batch.lines.tolist()) == list(range(1, 11))


@pytest.mark.parametrize("counts", [(1, 2), (0, 0)])
def test_what_does_not_fit_together_is_refused(counts):
    sources, targets = ([[4]] * count for count in counts)
    with pytest.raises(DataError):
        SequencePairs(sources, targets)
    with pytest.raises(DataError):
        TensorExamples(torch.zeros(counts[0], 2), torch.zeros(counts[1], dtype=torch.int64))


@pytest.mark.parametrize(
    ("sequences", "other", "what"),
    [
        ({"sources": [[5], [6, 0]], "targets": [[8], [9]]}, {}, r"sources\[1\] has pad_id = 0 at place 1"),
        ({"sources": [[5], [6]], "targets": [[0, 8], [9]]}, {}, r"targets\[0\] has pad_id = 0 at place 0"),
        ({"sources": [[5]], "targets": [[8]]}, {"pad_id": 3}, "pad_id and eos_id are both 3"),
    ],
)
def test_padding_is_no_token_of_a_sequence(sequences, other, what):
    with pytest.raises(DataError, match=what):
        SequencePairs(**sequences, **other)


def test_a_target_may_begin_with_the_id_of_padding():
    assert len(SequencePairs([[5]], [[8]], pad_id=0, bos_id=0)) == 1  # as those of Marian and T5 do
