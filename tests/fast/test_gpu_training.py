"""The kernels in Triton compute what the plain formulas compute, with their gradients.

On a GPU, or where Triton is installed by its interpreter (TRITON_INTERPRET=1). Whole models need a GPU.
"""

import os
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from regard.distributed.replicated import ReplicatedModel
from regard.fast import fusible
from regard.fast import half_weights as half_weights_file
from regard.fast.half_copies import copies
from regard.fast.half_weights import half_weights
from regard.fast.packed_rows import Sequences
from regard.fast.packed_training import packed_states
from regard.fast.training import fused
from regard.layers.masks import causal_mask, padding_mask
from regard.layers.positions import RotaryPositions
from regard.layers.scaled_dot_product import plain_attention
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.training.gradients import Gradients
from regard.training.objective import CrossEntropy, NextToken
from regard.training.packed_loss import packed_of
from regard.training.prefetch import prepared_for_gpu
from tests.data.test_packed_pairs import PAD, batch_of
from tests.fast.test_packed_training import attention_of_sequences as one_by_one
from tests.laws.test_family import pairs, running_text

HAS_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if HAS_GPU else "cpu")
HALF = torch.bfloat16 if HAS_GPU else torch.float16  # of the interpreter
DTYPES = [torch.float32, torch.bfloat16] if HAS_GPU else [torch.float32]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not HAS_GPU and os.environ.get("TRITON_INTERPRET") != "1", reason="needs a GPU"),
]


@pytest.fixture(autouse=True)
def kernels():
    return pytest.importorskip("triton")


def drawn(*shape, dtype=torch.float32):
    return torch.randn(*shape, device=DEVICE, dtype=dtype)


