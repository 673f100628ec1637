"""Recurrent layers and their attentions do what their equations say."""

import pytest
import torch
from torch import nn

from regard.layers.recurrent import (
    CELLS,
    GRU,
    LSTM,
    SCORINGS,
    AdditiveAttention,
    DotAttention,
    GeneralAttention,
    RecurrentStack,
    weighted_mean,
)

X = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 0]], dtype=torch.bool)


def random(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def shaken(module):
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return module


def theirs(layer):
    """PyTorch's layer with our weights."""
    own = (nn.GRU if isinstance(layer, GRU) else nn.LSTM)(4, 6, batch_first=True)
    with torch.no_grad():
        own.weight_ih_l0.copy_(layer.input.weight)
        own.bias_ih_l0.copy_(layer.input.bias)
        own.weight_hh_l0.copy_(layer.hidden.weight)
        own.bias_hh_l0.copy_(torch.zeros(24) if layer.hidden.bias is None else layer.hidden.bias)
    return own


@pytest.mark.parametrize("cell", CELLS)
def test_a_layer_gives_what_pytorchs_gives_and_the_same_gradients(cell):
    layer = shaken(CELLS[cell](4, 6))
    reference = theirs(layer)
    state = tuple(random(3, 6, seed=seed) for seed in range(layer.parts))
    hidden, after = layer(layer.input(X), state)
    given = tuple(part[None] for part in state)
    expected, last = reference(X, given if cell == "lstm" else given[0])
    torch.testing.assert_close(hidden, expected)
    for part, other in zip(after, last if cell == "lstm" else (last,), strict=True):
        torch.testing.assert_close(part, other[0])
    hidden.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(layer.hidden.weight.grad, reference.weight_hh_l0.grad, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(layer.input.weight.grad, reference.weight_ih_l0.grad, atol=1e-4, rtol=1e-4)


def test_a_gru_is_its_equations():
    layer = shaken(GRU(4, 6))
    (w_r, w_u, w_n), (b_r, b_u, b_n) = layer.input.weight.split(6), layer.input.bias.split(6)
    (u_r, u_u, u_n), (c_r, c_u, c_n) = layer.hidden.weight.split(6), layer.hidden.bias.split(6)
    x, h = X[0, 0], random(6)
    reset = torch.sigmoid(w_r @ x + b_r + u_r @ h + c_r)
    update = torch.sigmoid(w_u @ x + b_u + u_u @ h + c_u)
    new = torch.tanh(w_n @ x + b_n + reset * (u_n @ h + c_n))
    (found,) = layer.step(layer.input(X[:1, 0]), (h[None],))
    torch.testing.assert_close(found[0], (1 - update) * new + update * h)


def test_an_lstm_is_its_equations():
    layer = shaken(LSTM(4, 6))
    (w_i, w_f, w_g, w_o), (b_i, b_f, b_g, b_o) = layer.input.weight.split(6), layer.input.bias.split(6)
    u_i, u_f, u_g, u_o = layer.hidden.weight.split(6)
    x, h, c = X[0, 0], random(6), random(6, seed=2)
    keep, write = torch.sigmoid(w_f @ x + b_f + u_f @ h), torch.sigmoid(w_i @ x + b_i + u_i @ h)
    cell = keep * c + write * torch.tanh(w_g @ x + b_g + u_g @ h)
    hidden = torch.sigmoid(w_o @ x + b_o + u_o @ h) * torch.tanh(cell)
    found = layer.step(layer.input(X[:1, 0]), (h[None], c[None]))
    torch.testing.assert_close(found[0][0], hidden)
    torch.testing.assert_close(found[1][0], cell)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_padding_is_passed_over_in_both_directions(cell, backward):
    layer = shaken(CELLS[cell](4, 6))
    hidden, last = layer(layer.input(X), layer.start(X[:, 0]), MASK, backward=backward)
    for row, length in ((0, 5), (1, 3)):
        alone = X[[row], :length]
        order = alone.flip(1) if backward else alone
        expected, after = layer(layer.input(order), layer.start(alone[:, 0]))
        expected = expected.flip(1) if backward else expected
        torch.testing.assert_close(hidden[[row], :length], expected)
        for part, other in zip(last, after, strict=True):
            torch.testing.assert_close(part[[row]], other)
    assert not any(part[2].any() for part in last), "nothing was read, nothing is known"


def test_a_stack_step_by_step_is_the_stack_at_once():
    for cell in CELLS:
        stack = shaken(RecurrentStack(cell, 3, 4, 6, dropout=0.0))
        inputs = stack.read(X)
        states = tuple(layer.start(X[:, 0]) for layer in stack.layers)
        at_once, after = stack(inputs, states)
        steps = []
        for here in inputs.unbind(1):
            states = stack.step(here, states)
            steps.append(states[-1][0])
        torch.testing.assert_close(torch.stack(steps, dim=1), at_once)
        torch.testing.assert_close(states, after)


def test_dropout_stands_between_the_layers_alone():
    one, two = (shaken(RecurrentStack("gru", layers, 4, 6, dropout=0.5)) for layers in (1, 2))
    for stack, changes in ((one, False), (two, True)):
        states = tuple(layer.start(X[:, 0]) for layer in stack.layers)
        first, second = (stack(stack.read(X), states)[0] for _ in range(2))
        assert torch.equal(first, second) is not changes
        steps = [stack.step(stack.read(X)[:, 0], states)[-1][0] for _ in range(2)]
        assert torch.equal(*steps) is not changes
        stack.eval()
        assert torch.equal(stack(stack.read(X), states)[0], stack(stack.read(X), states)[0])


# Attention


QUERY, MEMORY = random(3, 2, 6, seed=3), random(3, 5, 8, seed=4)


def expected_scores(name, attention, query, memory):
    """One query and one state of the source, as the papers write it."""
    if name == "dot":
        return query @ memory
    if name == "general":
        return query @ attention.key.weight @ memory
    both = torch.cat([attention.query.weight, attention.key.weight], dim=1)  # Luong's W of [s; h]
    return attention.score.weight[0] @ torch.tanh(both @ torch.cat([query, memory]))


@pytest.mark.parametrize("name", SCORINGS)
def test_scores_are_those_of_the_papers(name):
    width = 6 if name == "dot" else 8
    attention, memory = shaken(SCORINGS[name](6, width)), MEMORY[:, :, :width]
    scores = attention.scores(QUERY, attention.read(memory))
    for row in range(3):
        for t in range(2):
            for s in range(5):
                expected = expected_scores(name, attention, QUERY[row, t], memory[row, s])
                torch.testing.assert_close(scores[row, t, s], expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", SCORINGS)
def test_what_is_found_is_the_mean_of_what_may_be_looked_at(name):
    width = 6 if name == "dot" else 8
    attention, memory = shaken(SCORINGS[name](6, width)), MEMORY[:, :, :width]
    keys, mask = attention.read(memory), MASK[:, None]
    found = attention(QUERY, keys, memory, mask)
    for row, length in ((0, 5), (1, 3)):
        weights = attention.scores(QUERY[[row]], keys[[row], :length]).softmax(-1)
        torch.testing.assert_close(found[[row]], weights @ memory[[row], :length])
    assert not found[2].any(), "who may look nowhere finds zeros, not NaN"
    changed = memory.masked_fill(~MASK[:, :, None], 1e3)
    assert torch.equal(attention(QUERY, attention.read(changed), changed, mask)[:2], found[:2])


@pytest.mark.parametrize("name", SCORINGS)
def test_a_row_masked_whole_has_finite_gradients(name):
    width = 6 if name == "dot" else 8
    attention, memory = shaken(SCORINGS[name](6, width)), MEMORY[:, :, :width].clone().requires_grad_()
    attention(QUERY, attention.read(memory), memory, MASK[:, None]).square().sum().backward()
    assert memory.grad.isfinite().all()
    assert not memory.grad[2].any()
    assert all(parameter.grad.isfinite().all() for parameter in attention.parameters())


def test_a_recorder_can_replace_the_weighted_mean():
    attention, reported = DotAttention(6, 6), []

    def watching(scores, values, mask=None):
        reported.append(scores)
        return weighted_mean(scores, values, mask)

    before = attention(QUERY, MEMORY[:, :, :6], MEMORY[:, :, :6])
    attention.attend = watching
    assert torch.equal(attention(QUERY, MEMORY[:, :, :6], MEMORY[:, :, :6]), before)
    assert reported[0].shape == (3, 2, 5)


def test_a_dot_product_of_unequal_widths_is_refused():
    with pytest.raises(ValueError, match="d_model 6 and d_memory 8"):
        DotAttention(6, 8)


def test_how_much_each_learns():
    assert sum(p.numel() for p in AdditiveAttention(6, 8).parameters()) == 6 * 6 + 6 * 8 + 6
    assert sum(p.numel() for p in GeneralAttention(6, 8).parameters()) == 6 * 8
    assert sum(p.numel() for p in DotAttention(6, 6).parameters()) == 0
    assert sum(p.numel() for p in GRU(4, 6).parameters()) == 3 * (6 * 4 + 6 * 6 + 6 + 6)
    assert sum(p.numel() for p in LSTM(4, 6).parameters()) == 4 * (6 * 4 + 6 * 6 + 6)
