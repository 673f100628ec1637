"""Positions: golden numbers, the algebra each kind rests on, any length, any width."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from regard.layers.positions import (
    BucketBias,
    LearnedPositions,
    LinearBias,
    RotaryPositions,
    SinusoidalPositions,
    alibi_slopes,
    positions_in,
    sinusoids,
)


def test_the_sinusoid_of_position_2_in_width_4():
    """A notebook doubled the exponent and printed 2.0e-4 for the third number."""
    expected = torch.tensor([0.9093, -0.4161, 0.019999, 0.9998])
    torch.testing.assert_close(sinusoids(2, 1, 4)[0], expected, atol=5e-5, rtol=0)


@given(d_model=st.integers(1, 9), position=st.integers(0, 5000))
def test_every_width_has_sinusoids_odd_ones_too(d_model, position):
    """Every notebook's table raised for an odd width."""
    row = sinusoids(position, 1, d_model)[0]
    for i in range(d_model):
        angle = position / 10000 ** (2 * (i // 2) / d_model)
        assert row[i].item() == pytest.approx(math.cos(angle) if i % 2 else math.sin(angle), abs=1e-6)


@given(start=st.integers(0, 500), step=st.integers(0, 500))
def test_a_step_turns_every_pair_by_an_angle_that_does_not_depend_on_where_it_starts(start, step):
    """PE(pos + k) is a linear function of PE(pos): why the paper chose sinusoids."""
    d_model = 6
    here, there = sinusoids(start, 1, d_model)[0], sinusoids(start + step, 1, d_model)[0]
    for pair in range(3):
        angle = step / 10000 ** (2 * pair / d_model)
        turn = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        chunk = slice(2 * pair, 2 * pair + 2)
        torch.testing.assert_close(there[chunk], turn @ here[chunk], atol=1e-5, rtol=0)


@given(d_model=st.integers(1, 9))
def test_the_split_layout_holds_the_same_numbers_sines_first(d_model):
    table = sinusoids(0, 7, d_model)
    expected = torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)
    assert torch.equal(sinusoids(0, 7, d_model, "split"), expected)


@given(start=st.integers(0, 20), length=st.integers(1, 20))
def test_beyond_the_table_sinusoids_go_on_unchanged(start, length):
    short, long = SinusoidalPositions(6, table_len=8), SinusoidalPositions(6, table_len=64)
    assert torch.equal(short(start, length), long(start, length))


@pytest.mark.parametrize("positions", [SinusoidalPositions(6), RotaryPositions(6), LinearBias(4)])
def test_fixed_positions_move_with_the_model_and_are_not_saved(positions):
    """A notebook's table was a plain attribute, left behind by `.to`."""
    assert not positions.state_dict()
    assert not list(positions.parameters())
    moved = nn.Sequential(positions).to("meta")
    assert all(buffer.is_meta for buffer in moved.buffers())
    assert list(moved.buffers())


def test_learned_positions_count_from_where_the_cache_ends():
    positions = LearnedPositions(4, 10)
    assert torch.equal(positions(3, 2), positions(0, 10)[3:5])


@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_positions_begin_at_zero_in_each_document(lengths):
    documents = torch.tensor([[number for number, length in enumerate(lengths) for _ in range(length)]])
    expected = [place for length in lengths for place in range(length)]
    assert positions_in(documents)[0].tolist() == expected


@pytest.mark.parametrize("positions", [LearnedPositions(4, 10), SinusoidalPositions(4, table_len=3)])
def test_positions_can_be_asked_for_one_by_one(positions):
    rows = torch.tensor([[0, 1, 2, 0, 1], [0, 0, 1, 2, 3]])
    assert torch.equal(positions.at(rows), positions(0, 5)[rows])


def test_positions_that_were_not_learned_are_refused_by_name():
    """A notebook stopped with an index error."""
    with pytest.raises(ValueError, match="11 positions, but only max_positions \\(10\\)"):
        LearnedPositions(4, 10)(8, 3)
    few = LearnedPositions(4, 3)
    assert few.at(torch.tensor([[0, 1, 2, 0, 1]])).shape == (1, 5, 4)
    with pytest.raises(ValueError, match="4 positions, but only max_positions \\(3\\)"):
        few.at(torch.tensor([[0, 1, 2, 3, 0]]))


@given(query=st.integers(0, 60), key=st.integers(0, 60), shift=st.integers(0, 60))
def test_rotary_scores_depend_on_the_distance_alone(query, key, shift):
    rotary = RotaryPositions(8, table_len=32)
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(1, 1, 1, 8, generator=generator), torch.randn(1, 1, 1, 8, generator=generator)
    here = (rotary(q, query) * rotary(k, key)).sum()
    there = (rotary(q, query + shift) * rotary(k, key + shift)).sum()
    torch.testing.assert_close(here, there, atol=1e-5, rtol=1e-4)


def test_rotary_turns_the_halves_together_as_complex_numbers():
    x = torch.randn(2, 3, 5, 8)
    turned = RotaryPositions(8, base=100.0)(x, start=3)
    angles = torch.arange(3, 8)[:, None] / 100.0 ** (torch.arange(0, 8, 2) / 8)
    expected = torch.complex(x[..., :4], x[..., 4:]) * torch.polar(torch.ones(5, 4), angles.float())
    torch.testing.assert_close(turned, torch.cat([expected.real, expected.imag], dim=-1))


def test_rotary_needs_pairs():
    with pytest.raises(ValueError, match="d_head \\(5\\) must be even"):
        RotaryPositions(5)


def test_slopes_are_those_of_the_alibi_paper():
    assert alibi_slopes(8) == [2.0**-i for i in range(1, 9)]
    assert alibi_slopes(16) == [2.0 ** (-i / 2) for i in range(1, 17)]
    assert alibi_slopes(12) == alibi_slopes(8) + alibi_slopes(16)[0:8:2]


def test_alibi_lowers_scores_by_distance():
    bias = LinearBias(2)(3, 3)
    assert bias[0, 1].tolist() == [[-(2.0**-8) * abs(i - j) for j in range(3)] for i in range(3)]


@pytest.mark.parametrize("num_heads", [1, 2, 3, 8])
def test_directed_heads_have_their_slopes_in_one_direction_and_1_in_the_other(num_heads):
    bias = LinearBias(num_heads, directed=True)(4, 4)[0]
    half = (num_heads + 1) // 2
    slopes = alibi_slopes(half)
    for head in range(num_heads):
        back = head < half
        slope = slopes[head % half]
        for i, j in itertools.product(range(4), repeat=2):
            own = (j <= i) == back or i == j
            assert bias[head, i, j] == pytest.approx(-(slope if own else 1) * abs(i - j))
    assert max(slopes) < 1


def test_every_directed_head_tells_before_from_after():
    bias = LinearBias(3, directed=True)(5, 5)[0]
    assert (bias != bias.flip(1, 2)).any(dim=(1, 2)).all()


@pytest.mark.parametrize(
    "bias", [LinearBias(4), LinearBias(3, directed=True), BucketBias(4, bidirectional=False)]
)
@given(tgt_len=st.integers(1, 5), before=st.integers(0, 5))
def test_biases_count_the_queries_as_the_last_positions(bias, tgt_len, before):
    src_len = tgt_len + before
    assert torch.equal(bias(tgt_len, src_len), bias(src_len, src_len)[:, :, before:])


def t5_bucket(offset: int, bidirectional: bool, buckets: int = 32, max_distance: int = 128) -> int:
    """`_relative_position_bucket` of mesh_tensorflow's transformer_layers.py, one number at a time."""
    result, n = 0, -offset
    if bidirectional:
        buckets //= 2
        result += buckets if n < 0 else 0
        n = abs(n)
    else:
        n = max(n, 0)
    exact = buckets // 2
    if n < exact:
        return result + n
    far = exact + int(math.log(n / exact) / math.log(max_distance / exact) * (buckets - exact))
    return result + min(far, buckets - 1)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_are_those_of_t5(bidirectional):
    offsets = torch.arange(-300, 301)
    expected = [t5_bucket(offset, bidirectional) for offset in offsets.tolist()]
    found = BucketBias(2, bidirectional=bidirectional).buckets(offsets[None])[0]
    assert found.tolist() == expected
    never = {16} if bidirectional else set()  # zero steps ahead
    assert set(expected) == set(range(32)) - never


def test_a_bucket_bias_is_a_score_for_each_head_and_bucket():
    bias = BucketBias(3, bidirectional=True)
    scores = bias(4, 6)
    assert torch.equal(scores[0, 2, 3, 5], bias.weight[0, 2])
    assert torch.equal(scores[0, 1, 0, 5], bias.weight[16 + 3, 1])


@given(d_model=st.integers(1, 9), start=st.integers(0, 20))
def test_the_fairseq_layout_ends_with_the_lowest_frequency_of_10000(d_model, start):
    half = d_model // 2
    row = sinusoids(start, 1, d_model, "fairseq")[0]
    for i in range(half):
        angle = start / 10000 ** (i / max(1, half - 1))
        assert row[i].item() == pytest.approx(math.sin(angle), abs=1e-6)
        assert row[half + i].item() == pytest.approx(math.cos(angle), abs=1e-6)
    assert d_model % 2 == 0 or row[-1] == 0


def test_sinusoidal_positions_may_be_counted_from_an_offset():
    usual, later = SinusoidalPositions(6, "fairseq", table_len=9), SinusoidalPositions(6, "fairseq", offset=2)
    assert torch.equal(later(0, 5), usual(2, 5))
    assert torch.equal(SinusoidalPositions(6, "fairseq", table_len=3, offset=2)(1, 5), usual(3, 5))
    assert torch.equal(later.at(torch.tensor([[0, 1]])), usual(2, 2)[None])
