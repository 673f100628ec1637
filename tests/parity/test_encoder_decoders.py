"""Pretrained encoder-decoders have the outputs of transformers: Marian, BART, T5 and version 1.1."""

import pytest
import torch
import torch.nn.functional as F

from regard.inspection.record import record_attention

NARROW = {
    "vocab_size": 47,
    "d_model": 12,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 17,
    "decoder_ffn_dim": 17,
    "max_position_embeddings": 16,
    "pad_token_id": 1,
    "eos_token_id": 2,
}
OPUS = {**NARROW, "decoder_start_token_id": 1, "forced_eos_token_id": None}
ONE_LAYER = {"encoder_layers": 1, "decoder_layers": 1}
DENOISING = {**NARROW, "bos_token_id": 0, "decoder_start_token_id": 2, "forced_eos_token_id": None}
BUCKETS = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
T5 = {"vocab_size": 51, "d_model": 14, "num_heads": 3, "d_kv": 6, "d_ff": 23, "num_layers": 2, **BUCKETS}
MARIAN_CLASS, BART_CLASS = ("MarianMTModel", "MarianConfig"), ("BartForConditionalGeneration", "BartConfig")
T5_CLASS = ("T5ForConditionalGeneration", "T5Config")
CASES = {
    "marian, scaled, swish": (
        *MARIAN_CLASS,
        {**OPUS, "scale_embedding": True, "activation_function": "swish"},
    ),
    "marian, one layer": (
        *MARIAN_CLASS,
        {**OPUS, **ONE_LAYER, "vocab_size": 33, "activation_function": "relu"},
    ),
    "marian, odd width": (*MARIAN_CLASS, {**OPUS, "d_model": 15, "encoder_layers": 3, "decoder_layers": 1}),
    "marian, two vocabularies": (
        *MARIAN_CLASS,
        {**OPUS, "share_encoder_decoder_embeddings": False, "decoder_vocab_size": 39},
    ),
    "bart": (*BART_CLASS, DENOISING),
    "bart, one layer": (*BART_CLASS, {**DENOISING, **ONE_LAYER, "d_model": 21, "vocab_size": 53}),
    "bart, scaled": (*BART_CLASS, {**DENOISING, "scale_embedding": True, "activation_function": "relu"}),
    "t5": (*T5_CLASS, T5),
    "t5, one layer, few buckets": (
        *T5_CLASS,
        {
            **T5,
            "num_layers": 1,
            "relative_attention_num_buckets": 8,
            "relative_attention_max_distance": 10,
            "vocab_size": 42,
        },
    ),
    "t5, other depths": (
        *T5_CLASS,
        {**T5, "num_layers": 3, "num_decoder_layers": 1, "num_heads": 5, "d_kv": 4},
    ),
    "t5 1.1": (*T5_CLASS, {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "t5 1.1, one layer": (
        *T5_CLASS,
        {**T5, "num_layers": 1, "d_kv": 9, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
    "t5 1.1, gated by silu": (
        *T5_CLASS,
        {**T5, "num_heads": 2, "feed_forward_proj": "gated-silu", "tie_word_embeddings": False},
    ),
}
M2M = {**NARROW, "decoder_start_token_id": 2}
MBART = ("MBartForConditionalGeneration", "MBartConfig")
PEGASUS = ("PegasusForConditionalGeneration", "PegasusConfig")
CASES |= {
    "m2m_100": ("M2M100ForConditionalGeneration", "M2M100Config", M2M),
    "m2m_100, one layer, unscaled, another gate and width": (
        "M2M100ForConditionalGeneration",
        "M2M100Config",
        {**M2M, **ONE_LAYER, "scale_embedding": False, "activation_function": "gelu", "d_model": 21},
    ),
    "mbart": (*MBART, {**DENOISING, "scale_embedding": True}),
    "mbart, one layer, starting with a language": (
        *MBART,
        {**DENOISING, **ONE_LAYER, "decoder_start_token_id": 40, "activation_function": "relu"},
    ),
    "pegasus": (*PEGASUS, {**OPUS, "scale_embedding": True, "activation_function": "relu"}),
    "pegasus, other depths": (*PEGASUS, {**OPUS, "encoder_layers": 1, "d_model": 15}),
}
LENGTHS = torch.tensor([9, 4, 2])
REAL = torch.arange(9) < LENGTHS[:, None]


@pytest.fixture(params=CASES, scope="module")
def pair(request, make):
    return make(request.param, *CASES[request.param], untied=request.param.startswith("t5 1.1"))


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


@torch.no_grad()
def test_folders_there_and_back_say_the_same(pair, src_ids, tgt_ids, through_folders):
    loaded, theirs = through_folders(pair)
    expected = pair.ours(src_ids, LENGTHS, tgt_ids)
    torch.testing.assert_close(loaded.model(src_ids, LENGTHS, tgt_ids), expected, rtol=0, atol=0)
    again = theirs(src_ids, attention_mask=REAL.long(), decoder_input_ids=tgt_ids).logits
    close_relative(expected, again)


@torch.no_grad()
def test_bias_of_logits_is_theirs(make):
    pair = make("marian, one layer", *CASES["marian, one layer"])
    bias = pair.theirs.final_logits_bias[0]
    assert bias.std() > 0.1
    torch.testing.assert_close(pair.ours.output.bias, bias, rtol=0, atol=0)


def test_the_table_of_distances_stands_in_the_first_block_alone(make):
    pair = make("t5", *CASES["t5"])
    names = [name for name, _ in pair.theirs.named_parameters() if "relative_attention_bias" in name]
    assert [name.split(".")[0] for name in names] == ["encoder", "decoder"]
    assert all(".block.0." in name for name in names)
    assert [name for name, _ in pair.ours.named_parameters() if "position_bias" in name] == [
        "encoder.position_bias.weight",
        "decoder.position_bias.weight",
    ]
