"""Pretrained encoder-decoders have the outputs of transformers: Marian, BART, T5 and version 1.1."""

import pytest
import torch
import torch.nn.functional as F

from regard.inspection.record import record_attention
from tests.parity.cases import once_a_family
from tests.parity.encoder_decoder_cases import CASES, MARIAN, T5
from tests.parity.pairs import LENGTHS, REAL


@pytest.fixture(params=CASES, ids=str, scope="module")
def pair(request, make):
    return make(request.param)


@pytest.fixture
def src_ids(pair):
    generator = torch.Generator().manual_seed(2)
    return torch.randint(3, pair.config.src_vocab_size, (3, 9), generator=generator).where(REAL, 1)


@pytest.fixture
def tgt_ids(pair):
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(3, pair.config.tgt_vocab_size, (3, 7), generator=generator)
    ids[:, 0] = pair.theirs.config.decoder_start_token_id
    return ids


def close(ours, theirs, scale=1.0):
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5 * scale)


def close_relative(ours, theirs):
    """To 1e-5 of the greatest: T5's logits are large."""
    close(ours, theirs, max(1.0, float(theirs.detach().abs().max())))


@torch.no_grad()
def test_logits_states_and_attentions_are_theirs(pair, src_ids, tgt_ids, listen):
    encoder, decoder = pair.ours.encoder, pair.ours.decoder
    of_encoder, of_decoder = ([side.input, *side.blocks, side.norm] for side in (encoder, decoder))
    with listen(of_encoder) as read, listen(of_decoder) as said, record_attention(pair.ours) as rec:
        logits = pair.ours(src_ids, LENGTHS, tgt_ids)
    theirs = pair.theirs(
        src_ids,
        attention_mask=REAL.long(),
        decoder_input_ids=tgt_ids,
        output_hidden_states=True,
        output_attentions=True,
    )
    close_relative(logits, theirs.logits)
    for states, there in ((read, theirs.encoder_hidden_states), (said, theirs.decoder_hidden_states)):
        *before, _, last = states
        places = REAL if states is read else torch.ones(3, 7, dtype=torch.bool)
        for here, their in zip([*before, last], there, strict=True):
            close_relative(here[places], their[places])
    for number, there in enumerate(theirs.encoder_attentions):
        here = rec.last_weights(f"encoder.blocks.{number}.self_attention")
        for row, length in enumerate(LENGTHS):
            close(here[row, :, :length], there[row, :, :length])
    for number, there in enumerate(theirs.decoder_attentions):
        close(rec.last_weights(f"decoder.blocks.{number}.self_attention"), there)
        close(rec.last_weights(f"decoder.blocks.{number}.cross_attention"), theirs.cross_attentions[number])


def test_loss_and_gradients_are_theirs(pair, src_ids, tgt_ids, gradients_by_file_name):
    labels = torch.cat([tgt_ids[:, 1:], torch.full((3, 1), 2)], dim=1)
    labels[1, 4:] = -100
    theirs = pair.theirs(src_ids, attention_mask=REAL.long(), decoder_input_ids=tgt_ids, labels=labels)
    loss = F.cross_entropy(pair.ours(src_ids, LENGTHS, tgt_ids).flatten(0, 1), labels.flatten())
    close_relative(loss, theirs.loss)
    pair.theirs.zero_grad()
    pair.ours.zero_grad()
    theirs.loss.backward()
    loss.backward()
    ours, there = gradients_by_file_name(pair)
    assert len(there) > 20
    for name, gradient in there.items():
        if name.endswith(("shared.weight", "embed_tokens.weight")):  # they never look up a pad's gradient
            ours[name][1] = gradient[1] = 0
        torch.testing.assert_close(
            ours[name], gradient, rtol=1e-3, atol=3e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


@torch.no_grad()
def test_reading_with_a_cache_gives_what_reading_at_once_gives(pair, src_ids, tgt_ids):
    cache = pair.ours.start(pair.ours.encode(src_ids, LENGTHS))
    steps = [pair.ours.extend(tgt_ids[:, [t]], cache) for t in range(7)]
    theirs = pair.theirs(src_ids, attention_mask=REAL.long(), decoder_input_ids=tgt_ids)
    close_relative(torch.cat(steps, dim=1), theirs.logits)


@torch.no_grad()
@once_a_family(CASES)
@pytest.mark.parametrize("beams", [1, 4])
def test_decoding_a_batch_gives_their_tokens(pair, src_ids, beams):
    new = 6
    theirs = pair.theirs.generate(
        src_ids,
        attention_mask=REAL.long(),
        do_sample=False,
        num_beams=beams,
        min_new_tokens=new,
        max_new_tokens=new,
    )
    assert decoded(pair, src_ids, new, beams) == theirs[:, 1:].tolist()


def decoded(pair, src_ids, new, beams):
    """The most probable hypothesis of a beam, not counting the probabilities of end tokens."""
    from regard.decoding.hypothesis import Request
    from regard.decoding.rules import BannedTokens, LengthLimits
    from regard.decoding.search import BeamSearch, GreedySearch
    from regard.decoding.step import ModelStepper

    common = {
        "limits": LengthLimits(offset=new, most=new, ratio=0.0),
        "rules": (BannedTokens(ids=(2,)),),
        "bos_id": pair.theirs.config.decoder_start_token_id,
        "eos_id": 2,
    }
    search = GreedySearch(**common) if beams == 1 else BeamSearch(**common, size=beams, n_best=beams)
    stepper = ModelStepper(pair.ours)
    stepper.start(src_ids, LENGTHS)
    found = search(stepper, [Request(src_len=int(length), most=new) for length in LENGTHS])
    best = [max(each, key=lambda one: sum(one.token_log_probs[:-1])) for each in found]
    return [list(each.ids) for each in best]


@torch.no_grad()
def test_the_way_back_is_equal(pair, src_ids, tgt_ids, given_back):
    there = given_back(pair)
    again = there(src_ids, attention_mask=REAL.long(), decoder_input_ids=tgt_ids).logits
    close_relative(again, pair.theirs(src_ids, attention_mask=REAL.long(), decoder_input_ids=tgt_ids).logits)


@once_a_family(CASES)
@torch.no_grad()
def test_folders_there_and_back_say_the_same(pair, src_ids, tgt_ids, through_folders):
    loaded, theirs = through_folders(pair)
    expected = pair.ours(src_ids, LENGTHS, tgt_ids)
    torch.testing.assert_close(loaded.model(src_ids, LENGTHS, tgt_ids), expected, rtol=0, atol=0)
    again = theirs(src_ids, attention_mask=REAL.long(), decoder_input_ids=tgt_ids).logits
    close_relative(expected, again)


@torch.no_grad()
def test_bias_of_logits_is_theirs(make):
    pair = make(next(case for case in MARIAN if case.name == "one layer"))
    bias = pair.theirs.final_logits_bias[0]
    assert bias.std() > 0.1
    torch.testing.assert_close(pair.ours.output.bias, bias, rtol=0, atol=0)


def test_the_table_of_distances_stands_in_the_first_block_alone(make):
    pair = make(T5[0])
    names = [name for name, _ in pair.theirs.named_parameters() if "relative_attention_bias" in name]
    assert [name.split(".")[0] for name in names] == ["encoder", "decoder"]
    assert all(".block.0." in name for name in names)
    assert [name for name, _ in pair.ours.named_parameters() if "position_bias" in name] == [
        "encoder.position_bias.weight",
        "decoder.position_bias.weight",
    ]
