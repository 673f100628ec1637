"""Multi-head attention: each head alone, all that it may be asked, and what stands in for its kernel."""

import copy

import jaxtyping
import pytest
import torch

from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.cache import KeyValueCache
from regard.layers.masks import causal_mask, padding_mask
from regard.layers.positions import RotaryPositions
from regard.layers.scaled_dot_product import (
    SoftcappedAttention,
    attention_weights,
    plain_attention,
    refuse_other_mask,
)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def test_heads_look_apart_and_are_joined_by_the_output():
    attention = MultiHeadAttention(d_model=6, num_heads=2)
    x, memory = torch.randn(1, 3, 6), torch.randn(1, 4, 6)
    query, key, value = attention.query(x), attention.key(memory), attention.value(memory)
    heads = [
        torch.softmax(query[..., part] @ key[..., part].transpose(1, 2) / 3**0.5, dim=-1) @ value[..., part]
        for part in (slice(0, 3), slice(3, 6))
    ]
    torch.testing.assert_close(attention(x, memory), attention.output(torch.cat(heads, dim=-1)))


def test_decoding_with_a_cache_gives_what_reading_at_once_gives():
    attention = SelfAttention(d_model=16, num_heads=4)
    x = torch.randn(2, 6, 16)
    at_once = attention(x, x, causal_mask(6))
    cache = KeyValueCache()
    steps = []
    with torch.no_grad():
        for t in range(6):
            token = x[:, [t]]
            steps.append(attention(token, token, cache=cache))
    torch.testing.assert_close(torch.cat(steps, dim=1), at_once)


def test_a_memory_that_was_read_once_is_looked_at_many_times():
    attention = MultiHeadAttention(d_model=16, num_heads=4)
    x, memory = torch.randn(2, 3, 16), torch.randn(2, 5, 16)
    mask = padding_mask(torch.tensor([5, 2]), 5)
    torch.testing.assert_close(attention(x, attention.read(memory), mask), attention(x, memory, mask))


@pytest.mark.parametrize("make", [SelfAttention, MultiHeadAttention])
def test_attention_without_positions_does_not_know_the_order(make):
    attention = make(d_model=16, num_heads=4)
    x, order = torch.randn(2, 5, 16), torch.tensor([3, 0, 4, 1, 2])
    shuffled = x[:, order]
    torch.testing.assert_close(attention(shuffled, shuffled), attention(x, x)[:, order])


def test_rotary_positions_know_the_order_and_not_where_it_starts():
    attention = SelfAttention(d_model=16, num_heads=4, rotary=RotaryPositions(4))
    x = torch.randn(2, 5, 16)
    shuffled = x[:, [3, 0, 4, 1, 2]]
    assert not torch.allclose(attention(shuffled, shuffled), attention(x, x)[:, [3, 0, 4, 1, 2]], atol=1e-3)
    unseen = torch.zeros(2, 4, 100, 4)
    cache = KeyValueCache()
    cache.append(unseen, unseen)
    shifted = attention(x, x, torch.arange(105)[None, None, None] >= 100, cache=cache)
    torch.testing.assert_close(shifted, attention(x, x), atol=1e-5, rtol=1e-5)


def test_grouped_heads_are_full_heads_with_shared_keys_and_values():
    grouped = MultiHeadAttention(d_model=16, num_heads=4, num_kv_heads=2)
    full = MultiHeadAttention(d_model=16, num_heads=4)
    full.query, full.output = grouped.query, grouped.output
    for mine, shared in ((full.key, grouped.key), (full.value, grouped.value)):
        mine.weight.data = shared.weight.data.view(2, 4, 16).repeat_interleave(2, dim=0).reshape(16, 16)
        mine.bias.data = shared.bias.data.view(2, 4).repeat_interleave(2, dim=0).reshape(16)
    x, memory = torch.randn(2, 3, 16), torch.randn(2, 5, 16)
    torch.testing.assert_close(grouped(x, memory), full(x, memory))


def test_keys_and_values_may_come_from_inputs_of_other_widths():
    attention = MultiHeadAttention(d_model=16, num_heads=4, key_dim=6, value_dim=10)
    x, keys, values = torch.randn(2, 3, 16), torch.randn(2, 5, 6), torch.randn(2, 5, 10)
    assert attention(x, keys, values=values).shape == (2, 3, 16)


def test_another_kernel_can_be_put_in_and_sees_the_weights():
    """Notebooks computed the weights and threw them away, or used a kernel that has none."""
    attention = SelfAttention(d_model=16, num_heads=4).eval()
    x, mask, seen = torch.randn(2, 3, 16), causal_mask(3), []

    def tell(query, key, value, mask, position_bias, dropout):
        seen.append(attention_weights(query, key, mask, position_bias))
        return plain_attention(query, key, value, mask, position_bias, dropout)

    before = attention(x, x, mask)
    attention.attend = tell
    torch.testing.assert_close(attention(x, x, mask), before)
    assert seen[0].shape == (2, 4, 3, 3)
    torch.testing.assert_close(seen[0].sum(-1), torch.ones(2, 4, 3))


def test_dropout_acts_in_training_and_is_silent_in_evaluation():
    """PyTorch's kernel applies the given dropout rate in evaluation mode too."""
    attention = SelfAttention(d_model=16, num_heads=4, dropout=0.5)
    x = torch.randn(2, 6, 16)
    assert not torch.equal(attention(x, x), attention(x, x))
    attention.eval()
    assert torch.equal(attention(x, x), attention(x, x))


