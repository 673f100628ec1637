"""Attributions add up, point to what matters, and leave the model as it was."""

from contextlib import contextmanager

import pytest
import torch

import regard
from regard.errors import ConfigError
from regard.inspection.answer import answer_of
from regard.inspection.attribution import Attribution, attributions, points_on_path
from regard.inspection.passes import continuation_pass
from regard.layers.embedding import TokenEmbedding
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig

MODELS = [
    ("encoder_decoder", {}),
    ("encoder_decoder", {"norm_position": "pre", "positions": "rotary", "activation": "swiglu"}),
    ("decoder_only", {}),
    ("encoder_only", {}),
    ("encoder_only", {"head": "classification", "num_labels": 3, "pooling": "mean"}),
    ("encoder_only", {"head": "tokens", "num_labels": 3, "input_convolution": 3}),
    ("recurrent", {}),
    ("recurrent", {"attention": "none", "cell": "lstm"}),
]
everywhere = pytest.mark.parametrize(("kind", "changes"), MODELS)


def answer_log_probs(forced, ids):
    """The log-probability of each of these answers."""
    with torch.no_grad():
        log_probs = forced()[0].log_softmax(dim=-1)
    return log_probs.reshape(-1, log_probs.size(-1)).gather(1, ids[:, None])[:, 0]


@contextmanager
def changed(forced, columns, change):
    """The embeddings of a sequence are changed as they enter."""
    part = {"source": "encoder", "read": "decoder"}.get(columns, "")
    name = next(
        name
        for name, module in forced.model.named_modules()
        if isinstance(module, TokenEmbedding) and (name.startswith(part) or "encoder" not in name)
    )
    hook = forced.model.get_submodule(name).register_forward_hook(lambda _, given, output: change(output))
    yield
    hook.remove()


@everywhere
def test_integrated_gradients_add_up_to_what_was_gained(forced_pass, kind, changes):
    """Completeness, proposition 1 of the paper; the answer's log-probability is counted independently."""
    forced = forced_pass(kind, **changes)
    found = attributions(forced, method="integrated", points=200)
    ids = answer_of(forced).ids
    now = answer_log_probs(forced, ids)
    with changed(forced, found.columns, torch.zeros_like):
        before = answer_log_probs(forced, ids)
    torch.testing.assert_close(found.missing, now - before - found.values.sum(dim=1), atol=1e-4, rtol=1e-4)
    assert found.missing.abs().max() < 0.03 * (now - before).abs().max()


@everywhere
def test_gradient_times_input_is_the_slope_of_growing_one_embedding(forced_pass, kind, changes):
    forced = forced_pass(kind, **changes)
    forced.model.double()
    found = attributions(forced, method="gradient")
    ids, columns, step = answer_of(forced).ids, len(forced.sequences[found.columns]), 1e-4
    assert found.values.shape == (len(ids), columns)

    def grown(column, factor):
        growth = torch.ones(columns, 1, dtype=torch.float64)
        growth[column] = factor
        with changed(forced, found.columns, lambda embedded: embedded * growth):
            return answer_log_probs(forced, ids)

    for column in range(columns):
        slope = (grown(column, 1 + step) - grown(column, 1 - step)) / (2 * step)
        torch.testing.assert_close(found.values[:, column].double(), slope, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("method", ["gradient", "integrated"])
def test_nothing_is_attributed_to_what_was_not_yet_read(forced_pass, method):
    for forced in (forced_pass("decoder_only"), forced_pass("encoder_decoder")):
        found = attributions(forced, method=method, columns="read", points=3).values
        assert torch.equal(found.triu(1), torch.zeros_like(found))
        assert (found.tril() != 0).any(dim=1).all()


def test_more_points_miss_less(forced_pass):
    forced = forced_pass("encoder_decoder")
    few, many = (
        attributions(forced, method="integrated", points=each).missing.abs().max() for each in (2, 64)
    )
    assert many < few / 4


@pytest.mark.parametrize("epsilon", [1e-5, 1e-6])
def test_sharp_turns_of_a_pre_norm_model_close_to_zero_are_found(epsilon):
    """Without added positions each RMS norm divides small states by sqrt(epsilon), layer by layer."""
    sizes = {"d_model": 32, "num_heads": 4, "d_ff": 64, "num_layers": 4, "positions": "rotary"}
    config = DecoderOnlyConfig(vocab_size=20, norm="rms", norm_eps=epsilon, **sizes)
    model = build_model(config, seed=0).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 1.0 if parameter.ndim == 1 else 4.0
    forced = continuation_pass(model, [2, 8, 9, 4, 5, 7], start=4)
    found, even = (attributions(forced, method="integrated", points=each) for each in (None, 1000))
    gain = found.values.sum(dim=1) + found.missing
    assert even.incomplete
    assert not found.incomplete
    assert (found.missing.abs() <= (gain.abs() / 10).clamp(min=0.1)).all()


def test_rows_that_miss_much_are_named():
    values = torch.tensor([[1.0, 2.0], [1.0, 2.0], [0.0, 0.01], [-4.0, -5.0]])
    found = Attribution(
        method="integrated", columns="text", values=values, missing=torch.tensor([0.2, -0.5, 0.05, -2.0])
    )
    assert found.incomplete == [1, 3]


def test_the_model_is_left_as_it_was(forced_pass):
    forced = forced_pass("encoder_decoder")
    before = forced()
    forced.model.train()
    with torch.no_grad():
        attributions(forced)
    assert forced.model.training
    assert all(parameter.grad is None for parameter in forced.model.parameters())
    assert not any(module._forward_hooks for module in forced.model.modules())
    assert torch.equal(forced(), before)


def test_what_was_not_read_and_what_has_no_probability_is_refused(forced_pass):
    with pytest.raises(ConfigError, match="'text'"):
        attributions(forced_pass("decoder_only"), columns="text")
    with pytest.raises(ConfigError, match="'written'"):
        attributions(forced_pass("decoder_only"), columns="written")
    with pytest.raises(ConfigError, match="no probability"):
        attributions(forced_pass("encoder_only", head="pooled"))


@pytest.mark.parametrize("count", [1, 2, 3, 16, 64, 200])
def test_points_on_the_path_have_weights_that_sum_to_it(count):
    fractions, weights = points_on_path(count)
    assert len(fractions) == len(weights) == count
    assert 0 < min(fractions) <= max(fractions) < 1
    assert fractions == sorted(fractions)
    assert min(weights) > 0
    assert sum(weights) == pytest.approx(1)


def test_the_default_misses_little_of_a_translation_by_the_included_model():
    """Its norms make the answer change most close to zero, where evenly spread points see nothing."""
    forced = regard.look("My sister has three cats and a dog.").run.forced
    found = attributions(forced, method="integrated")
    gain = found.values.sum(dim=1) + found.missing
    assert gain.min() > 5
    assert (found.missing.abs() / gain).max() < 0.15
