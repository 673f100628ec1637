"""The tree counts what the model has, and what a pen counts."""

import gc

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.inspection.architecture import architecture_of
from regard.layers.attention import MultiHeadAttention
from regard.layers.scaled_dot_product import plain_attention
from regard.models.build import count_parameters

MODELS = [
    ("encoder_decoder", {}),
    ("encoder_decoder", {"tied": "none", "num_kv_heads": 2, "norm_position": "pre"}),
    ("decoder_only", {"activation": "swiglu", "positions": "rotary", "window": 4}),
    ("encoder_only", {}),
    ("encoder_only", {"head": "classification", "num_labels": 3, "input_convolution": 3}),
    ("recurrent", {"tied": "all"}),
    ("recurrent", {"attention": "dot", "input_feeding": True}),
]
everywhere = pytest.mark.parametrize(("kind", "changes"), MODELS)


def parts(part):
    yield part
    for child in part.children:
        yield from parts(child)


@everywhere
def test_parameters_are_the_models_and_what_is_tied_counts_once(forced_pass, kind, changes):
    forced = forced_pass(kind, **changes)
    found = architecture_of(forced)
    assert found.totals.parameters == found.tree.parameters == count_parameters(forced.model)
    everything = sum(
        parameter.numel() for _, parameter in forced.model.named_parameters(remove_duplicate=False)
    )
    assert found.tree.parameters + found.tree.tied == everything


@everywhere
def test_it_is_the_tree_of_the_modules_and_sums_go_up(forced_pass, kind, changes):
    forced = forced_pass(kind, **changes)
    tree = architecture_of(forced).tree
    for part in parts(tree):
        module = forced.model.get_submodule(part.name)
        assert part.type == type(module).__name__
        assert [child.name.rpartition(".")[2] for child in part.children] == [
            name for name, _ in module.named_children()
        ]
        assert part.flops >= sum(child.flops for child in part.children)
        assert part.parameters >= sum(child.parameters for child in part.children)


def linear(rows, inputs, outputs):
    return 2 * rows * inputs * outputs


def test_flops_are_those_of_the_pen_for_a_translator(forced_pass):
    forced = forced_pass("encoder_decoder")
    model, found = forced.model, architecture_of(forced)
    s, t = len(forced.sequences["source"]), len(forced.sequences["read"])
    d, ff, vocab = model.config.d_model, model.config.d_ff, model.config.tgt_vocab_size

    def self_attention(n):
        return linear(n, d, 3 * d) + 2 * linear(n, d, n) + linear(n, d, d)

    def feed_forward(n):
        return linear(n, d, ff) + linear(n, ff, d)

    cross = linear(t, d, d) + linear(s, d, 2 * d) + 2 * linear(t, d, s) + linear(t, d, d)
    encoder = 2 * (self_attention(s) + feed_forward(s))
    decoder = 2 * (self_attention(t) + cross + feed_forward(t))
    assert found.totals.flops == found.tree.flops == encoder + decoder + linear(t, d, vocab)
    flops = {part.name: part.flops for part in parts(found.tree)}
    assert flops["encoder"] == encoder
    assert flops["decoder.blocks.1.cross_attention"] == cross
    assert flops["decoder.blocks.0.feed_forward.outer"] == linear(t, ff, d)
    assert flops["decoder.input.embedding"] == 0


@everywhere
def test_flops_are_those_that_pytorch_counts(forced_pass, kind, changes):
    forced = forced_pass(kind, **changes)
    found = architecture_of(forced).totals.flops
    for module in forced.model.modules():
        if isinstance(module, MultiHeadAttention):
            module.attend = plain_attention
    forced.model.requires_grad_(False)  # else the counter follows gradients
    with FlopCounterMode(display=False) as counter:
        forced()
    assert found == counter.get_total_flops()


