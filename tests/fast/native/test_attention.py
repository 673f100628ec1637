"""Attention of one query per head is softmax(Q K^T) V, row by row, wherever keys and values lie."""

import pytest
import torch

from regard.fast.native.attention import attend_to_memory, attend_to_self
from regard.fast.native.kernels import constant
from tests.nightly import each_once

pytestmark = pytest.mark.usefixtures("any_width")
HEADS = [(1, 1), (4, 4), (4, 2), (6, 1)]  # heads, and groups of them that share keys
D_HEADS = [4, 6, 16, 64, 80, 102]


@pytest.fixture
def threads():
    """Sets their number, until the test is over."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def exact(query, key, value, d_head, scale):
    """Of one row, in float64."""
    query, key, value = (
        part.double().view(-1, part.size(-1) // d_head, d_head) for part in (query, key, value)
    )
    share = query.size(1) // key.size(1)
    key, value = key.repeat_interleave(share, dim=1), value.repeat_interleave(share, dim=1)
    weights = (torch.einsum("qhd,phd->hp", query, key) * scale).softmax(dim=-1)
    return torch.einsum("hp,phd->hd", weights, value).flatten()


def close(found, expected):
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def memory(heads, groups, d_head, lengths):
    """Queries, one a length, and all positions with one between two sources that nobody may see."""
    generator = torch.Generator().manual_seed(d_head)
    lengths = torch.tensor(lengths)
    query = torch.randn(len(lengths), heads * d_head, generator=generator)
    total = int(lengths.sum()) + len(lengths)
    key, value = (torch.randn(total, groups * d_head, generator=generator) for _ in range(2))
    starts = (lengths + 1).cumsum(0) - lengths - 1
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        key[start + length] = value[start + length] = torch.nan
    return query, key, value, starts, lengths


@pytest.mark.parametrize(("heads", "groups"), HEADS)
@pytest.mark.parametrize("d_head", D_HEADS)
def test_it_looks_at_the_memory_of_its_row(heads, groups, d_head):
    query, key, value, starts, lengths = memory(heads, groups, d_head, [*range(1, 71, 7), 16, 17, 32])
    found = attend_to_memory(query, key, value, starts, lengths, 70, d_head, 0.3)
    for row, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        seen = slice(start, start + length)
        close(found[row], exact(query[row], key[seen], value[seen], d_head, 0.3))


def test_a_row_has_the_same_bits_in_any_batch():
    query, key, value, starts, lengths = memory(4, 2, 6, [5, 40, 1, 17, 16])
    whole = attend_to_memory(query, key, value, starts, lengths, 40, 6, 0.4)
    for row in range(5):
        alone = [part[[row]] for part in (query, starts, lengths)]
        longest = int(alone[2])
        assert torch.equal(attend_to_memory(alone[0], key, value, *alone[1:], longest, 6, 0.4)[0], whole[row])
    mixed = torch.tensor([3, 3, 0, 4, 1, 3])
    again = attend_to_memory(query[mixed], key, value, starts[mixed], lengths[mixed], 55, 6, 0.4)
    assert torch.equal(again, whole[mixed])


def test_rows_may_stand_apart():
    """As parts of a projection do."""
    query, key, value, starts, lengths = memory(4, 2, 6, [5, 40, 1])
    whole = attend_to_memory(query, key, value, starts, lengths, 40, 6, 0.4)
    both, more = torch.cat([key, value], dim=1), torch.cat([query, query], dim=1)
    parts = more[:, :24], both[:, :12], both[:, 12:]
    assert torch.equal(attend_to_memory(*parts, starts, lengths, 40, 6, 0.4), whole)


def test_a_row_that_may_look_nowhere_gets_zeros():
    query, key, value, starts, lengths = memory(2, 2, 20, [5, 0, 3])
    found = attend_to_memory(query, key, value, starts, lengths, 5, 20, 0.4)
    assert torch.equal(found[1], torch.zeros(40))
    assert found.isfinite().all()


@pytest.mark.parametrize("scale", [100.0, 1e4, -1e4])
def test_large_scores_do_not_overflow(scale):
    query, key, value, starts, lengths = memory(2, 1, 16, [9, 70])
    found = attend_to_memory(query, key, value, starts, lengths, 70, 16, scale)
    assert found.isfinite().all()
    largest = (query.view(2, 2, 16)[1] @ key[10:80].T * scale).argmax(dim=1)
    if abs(scale) == 1e4:  # all weight is on one position
        torch.testing.assert_close(found[1].view(2, 16), value[10:80][largest])


def test_nan_is_seen_in_its_row_alone():
    query, key, value, starts, lengths = memory(2, 2, 6, [9, 20, 4])
    whole = attend_to_memory(query, key, value, starts, lengths, 20, 6, 0.4)
    query[1] = torch.nan
    found = attend_to_memory(query, key, value, starts, lengths, 20, 6, 0.4)
    assert found[1].isnan().all()
    assert torch.equal(found[[0, 2]], whole[[0, 2]])


def test_the_number_of_threads_changes_no_bit(threads):
    query, key, value, starts, lengths = memory(4, 2, 16, [*range(1, 71)] * 2)
    assert query.numel() * 70 > constant("worth")
    found = []
    for number in (1, 2, 3):
        threads(number)
        found.append(attend_to_memory(query, key, value, starts, lengths, 70, 16, 0.3))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize(("shape", "d_head", "steps"), each_once(HEADS, D_HEADS, [5, 40]), ids=str)
def test_it_looks_at_what_its_row_has_read(shape, d_head, steps):
    """Rows are repeated, dropped and swapped between steps; each has a history of its own."""
    heads, groups = shape
    generator = torch.Generator().manual_seed(steps)
    rows, most, width = 5, 7, groups * d_head
    free = torch.randperm((steps + 3) * most, generator=generator).int()
    keys, values = (torch.full((len(free), width), torch.nan) for _ in range(2))
    table = torch.zeros(rows, steps + 3, dtype=torch.int32)
    key_history = [torch.empty(0, width) for _ in range(rows)]
    value_history, begun = list(key_history), [0] * rows
    for step in range(steps):
        query = torch.randn(rows, heads * d_head, generator=generator)
        key, value = (torch.randn(rows, width, generator=generator) for _ in range(2))
        slots, free = free[:rows].clone(), free[rows:]
        begins = torch.tensor(begun)
        positions = begins + torch.tensor([len(each) for each in key_history])
        found = attend_to_self(query, key, value, keys, values, table, slots, begins, positions, d_head, 0.3)
        for row in range(rows):
            key_history[row] = torch.cat([key_history[row], key[[row]]])
            value_history[row] = torch.cat([value_history[row], value[[row]]])
            assert table[row, positions[row]] == slots[row]
            if step in (0, 3, 15, 16, steps - 1):
                expected = exact(query[row], key_history[row], value_history[row], d_head, 0.3)
                close(found[row], expected)
        if step % 3 == 1:
            rows = int(torch.randint(1, most + 1, (), generator=generator))
            chosen = torch.randint(len(table), (rows,), generator=generator)
            table = table.index_select(0, chosen)
            key_history, value_history, begun = (
                [each[place] for place in chosen.tolist()] for each in (key_history, value_history, begun)
            )
            dropped = step % 2  # of the last row, which then is at another position of another length
            key_history[-1], value_history[-1] = key_history[-1][dropped:], value_history[-1][dropped:]
            begun[-1] += dropped


def test_what_a_row_has_read_decides_its_bits():
    """Not who else is there, in which slots its keys are, or how many threads there are."""
    generator = torch.Generator().manual_seed(1)
    query, key, value = (torch.randn(4, 20, 32, generator=generator) for _ in range(3))

    def said(rows, most):
        keys, values = torch.zeros(20 * most, 32), torch.zeros(20 * most, 32)
        table = torch.zeros(len(rows), 20, dtype=torch.int32)
        begins, slots = torch.zeros(len(rows), dtype=torch.int64), torch.arange(len(rows)).int()
        return torch.stack(
            [
                attend_to_self(
                    query[rows, at], key[rows, at], value[rows, at], keys, values, table,
                    slots + at * most, begins, begins + at, 16, 0.3,
                )
                for at in range(20)
            ],
            dim=1,
        )  # fmt: skip

    whole = said([0, 1, 2, 3], 4)
    assert torch.equal(said([2], 1), whole[[2]])
    assert torch.equal(said([3, 0, 3], 9), whole[[3, 0, 3]])
