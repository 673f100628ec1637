"""Recurrent encoder-decoders: what they may be, how large they are, what they know and what they learn."""

import pytest
import torch
import torch.nn.functional as F

from regard.decoding.batches import decode_all
from regard.decoding.rules import LengthLimits
from regard.decoding.search import GreedySearch
from regard.errors import ConfigError
from regard.layers.recurrent import LSTM, RecurrentLayer
from regard.models.build import build_model, count_parameters
from regard.models.recurrent import Recurrent, RecurrentConfig

SIZES = {"src_vocab_size": 30, "tgt_vocab_size": 40}
SMALL = {"d_model": 16, "d_embedding": 12}


def model_of(seed=0, **table) -> Recurrent:
    return build_model(RecurrentConfig.from_table({**SMALL, **table}, **SIZES), seed=seed)


@pytest.mark.parametrize(
    ("table", "message", "hint"),
    [
        ({"tied": "all"}, "30 tokens and the target 40", "joint tokeniser"),
        ({"input_feeding": True}, "not 'none'", "leave input_feeding out"),
        ({"preset": "bahdanau", "input_feeding": True}, "not 'additive'", "leave"),
        ({"attention": "dot", "bidirectional": True}, "states of equal width", "'general'"),
        ({"d_embedding": 0}, "d_embedding = 0 is too small", "at least 1"),
        ({"num_layers": 0}, "num_layers = 0 is too small", "at least 1"),
        ({"dropout": 1.0}, r"dropout = 1\.0 is out of range", "dropout < 1"),
        ({"cell": "rnn"}, "cell = 'rnn' is unknown", "gru, lstm"),
        ({"attention": "adaptive"}, "attention = 'adaptive' is unknown", "additive"),
        ({"preset": "luon"}, "no recurrent preset 'luon'", "'luong'"),
        ({"num_heads": 4}, "no model setting 'num_heads'", "num_layers"),
        ({"pad_id": 30}, "pad_id = 30 is not a token id", "vocabulary"),
    ],
)
def test_what_cannot_work_is_named_with_what_would(table, message, hint):
    with pytest.raises(ConfigError, match=message) as caught:
        RecurrentConfig.from_table({**SMALL, **table}, **SIZES)
    assert hint in caught.value.hint


def test_presets_are_the_systems_of_the_papers():
    rnn, bahdanau, luong = (
        RecurrentConfig.from_table({"preset": preset}, **SIZES) for preset in ("rnn", "bahdanau", "luong")
    )
    assert rnn.attention == "none"
    assert (bahdanau.attention, bahdanau.cell, bahdanau.bidirectional) == ("additive", "gru", True)
    assert (luong.attention, luong.cell, luong.input_feeding) == ("general", "lstm", True)


def test_how_many_parameters_each_has():
    d, e, source, target = 16, 12, 30 * 12, 40 * 12

    def gru(width):
        return 3 * (d * width + d * d + 2 * d)

    def lstm(width):
        return 4 * (d * width + d * d + d)

    assert count_parameters(model_of(preset="rnn")) == (
        source + 2 * target + 2 * gru(e) + 3 * d * d + (2 * d + e + 1) * 2 * e
    )
    assert count_parameters(model_of(preset="bahdanau", tied="target")) == (
        source
        + target
        + 3 * gru(e)
        + 2 * d * d  # where the decoder begins
        + d
        + 3 * d * 2 * d  # the context, read by the gates
        + d * d + d * 2 * d + d  # attention
        + (d + 2 * d + e + 1) * 2 * e
    )  # fmt: skip
    assert count_parameters(model_of(preset="luong")) == (
        source + 2 * target + 2 * (lstm(e) + lstm(d)) + 4 * d * e + d * d + (2 * d + 1) * e
    )