def test_widths_that_cannot_be_shared_out_are_refused():
    with pytest.raises(ValueError, match="d_model \\(10\\) must be divisible by num_heads \\(4\\)"):
        MultiHeadAttention(d_model=10, num_heads=4)
    with pytest.raises(ValueError, match="num_heads \\(4\\) must be divisible by num_kv_heads \\(3\\)"):
        SelfAttention(d_model=16, num_heads=4, num_kv_heads=3)


def test_self_attention_refuses_to_look_elsewhere():
    attention = SelfAttention(d_model=16, num_heads=4)
    x = torch.randn(2, 3, 16)
    with pytest.raises(ValueError, match="its own input"):
        attention(x, torch.randn(2, 3, 16))
    with pytest.raises(ValueError, match="its own input"):
        attention.read(x)


def test_a_forward_makes_no_module_and_no_parameter():
    attention = SelfAttention(d_model=16, num_heads=4)
    names = [name for name, _ in attention.named_modules()]
    x = torch.randn(2, 3, 16)
    attention(x, x)
    assert [name for name, _ in attention.named_modules()] == names == ["", "query_key_value", "output"]


def test_norms_of_queries_and_keys_bound_the_scores():
    """However large the input; and they act head by head, before the turn of rotary positions."""
    attention = SelfAttention(
        8, 2, rotary=RotaryPositions(4), qk_norm=lambda width: torch.nn.RMSNorm(width, eps=1e-6)
    )
    seen = []

    def watching(query, key, *others):
        seen.append((query, key))
        return plain_attention(query, key, *others)

    attention.attend = watching
    x = 1e4 * torch.randn(1, 3, 8)
    attention(x, x)
    for turned in seen[0]:
        torch.testing.assert_close(turned.square().mean(-1), torch.ones(1, 2, 3))
    assert {name for name, _ in attention.named_parameters() if "norm" in name} == {
        "query_norm.weight",
        "key_norm.weight",
    }


def test_norms_of_all_heads_act_on_all_features_of_a_position():
    torch.manual_seed(0)
    make = lambda width: torch.nn.RMSNorm(width, eps=1e-6)  # noqa: E731
    attention = SelfAttention(8, 4, num_kv_heads=2, qk_norm=make, qk_norm_width="all_heads")
    assert (attention.query_norm.weight.shape, attention.key_norm.weight.shape) == ((8,), (4,))
    seen = []

    def watching(query, key, *others):
        seen.append((query, key))
        return plain_attention(query, key, *others)

    attention.attend = watching
    x = 1e3 * torch.randn(1, 3, 8)
    attention(x, x)
    for normed in seen[0]:
        torch.testing.assert_close(normed.transpose(1, 2).flatten(2).square().mean(-1), torch.ones(1, 3))
        assert not torch.allclose(normed.square().mean(-1), torch.ones(1, normed.size(1), 3), rtol=0.01)


class Averaging(SelfAttention):
    """The mean of all values that a query may see, whatever the scores."""

    def attend(self, query, key, value, mask=None, position_bias=None, dropout=0.0):
        seen = torch.ones(query.size(2), key.size(2)) if mask is None else mask.to(query)
        return seen / seen.sum(dim=-1, keepdim=True) @ value


def test_a_subclass_may_define_its_kernel_as_a_method():
    """An attribute of the object hid it: a model with such an attention was one with softmax."""
    attention = Averaging(8, 2)
    x, mask = torch.randn(1, 4, 8), causal_mask(4)
    values = attention.query_key_value(x)[..., 16:]
    expected = attention.output(values.cumsum(dim=1) / torch.arange(1, 5)[:, None])
    torch.testing.assert_close(attention(x, x, mask), expected)
    assert "attend" not in vars(attention)
    torch.testing.assert_close(copy.deepcopy(attention)(x, x, mask), expected)
    assert "attend" not in vars(copy.deepcopy(attention))


def test_a_method_is_the_kernel_of_softcapped_attention_too():
    assert not isinstance(Averaging(8, 2, softcap=3.0).attend, SoftcappedAttention)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (lambda mixed: mixed[:, :, :1], "a tensor of shape [1, 2, 1, 4]"),
        (lambda mixed: mixed[..., :1], "a tensor of shape [1, 2, 4, 1]"),
        (lambda mixed: None, "NoneType"),
    ],
)
def test_a_kernel_of_a_subclass_must_give_an_output_for_each_query(given, shown):
    class Wrong(Averaging):
        def attend(self, *given_to, **more):
            return given(super().attend(*given_to, **more))

    x = torch.randn(1, 4, 8)
    with pytest.raises(ValueError, match="attend of Wrong returns") as raised:
        Wrong(8, 2)(x, x, causal_mask(4))
    assert f"returns {shown}, not" in str(raised.value)
    assert "here [1, 2, 4, 4]" in str(raised.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_a_mask_of_numbers_is_refused(dtype, monkeypatch):
    """PyTorch's kernel adds a mask of numbers to the scores: 0 and 1 would let the future in."""
    refuse_other_mask(causal_mask(3))
    refuse_other_mask(None)
    x, mask = torch.randn(1, 3, 8), causal_mask(3).to(dtype)
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it would refuse it first
    for call in (lambda: MultiHeadAttention(8, 2)(x, x, mask), lambda: attention_weights(x, x, mask)):
        with pytest.raises(ValueError, match=f"the mask has dtype {dtype}, not torch.bool"):
            call()


@pytest.mark.parametrize("heads", [{"num_heads": 0}, {"num_heads": 2, "num_kv_heads": 0}])
def test_no_heads_are_refused(heads):
    with pytest.raises(ValueError, match="must be 1 or more"):
        MultiHeadAttention(8, **heads)