def test_shared_heads_of_keys_cost_less_to_make_and_as_much_to_look_at(forced_pass):
    def looked(**changes):
        forced = forced_pass("decoder_only", **changes)
        flops = {part.name: part.flops for part in parts(architecture_of(forced).tree)}
        return flops["blocks.0.self_attention"], flops["blocks.0.self_attention.query_key_value"]

    (whole, made), (shared_whole, shared_made) = looked(), looked(num_kv_heads=1)
    assert shared_made == made // 2
    assert whole - made == shared_whole - shared_made


def test_flops_of_a_recurrent_model_are_those_of_its_products(forced_pass):
    forced = forced_pass("recurrent", attention="none")
    flops = {part.name: part.flops for part in parts(architecture_of(forced).tree)}
    t = len(forced.sequences["read"])
    assert flops["output"] == linear(t, 8, 13)
    assert flops["decoder.stack.layers.0.hidden"] == t * linear(1, 16, 3 * 16)


def test_shapes_are_those_of_the_pass(forced_pass):
    forced = forced_pass("encoder_decoder")
    shapes = {part.name: part.output for part in parts(architecture_of(forced).tree)}
    s, t = len(forced.sequences["source"]), len(forced.sequences["read"])
    assert shapes["encoder.blocks.1"] == (1, s, 16)
    assert shapes["decoder.blocks.0.cross_attention.key"] == (1, s, 16)
    assert shapes["output"] == (1, t, 13)
    assert shapes["encoder.blocks"] is None, "a list of modules is not called"


def held(caches):
    """What caches really hold, in bytes."""
    return sum(2 * 4 * cache.held * cache._buffer.key.size(1) * cache._buffer.key.size(3) for cache in caches)


@pytest.mark.parametrize("changes", [{}, {"num_kv_heads": 2}])
def test_cache_bytes_are_those_that_decoding_holds(forced_pass, changes):
    forced = forced_pass("encoder_decoder", **changes)
    with torch.no_grad():
        cache = forced.model.start(forced.model.encode(*forced.inputs[:2]))
        forced.model.extend(forced.inputs[2], cache)
    memories = sum(each.key.nbytes + each.value.nbytes for each in cache.memories)
    assert architecture_of(forced).totals.cache_bytes == memories + held(cache.targets)


@pytest.mark.parametrize("changes", [{}, {"window": 4, "positions": "rotary"}, {"window": 100}])
def test_and_those_of_a_decoder_alone(forced_pass, changes):
    forced = forced_pass("decoder_only", **changes)
    cache = forced.model.start()
    with torch.no_grad():
        for token in forced.inputs[0].unbind(1):
            forced.model.extend(token[:, None], cache)
    assert architecture_of(forced).totals.cache_bytes == held(cache.layers)


def test_an_encoder_keeps_nothing_between_steps(forced_pass):
    assert architecture_of(forced_pass("encoder_only")).totals.cache_bytes == 0


@everywhere
def test_the_way_back_needs_more_memory_the_longer_the_text(forced_pass, kind, changes):
    forced = forced_pass(kind, **changes)
    length = len(next(iter(forced.sequences.values())))
    assert architecture_of(forced).totals.activation_bytes > 4 * 16 * length


def test_what_is_not_learned_now_could_be(forced_pass):
    forced = forced_pass("decoder_only")
    expected = architecture_of(forced).totals.activation_bytes
    forced.model.requires_grad_(False)
    assert architecture_of(forced).totals.activation_bytes == expected
    assert not any(parameter.requires_grad for parameter in forced.model.parameters())


def test_nothing_stays_in_memory(forced_pass):
    def held():
        gc.collect()
        return sum(type(each) is torch.Tensor for each in gc.get_objects())

    forced = forced_pass("encoder_decoder")
    architecture_of(forced)
    gc.collect()
    gc.freeze()  # the million objects that exist now are not searched again
    before = held()
    for _ in range(3):
        architecture_of(forced)
    assert held() == before


@everywhere
def test_the_model_is_left_as_it_was(forced_pass, kind, changes):
    forced = forced_pass(kind, **changes)
    before = forced()
    architecture_of(forced)
    assert torch.equal(forced(), before)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in forced.model.modules())
