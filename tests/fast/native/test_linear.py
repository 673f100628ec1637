"""A packed linear layer is a linear layer, row by row; its top candidates are the head of a stable sort."""

import pytest
import torch
from torch import nn

from regard.fast.int8 import Int8Linear
from regard.fast.native import kernels
from regard.fast.native.kernels import constant
from regard.fast.native.linear import PackedLinear

pytestmark = pytest.mark.skipif(not kernels.available(), reason="no C compiler")
needs_int8 = pytest.mark.skipif(not kernels.has_int8(), reason="no kernels for int8 on this processor")
ROWS = [*range(1, 41), 130]


@pytest.fixture
def threads():
    """Sets their number, until the test is over."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def case(features, columns, *, bias=True, rows=130):
    generator = torch.Generator().manual_seed(features + columns)
    weight, x = (torch.randn(size, features, generator=generator) for size in (columns, rows))
    return weight / features**0.5, torch.randn(columns, generator=generator) if bias else None, x


def rounded(features, columns, **settings):
    """A map in int8 with its plain twin."""
    weight, bias, x = case(features, columns)
    linear = nn.Linear(features, columns)
    linear.weight.data, linear.bias.data = weight, bias
    plain = Int8Linear(linear)
    return plain, PackedLinear(plain.weight, plain.bias, scale=plain.weight_scale, **settings), x


def close(found, expected, tolerance=1e-5):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("features", [1, 3, 24, 256, 1000])
@pytest.mark.parametrize("columns", [1, 31, 32, 33, 100, 1000])
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_a_linear_layer(features, columns, bias):
    weight, bias, x = case(features, columns, bias=bias)
    packed = PackedLinear(weight, bias)
    assert packed.shape == (columns, features)
    close(packed(x), nn.functional.linear(x, weight, bias))


@pytest.mark.parametrize("columns", [1, 31, 100])
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("residual", [True, False])
def test_a_residual_comes_before_relu(columns, relu, residual):
    weight, bias, x = case(24, columns)
    for rows in ROWS:
        plus = torch.randn(rows, columns) if residual else None
        expected = nn.functional.linear(x[:rows], weight, bias)
        expected = expected if plus is None else expected + plus
        found = PackedLinear(weight, bias, relu=relu)(x[:rows], plus)
        close(found, expected.relu() if relu else expected)


@pytest.mark.parametrize("int8", [False, pytest.param(True, marks=needs_int8)])
@pytest.mark.parametrize(("features", "columns"), [(3, 33), (256, 100)])
def test_a_row_has_the_same_bits_in_any_batch(features, columns, int8):
    weight, bias, x = case(features, columns)
    packed = rounded(features, columns)[1] if int8 else PackedLinear(weight, bias)
    asked, whole = torch.zeros(len(x), dtype=torch.int64), packed(x)
    candidates = packed.top_candidates(x, 3, asked)
    for rows in ROWS:
        assert torch.equal(packed(x[-rows:]), whole[-rows:])
        for part, all_rows in zip(packed.top_candidates(x[-rows:], 3, asked[:rows]), candidates, strict=True):
            assert torch.equal(part, all_rows[-rows:])


@pytest.mark.parametrize("int8", [False, pytest.param(True, marks=needs_int8)])
def test_the_number_of_threads_changes_no_bit(int8, threads):
    """Columns in several blocks of those that `candidates` looks at, the last not full."""
    features, columns = 24, 2500
    weight, bias, x = case(features, columns)
    assert x.numel() * columns > constant("worth")
    packed = rounded(features, columns)[1] if int8 else PackedLinear(weight, bias)
    asked, plus, found = torch.arange(len(x)), torch.randn(len(x), columns), []
    for number in (1, 2, 3):
        threads(number)
        found.append((packed(x, plus), *packed.top_candidates(x, 5, asked)))
    for other in found[1:]:
        assert all(torch.equal(*pair) for pair in zip(found[0], other, strict=True))


def test_inputs_may_lie_in_any_way():
    weight, bias, x = case(24, 33)
    packed, plus = PackedLinear(weight, bias), torch.randn(130, 33)
    expected = packed(x, plus)
    wide = torch.randn(130, 60)
    wide[:, 7:31] = x
    assert torch.equal(packed(wide[:, 7:31], plus.t().contiguous().t()), expected)
    assert torch.equal(packed(x.t().contiguous().t(), plus), expected)
    assert torch.equal(packed(x[:1].expand(5, -1), None), packed(x[:1]).expand(5, -1))
    assert torch.equal(PackedLinear(weight.t().contiguous().t(), bias)(x, plus), expected)
    asked = torch.arange(60)[::2]
    reported = packed.top_candidates(x[:30], 1, asked % 33)[2]
    assert torch.equal(reported, packed.top_candidates(x[:30].clone(), 1, (asked % 33).clone())[2])


def test_no_rows_give_no_rows():
    weight, bias, x = case(24, 33)
    packed = PackedLinear(weight, bias)
    assert packed(x[:0]).shape == (0, 33)
    assert packed.top_candidates(x[:0], 2, torch.zeros(0, dtype=torch.int64))[0].shape == (0, 2)


@pytest.mark.parametrize("int8", [False, pytest.param(True, marks=needs_int8)])
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("place", [0, 15, 16, 25])
def test_nan_stays_in_its_row(int8, relu, place):
    weight, bias, x = case(26, 40)
    packed = rounded(26, 40, relu=relu)[1] if int8 else PackedLinear(weight, bias, relu=relu)
    whole = packed(x[:7])
    for bad in (torch.nan, -torch.nan, *((torch.inf, -torch.inf) if int8 else ())):
        x[3, place] = bad
        found = packed(x[:7])
        assert found[3].isnan().all()
        others = torch.arange(7) != 3
        assert torch.equal(found[others], whole[others])


@needs_int8
@pytest.mark.parametrize("features", [1, 3, 24, 256, 1000])
@pytest.mark.parametrize("columns", [1, 31, 33, 1000])
@pytest.mark.parametrize("relu", [True, False])
def test_in_int8_it_is_the_plain_one(features, columns, relu):
    plain, packed, x = rounded(features, columns, relu=relu)
    x[1] *= 1e4  # each row has a scale of its own
    x[2] *= 1e-4
    plus = torch.randn(130, columns)
    expected = plain.plain(x) + plus
    size = (x.abs().amax(dim=1, keepdim=True) * packed_size(plain)).clamp_min(1)
    difference = (packed(x, plus) - (expected.relu() if relu else expected)) / size
    # a product that falls between two levels may be rounded either way
    assert difference.abs().max() < 1e-2 if features > 1 else 1e-5
    assert difference.abs().median() < 1e-6


def packed_size(plain):
    """What a level more of an input may change, for the largest weight of each output."""
    return plain.weight.abs().amax(dim=1) * plain.weight_scale


@needs_int8
@pytest.mark.parametrize("features", [3, 24, 65])
def test_in_int8_zeros_give_the_bias(features):
    plain, packed, x = rounded(features, 33)
    x[2] = 0
    found = packed(x)
    assert torch.equal(found[2], plain.bias)
    assert found.isfinite().all()


def ranking(logits, size):
    """By a stable sort: of equal ones the one with the lower id first."""
    values = logits.log_softmax(dim=1).sort(dim=1, descending=True).values
    return values[:, :size], logits.sort(dim=1, descending=True, stable=True).indices[:, :size]


def whole_numbers(features, columns, rows, *, most=2):
    """Products without rounding, and ties in plenty."""
    generator = torch.Generator().manual_seed(columns)
    weight, bias, x = (
        torch.randint(-most, most + 1, shape, generator=generator).float()
        for shape in ((columns, features), (columns,), (rows, features))
    )
    return weight, bias, x


@pytest.mark.parametrize("columns", [5, 31, 64, 100, 1023, 1024, 1025, 3000])
@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("rows", [1, 13])
def test_top_candidates_are_the_head_of_a_stable_sort(columns, size, rows):
    weight, bias, x = whole_numbers(3, columns, rows)
    logits = x @ weight.T + bias
    asked = torch.randint(columns, (rows,), generator=torch.Generator().manual_seed(rows))
    values, ids, reported = PackedLinear(weight, bias).top_candidates(x, size, asked)
    expected, places = ranking(logits, size)
    assert torch.equal(ids, places)
    close(values, expected)
    close(reported, logits.log_softmax(dim=1).gather(1, asked[:, None])[:, 0])


@pytest.mark.parametrize("columns", [40, 2500])
def test_where_all_are_equal_the_first_come_first(columns):
    packed = PackedLinear(torch.zeros(columns, 2), torch.ones(columns))
    values, ids, reported = packed.top_candidates(torch.randn(3, 2), 4, torch.tensor([0, 7, columns - 1]))
    assert torch.equal(ids, torch.arange(4).expand(3, -1))
    close(values, torch.full((3, 4), 1 / columns).log())
    close(reported, torch.full((3,), 1 / columns).log())


@pytest.mark.parametrize("rising", [True, False])
def test_the_largest_may_stand_anywhere(rising):
    """Each larger than all before, or none."""
    bias = torch.arange(2500.0) / 100 * (1 if rising else -1)
    values, ids, _asked_log_probs = PackedLinear(torch.zeros(2500, 1), bias).top_candidates(
        torch.ones(1, 1), 6, torch.zeros(1, dtype=torch.int64)
    )
    expected = bias.log_softmax(dim=0).sort(descending=True, stable=True)
    assert torch.equal(ids[0], expected.indices[:6])
    close(values[0], expected.values[:6])


def test_behind_the_last_there_is_nothing():
    weight, bias, x = whole_numbers(3, 5, 4)
    values, ids, _asked_log_probs = PackedLinear(weight, bias).top_candidates(
        x, 9, torch.zeros(4, dtype=torch.int64)
    )
    expected, places = ranking(x @ weight.T + bias, 5)
    close(values[:, :5], expected)
    assert torch.equal(ids[:, :5], places)
    assert (values[:, 5:] == -torch.inf).all()
    assert ((ids >= 0) & (ids < 5)).all()


@pytest.mark.parametrize("columns", [40, 2500])
@pytest.mark.parametrize("size", [1, 3, 50])
def test_nan_is_seen_in_its_row_alone(columns, size):
    weight, bias, x = case(24, columns, rows=13)
    packed, asked = PackedLinear(weight, bias), torch.full((13,), 7)
    whole = packed.top_candidates(x, size, asked)
    x[4, 20] = torch.nan
    found, others = packed.top_candidates(x, size, asked), torch.arange(13) != 4
    assert found[0][4].isnan().all()
    assert found[2][4].isnan()
    assert ((found[1] >= 0) & (found[1] < columns)).all()
    for one, other in zip(found, whole, strict=True):
        assert torch.equal(one[others], other[others])


@pytest.mark.parametrize("column", [0, 39, 1030, 2499])
def test_a_single_logit_that_is_nan_is_seen(column):
    """As in log-softmax, which it makes all NaN."""
    weight, bias, x = case(24, 2500, rows=5)
    weight[column, 3] = torch.nan
    values, _ids, reported = PackedLinear(weight, bias).top_candidates(x, 2, torch.full((5,), 7))
    assert values.isnan().all()
    assert reported.isnan().all()


@pytest.mark.parametrize("sign", [1, -1])
def test_large_logits_do_not_overflow(sign):
    weight, bias, x = whole_numbers(3, 1500, 6)
    bias = bias + sign * 1e4
    values, ids, reported = PackedLinear(weight, bias).top_candidates(x, 4, torch.full((6,), 3))
    exact = (x @ weight.T + bias).double()
    expected, places = ranking(exact, 4)
    assert torch.equal(ids, places)
    torch.testing.assert_close(
        values.double(), expected, rtol=0, atol=2e-3
    )  # a unit in the last place of 1e4
    torch.testing.assert_close(reported.double(), exact.log_softmax(dim=1)[:, 3], rtol=0, atol=2e-3)
    spread = PackedLinear(weight * 1e4, None).top_candidates(x, 4, torch.full((6,), 3))
    assert not any(part.isnan().any() for part in spread)


def test_ids_that_are_ruled_out_count_for_nothing():
    """A whole block of them, the first."""
    bias = torch.randn(2500)
    bias[:1100] = -torch.inf
    packed = PackedLinear(torch.zeros(2500, 1), bias)
    values, ids, reported = packed.top_candidates(torch.ones(2, 1), 3, torch.tensor([5, 2000]))
    expected = bias.log_softmax(dim=0)
    close(values, expected.topk(3).values.expand(2, -1))
    assert torch.equal(ids, expected.topk(3).indices.expand(2, -1))
    close(reported, expected[[5, 2000]])


@needs_int8
@pytest.mark.parametrize("columns", [33, 2500])
def test_top_candidates_of_int8_are_those_of_its_outputs(columns):
    _plain, packed, x = rounded(24, columns)
    asked = torch.arange(130) % columns
    values, ids, reported = packed.top_candidates(x, 4, asked)
    expected, places = ranking(packed(x), 4)
    close(values, expected)
    assert torch.equal(ids, places)
    close(reported, packed(x).log_softmax(dim=1).gather(1, asked[:, None])[:, 0])
