"""Activation patching: a run that has the activations of another one continues as that one."""

import pytest
import torch

from regard.errors import ConfigError
from regard.inspection.passes import ForcedPass, attention_sites, continuation_pass, translation_pass
from regard.inspection.patching import Patch, patched
from regard.inspection.record import blocks, record_model
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
    whole = Patch(module=name, value=value)
    with pytest.raises(ConfigError, match="in this call") as error, patched(model, whole):
        model.extend(torch.tensor([[4]]), model.start())
    assert error.value.hint.startswith("patch a whole pass")
    with patched(model, Patch(module=name, value=value[:3], positions=[0, 2])):
        clean()
