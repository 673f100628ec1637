"""Activation patching: a run that has the activations of another one continues as that one."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch

from regard.decoding.batches import decode_all
from regard.decoding.continuation import continue_all, prompts_of
from regard.decoding.rolling_window import RollingWindow
from regard.decoding.rules import LengthLimits, MinimumLength
from regard.decoding.search import BeamSearch, GreedySearch
from regard.errors import ConfigError
from regard.inspection.decoder_calls import decoder_calls
from regard.inspection.passes import ForcedPass, attention_sites, continuation_pass, translation_pass
from regard.inspection.patching import Patch, patched
from regard.inspection.record import blocks, record_model
from regard.inspection.switches import Ablation, ablated
from regard.models.decoder_only import DecoderOnly

OTHER, TARGET = [6, 4, 7, 5], [8, 9, 10]
KINDS = ["decoder_only", "encoder_decoder"]


def two_runs(forced_pass, kind, **changes) -> tuple[ForcedPass, ForcedPass]:
    """The same model with two inputs of the same length."""
    clean = forced_pass(kind, **changes)
    if isinstance(clean.model, DecoderOnly):
        return clean, continuation_pass(clean.model, [2, *OTHER, *TARGET])
    return clean, translation_pass(clean.model, OTHER, TARGET, bos_id=2, eos_id=3)


@torch.no_grad()
def recorded(forced, **settings):
    with record_model(forced.model, hidden=blocks(forced.model), **settings) as recording:
        output = forced()
    return recording, output


@pytest.mark.parametrize("kind", [*KINDS, "recurrent"])
@torch.no_grad()
def test_a_run_with_all_states_of_another_one_ends_as_that_one(forced_pass, kind):
    clean, corrupted = two_runs(forced_pass, kind)
    if kind == "recurrent":
        names = [name for name, _ in clean.model.named_modules() if name in ("encoder", "output")][-1:]
        with record_model(clean.model, [], hidden=names) as recording:
            wanted = clean()
    else:
        names = blocks(clean.model)
        recording, wanted = recorded(clean, parts=())
    before = corrupted()
    assert not torch.allclose(before, wanted)
    with patched(clean.model, *(Patch(module=name, value=recording.hidden(name)) for name in names)):
        assert torch.equal(corrupted(), wanted)
    assert torch.equal(corrupted(), before)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_one_position_of_one_block_is_replaced_and_no_other(forced_pass, kind):
    clean, corrupted = two_runs(forced_pass, kind)
    recording, _ = recorded(clean)
    name = blocks(clean.model)[0]
    own, _ = recorded(corrupted)
    patch = Patch(module=name, value=recording.hidden(name), positions=[2])
    with patched(clean.model, patch):
        found, _ = recorded(corrupted)
    same = (found.hidden(name) == own.hidden(name)).all(dim=-1)
    assert same.tolist() == [position != 2 for position in range(len(same))]
    assert torch.equal(found.hidden(name)[2], recording.hidden(name)[2])
    last = blocks(clean.model)[-1]
    assert not torch.equal(found.hidden(last), own.hidden(last)), "later layers see it"


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_outputs_of_heads_are_replaced_before_the_output_projection(forced_pass, kind):
    clean, corrupted = two_runs(forced_pass, kind)
    recording, _ = recorded(clean, parts=("head_output",))
    for site in attention_sites(clean.model):
        values = recording.head_output(site.name)
        own, _ = recorded(corrupted, parts=("head_output",))
        module = clean.model.get_submodule(site.name)
        with (
            patched(clean.model, Patch(module=site.name, value=values, heads=[1, 3], positions=[0, 2])),
            record_model(clean.model, hidden=[site.name]) as found,
        ):
            corrupted()
        expected = own.head_output(site.name).clone()
        for head in (1, 3):
            expected[head, [0, 2]] = values[head, [0, 2]]
        projected = module.output(expected[None].transpose(1, 2).flatten(2))[0]
        if site is attention_sites(clean.model)[0]:  # later ones get other inputs
            torch.testing.assert_close(found.hidden(site.name), projected)


@torch.no_grad()
def test_a_patch_has_the_gradient_of_the_rest(forced_pass):
    clean, corrupted = two_runs(forced_pass, "decoder_only")
    recording, _ = recorded(clean)
    name = blocks(clean.model)[0]
    value = recording.hidden(name).clone().requires_grad_()
    with torch.enable_grad(), patched(clean.model, Patch(module=name, value=value, positions=[1])):
        corrupted().sum().backward()
    assert value.grad is not None
    assert (value.grad.abs().sum(dim=-1) > 0).tolist() == [position == 1 for position in range(len(value))]


def test_values_that_do_not_fit_are_refused_by_name(forced_pass):
    clean, _ = two_runs(forced_pass, "decoder_only")
    recording, _ = recorded(clean, parts=("head_output",))
    name, model = blocks(clean.model)[0], clean.model
    attention = f"{name}.self_attention"
    value, heads = recording.hidden(name), recording.head_output(attention)
    wrong = [
        (Patch(module="blocks.7", value=value), "the model has no module 'blocks.7'"),
        (Patch(module=name, value=heads, heads=[0]), f"no attention '{name}' with heads"),
        (Patch(module=attention, value=heads, heads=[4]), f"{attention} has no heads .4.: it has 4"),
        (Patch(module=name, value=value, positions=[len(value)]), "has no positions"),
        (Patch(module=name, value=value, positions=[-1]), "has no positions"),
        (Patch(module=name, value=value[0]), "has no axis for positions"),
        *(
            (Patch(module=name, value=value[0], positions=two), r"positions = \S+ is not a sequence of whole")
            for two in (2, np.array(2), torch.tensor(2))
        ),
    ]
    for patch, message in wrong:
        with pytest.raises(ConfigError, match=message):
            patched(model, patch).__enter__()
    for patch in (
        Patch(module=name, value=value[:3]),
        Patch(module=name, value=value[:, :3]),
        Patch(module=name, value=value.expand(2, -1, -1)),
        Patch(module=attention, value=heads[:2], heads=[0]),
    ):
        with pytest.raises(ConfigError, match="has the shape"), patched(model, patch):
            clean()
    longer = Patch(module=name, value=value[:3])
    with (
        pytest.raises(ConfigError, match=r"reached position 3, and the value for \S+ ends before") as error,
        torch.no_grad(),
        patched(model, longer),
    ):
        model.extend(torch.tensor([[4, 5, 6, 7]]), model.start())
    assert error.value.hint.startswith("name its `positions`")
    rows = Patch(module=name, value=value.expand(2, -1, -1))
    with pytest.raises(ConfigError, match="in this call"), torch.no_grad(), patched(model, rows):
        model.extend(torch.tensor([[4], [5]]), model.start())  # rows of a search are hypotheses
    number = forced_pass("encoder_only", head="regression")
    of_head = patched(number.model, Patch(module="head", value=value))
    with of_head, pytest.raises(ConfigError, match="the output of head has no vector for each position"):
        number()
    with patched(model, Patch(module=name, value=value[:3], positions=[0, 2])):
        clean()


def test_a_state_is_put_at_another_position(forced_pass):
    clean, corrupted = two_runs(forced_pass, "decoder_only")
    recording, _ = recorded(clean)
    name = blocks(clean.model)[0]
    value = recording.hidden(name)
    moved = value.clone()
    moved[[1, 4]] = value[[3, 2]]
    with patched(clean.model, Patch(module=name, value=moved, positions=[1, 4])):
        expected = corrupted()
    given = [Patch(module=name, value=value[[3, 2]], positions=[1, 4])]
    one_by_one = [
        Patch(module=name, value=value[3], positions=[1]),
        Patch(module=name, value=value[2:3], positions=[4]),
    ]
    for patches in (given, one_by_one):
        with patched(clean.model, *patches):
            assert torch.equal(corrupted(), expected)
    with pytest.raises(ConfigError, match="in this order or by"):
        patched(clean.model, Patch(module=name, value=value[:2], positions=[1, 0])).__enter__()


def test_a_value_may_have_the_named_heads_alone(forced_pass):
    clean, corrupted = two_runs(forced_pass, "decoder_only")
    recording, _ = recorded(clean, parts=("head_output",))
    name = f"{blocks(clean.model)[0]}.self_attention"
    value = recording.head_output(name)
    with patched(clean.model, Patch(module=name, value=value, heads=[2, 1])):
        expected = corrupted()
    with patched(clean.model, Patch(module=name, value=value[[2, 1]], heads=[2, 1])):
        assert torch.equal(corrupted(), expected)
    for wrong, hint in (
        (value[:3], "give the output of all 4 heads, or of the 2 named"),
        (torch.ones(value.size(1), 16), "record `head_output`"),
    ):
        with (
            pytest.raises(ConfigError, match="has the shape") as caught,
            patched(clean.model, Patch(module=name, value=wrong, heads=[2, 1])),
        ):
            corrupted()
        assert caught.value.hint.startswith(hint)


LENGTHS = {"limits": LengthLimits(ratio=0.0, offset=6), "rules": (MinimumLength(length=5, eos_id=3),)}
SEARCHES = [GreedySearch(**LENGTHS), BeamSearch(size=2, **LENGTHS)]


def decoded(model, search, given):
    """The best answer to `given`, and the pass that is forced to write it."""
    if isinstance(model, DecoderOnly):
        prompts = prompts_of([given], begin_id=2)
        found = continue_all(search, model, prompts, max_new_tokens=6)[0][0]
        return found, continuation_pass(model, [2, *given, *found.ids, 3], start=len(given))
    found = decode_all(search, model, [given])[0][0]
    return found, translation_pass(model, given, found.ids, bos_id=2, eos_id=3)


def log_probs_of(forced):
    with torch.no_grad():
        log_probs = forced()[0].log_softmax(dim=-1)
    written = torch.tensor(forced.sequences["written"])
    rows = range(len(written)) if forced.answer_rows is None else forced.answer_rows
    return log_probs.gather(1, written[:, None])[list(rows), 0]


CHANGES = [
    ("decoder_only", {}),
    ("decoder_only", {"window": 3, "positions": "rotary"}),
    ("encoder_decoder", {}),
    ("encoder_decoder", {"norm_position": "pre", "positions": "t5"}),
]
PLACES = [[1], [2, 5], [0, 3, 4]]  # of the prompt, of the text after it, and of both


@pytest.mark.parametrize("search", SEARCHES, ids=["greedy", "beam"])
@pytest.mark.parametrize("positions", PLACES, ids=str)
@pytest.mark.parametrize(("kind", "changes"), CHANGES)
def test_a_position_is_patched_in_decoding_as_in_a_pass(forced_pass, kind, changes, positions, search):
    """The answer of a search has the same log-probabilities step by step and in one pass with the patches."""
    clean, _ = two_runs(forced_pass, kind, **changes)
    model, given = clean.model, OTHER[:3]
    recording, _ = recorded(clean, parts=("head_output",))
    site = next(each for each in attention_sites(model) if each.rows == "read" and each.layer == 1)
    of_head = recording.head_output(site.name)
    state = recording.hidden(blocks(model)[-2])
    length = 8 if kind == "decoder_only" else 7
    padded = [torch.cat([each, each.flip(-2)], dim=-2)[..., :length, :] for each in (state, of_head)]
    patches = (
        Patch(module=blocks(model)[-2], value=padded[0], positions=positions),
        Patch(module=site.name, value=padded[1], heads=[0, 2], positions=positions),
    )
    unchanged, _ = decoded(model, search, given)
    with patched(model, *patches):
        found, forced = decoded(model, search, given)
        expected = log_probs_of(forced)
    assert found.token_log_probs == pytest.approx(expected.tolist(), abs=1e-4)
    assert found.token_log_probs != pytest.approx(log_probs_of(forced).tolist(), abs=1e-4)
    assert decoded(model, search, given)[0] == unchanged


@torch.no_grad()
def test_a_text_that_is_written_with_the_states_of_another_one_is_that_one(forced_pass):
    """States that were recorded while one prompt was continued, in the continuation of another one."""
    model = forced_pass("decoder_only").model
    last = blocks(model)[-1]
    with record_model(model, [], hidden=[last]) as recording:
        wanted, _ = decoded(model, SEARCHES[0], OTHER)
    before, _ = decoded(model, SEARCHES[0], [*TARGET, 12])
    assert before.ids != wanted.ids
    with patched(model, Patch(module=last, value=recording.hidden(last))):
        found, _ = decoded(model, SEARCHES[0], [*TARGET, 12])
    assert found == wanted


@torch.no_grad()
def test_steps_of_a_recurrent_decoder_are_refused_by_name(forced_pass):
    forced = forced_pass("recurrent")
    with record_model(forced.model, [], hidden=["decoder", "encoder"]) as recording:
        forced()
    of_encoder = Patch(module="encoder", value=recording.hidden("encoder"), positions=[0, 1])
    with patched(forced.model, of_encoder):
        found, again = decoded(forced.model, SEARCHES[0], OTHER)
        assert found.token_log_probs == pytest.approx(log_probs_of(again).tolist(), abs=1e-4)
    of_decoder = Patch(module="decoder", value=recording.hidden("decoder"), positions=[0])
    refused = pytest.raises(ConfigError, match="steps of a recurrent decoder cannot be patched")
    with patched(forced.model, of_decoder), refused:
        decoded(forced.model, SEARCHES[0], OTHER)


ROLLING = GreedySearch(limits=LengthLimits(ratio=0.0, offset=14), rules=(MinimumLength(length=12, eos_id=3),))


@torch.no_grad()
def of_windows(model, ids, count, position, changed):
    """Log-probabilities of the last `count` ids, each by a pass over the window of a rolling context."""
    window, found = RollingWindow(model.trained_length), []
    for end in range(len(ids) - count, len(ids)):
        first = window.start(end - 1)
        inside = first <= position < end
        with changed(position - first) if inside else nullcontext():
            logits = model(torch.tensor([ids[first:end]]))[0, -1]
        found.append(float(logits.log_softmax(dim=-1)[ids[end]]))
    return found


@pytest.mark.parametrize("changes", [{}, {"window": 3, "positions": "rotary"}], ids=str)
@pytest.mark.parametrize("prompt", [3, 11])
@pytest.mark.parametrize("position", [0, 2, 6, 10, 13])
@torch.no_grad()
def test_positions_are_those_of_the_text_in_a_rolling_window(forced_pass, changes, prompt, position):
    """Patches and masked tokens, where the model reads at most 8 tokens and the text has more."""
    model = forced_pass("decoder_only", trained_length=8, **changes).model
    prompt, name = [4 + number % 8 for number in range(prompt)], blocks(model)[0]
    value = torch.randn(30, 16, generator=torch.Generator().manual_seed(3))

    def patch(place):
        moved = value[position - place :]
        return patched(model, Patch(module=name, value=moved, positions=[place]))

    def masked(place):
        return ablated(model, Ablation(tokens=[place]))

    for changed in (patch, masked):
        with changed(position):
            found = continue_all(ROLLING, model, prompts_of([prompt], begin_id=2), max_new_tokens=10)[0][0]
        ids = [2, *prompt, *found.ids][: 1 + len(prompt) + len(found.token_log_probs)]
        assert len(ids) > 8
        count = len(ids) - 1 - len(prompt)
        expected = of_windows(model, ids, count, position, changed)
        assert found.token_log_probs[:count] == pytest.approx(expected, abs=1e-4)


@torch.no_grad()
def test_what_comes_before_the_blocks_is_refused_in_a_rolling_window(forced_pass):
    model = forced_pass("decoder_only", trained_length=8).model
    patch = Patch(module="input.embedding", value=torch.zeros(30, 16), positions=[0])
    prompts = prompts_of([[4, 5, 6]], begin_id=2)
    with (
        patched(model, patch),
        pytest.raises(ConfigError, match=r"input\.embedding is called before") as error,
    ):
        continue_all(ROLLING, model, prompts, max_new_tokens=10)
    assert "max_context = 0" in error.value.hint


@pytest.mark.parametrize("name", ["decoder.blocks", ""])
@torch.no_grad()
def test_a_module_that_decoding_does_not_call_is_refused_at_the_end(forced_pass, name):
    model = forced_pass("encoder_decoder").model
    patch = Patch(module=name, value=torch.zeros(5, 13 if not name else 16))
    with pytest.raises(ConfigError, match="was never called, so it was not patched"), patched(model, patch):
        decoded(model, SEARCHES[0], OTHER[:3])
    with patched(model, patch):
        pass  # nothing has run
    with pytest.raises(ZeroDivisionError), patched(model, patch):  # an error of the caller stays
        len(decode_all(SEARCHES[0], model, [OTHER])) / 0
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in model.modules())


@torch.no_grad()
def test_a_cache_that_is_given_by_keyword_is_seen(forced_pass):
    """The position of a step is that of the text however the block is called."""
    model = forced_pass("decoder_only").model
    cache, first = model.start(), model.blocks[0]
    model.extend(torch.tensor([[4, 5, 6]]), cache)
    with decoder_calls(model) as call:
        first(torch.zeros(1, 1, 16), cache=cache.layers[0])
    assert (call.cached, call.start) == (True, 3)