def gradients(function, *tensors):
    """The output, and the gradients of its products with random numbers."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    out = function(*leaves)
    out = out[0] if isinstance(out, tuple) else out
    torch.manual_seed(1)
    (out.float() * torch.randn(out.shape, device=DEVICE)).sum().backward()
    return [out.detach(), *(leaf.grad for leaf in leaves)]


def close(function, plain, *tensors, dtype=torch.float32):
    """Equal up to the rounding of this type, to what the formula gives in float32."""
    tolerance = {torch.float32: 2e-4, torch.bfloat16: 0.03}[dtype]
    expected = gradients(plain, *(tensor.float() for tensor in tensors))
    for found, value in zip(gradients(function, *tensors), expected, strict=True):
        scale = float(value.abs().max()) or 1.0
        torch.testing.assert_close(found.float() / scale, value / scale, atol=tolerance, rtol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("features", [20, 512])
def test_norms(dtype, features, monkeypatch):
    from regard.fast.triton.norm import AddNorm, Drops, Norm

    monkeypatch.setattr("regard.fast.triton.norm.PROGRAMS", 4)
    torch.manual_seed(0)
    x, residual = drawn(7, 5, features, dtype=dtype), drawn(7, 5, features)
    gain, bias, whole = drawn(features), drawn(features), (features,)
    layer, rms = Norm(1e-5, True, torch.float32), Norm(1e-5, False, torch.float32)
    none = Drops(0.0, 0)
    close(
        lambda r, x, g, b: AddNorm.apply(r, x, g, b, layer, none),
        lambda r, x, g, b: F.layer_norm(r + x, whole, g, b, 1e-5),
        residual, x, gain, bias, dtype=dtype,
    )  # fmt: skip
    close(
        lambda x, g, b: AddNorm.apply(None, x, g, b, layer, none),
        lambda x, g, b: F.layer_norm(x, whole, g, b, 1e-5),
        x, gain, bias, dtype=dtype,
    )  # fmt: skip
    close(
        lambda x, g: AddNorm.apply(None, x, g, None, rms, none),
        lambda x, g: F.rms_norm(x, whole, g, 1e-5),
        x, gain, dtype=dtype,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("outputs", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_norms_with_their_copy_and_their_sum(dtype, outputs, monkeypatch):
    """Whichever outputs are used, the gradients are those of all of them."""
    from regard.fast.triton.norm import AddNorm, Drops, Norm

    monkeypatch.setattr("regard.fast.triton.norm.PROGRAMS", 4)
    torch.manual_seed(0)
    x, residual, gain, bias = drawn(6, 5, 40, dtype=dtype), drawn(6, 5, 40), drawn(40), drawn(40)
    norm = Norm(1e-5, True, torch.float32, torch.float16, True)

    def used(found):
        return torch.stack([(each + 1) * found[each].float() for each in outputs])

    def plain(residual, x, gain, bias):
        normed = F.layer_norm(residual + x, (40,), gain, bias, 1e-5)
        found = used([normed, normed, residual + x])
        return found + 0 * (
            gain.sum() + bias.sum()
        )  # the gradients of parameters that are not used are zeros

    close(
        lambda r, x, g, b: used(AddNorm.apply(r, x, g, b, norm, Drops(0.0, 0))),
        plain,
        residual, x, gain, bias, dtype=torch.bfloat16,
    )  # fmt: skip
    out, half, added = AddNorm.apply(residual, x, gain, bias, norm, Drops(0.0, 0))
    assert half.dtype == torch.float16
    torch.testing.assert_close(half, out.half())
    torch.testing.assert_close(added, residual + x)
    assert AddNorm.apply(residual, x, gain, bias, Norm(1e-5, True, torch.float32), Drops(0.0, 0))[1:] == (
        None,
        None,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", range(3))
def test_activations(dtype, kind):
    from regard.fast.gpu_training import ACTIVATIONS
    from regard.fast.triton.elementwise import ActivateDropped
    from regard.fast.triton.norm import Drops

    torch.manual_seed(0)
    close(
        lambda x, b: ActivateDropped.apply(x, b, kind, Drops(0.0, 0)),
        lambda x, b: ACTIVATIONS[kind](x + b),
        drawn(5, 30, 100, dtype=dtype), drawn(100), dtype=dtype,
    )  # fmt: skip


@pytest.mark.parametrize("kind", range(3))
def test_nan_stays_nan_in_an_activation(kind):
    from regard.fast.gpu_training import ACTIVATIONS
    from regard.fast.triton.elementwise import ActivateDropped
    from regard.fast.triton.norm import Drops

    x, bias = torch.tensor([[torch.nan, 1.0, -1.0]], device=DEVICE), torch.zeros(3, device=DEVICE)
    found = gradients(lambda x: ActivateDropped.apply(x, bias, kind, Drops(0.0, 0)), x)
    expected = gradients(lambda x: ACTIVATIONS[kind](x + bias), x)
    assert found[0].isnan().tolist() == [[True, False, False]]
    for value, plain in zip(found, expected, strict=True):
        torch.testing.assert_close(value, plain, atol=2e-4, rtol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("has_bias", [False, True])
def test_cross_entropy(dtype, smoothing, has_bias, monkeypatch):
    from regard.fast.triton import cross_entropy

    monkeypatch.setattr(cross_entropy, "LOGITS_AT_A_TIME", 50 * 10)
    monkeypatch.setattr(cross_entropy, "BLOCK", 16)
    torch.manual_seed(0)
    labels = torch.randint(50, (37,), device=DEVICE)
    inputs = [drawn(37, 16), drawn(50, 16), *([drawn(50)] if has_bias else [])]
    close(
        lambda x, w, b=None: cross_entropy.LinearCrossEntropy.apply(x, w, b, labels, smoothing, dtype),
        lambda x, w, b=None: F.cross_entropy(
            F.linear(x, w, b), labels, label_smoothing=smoothing, reduction="sum"
        ),
        *inputs, dtype=dtype,
    )  # fmt: skip
    labels[3] = 50
    assert cross_entropy.LinearCrossEntropy.apply(*inputs[:2], None, labels, 0.0, dtype)[0].isnan()


@pytest.mark.parametrize("dtype", DTYPES[-1:])  # products in float32 would have factors of TF32
@pytest.mark.parametrize("lengths", [(5, 7), (20, 20), (17, 3), (70, 70), (128, 100)])
def test_attention_of_short_sequences(dtype, lengths):
    from regard.fast.triton.attention import ShortAttention
    from regard.fast.triton.norm import Drops

    torch.manual_seed(0)
    targets, sources = lengths
    rows = drawn(3, max(lengths), 3, 2, 64, dtype=dtype).unbind(2)
    query, key, value = (
        row[:, :length].transpose(1, 2) for row, length in zip(rows, (targets, sources, sources), strict=True)
    )
    counts = torch.tensor([sources, 0, max(1, sources - 2)], device=DEVICE)
    masks = [None, padding_mask(counts, sources), drawn(3, 1, targets, sources) > 0]
    if targets == sources:
        masks += [causal_mask(targets, device=DEVICE)]
    for mask in masks:
        close(
            lambda q, k, v, mask=mask: ShortAttention.apply(q, k, v, mask, None, Drops(0.0, 0)),
            lambda q, k, v, mask=mask: plain_attention(q, k, v, mask),
            query, key, value, dtype=dtype,
        )  # fmt: skip


@pytest.mark.parametrize("longest", [7, 16, 20, 100, 128])
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_of_rows_without_padding(longest, is_causal):
    """Some have no queries, no keys, or neither; what is not a row's is not read."""
    from regard.fast.triton.attention import PackedRows, ShortAttention
    from regard.fast.triton.norm import Drops

    torch.manual_seed(0)
    targets = torch.tensor([longest, 0, 3, 0, 1, longest - 2])
    sources = targets if is_causal else torch.tensor([2, 4, longest, 0, 0, 5])
    starts = [torch.cat([torch.tensor([0]), each.cumsum(0)]).to(DEVICE) for each in (targets, sources)]
    query, key, value = (
        drawn(1, int(total), 2, 64, dtype=HALF).transpose(1, 2)
        for total in (targets.sum(), sources.sum(), sources.sum())
    )
    rows = PackedRows(*starts, longest, is_causal)
    after = [torch.cat([each, torch.full_like(each[:, :, :1], torch.nan)], 2) for each in (query, key, value)]
    found = ShortAttention.apply(*after, None, rows, Drops(0.0, 0))[:, :, : query.size(2)]
    assert torch.equal(found, ShortAttention.apply(query, key, value, None, rows, Drops(0.0, 0)))
    close(
        lambda q, k, v: ShortAttention.apply(q, k, v, None, rows, Drops(0.0, 0)),
        lambda q, k, v: one_by_one(q, k, v, *starts, longest, 0.0, is_causal=is_causal),
        query, key, value, dtype=torch.bfloat16,
    )  # fmt: skip
    if not is_causal:
        one = torch.ones_like(value)
        dropped = ShortAttention.apply(query, key, one, None, rows, Drops(0.5, 3))
        weights = ShortAttention.apply(query, key, one, None, rows, Drops(0.0, 0))
        assert not torch.equal(dropped[:, :, :longest], weights[:, :, :longest])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [1, 5, 130])