def test_fresh_weights_are_the_seeds_alone_and_what_turns_states_is_orthogonal():
    torch.manual_seed(5)
    first = model_of(preset="luong", seed=3)
    torch.manual_seed(6)
    again, other = model_of(preset="luong", seed=3), model_of(preset="luong", seed=4)
    for one, same, not_same in zip(first.parameters(), again.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, same)
        assert not one.dim() > 1 or not torch.equal(one, not_same)
    for layer in (module for module in first.modules() if isinstance(module, RecurrentLayer)):
        for matrix in layer.hidden.weight.split(layer.hidden.widths):
            torch.testing.assert_close(matrix @ matrix.T, torch.eye(16))
        if isinstance(layer, LSTM):
            assert layer.input.bias.view(4, 16).sum(1).tolist() == [0, 16, 0, 0]


def test_ties_are_one_parameter_under_several_names():
    model = build_model(RecurrentConfig(src_vocab_size=30, tgt_vocab_size=30, tied="all"), seed=0)
    assert model.encoder.embedding.weight is model.decoder.embedding.weight is model.output.weight


@pytest.mark.parametrize("attention", ["none", "additive", "dot", "general", "concat"])
def test_without_attention_all_passes_through_the_last_state(attention):
    """The bottleneck: if the encoder's last state is the same, so are the predictions."""
    model = model_of(attention=attention).eval()
    src, lengths, tgt = (
        torch.tensor([[4, 9, 17, 3], [8, 5, 6, 3]]),
        torch.tensor([4, 4]),
        torch.tensor([[2, 7]]),
    )
    memory = model.encode(src, lengths)
    first, second = memory.select(torch.tensor([0])), memory.select(torch.tensor([1]))
    crossed = type(memory)(second.hidden, second.mask, first.initial)
    same = torch.equal(model.decode(tgt, crossed), model.decode(tgt, first))
    assert same is (attention == "none")


def test_in_evaluation_the_encoder_pads_its_batch_without_changing_results():
    for rows in (1, 3, 8, 9):
        src = torch.randint(4, 30, (rows, 5), generator=torch.Generator().manual_seed(rows))
        lengths = torch.randint(1, 6, (rows,), generator=torch.Generator().manual_seed(rows))
        model = model_of(preset="bahdanau", dropout=0.0)
        trained, decoded = (model.train(mode).encode(src, lengths) for mode in (True, False))
        assert decoded.hidden.size(0) == decoded.mask.size(0) == rows
        torch.testing.assert_close(decoded.hidden, trained.hidden)
        torch.testing.assert_close(decoded.initial, trained.initial)


@pytest.mark.nightly  # for every change: test_a_loss_can_be_learned_away of tests/laws/test_models.py
@pytest.mark.parametrize(
    "table",
    [
        pytest.param({"preset": "rnn"}, id="rnn"),
        pytest.param({"preset": "bahdanau"}, id="bahdanau"),
        pytest.param({"preset": "luong", "num_layers": 1}, id="luong"),
    ],
)
def test_a_copy_is_learned(table):
    """Four symbols of six, in their order, of sequences that training never gave."""
    torch.manual_seed(0)
    config = RecurrentConfig.from_table(
        {"d_model": 48, "d_embedding": 24, "dropout": 0.0, **table}, src_vocab_size=10, tgt_vocab_size=10
    )
    model = build_model(config, seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=180)
    every = torch.cartesian_prod(*[torch.arange(4, 10)] * 4)
    every = every[torch.randperm(len(every))]
    held_out, seen = every[:96], every[96:]
    special = {token: torch.full((96, 1), token) for token in (2, 3)}
    for _ in range(180):
        symbols = seen[torch.randint(len(seen), (96,))]
        logits = model(
            torch.cat([symbols, special[3]], 1), torch.full((96,), 5), torch.cat([special[2], symbols], 1)
        )
        loss = F.cross_entropy(logits.flatten(0, 1), torch.cat([symbols, special[3]], 1).flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    sources = held_out.tolist()
    search = GreedySearch(limits=LengthLimits(most=8))
    right = sum(
        found[0].ids == source
        for found, source in zip(decode_all(search, model, sources), sources, strict=True)
    )
    assert right >= 94
