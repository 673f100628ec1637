"""A plan gives what its kernels give one by one, to the bit, and refuses what it cannot plan."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from regard.fast.int8 import Int8Linear
from regard.fast.native import kernels
from regard.fast.native.activation import GELU, activate
from regard.fast.native.linear import PackedLinear
from regard.fast.native.norm import PackedNorm
from regard.fast.native.plan import AttentionInputs, Plan, PlannedResult, UnsupportedPart, add

pytestmark = pytest.mark.skipif(not kernels.available(), reason="no C compiler")
NOTHING = torch.zeros(1, 1)
NOTHING_SEEN = AttentionInputs(
    [NOTHING],
    [NOTHING],
    torch.zeros(1, 1).int(),
    torch.zeros(1).int(),
    torch.zeros(1).long(),
    torch.zeros(1).long(),
)


def maps(*shapes, relu=False):
    generator = torch.Generator().manual_seed(1)
    return [
        PackedLinear(
            torch.randn(*shape, generator=generator), torch.randn(shape[0], generator=generator), relu=relu
        )
        for shape in shapes
    ]


def residuals(x):
    """Maps of many widths, of which some results are read late and parts of others."""
    wide, narrow, back, again = maps((70, 20), (9, 70), (20, 9), (20, 35))
    norm = PackedNorm(torch.rand(20), torch.rand(20), 1e-5, center=True)
    first = wide(norm(x))
    second = back(narrow(first), x)
    third = again(activate(first[:, 35:], GELU, first[:, :35]), second)
    return norm(back(narrow(wide(third)), second))


@pytest.mark.parametrize("rows", [1, 5, 40])
def test_it_is_its_kernels_one_by_one(rows):
    torch.manual_seed(2)
    x = torch.randn(rows, 20)

    def path(given):
        torch.manual_seed(3)
        return residuals(given)

    plan = Plan(20, path)
    assert torch.equal(plan(x, NOTHING_SEEN), path(x))
    assert torch.equal(plan(x, NOTHING_SEEN), path(x)), "it can be run again"


def test_results_nobody_will_read_are_written_over():
    square = maps((20, 20))[0]

    def path(x):
        for _ in range(9):
            x = square(x, x)
        return x

    plan = Plan(20, path)
    assert plan.buffer == 2 * 20
    x = torch.randn(3, 20)
    assert torch.equal(plan(x, NOTHING_SEEN), path(x))


@pytest.mark.parametrize(
    "path",
    [
        lambda x: x[:, None],
        lambda x: x[1:, :],
        lambda x: x[:, ::2],
        lambda x: x,
        lambda x: maps((20, 20))[0](x)[:, :5],
    ],
)
def test_what_is_no_kernel_cannot_be_planned(path):
    with pytest.raises(UnsupportedPart):
        Plan(20, path)


@pytest.mark.parametrize("whole", ["map", "residual", "sum"])
def test_linear_layers_and_sums_want_whole_rows(whole):
    """They would read what lies beside."""
    wide, narrow = maps((20, 20), (4, 4))
    paths = {
        "map": lambda x: narrow(wide(x)[:, 3:7]),
        "residual": lambda x: maps((4, 20))[0](x, wide(x)[:, :4]),
        "sum": lambda x: add(x[:, :4], narrow(wide(x)[:, 3:7])),
    }
    with pytest.raises(UnsupportedPart):
        Plan(20, paths[whole])


@pytest.mark.parametrize(("first", "last"), [(0, 12), (4, 16), (0, 4), (8, 12)])
@pytest.mark.parametrize("center", [True, False])
def test_a_norm_as_wide_as_a_head_is_of_each_head(first, last, center):
    """Of all heads in some columns, be there one or more."""
    torch.manual_seed(5)
    norm, x = PackedNorm(torch.rand(4), torch.rand(4), 1e-5, center=center), torch.randn(3, 20)
    expected = norm(x[:, first:last].reshape(-1, 4)).view(3, -1)
    assert torch.equal(Plan(20, lambda given: norm(given[:, first:last]))(x, NOTHING_SEEN), expected)


def test_rows_are_added():
    square, x = maps((20, 20))[0], torch.randn(3, 20, generator=torch.Generator().manual_seed(6))
    assert torch.equal(Plan(20, lambda given: add(given, square(given)))(x, NOTHING_SEEN), x + square(x))


@pytest.mark.parametrize("int8", [True, False])
def test_threads_change_no_bits(int8):
    """Nor do several plans that run at once."""
    if int8 and not kernels.has_int8():
        pytest.skip("no int8")
    wide, back = (
        torch.nn.Linear(70, 900).requires_grad_(False),
        torch.nn.Linear(900, 70).requires_grad_(False),
    )
    linears = [packed(each, int8) for each in (wide, back)]
    plan = Plan(70, lambda x: linears[1](linears[0](x), x))
    x = torch.randn(40, 70, generator=torch.Generator().manual_seed(4))
    assert x.numel() * 900 > kernels.constant("worth")
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = plan(x, NOTHING_SEEN)
        torch.set_num_threads(2)
        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(lambda _: plan(x, NOTHING_SEEN), range(6)))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(each, alone) for each in found)
    assert torch.equal(alone, linears[1](linears[0](x), x))


def packed(linear, int8):
    if not int8:
        return PackedLinear(linear.weight, linear.bias)
    rounded = Int8Linear(linear)
    return PackedLinear(rounded.weight, rounded.bias, scale=rounded.weight_scale)


def test_columns_of_columns():
    plan = Plan(20, lambda x: maps((7, 4))[0](activate(x[:, 3:15][:, 2:6], GELU)))
    x = torch.randn(2, 20)
    assert torch.equal(plan(x, NOTHING_SEEN), maps((7, 4))[0](activate(x[:, 5:9], GELU)))
    assert PlannedResult(plan, 0, 3, 8)[:, 2:].column == 5
