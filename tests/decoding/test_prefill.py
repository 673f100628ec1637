"""A prompt that is prefilled layer by layer has the keys of one that is prefilled at once, to the bit."""

import random

import pytest
import torch

from regard.decoding.prefill import in_fixed_shape
from regard.decoding.prompt_stepper import prompt_stepper
from regard.fast.decoding_step import fast_step
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig

VOCAB = 40
SHAPES = {
    "learned": {"max_positions": 80},
    "rotary": {"positions": "rotary", "num_kv_heads": 2, "trained_length": 24},
    "window": {"positions": "rotary", "window": 6},
    "no fast step": {"positions": "alibi"},
    "no fast step, trained length": {"positions": "alibi", "trained_length": 24},
}


def writer(**table):
    sizes = {"d_model": 32, "num_heads": 4, "d_ff": 48, "num_layers": 2}
    return build_model(DecoderOnlyConfig.from_table({**sizes, **table}, vocab_size=VOCAB), seed=1).eval()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lengths", [[33], [31, 31, 31], [70, 70], [0, 0]])
def test_a_prompt_is_prefilled_layer_by_layer_as_at_once(shape, lengths):
    model = writer(**SHAPES[shape])
    steppers = [prompt_stepper(model) for _ in range(2)]
    random_ = random.Random(8)
    ids = torch.tensor([[random_.randrange(4, VOCAB) for _ in range(length)] for length in lengths]).long()
    with torch.no_grad():
        steppers[0].start(ids, torch.tensor(lengths))
        assert len([*steppers[1].starts(ids, torch.tensor(lengths))]) == (2 if fast_step(model) else 0)
        first = torch.full((len(lengths),), 5)
        found = [stepper.logits(first) for stepper in steppers]
    assert torch.equal(*found)


def test_rows_are_repeated_only_where_their_tokens_are_not_so_many_that_the_bits_stay():
    three = torch.arange(21).view(3, 7)
    repeated = in_fixed_shape(three)
    assert torch.equal(repeated, three[torch.arange(16) % 3])
    assert in_fixed_shape(torch.zeros(17, 5, dtype=torch.int64)).shape == (32, 5)
    for length in (16, 48):
        assert in_fixed_shape(torch.zeros(3, length, dtype=torch.int64)).shape == (3, length)
