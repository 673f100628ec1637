"""Pretrained decoders have the outputs of transformers: GPT-2, GPT-NeoX, Phi, Llama, Qwen, Gemma, OLMo 2."""

import pytest
import torch
import torch.nn.functional as F

from regard.inspection.record import record_attention
from tests.parity.cases import once_a_family
from tests.parity.decoder_cases import CASES

LENGTHS = torch.tensor([9, 4, 1])


@pytest.fixture(params=CASES, ids=str, scope="module")
def pair(request, make):
    return make(request.param)


@pytest.fixture
def ids(pair):
    generator = torch.Generator().manual_seed(2)
    return torch.randint(3, pair.config.vocab_size, (3, 9), generator=generator)


@pytest.fixture
def real():
    return torch.arange(9) < LENGTHS[:, None]


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_logits_states_and_attentions_are_theirs(pair, ids, real, listen):
    with torch.no_grad(), listen([pair.ours.input, *pair.ours.blocks, pair.ours.norm]) as states:
        with record_attention(pair.ours) as recording:
            logits = pair.ours(ids)
        theirs = pair.theirs(
            ids, attention_mask=real.long(), output_hidden_states=True, output_attentions=True
        )
    close(logits[real], theirs.logits[real])
    *before, _, last = states
    for ours, there in zip([*before, last], theirs.hidden_states, strict=True):
        close(ours[real], there[real])
    assert len(theirs.attentions) == pair.config.num_layers
    for number, there in enumerate(theirs.attentions):
        ours = recording.last_weights(f"blocks.{number}.self_attention")
        for row, length in enumerate(LENGTHS):
            close(ours[row, :, :length, :length], there[row, :, :length, :length])


def test_loss_and_gradients_are_theirs(pair, ids, real, gradients_by_file_name):
    labels = ids.where(real, -100)
    theirs = pair.theirs(ids, attention_mask=real.long(), labels=labels)
    logits = pair.ours(ids)[:, :-1]
    loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())
    close(loss, theirs.loss)
    pair.theirs.zero_grad()
    pair.ours.zero_grad()
    theirs.loss.backward()
    loss.backward()
    ours, there = gradients_by_file_name(pair)
    assert len(there) >= 4
    for name, gradient in there.items():
        torch.testing.assert_close(
            ours[name], gradient, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


@torch.no_grad()
def test_reading_with_a_cache_gives_what_reading_at_once_gives(pair, ids):
    cache = pair.ours.start()
    steps = [
        pair.ours.extend(ids[:, :3], cache),
        *(pair.ours.extend(ids[:, [t]], cache) for t in range(3, 9)),
    ]
    close(torch.cat(steps, dim=1), pair.theirs(ids).logits)


@torch.no_grad()
@once_a_family(CASES)
@pytest.mark.parametrize("beams", [1, 3])
def test_what_follows_is_what_follows_there(pair, ids, beams):
    new, prompt = 6, ids[:1, :4]
    theirs = pair.theirs.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=False,
        num_beams=beams,
        min_new_tokens=new,
        max_new_tokens=new,
    )
    assert continued(pair.ours, prompt, new, beams) == theirs[0, 4:].tolist()


def continued(model, prompt, new, beams):
    """The best of what a search finds, cut off where there are enough tokens."""
    from regard.decoding.hypothesis import Request
    from regard.decoding.prompt_stepper import PromptStepper
    from regard.decoding.rules import BannedTokens, LengthLimits
    from regard.decoding.search import BeamSearch, GreedySearch

    common = {
        "limits": LengthLimits(offset=99, most=99),
        "rules": (BannedTokens(ids=(2,)),),
        "bos_id": int(prompt[0, 0]),
        "cut": True,
    }
    search = (
        GreedySearch(**common, eos_id=2)
        if beams == 1
        else BeamSearch(**common, eos_id=2, size=beams, n_best=beams)
    )
    stepper = PromptStepper(model)
    stepper.start(prompt[:, :0], torch.zeros(1, dtype=torch.int64))
    rest = tuple(prompt[0, 1:].tolist())
    request = Request(src_len=0, prefix=rest, most=len(rest) + new)
    [[best, *_]] = search(stepper, [request])
    return list(best.ids)[len(rest) :]


@torch.no_grad()
def test_the_way_back_is_equal(pair, ids, given_back):
    close(given_back(pair)(ids).logits, pair.theirs(ids).logits)


@once_a_family(CASES)
@torch.no_grad()
def test_folders_there_and_back_say_the_same(pair, ids, through_folders):
    loaded, theirs = through_folders(pair)
    torch.testing.assert_close(loaded.model(ids), pair.ours(ids), rtol=0, atol=0)
    close(pair.ours(ids), theirs(ids).logits)
