"""The kernel that samples chooses what filters of PyTorch and a cumulative sum choose."""

import numpy as np
import pytest
import torch

from regard.decoding.sampling import MinP, RandomChoice, Sampling, Temperature, TopK, TopP
from regard.fast.native.sampling import Filters, sample_tokens

pytestmark = pytest.mark.usefixtures("any_width")
FILTERS = {
    "none": (),
    "temperature": (Temperature(temperature=0.6),),
    "one": (TopK(k=1),),
    "top k": (Temperature(temperature=3.0), TopK(k=7)),
    "more than there are": (TopK(k=100_000),),
    "top p": (TopP(p=0.8),),
    "all of top p": (TopP(p=1.0),),
    "min p": (MinP(p=0.1),),
    "all": (Temperature(temperature=1.4), TopK(k=60), TopP(p=0.9), MinP(p=0.05)),
}


def kernel_filters(*filters) -> Filters:
    found = Sampling(filters=filters).kernel_filters
    assert found is not None
    return found


def sampled(logits, filters, noise, banned=()):
    rows = len(logits)
    barred = torch.tensor(banned, dtype=torch.int64).expand(rows, -1)
    (values, ids, asked), _ = sample_tokens(
        logits, kernel_filters(*filters), noise, barred, torch.full((rows,), 3)
    )
    return values[:, 0], ids[:, 0], asked


def in_pytorch(logits, filters, noise, banned=()):
    log_probs = logits.log_softmax(dim=1)
    asked = log_probs[:, 3].clone()
    log_probs[:, list(banned)] = -torch.inf
    values, ids = RandomChoice(filters, noise.numpy())(log_probs)
    return torch.from_numpy(values[:, 0]).float(), torch.from_numpy(ids[:, 0]), asked


@pytest.mark.parametrize("vocab", [4, 17, 300, 5000])
@pytest.mark.parametrize("name", FILTERS)
def test_tokens_and_log_probabilities_are_those_of_pytorch(name, vocab):
    generator = torch.Generator().manual_seed(vocab)
    logits = 2 * torch.randn(50, vocab, generator=generator)
    noise = torch.rand(50, generator=generator, dtype=torch.float64)
    for banned in ((), (0, vocab - 1)):
        values, ids, asked = sampled(logits, FILTERS[name], noise, banned)
        expected_values, expected_ids, expected_asked = in_pytorch(logits, FILTERS[name], noise, banned)
        same = ids == expected_ids
        assert same.sum() >= 49, "noise at an edge may fall to either side"
        torch.testing.assert_close(values[same], expected_values[same])
        torch.testing.assert_close(asked, expected_asked)


@pytest.mark.parametrize("filters", [(TopK(k=3),), (TopP(p=0.3),), (Temperature(temperature=9.0), TopK(k=3))])
def test_of_equal_tokens_the_lower_ids_are_kept(filters):
    logits = torch.zeros(100, 10)
    logits[:, 4] = -1.0
    _, ids, _ = sampled(logits, filters, torch.arange(100, dtype=torch.float64) / 100)
    assert set(ids.tolist()) == {0, 1, 2}


def test_noise_chooses_each_token_as_often_as_it_is_probable():
    logits = torch.tensor([[0.5, 0.125, 0.25, 0.125]]).log().repeat(16, 1)
    _, ids, _ = sampled(logits, (), torch.arange(16, dtype=torch.float64) / 16)
    assert ids.tolist() == [0] * 8 + [1] * 2 + [2] * 4 + [3] * 2


def test_each_row_has_banned_tokens_of_its_own():
    logits = torch.zeros(3, 4)
    barred = torch.tensor([[0, 1, 2], [3, 2, -1], [-1, -1, -1]])
    noise = torch.tensor([0.0, 0.99, 0.99], dtype=torch.float64)
    (_, ids, _), _ = sample_tokens(logits, kernel_filters(), noise, barred, torch.zeros(3, dtype=torch.int64))
    assert ids[:, 0].tolist() == [3, 1, 3]


def test_where_all_are_banned_there_is_no_sample():
    values, _, asked = sampled(torch.zeros(1, 4), (), torch.zeros(1, dtype=torch.float64), (0, 1, 2, 3))
    assert values.tolist() == [-torch.inf]
    assert asked.item() == pytest.approx(np.log(0.25))


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_logits_that_are_no_numbers_are_nan(value):
    logits = torch.zeros(2, 4)
    logits[1, :] = value
    values, _, asked = sampled(logits, (), torch.zeros(2, dtype=torch.float64))
    assert values.isnan().tolist() == asked.isnan().tolist() == [False, True]


def test_a_row_does_not_depend_on_threads_or_batch():
    logits = torch.randn(9, 3000, generator=torch.Generator().manual_seed(1))
    noise, filters = torch.linspace(0, 0.99, 9, dtype=torch.float64), FILTERS["all"]
    alone = [sampled(logits[row : row + 1], filters, noise[row : row + 1]) for row in range(9)]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        together = sampled(logits, filters, noise)
    finally:
        torch.set_num_threads(before)
    for found, each in zip(together, zip(*alone, strict=True), strict=True):
        assert torch.equal(found, torch.cat(each))
