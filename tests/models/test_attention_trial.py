"""A registered self-attention that cannot be called, or ignores its queries, is refused by name."""

import pytest
import torch

from regard.errors import ConfigError
from regard.layers.attention import SelfAttention
from regard.layers.scaled_dot_product import attention
from regard.models.build import count_config_parameters
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.registered import register_attention
from tests.models.small_models import SIZES, decoder, encoder, translation

pytestmark = pytest.mark.usefixtures("parts_only_here")


def registered(attend, **attributes):
    return register_attention("mine")(type("Mine", (SelfAttention,), {"attend": attend, **attributes}))


def test_an_attend_with_other_arguments_is_refused_before_there_is_a_model():
    registered(lambda self, query, key, value: value)
    config = DecoderOnlyConfig(vocab_size=11, num_layers=1, **SIZES, attention="mine")
    for use in (lambda: decoder(attention="mine"), lambda: count_config_parameters(config)):
        with pytest.raises(ConfigError, match="'mine': attend: too many positional arguments") as error:
            use()
        assert error.value.hint.endswith("query, key, value, mask, position_bias, dropout")


def test_a_forward_with_other_arguments_is_refused():
    kind = type("Mine", (SelfAttention,), {"forward": lambda self, x, mask: x})
    register_attention("mine")(kind)
    with pytest.raises(ConfigError, match="'mine': forward: "):
        decoder(attention="mine")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda mixed: mixed.transpose(1, 2), r"attend of Mine returns a tensor of shape \[2, 5, 4, 4\]"),
        (lambda mixed: (mixed, None), "attend of Mine returns tuple"),
        (lambda mixed: mixed + undefined, "fails: NameError"),  # noqa: F821
        (lambda mixed: mixed @ torch.ones(7, 4), "fails: RuntimeError: .*size"),
    ],
)
def test_an_attend_whose_output_cannot_be_used_is_refused(change, message):
    registered(lambda self, *given: change(attention(*given)))
    for build in (decoder, encoder, translation):
        with pytest.raises(ConfigError, match=f"the self-attention 'mine'.* {message}"):
            build(attention="mine")


def test_an_attend_that_does_not_repeat_shared_heads_is_refused():
    def attend(self, query, key, value, mask=None, position_bias=None, dropout=0.0):
        scores = query @ key.transpose(2, 3) + (0 if position_bias is None else position_bias)
        return scores.masked_fill(~mask, -1e9).softmax(dim=-1) @ value

    registered(attend)
    decoder(attention="mine")
    with pytest.raises(ConfigError, match="'mine' fails for num_kv_heads = 2: its queries have 4") as error:
        decoder(attention="mine", num_kv_heads=2)
    assert "repeat_interleave" in error.value.hint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda query, key, value: (query * 0, key, value), "ignores the queries"),
        (lambda query, key, value: (query, key * 0, value), "ignores the queries"),
        (lambda query, key, value: (query, key, key), "ignores the values"),
    ],
)
def test_an_attend_that_ignores_an_argument_is_refused(change, message):
    def attend(self, query, key, value, *others):
        return attention(*change(query, key, value), *others)

    registered(attend)
    for build in (decoder, encoder, translation):
        with pytest.raises(ConfigError, match=f"'mine' {message}") as error:
            build(attention="mine")
        is_declared = "write `ignores_queries = True` in the class Mine" in error.value.hint
        assert is_declared == ("queries" in message)


def test_weights_that_are_fixed_on_purpose_are_accepted():
    """Average attention (Zhang et al. 2018)."""
    registered(lambda self, query, *others: attention(query * 0, *others), ignores_queries=True)
    for build in (decoder, encoder, translation):
        build(attention="mine")


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("only Ampere GPUs or newer"),
        RuntimeError("head dimension of a CUDA tensor"),
        ValueError("Pointer argument cannot be accessed from Triton"),
        NotImplementedError("no operator for these inputs"),
        AssertionError(),
    ],
)
def test_a_kernel_that_needs_a_gpu_is_not_judged(error):
    def attend(self, *given):
        raise error

    registered(attend)
    decoder(attention="mine")


def test_an_attention_of_whole_blocks_is_not_judged():
    def attend(self, query, *others):
        return attention(query.unflatten(2, (-1, 64)).flatten(2, 3), *others)

    registered(attend)
    decoder(attention="mine")
