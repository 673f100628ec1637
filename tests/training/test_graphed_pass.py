"""A recorded pass computes what the pass computes, and is recorded again when anything changes.

Without a GPU a recording is imitated: it writes into the tensors of its first run, as a CUDA graph does.
"""

from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.distributed.replicated import ReplicatedModel
from regard.fast.dropout_seeds import SeedCounter, SeedMemory, next_seed
from regard.fast.training import fused
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.training import graphed_pass
from regard.training.gradients import Gradients
from regard.training.graphed_pass import GraphedPass
from regard.training.objective import NextToken
from tests.laws.test_family import running_text

SIZES = {"vocab_size": 90, "d_model": 64, "num_heads": 4, "d_ff": 96, "num_layers": 2}


@pytest.fixture
def recordings(monkeypatch):
    """How often a pass was recorded and replayed."""
    counts = {"recorded": 0, "replayed": 0}

    def capture(run, stream):
        recorded = run.__self__
        run()
        counts["recorded"] += 1
        result, gradients = recorded._result, recorded._gradients

        def replay():
            counts["replayed"] += 1
            run()
            for old, new in zip((result, *gradients), (recorded._result, *recorded._gradients), strict=True):
                if old is not None:
                    old.copy_(new)
            recorded._result, recorded._gradients = result, gradients

        return replay

    monkeypatch.setattr(graphed_pass, "capture", capture)
    monkeypatch.setattr(graphed_pass, "DEVICES", ("cpu",))
    return counts


@pytest.fixture
def model():
    return build_model(DecoderOnlyConfig(dropout=0.0, attention_dropout=0.0, **SIZES), seed=0).train()


def batches(count, length=12):
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        ids = torch.randint(4, 90, (3, length), generator=generator)
        yield replace(running_text(), ids=ids, labels=ids.roll(-1, 1))


def noisy(model):
    """A pass whose result depends on seeds, as dropout does."""

    def run(batch):
        noise = [float(next_seed()) / 2**31 for _ in range(3)]
        loss = NextToken()(model, batch)
        (loss.total * (1 + noise[0])).backward()
        return torch.stack([loss.nll.detach() * noise[1], torch.tensor(noise[2])])

    return run


def updates(model, run, groups):
    """The results and gradients of updates, each of some batches."""
    torch.manual_seed(5)
    found = []
    for group in groups:
        model.zero_grad()
        results = [run(batch).clone() for batch in group]
        found.append([*results, *(weight.grad.clone() for weight in model.parameters())])
    return found


@pytest.mark.parametrize("together", [1, 2, 3])
def test_results_and_gradients_are_those_of_the_function(together, model, recordings):
    groups = [list(batches(12))[first : first + together] for first in range(0, 12, together)]
    with fused(model):
        expected = updates(model, noisy(model), groups)
        found = updates(model, GraphedPass(model, noisy(model)), groups)
    assert recordings == {"recorded": 1, "replayed": 10}
    for one, other in zip(found, expected, strict=True):
        for left, right in zip(one, other, strict=True):
            torch.testing.assert_close(left, right)


def test_another_shape_runs_as_it_is_and_the_first_one_starts_again(model, recordings):
    with fused(model):
        run = GraphedPass(model, noisy(model))
        for batch in (*batches(4), *batches(1, length=9), *batches(2)):
            run(batch)
        assert recordings == {"recorded": 1, "replayed": 2}
        for batch in batches(1):
            run(batch)
    assert recordings == {"recorded": 2, "replayed": 3}


def changes():
    yield "a frozen weight", lambda model: next(model.parameters()).requires_grad_(False)
    yield "other memory of a weight", lambda model: setattr(model.norm.weight, "data", torch.ones(64))
    yield (
        "another layer",
        lambda model: setattr(model.blocks[0], "feed_forward", nn.Identity()),
    )
    yield "a hook of a weight", lambda model: model.norm.weight.register_hook(lambda slope: slope * 2)
    yield "a hook of a module", lambda model: model.norm.register_forward_hook(lambda *_: None)
    yield "another forward", lambda model: setattr(model.norm, "forward", torch.zeros_like)
    yield "an attention", lambda model: setattr(model.blocks[0].self_attention, "attend", lambda q, *_: q)
    yield "evaluation", lambda model: model.blocks[0].eval()


@pytest.mark.parametrize("change", [each for _, each in changes()], ids=[name for name, _ in changes()])
def test_a_change_is_seen(change, model, recordings):
    with fused(model):
        run = GraphedPass(model, noisy(model))
        for batch in batches(4):
            run(batch)
        change(model)
        torch.manual_seed(5)
        model.zero_grad()
        found = run(next(batches(1)))
        torch.manual_seed(5)
        torch.testing.assert_close(found, noisy(model)(next(batches(1))))
    assert recordings == {"recorded": 1, "replayed": 2}


