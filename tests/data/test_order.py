"""Orders: each example once an epoch, a function of seed and epoch; few parts at a time."""

import itertools

import numpy as np
import pytest

from regard.data.order import GROUP_WINDOWS, BlockOrder, PartOrder

SIZES = np.array([300, 0, 45, 129, 128, 1, 500, 77, 260, 31, 0, 512])


def parts_order(seed=1, window=64, reads=lambda now, following: None):
    return PartOrder(SIZES, window, seed=seed, reads=reads)


def epoch_of(order, epoch):
    return [order.window(epoch, number) for number in range(order.num_windows(epoch))]


@pytest.mark.parametrize("window", [1, 5, 64, 1000, 10**6])
@pytest.mark.parametrize("kind", ["blocks", "parts"])
def test_each_example_is_read_once_an_epoch(kind, window):
    sizes = SIZES // 8 if window == 1 else SIZES  # then each window has one example
    if kind == "blocks":
        order, count = BlockOrder(383, window, seed=1), 383
    else:
        order, count = PartOrder(sizes, window, seed=1, reads=lambda now, following: None), sum(sizes)
    orders = []
    for epoch in (0, 1):
        windows = epoch_of(order, epoch)
        assert all(len(each) for each in windows)
        orders.append(np.concatenate(windows))
        assert sorted(orders[-1]) == list(range(count))
    assert (orders[0] != orders[1]).any()


def test_an_order_depends_on_seed_and_epoch_alone():
    one, two = parts_order(), parts_order()
    assert all((a == b).all() for a, b in zip(epoch_of(one, 3), epoch_of(two, 3), strict=True))
    assert (two.window(3, 4) == epoch_of(one, 3)[4]).all()  # in whatever order windows are asked for
    assert one.window(0, 0).tolist() != parts_order(seed=2).window(0, 0).tolist()


def test_windows_have_about_their_size():
    windows = [len(each) for each in epoch_of(parts_order(window=256), 0)]
    assert max(windows) <= 256 + 128
    assert np.mean(windows) > 128


def test_a_group_has_few_parts_which_are_announced_before_they_are_read():
    announced = []
    order = PartOrder(
        np.full(100, 40), 64, seed=1, reads=lambda now, following: announced.append((set(now), following))
    )
    for epoch in (0, 1):
        for number in range(order.num_windows(epoch)):
            needed = set((order.window(epoch, number) // 40).tolist())
            assert needed <= announced[-1][0]
    group = GROUP_WINDOWS * 64 // 40 + 1
    assert all(len(now) <= group and len(following) <= group for now, following in announced)
    for (_, following), (now, _) in itertools.pairwise(announced):
        assert set(following) == now
    assert set().union(*(now for now, _ in announced[: len(announced) // 2])) == set(range(100))


def test_blocks_of_all_parts_of_a_group_are_mixed():
    order = PartOrder(np.full(8, 640), 640, seed=1, reads=lambda now, following: None)
    parts_in_a_window = [len(set((each // 640).tolist())) for each in epoch_of(order, 0)]
    assert np.mean(parts_in_a_window) > 2