def test_rotary_positions(length, dtype):
    from regard.fast.triton.rotation import Rotation

    torch.manual_seed(0)
    rotary = RotaryPositions(32, base=50.0).to(DEVICE)
    x = (
        drawn(2, length, 3, 2, 32, dtype=dtype).unbind(2)[1].transpose(1, 2)
    )  # not contiguous, as in attention
    tables = rotary.sines_and_cosines(0, length)
    close(lambda x: Rotation.apply(x, None, *tables), lambda x: rotary.rotated(x, *tables), x, dtype=dtype)
    places = torch.randint(length, (length,), device=DEVICE)
    close(
        lambda x: Rotation.apply(x, places, *tables),
        lambda x: rotary.rotated(x, *(table[places] for table in tables)),
        x, dtype=dtype,
    )  # fmt: skip
    assert Rotation.apply(x, None, *tables).dtype == dtype
    leaf = x.clone().requires_grad_()
    Rotation.apply(leaf, None, *tables).sum().backward()  # a gradient of one number in memory
    ones = torch.ones_like(x)
    torch.testing.assert_close(leaf.grad, Rotation.apply(ones, None, -tables[0], tables[1]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(1, 1, 5), (300, 24, 70), (33, 16, 64)])
def test_products_with_bias(sizes, dtype, monkeypatch):
    from regard.fast.triton.biased_product import BiasedProduct

    monkeypatch.setattr("regard.fast.triton.biased_product.PROGRAMS", 4)
    torch.manual_seed(0)
    rows, inputs, outputs = sizes
    tensors = (
        drawn(rows, inputs, dtype=dtype),
        drawn(outputs, inputs, dtype=dtype),
        drawn(outputs, dtype=dtype),
    )
    close(BiasedProduct.apply, F.linear, *tensors, dtype=dtype)
    assert BiasedProduct.apply(tensors[0][None], *tensors[1:]).shape == (1, rows, outputs)
    bias = tensors[2].clone().requires_grad_()
    BiasedProduct.apply(*tensors[:2], bias).sum().backward()  # a gradient of one number in memory
    assert torch.equal(bias.grad, torch.full_like(bias, rows))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_without_ignored_labels(smoothing):
    from regard.fast.triton.cross_entropy import LinearCrossEntropy

    torch.manual_seed(0)
    x, weight, labels = drawn(40, 20), drawn(70, 20), torch.randint(70, (40,), device=DEVICE)
    labels[::3] = -100
    dtype = DTYPES[0]
    close(
        lambda x, w: LinearCrossEntropy.apply(x, w, None, labels, smoothing, dtype)[0],
        lambda x, w: F.cross_entropy(x @ w.T, labels, reduction="sum", label_smoothing=smoothing),
        x, weight,
    )  # fmt: skip
    nll = LinearCrossEntropy.apply(x, weight, None, labels, smoothing, dtype)[1]
    torch.testing.assert_close(nll, F.cross_entropy(x @ weight.T, labels, reduction="sum"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("window", [0, 4, 40])
def test_attention_of_one_query(dtype, group, window, monkeypatch):
    """Each row to as many positions as it has read, and to its new one, which is stored."""
    from regard.fast.triton import one_query

    monkeypatch.setattr(one_query, "AT_A_TIME", 1)
    torch.manual_seed(0)
    stored, lengths = drawn(2, 4, 2, 50, 32, dtype=dtype), torch.tensor([0, 3, 21, 49], device=DEVICE)
    query, new = drawn(4, 2 * group, 32, dtype=dtype), drawn(2, 4, 2, 1, 32, dtype=dtype)
    out, read = drawn(4, 2 * group * 32, dtype=dtype), stored.clone()
    one_query.attend(query, (new[0], new[1]), read, lengths, out, scale=0.3, window=window)
    for row, length in enumerate(lengths.tolist()):
        stored[:, row, :, length] = new[:, row, :, 0]
        first = max(0, length + 1 - window) if window else 0
        key, value = (part[row, :, first : length + 1].repeat_interleave(group, 0).float() for part in stored)
        weights = (key @ query[row, :, :, None].float() * 0.3).softmax(dim=1)
        expected = (weights * value).sum(1).flatten()
        tolerance = 1e-5 if dtype == torch.float32 else 0.02
        torch.testing.assert_close(out[row].float(), expected, atol=tolerance, rtol=tolerance)
    assert torch.equal(read, stored)
    one_query.attend(query, None, read, lengths.clamp(min=1), out, scale=0.3, window=0)
    key = read[0, 2, :, :21].repeat_interleave(group, 0).float()
    weights = (key @ query[2, :, :, None].float() * 0.3).softmax(dim=1)
    expected = (weights * read[1, 2, :, :21].repeat_interleave(group, 0).float()).sum(1).flatten()
    torch.testing.assert_close(out[2].float(), expected, atol=0.02, rtol=0.02)


def test_dropout_drops_as_many_as_it_shall():
    from regard.fast.triton.elementwise import ActivateDropped, AddDropped
    from regard.fast.triton.norm import Drops

    torch.manual_seed(0)
    drops, x = Drops(0.3, 7), drawn(40, 100).abs() + 1
    zeros = torch.zeros_like(x)
    for out, *_, of_x in (
        gradients(lambda x: AddDropped.apply(zeros, x, drops), x),
        gradients(lambda x: ActivateDropped.apply(x, zeros[0], 0, drops), x),
    ):
        assert torch.equal(out == 0, of_x == 0)
        assert abs((out == 0).float().mean() - 0.3) < 0.03
        torch.testing.assert_close(out[out != 0], x[out != 0] / 0.7)


def test_a_seed_in_memory_drops_the_same_elements():
    from regard.fast.triton.attention import ShortAttention
    from regard.fast.triton.elementwise import ActivateDropped, AddDropped
    from regard.fast.triton.norm import AddNorm, Drops, Norm

    torch.manual_seed(0)
    x, gain, norm = drawn(40, 100), drawn(100), Norm(1e-5, True, torch.float32)
    query, key, value = drawn(3, 2, 2, 32, 32, dtype=DTYPES[-1]).unbind(0)
    seeds = torch.tensor([3, 7], device=DEVICE)
    for function in (
        lambda x, drops: AddDropped.apply(x, x, drops),
        lambda x, drops: ActivateDropped.apply(x, gain, 1, drops),
        lambda x, drops: AddNorm.apply(x, x, gain, gain, norm, drops),
    ):
        given = gradients(lambda x, function=function: function(x, Drops(0.3, 7)), x)
        read = gradients(lambda x, function=function: function(x, Drops(0.3, seeds[1])), x)
        other = gradients(lambda x, function=function: function(x, Drops(0.3, seeds[0])), x)
        assert all(torch.equal(one, two) for one, two in zip(given, read, strict=True))
        assert not any(torch.equal(one, two) for one, two in zip(given, other, strict=True))
    given, read = (
        gradients(
            lambda q, k, v, seed=seed: ShortAttention.apply(q, k, v, None, None, Drops(0.3, seed)),
            query,
            key,
            value,
        )
        for seed in (7, seeds[1])
    )
    assert all(torch.equal(one, two) for one, two in zip(given, read, strict=True))


def test_gradients_are_those_of_the_elements_that_were_kept():
    """What is kept is read from an output; the formula gets the same elements."""
    from regard.fast.triton.attention import PackedRows, ShortAttention
    from regard.fast.triton.elementwise import ActivateDropped, AddDropped
    from regard.fast.triton.norm import AddNorm, Drops, Norm

    torch.manual_seed(0)
    drops, x, residual = Drops(0.3, 7), drawn(40, 100), drawn(40, 100)
    kept = (AddDropped.apply(torch.zeros_like(x), torch.ones_like(x), drops) > 0) / 0.7
    gain, bias, norm = drawn(100), drawn(100), Norm(1e-5, True, torch.float32)
    close(
        lambda r, x: AddDropped.apply(r, x, drops), lambda r, x: r + x * kept, residual, x
    )  # fmt: skip
    close(
        lambda r, x, g, b: AddNorm.apply(r, x, g, b, norm, drops),
        lambda r, x, g, b: F.layer_norm(r + x * kept, (100,), g, b),
        residual, x, gain, bias,
    )  # fmt: skip
    close(lambda x, b: ActivateDropped.apply(x, b, 1, drops), lambda x, b: F.gelu(x + b) * kept, x, bias)
    dtype = DTYPES[-1]
    query, key, value = drawn(3, 2, 2, 32, 32, dtype=dtype).unbind(0)
    each = torch.eye(32, device=DEVICE, dtype=dtype).expand(2, 2, -1, -1)  # gives the weights themselves
    kept = (ShortAttention.apply(query * 0, key * 0, each, None, None, drops) > 0) / 0.7
    close(
        lambda q, k, v: ShortAttention.apply(q, k, v, None, None, drops),
        lambda q, k, v: ((q @ k.mT / 32**0.5).softmax(-1) * kept) @ v,
        query, key, value, dtype=dtype,
    )  # fmt: skip
    bounds = torch.tensor([0, 20, 20, 32], device=DEVICE)
    rows = PackedRows(bounds, bounds, 20, False)
    inside = torch.block_diag(torch.ones(20, 20), torch.ones(12, 12)).bool().to(DEVICE)
    kept = (ShortAttention.apply(query[:1] * 0, key[:1] * 0, each[:1], None, rows, drops) > 0) / 0.7
    assert not kept[:, :, ~inside].any()
    close(
        lambda q, k, v: ShortAttention.apply(q, k, v, None, rows, drops),
        lambda q, k, v: ((q @ k.mT / 32**0.5).where(inside, -torch.inf).softmax(-1) * kept) @ v,
        query[:1], key[:1], value[:1], dtype=dtype,
    )  # fmt: skip


@pytest.fixture
def kernels_everywhere(monkeypatch):
    """Without a GPU the fused forms take the kernels on the CPU, by the interpreter.

    But not for attention: the interpreter sums its products in float16.
    """
    if HAS_GPU:
        return
    monkeypatch.setattr(fusible, "GPUS", ("cpu",))
    monkeypatch.setattr(fusible, "has_triton", lambda: True)
    monkeypatch.setattr("regard.fast.triton.attention.fits", lambda *_: False)


@pytest.mark.usefixtures("kernels_everywhere")
@pytest.mark.parametrize("precision", ["float32", "half"])
@pytest.mark.parametrize(
    "table",
    [
        {}, {"norm_position": "pre", "activation": "gelu"}, {"norm_position": "sandwich", "norm": "rms"},
        {"norm_position": "reordered", "activation": "swiglu"}, {"positions": "alibi", "num_kv_heads": 2},
    ],
    ids=str,
)  # fmt: skip
def test_a_model_has_the_gradients_of_its_plain_form(table, precision):
    sizes = {"d_model": 64, "num_heads": 4, "d_ff": 96, "num_encoder_layers": 2, "num_decoder_layers": 2}
    config = EncoderDecoderConfig(src_vocab_size=90, tgt_vocab_size=90, dropout=0.0, **{**sizes, **table})
    batch = pairs().to(DEVICE)
    check(build_model(config, seed=0).to(DEVICE).train(), CrossEntropy(smoothing=0.1), batch, precision)
    if "norm_position" in table and table["norm_position"] != "sandwich":
        sizes = {"d_model": 64, "num_heads": 4, "d_ff": 96, "num_layers": 2}
        config = DecoderOnlyConfig(vocab_size=90, dropout=0.0, attention_dropout=0.0, **{**sizes, **table})
        model = build_model(config, seed=0).to(DEVICE).train()
        check(model, NextToken(), running_text().to(DEVICE), precision)


def check(model, objective, batch, precision):
    """Its gradients are as close to those of float32 as those of the plain form."""
    exact = gradient_of(model, objective, batch, nullcontext(), None)
    if precision == "float32":
        found = gradient_of(model, objective, batch, fused(model), None)
        assert (found - exact).norm() < 1e-4 * exact.norm()
        return
    plain = gradient_of(model, objective, batch, nullcontext(), HALF)
    found = gradient_of(model, objective, batch, fused(model), HALF)
    assert (found - exact).norm() < 1.5 * (plain - exact).norm() + 1e-3 * exact.norm()


def gradient_of(model, objective, batch, form, dtype):
    """All gradients as one vector."""
    model.zero_grad()
    with form:
        with torch.autocast(DEVICE.type, HALF, enabled=dtype is not None), half_weights(model), copies(True):
            loss = objective(model, batch)
        loss.total.backward()
    return torch.cat([weight.grad.flatten().float() for weight in model.parameters()])


@pytest.mark.usefixtures("kernels_everywhere")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_pairs_are_packed_where_all_kernels_are(dtype, monkeypatch):
    monkeypatch.setattr("regard.fast.triton.attention.fits", lambda *_: True)
    sizes = {"d_model": 64, "num_heads": 4, "d_ff": 96, "num_encoder_layers": 1, "num_decoder_layers": 1}
    model = build_model(EncoderDecoderConfig(src_vocab_size=90, tgt_vocab_size=90, **sizes), seed=0)
    model, batch = model.to(DEVICE).train(), prepared_for_gpu(pairs(), PAD)
    with fused(model), torch.autocast(DEVICE.type, dtype, enabled=dtype != torch.float32):
        is_packed = packed_of(model, CrossEntropy(), batch) is not None
    assert is_packed == (dtype == torch.bfloat16)


TABLES = [
    {},
    {"norm_position": "pre", "norm": "rms", "positions": "rotary", "activation": "swiglu"},
    {"norm_position": "pre", "positions": "rotary", "qk_norm": True},
]


@pytest.mark.usefixtures("kernels_everywhere")
@pytest.mark.parametrize("table", TABLES, ids=str)
def test_states_of_pairs_without_padding(table):
    sizes = {"d_model": 64, "num_heads": 4, "d_ff": 96, "num_encoder_layers": 2, "num_decoder_layers": 2}
    config = EncoderDecoderConfig(src_vocab_size=90, tgt_vocab_size=90, dropout=0.0, **{**sizes, **table})
    model, batch = build_model(config, seed=0).to(DEVICE).train(), batch_of([(5, 9), (0, 3), (12, 0)])
    found, batch = prepared_for_gpu(batch, PAD).packed.each(lambda each: each.to(DEVICE)), batch.to(DEVICE)
    source, target = (
        Sequences(each.positions, each.bounds, found.sizes.longest) for each in (found.source, found.target)
    )
    exact = model.decoder_states(batch.tgt_input, model.encode(batch.src_ids, batch.src_lengths))
    exact = exact[torch.arange(exact.size(1), device=DEVICE) < (batch.tgt_lengths - 1)[:, None]]
    with fused(model), torch.autocast(DEVICE.type, HALF), half_weights(model), copies(True):
        states = packed_states(model, found.source.ids, source, found.target.ids, target)
    states.float().square().sum().backward()
    assert all(weight.grad.isfinite().all() for weight in model.parameters() if weight.grad is not None)
    assert (states[: len(exact)] - exact).norm() < 0.02 * exact.norm()


@pytest.mark.skipif(not HAS_GPU, reason="the interpreter sums products of attention in float16")
@pytest.mark.parametrize("table", TABLES, ids=str)
def test_an_update_without_padding_is_that_of_the_padded_batch(table, monkeypatch):
    counts, usual = [], Gradients._packed_pass_of
    monkeypatch.setattr(
        Gradients, "_packed_pass_of", lambda self, packed: (counts.append(1), usual(self, packed))[1]
    )
    sizes = {"d_model": 64, "num_heads": 4, "d_ff": 96, "num_encoder_layers": 2, "num_decoder_layers": 2}
    config = EncoderDecoderConfig(src_vocab_size=90, tgt_vocab_size=90, dropout=0.0, **{**sizes, **table})
    model, found = build_model(config, seed=0).to(DEVICE).train(), {}
    batch = prepared_for_gpu(batch_of([(5, 9), (0, 3), (12, 0), (60, 2), (7, 7)]), PAD).to(DEVICE)
    for name, each, precision in (
        ("exact", replace(batch, packed=None), "float32"),
        ("padded", replace(batch, packed=None), "bfloat16"),
        ("packed", batch, "bfloat16"),
    ):
        model.zero_grad()
        with fused(model):
            gradients = Gradients(ReplicatedModel(model), CrossEntropy(smoothing=0.1), DEVICE, precision)
            sums = gradients.compute([each], model.zero_grad)
        found[name] = sums, torch.cat([weight.grad.flatten() for weight in model.parameters()])
    torch.testing.assert_close(found["packed"][0], found["exact"][0], rtol=0.01, atol=0)
    assert len(counts) == 1
    exact = found["exact"][1]
    assert (found["packed"][1] - exact).norm() < 1.5 * (found["padded"][1] - exact).norm()


@pytest.mark.usefixtures("kernels_everywhere")
def test_the_kernels_are_used(monkeypatch):
    from regard.fast.triton.attention import ShortAttention
    from regard.fast.triton.cross_entropy import LinearCrossEntropy
    from regard.fast.triton.elementwise import ActivateDropped
    from regard.fast.triton.norm import AddNorm

    called = []
    for kind in (ShortAttention, LinearCrossEntropy, ActivateDropped, AddNorm):
        usual = kind.apply
        monkeypatch.setattr(
            kind, "apply", lambda *given, kind=kind, usual=usual: (called.append(kind), usual(*given))[1]
        )
    sizes = {"d_model": 64, "num_heads": 4, "d_ff": 96, "num_encoder_layers": 1, "num_decoder_layers": 1}
    model = build_model(EncoderDecoderConfig(src_vocab_size=90, tgt_vocab_size=90, **sizes), seed=0)
    model = model.to(DEVICE).train()
    with fused(model), torch.autocast(DEVICE.type, HALF):
        CrossEntropy(smoothing=0.1)(model, pairs().to(DEVICE))
    counts = {kind.__name__: called.count(kind) for kind in called}
    on_gpu = {"ShortAttention": 3, "LinearCrossEntropy": 1} if HAS_GPU else {}  # the latter not in float16
    assert counts == {"ActivateDropped": 2, "AddNorm": 5, **on_gpu}


@pytest.mark.usefixtures("kernels_everywhere")
@pytest.mark.parametrize(("norm_position", "casts"), [("post", 2), ("pre", 4)])
def test_norms_give_copies_to_the_layers_after_them(norm_position, casts, monkeypatch):
    """Linear layers cast what no such norm wrote: embeddings, and with pre-norm the memory for each layer."""
    sizes = {"d_model": 64, "num_heads": 4, "d_ff": 96, "num_encoder_layers": 2, "num_decoder_layers": 2}
    config = EncoderDecoderConfig(
        src_vocab_size=90, tgt_vocab_size=90, dropout=0.1, norm_position=norm_position, **sizes
    )
    model, read, usual = build_model(config, seed=0).to(DEVICE).train(), [], half_weights_file.half_of
    monkeypatch.setattr(half_weights_file, "half_of", lambda x: (read.append(usual(x)), read[-1])[1])
    with fused(model), torch.autocast(DEVICE.type, HALF), half_weights(model), copies(True):
        CrossEntropy(smoothing=0.1)(model, pairs().to(DEVICE))
    assert len(read) == 2 * 4 + 2 * 8
    assert sum(x.dtype != HALF for x in read) == casts


@pytest.mark.usefixtures("kernels_everywhere")
@pytest.mark.parametrize("norm_position", ["post", "pre"])
def test_without_copies_a_tensor_has_all_its_gradients(norm_position):
    """A hook that stops the gradient of a block's output stops all of it."""
    sizes = {"d_model": 64, "num_heads": 4, "d_ff": 96, "num_layers": 2}
    table = {"dropout": 0.0, "attention_dropout": 0.0, "norm_position": norm_position}
    model = build_model(DecoderOnlyConfig(vocab_size=90, **sizes, **table), seed=0).to(DEVICE).train()

    def stop(_, __, out):
        out.register_hook(torch.zeros_like)

    model.blocks[0].register_forward_hook(stop)
    batch = running_text().to(DEVICE)
    with fused(model):
        Gradients(ReplicatedModel(model), NextToken(), DEVICE, "bfloat16").compute([batch], model.zero_grad)
    assert not model.blocks[0].feed_forward.inner.weight.grad.any()
    assert model.blocks[1].feed_forward.inner.weight.grad.any()