def test_a_model_without_fused_forms_or_of_unknown_parts_is_not_recorded(model, recordings):
    for batch in batches(5):
        GraphedPass(model, noisy(model))(batch)

    class Own(type(model.norm)):
        pass

    model.norm.__class__ = Own
    with fused(model):
        run = GraphedPass(model, noisy(model))
        for batch in batches(5):
            run(batch)
    assert recordings == {"recorded": 0, "replayed": 0}


def test_where_memory_is_short_nothing_is_recorded(model, recordings, monkeypatch):
    monkeypatch.setattr(graphed_pass, "has_room", lambda device: False)
    with fused(model):
        run = GraphedPass(model, noisy(model))
        for batch in batches(5):
            run(batch)
    assert recordings == {"recorded": 0, "replayed": 0}


def test_a_refused_recording_costs_a_warning_alone(model, recordings, monkeypatch):
    def refuse(run, stream):
        run.__self__._weights[0].grad = None
        raise RuntimeError("operation not permitted\nmore")

    monkeypatch.setattr(graphed_pass, "capture", refuse)
    groups = [list(batches(8))[first : first + 2] for first in range(0, 8, 2)]
    with fused(model):
        expected = updates(model, noisy(model), groups)
        with pytest.warns(UserWarning, match="operation by operation: operation not permitted$"):
            found = updates(model, GraphedPass(model, noisy(model)), groups)
    for one, other in zip(found, expected, strict=True):
        for left, right in zip(one, other, strict=True):
            torch.testing.assert_close(left, right)


@pytest.mark.parametrize("what", ["result", "gradients", "no gradient"])
def test_a_recording_that_gives_other_numbers_is_not_used(what, model, recordings, monkeypatch):
    usual = graphed_pass.capture

    def wrong(run, stream):
        recorded, replay = run.__self__, usual(run, stream)

        def replayed():
            replay()
            if what == "result":
                recorded._result[0] *= 1.01
            elif what == "gradients":
                recorded._gradients[0] *= 1.5
            else:
                recorded._gradients[0] = None

        return replayed

    monkeypatch.setattr(graphed_pass, "capture", wrong)
    groups = [[batch] for batch in batches(5)]
    with fused(model):
        expected = updates(model, noisy(model), groups)
        with pytest.warns(UserWarning, match="operation by operation: a replay of it gives other numbers"):
            found = updates(model, GraphedPass(model, noisy(model)), groups)
    assert recordings == {"recorded": 1, "replayed": 1}
    for one, other in zip(found, expected, strict=True):
        for left, right in zip(one, other, strict=True):
            torch.testing.assert_close(left, right)


def test_seeds_in_memory_are_those_that_would_have_been_drawn():
    for count in (0, 1, 15, 16, 40):
        torch.manual_seed(3)
        drawn = [next_seed() for _ in range(count)]
        state = torch.get_rng_state()
        torch.manual_seed(3)
        memory = SeedMemory(count, torch.device("cpu"))
        memory.draw()
        with memory.used():
            assert [int(next_seed()) for _ in range(count)] == drawn
            with pytest.raises(IndexError):
                next_seed()
        assert torch.equal(torch.get_rng_state(), state)
        torch.manual_seed(3)
        counter = SeedCounter()
        with counter.used():
            assert [next_seed() for _ in range(count)] == drawn
        assert counter.count == count


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_on_a_gpu_a_replay_is_equal_to_the_bit(precision, monkeypatch):
    """With dropout of every kind, over several updates of the weights, one of them of another shape."""
    found = []
    for is_graphed in (False, True):
        monkeypatch.setattr(graphed_pass, "DEVICES", ("cuda",) if is_graphed else ())
        config = DecoderOnlyConfig(dropout=0.2, attention_dropout=0.1, **SIZES)
        model, device = build_model(config, seed=0).to("cuda").train(), torch.device("cuda")
        gradients = Gradients(ReplicatedModel(model), NextToken(), device, precision)
        sums = []
        torch.manual_seed(5)
        with fused(model):
            groups = [
                *([each] * 2 for each in batches(3)),
                list(batches(1, length=9)),
                *([each] for each in batches(6)),
            ]
            for group in groups:
                model.zero_grad(set_to_none=True)
                sums.append(gradients.compute([each.to(device) for each in group], model.zero_grad).clone())
                with torch.no_grad():
                    for weight in model.parameters():
                        weight -= 0.1 * weight.grad
            if is_graphed:
                assert gradients._pass._recorded._replay is not None
        found.append([*sums, *(weight.detach() for weight in model.parameters())])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)
