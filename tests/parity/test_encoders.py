"""Pretrained encoders have the outputs of transformers: BERT, RoBERTa, DistilBERT, ELECTRA, each head."""

import pytest
import torch
import torch.nn.functional as F

from regard.inspection.record import record_attention
from tests.parity.cases import once_a_family
from tests.parity.encoder_cases import BERT, CASES
from tests.parity.pairs import LENGTHS, REAL, answers

NAMED = {case.name: case for case in BERT}


@pytest.fixture(params=CASES, ids=str, scope="module")
def pair(request, make):
    return make(request.param)


@pytest.fixture
def ids(pair):
    """Rows of other lengths, padded with the mark that their model knows."""
    generator = torch.Generator().manual_seed(2)
    return torch.randint(4, pair.config.vocab_size, (3, 9), generator=generator).where(
        REAL, pair.config.pad_id
    )


@pytest.fixture
def types(pair):
    """The second half of a text is of the second type, where there are types."""
    if pair.config.num_token_types < 2:
        return None
    return (torch.arange(9) >= 2).long().expand(3, 9)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def called(pair, ids, types, **more):
    """What theirs says."""
    typed = {} if pair.pretrained.family == "distilbert" or types is None else {"token_type_ids": types}
    return pair.theirs(ids, attention_mask=REAL.long(), **typed, **more)


@torch.no_grad()
def test_answers_states_and_attentions_are_theirs(pair, ids, types, listen):
    encoder = pair.ours.encoder
    last = (
        [] if isinstance(encoder.norm, torch.nn.Identity) else [encoder.norm]
    )  # instead of the last block's
    modules = [encoder.input, *encoder.blocks[: len(encoder.blocks) - len(last)], *last]
    with listen(modules) as states, record_attention(pair.ours) as recording:
        ours = pair.ours(ids, LENGTHS, types)
    theirs = called(pair, ids, types, output_hidden_states=True, output_attentions=True)
    close(*answers(pair, ours, theirs))
    for here, there in zip(states, theirs.hidden_states, strict=True):
        close(here[REAL], there[REAL])
    assert len(theirs.attentions) == pair.config.num_layers
    for number, there in enumerate(theirs.attentions):
        here = recording.last_weights(f"encoder.blocks.{number}.self_attention")
        for row, length in enumerate(LENGTHS):
            close(here[row, :, :length], there[row, :, :length])


def test_loss_and_gradients_are_theirs(pair, ids, types, gradients_by_file_name):
    ours, theirs = answers(pair, pair.ours(ids, LENGTHS, types), called(pair, ids, types))
    weights = torch.randn(theirs.shape, generator=torch.Generator().manual_seed(9))
    for model, answer in ((pair.ours, ours), (pair.theirs, theirs)):
        model.zero_grad()
        (answer * weights).sum().backward()
    here, there = gradients_by_file_name(pair)
    assert len(there) >= (6 if pair.pretrained.family == "modernbert" else 16) * pair.config.num_layers
    for name, gradient in there.items():
        torch.testing.assert_close(
            here[name], gradient, rtol=1e-4, atol=2e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


@torch.no_grad()
def test_the_way_back_is_equal(pair, ids, types, given_back):
    theirs = given_back(pair)(
        ids, attention_mask=REAL.long(), **({} if types is None else {"token_type_ids": types})
    )
    close(*answers(pair, pair.ours(ids, LENGTHS, types), theirs))


@once_a_family(CASES)
@torch.no_grad()
def test_folders_there_and_back_say_the_same(pair, ids, types, through_folders):
    loaded, theirs = through_folders(pair)
    expected = pair.ours(ids, LENGTHS, types)
    torch.testing.assert_close(loaded.model(ids, LENGTHS, types), expected, rtol=0, atol=0)
    typed = {} if types is None else {"token_type_ids": types}
    close(*answers(pair, expected, theirs(ids, attention_mask=REAL.long(), **typed)))


def test_labels_are_theirs(pair):
    names = tuple(pair.theirs.config.id2label.values())
    assert pair.pretrained.loaded.labels == (names if pair.config.num_labels else ())


@torch.no_grad()
def test_positions_run_out(pair):
    ids = torch.full((1, pair.config.max_positions + 1), 5)
    if pair.config.positions == "rotary":
        assert pair.ours.max_length is None
        return
    with pytest.raises(ValueError, match="max_positions"):
        pair.ours(ids, torch.tensor([ids.size(1)]))


@torch.no_grad()
def test_the_loss_of_masked_words_is_that_of_transformers(make):
    pair = make(NAMED["masked words"])
    ids = torch.randint(4, pair.config.vocab_size, (3, 9), generator=torch.Generator().manual_seed(2))
    labels = ids.where(torch.rand(3, 9, generator=torch.Generator().manual_seed(1)) < 0.4, -100)
    theirs = pair.theirs(ids, attention_mask=REAL.long(), labels=labels)
    logits = pair.ours(ids, LENGTHS)
    close(F.cross_entropy(logits.flatten(0, 1), labels.flatten()), theirs.loss)


def test_what_is_left_out_is_named(make):
    pair = make(NAMED["pretraining"])
    assert pair.pretrained.unused == (
        "bert.pooler.dense.bias",
        "bert.pooler.dense.weight",
        "cls.seq_relationship.bias",
        "cls.seq_relationship.weight",
    )
