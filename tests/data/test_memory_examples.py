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
