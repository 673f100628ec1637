"""A recorded pass computes what the pass computes, and is recorded again when anything changes.

Without a GPU a recording is imitated: it writes into the tensors of its first run, as a CUDA graph does.
"""

import weakref
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.data.packed_pairs import PackedPairs
from regard.distributed.replicated import ReplicatedModel
from regard.fast.dropout_seeds import SeedCounter, SeedMemory, next_seed
from regard.fast.supported import is_known_in_training
from regard.fast.training import fused
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.training import graphed_pass
from regard.training.gradients import Gradients
from regard.training.graphed_pass import GraphedPass, Recorded, are_close, are_equal
from regard.training.objective import CrossEntropy, NextToken
from regard.training.prefetch import prepared_for_gpu
from tests.data.test_packed_pairs import batch_of
from tests.laws.test_family import running_text

SIZES = {"vocab_size": 90, "d_model": 64, "num_heads": 4, "d_ff": 96, "num_layers": 2}


@pytest.fixture
def recordings(monkeypatch):
    """How often a pass was recorded and replayed."""
    counts = {"recorded": 0, "replayed": 0}

    def capture(self, run):
        result, gradients = self._pass(run)
        counts["recorded"] += 1

        def replay():
            counts["replayed"] += 1
            new, others = self._pass(run)
            result.copy_(new)
            self._memory.store(others)

        return replay, result, self._memory.store(gradients)

    monkeypatch.setattr(Recorded, "_capture", capture)
    monkeypatch.setattr(graphed_pass, "DEVICES", ("cpu",))
    return counts


@pytest.fixture
def model():
    return build_model(DecoderOnlyConfig(dropout=0.0, attention_dropout=0.0, **SIZES), seed=0).train()


def batches(count, length=12):
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        ids = torch.randint(4, 90, (3, length), generator=generator)
        text = replace(running_text(), ids=ids, labels=ids.roll(-1, 1))
        yield prepared_for_gpu(text, NextToken().ignored)


def noisy(model):
    """A pass whose result depends on seeds, as dropout does."""

    def run(batch):
        noise = [float(next_seed()) / 2**31 for _ in range(3)]
        loss = NextToken()(model, batch)
        (loss.total * (1 + noise[0])).backward()
        return torch.stack([loss.nll.detach() * noise[1], torch.tensor(noise[2])])

    return run


def graphed(model, state=None):
    passes, run = GraphedPass(model), noisy(model)

    def called(batch):
        return passes(run, batch, state() if state else ()) if is_known_in_training(model) else run(batch)

    return called


def updates(model, run, groups):
    """The results and gradients of updates, each of some batches."""
    torch.manual_seed(5)
    found = []
    for group in groups:
        model.zero_grad()
        results = [run(batch).clone() for batch in group]
        found.append([*results, *(weight.grad.clone() for weight in model.parameters())])
    return found


def check_equal(model, groups, warning=None):
    """The same with passes recorded as without."""
    with fused(model):
        expected = updates(model, noisy(model), groups)
        with nullcontext() if warning is None else warning:
            found = updates(model, graphed(model), groups)
    for one, other in zip(found, expected, strict=True):
        for left, right in zip(one, other, strict=True):
            torch.testing.assert_close(left, right)


@pytest.mark.parametrize("together", [1, 2, 3])
def test_results_and_gradients_are_those_of_the_function(together, model, recordings):
    groups = [list(batches(12))[first : first + together] for first in range(0, 12, together)]
    check_equal(model, groups)
    assert recordings == {"recorded": 1, "replayed": 10}


def test_a_batch_of_another_shape_runs_as_it_is_between_replays(model, recordings):
    groups = [[each] for each in (*batches(4), *batches(1, length=9), *batches(2))]
    check_equal(model, groups)
    assert recordings == {"recorded": 1, "replayed": 4}


def test_each_shape_that_is_frequent_is_recorded(model, recordings):
    kinds = [list(batches(4, length=length)) for length in (12, 9, 7)]
    check_equal(model, [[batch] for same in zip(*kinds, strict=True) for batch in same])
    assert recordings == {"recorded": 3, "replayed": 3 * 2}


def test_gradients_of_several_recorded_shapes_are_summed(model, recordings):
    kinds = [list(batches(8, length=length)) for length in (12, 9)]
    both = [batch for same in zip(*kinds, strict=True) for batch in same]
    check_equal(model, [both[:6], both[6:7], both[7:12], both[12:]])
    assert recordings == {"recorded": 2, "replayed": 2 * 6}


def test_no_more_shapes_are_recorded_than_shall_be(model, recordings, monkeypatch):
    monkeypatch.setattr(graphed_pass, "MOST", 1)
    check_equal(model, [[batch] for batch in (*batches(4), *batches(5, length=9), *batches(2))])
    assert recordings == {"recorded": 1, "replayed": 4}


def test_each_shape_has_its_own_number_of_dropouts(model, recordings):
    """A batch of another shape may draw more between two of the same."""
    passes, drawn = GraphedPass(model), []

    def run(batch):
        seeds = [next_seed() for _ in range(batch.ids.size(1))]
        drawn.append([int(seed) for seed in seeds])
        return noisy(model)(batch)

    both = [each for same in zip(batches(5), batches(5, length=9), strict=True) for each in same]
    with fused(model):
        torch.manual_seed(1)
        for batch in both:
            passes(run, batch, ())
        state = torch.get_rng_state()
        torch.manual_seed(1)
        for batch in both:
            run(batch)
    assert torch.equal(torch.get_rng_state(), state)
    assert recordings == {"recorded": 2, "replayed": 2 * 3}


@pytest.mark.parametrize("when", ["launched", "recorded", "replayed", "without room"])
def test_a_lack_of_memory_frees_what_was_recorded(when, model, recordings, monkeypatch):
    passes, run = GraphedPass(model), noisy(model)

    def short(*_):
        raise torch.OutOfMemoryError("out of memory")

    with fused(model):
        for batch in batches(4):
            passes(run, batch, ())
        if when == "replayed":
            (recorded,) = passes._recorded.values()
            recorded._replay = short
        elif when != "launched":
            for batch in batches(2, length=9):
                passes(run, batch, ())
        if when == "without room":
            monkeypatch.setattr(graphed_pass, "has_room", lambda *_: False)
        with pytest.raises(torch.OutOfMemoryError):
            passes(short, *batches(1, length=12 if when == "replayed" else 9), ())
        assert not passes._recorded
        assert not passes._memory._gradients
        for batch in batches(4):
            passes(run, batch, ())
    assert recordings == {"recorded": 1, "replayed": 2}


def test_rare_shapes_are_not_recorded(model, recordings, monkeypatch):
    monkeypatch.setattr(graphed_pass, "RECENT", 6)
    kinds = [list(batches(5, length=length)) for length in (5, 6, 7, 8)]
    check_equal(model, [[batch] for same in zip(*kinds, strict=True) for batch in same])
    assert recordings == {"recorded": 0, "replayed": 0}


def test_shapes_that_came_long_ago_are_forgotten(model, monkeypatch):
    monkeypatch.setattr(graphed_pass, "RECENT", 2)
    monkeypatch.setattr(graphed_pass, "DEVICES", ("cpu",))
    passes, run = GraphedPass(model), noisy(model)
    with fused(model):
        for length in range(3, 15):
            passes(run, *batches(1, length=length), ())
            assert len(passes._counts) <= 2 * 2 + 1


def test_a_device_without_graphs_records_nothing(model):
    passes, run = GraphedPass(model), noisy(model)
    with fused(model):
        for batch in batches(5):
            passes(run, batch, ())
    assert not passes._recorded


def test_without_room_for_one_more_the_recorded_ones_are_kept(model, recordings, monkeypatch):
    room, factors = iter([True, False]), []
    monkeypatch.setattr(
        graphed_pass, "has_room", lambda device, factor: (next(room), factors.append(factor))[0]
    )
    kinds = [list(batches(6, length=length)) for length in (12, 9)]
    check_equal(model, [[batch] for same in zip(*kinds, strict=True) for batch in same])
    assert recordings == {"recorded": 1, "replayed": 4}
    assert factors[0] > factors[1], "the first recording needs the most"


def packed_batches(count):
    """Pairs of two sizes in turn."""
    for number in range(count):
        lengths = [(5, 9), (0, 3), (12, 7)] * (8 if number % 2 else 2)
        yield prepared_for_gpu(batch_of(lengths, seed=number), 0)


def test_pairs_without_padding_are_recorded_by_their_sizes(recordings):
    weights = nn.Linear(3, 1)

    def run(packed):
        states = torch.stack([packed.source.ids.sum(), packed.target.positions.sum(), packed.labels.sum()])
        loss = weights(states.float()).sum() * packed.num_targets[0]
        loss.backward()
        return torch.stack([loss.detach(), packed.num_targets[0].float()])

    found = []
    for function in (GraphedPass(weights), lambda run, batch, _: run(batch)):
        results = []
        for batch in packed_batches(10):
            weights.zero_grad()
            results += [function(run, batch.packed, ()).clone(), weights.weight.grad.clone()]
        found.append(results)
    assert recordings == {"recorded": 2, "replayed": 2 * 3}
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_a_batch_without_places_of_its_targets_is_not_recorded(model, recordings):
    with fused(model):
        run = graphed(model)
        for batch in batches(5):
            run(replace(batch, targets=None))
    assert recordings == {"recorded": 0, "replayed": 0}


def test_another_state_of_the_function_is_seen(model, recordings):
    state = [0]
    with fused(model):
        run = graphed(model, lambda: tuple(state))
        for number, batch in enumerate(batches(8)):
            state[0] = number // 4
            run(batch)
    assert recordings == {"recorded": 2, "replayed": 4}


def changes():
    yield "a frozen weight", lambda model: next(model.parameters()).requires_grad_(False)
    yield "other memory of a weight", lambda model: setattr(model.norm.weight, "data", torch.ones(64))
    yield (
        "another layer",
        lambda model: setattr(model.blocks[0], "feed_forward", nn.Identity()),
    )
    yield "another config", lambda model: setattr(model, "config", replace(model.config, dropout=0.1))
    yield "another class", lambda model: setattr(model.norm, "__class__", type("Mine", (nn.LayerNorm,), {}))
    yield "a hook of a weight", lambda model: model.norm.weight.register_hook(lambda slope: slope * 2)
    yield "a hook of a module", lambda model: model.norm.register_forward_hook(lambda *_: None)
    yield "another forward", lambda model: setattr(model.norm, "forward", torch.zeros_like)
    yield "an attention", lambda model: setattr(model.blocks[0].self_attention, "attend", lambda q, *_: q)
    yield "a dropout", lambda model: setattr(model.blocks[0].around_feed_forward.dropout, "p", 0.5)
    yield "an attention's dropout", lambda model: setattr(model.blocks[0].self_attention, "dropout", 0.5)
    yield "a norm's epsilon", lambda model: setattr(model.norm, "eps", 0.5)
    yield "an activation", lambda model: setattr(model.blocks[1].feed_forward, "activation", torch.sigmoid)
    yield "a method", lambda model: setattr(model, "project", lambda hidden: model.output(hidden) * 2)
    yield "another buffer", lambda model: model.norm.register_buffer("scale", torch.ones(1))
    yield "evaluation", lambda model: model.blocks[0].eval()


@pytest.mark.parametrize("change", [each for _, each in changes()], ids=[name for name, _ in changes()])
def test_a_change_is_seen(change, model, recordings):
    with fused(model):
        run = graphed(model)
        for batch in batches(4):
            run(batch)
        change(model)
        torch.manual_seed(5)
        model.zero_grad()
        found = run(next(batches(1)))
        torch.manual_seed(5)
        torch.testing.assert_close(found, noisy(model)(next(batches(1))))
    assert recordings == {"recorded": 1, "replayed": 2}


def test_a_model_without_fused_forms_or_of_unknown_parts_is_not_recorded(model, recordings, monkeypatch):
    monkeypatch.setattr("regard.training.gradients.is_asynchronous", lambda device: True)
    gradients = Gradients(ReplicatedModel(model), NextToken(), torch.device("cpu"), "float32")

    def run():
        for batch in batches(5):
            gradients.compute([batch], model.zero_grad)

    class Own(type(model.norm)):
        pass

    run()
    kind, model.norm.__class__ = type(model.norm), Own
    with fused(model):
        run()
        assert recordings == {"recorded": 0, "replayed": 0}
        model.norm.__class__ = kind
        run()
    assert recordings == {"recorded": 1, "replayed": 3}


class Part(ReplicatedModel):
    """A model that may have other weights in other processes."""


@pytest.mark.parametrize(("kind", "has_queue"), [(ReplicatedModel, False), (Part, True)])
def test_a_pass_on_a_cpu_or_of_a_model_that_is_not_whole_is_not_recorded(
    kind, has_queue, model, recordings, monkeypatch
):
    monkeypatch.setattr("regard.training.gradients.is_asynchronous", lambda device: has_queue)
    gradients = Gradients(kind(model), NextToken(), torch.device("cpu"), "float32")
    with fused(model):
        for batch in batches(5):
            gradients.compute([batch], model.zero_grad)
    assert recordings == {"recorded": 0, "replayed": 0}


def test_where_memory_is_short_nothing_is_recorded(model, recordings, monkeypatch):
    monkeypatch.setattr(graphed_pass, "has_room", lambda *_: False)
    with fused(model):
        run = graphed(model)
        for batch in batches(5):
            run(batch)
    assert recordings == {"recorded": 0, "replayed": 0}


def test_a_refused_recording_costs_a_warning_alone(model, recordings, monkeypatch):
    def refuse(self, run):
        self._weights[0].grad = None
        raise RuntimeError("operation not permitted\nmore")

    monkeypatch.setattr(Recorded, "_capture", refuse)
    check_refused(model, "one by one: operation not permitted$")


@pytest.mark.parametrize("what", ["result", "gradients", "no gradient", "not a number"])
def test_a_recording_that_gives_other_numbers_is_not_used(what, model, recordings, monkeypatch):
    usual = Recorded._capture

    def wrong(self, run):
        replay, result, gradients = usual(self, run)
        if what == "no gradient":
            gradients[0] = None

        def replayed():
            replay()
            if what == "result":
                result[0] *= 1.1
            elif what == "gradients":
                gradients[0] *= 1.5
            elif what == "not a number":
                gradients[1][0] = float("nan")

        return replayed, result, gradients

    monkeypatch.setattr(Recorded, "_capture", wrong)
    check_refused(model, "one by one: a replay of it gives other numbers")
    assert recordings == {"recorded": 1, "replayed": 1}


def check_refused(model, match):
    groups = [list(batches(8))[first : first + 2] for first in range(0, 8, 2)]
    warning = pytest.warns(UserWarning, match=match)
    check_equal(model, groups, warning)
    assert len(warning) == 1, "it is not tried again"


def test_a_pass_with_another_number_of_dropouts_each_time_is_not_recorded(model, recordings):
    passes, calls = GraphedPass(model), iter(range(100))

    def run(batch):
        noise = [next_seed() for _ in range(next(calls))]
        return noisy(model)(batch) * len(noise)

    *first, third, fourth = batches(4)
    with fused(model):
        for batch in first:
            passes(run, batch, ())
        with pytest.warns(UserWarning, match="another number of dropouts"):
            passes(run, third, ())
        passes(run, fourth, ())
    assert recordings == {"recorded": 0, "replayed": 0}


@pytest.mark.parametrize("is_close", [True, False])
def test_a_pass_without_an_order_of_sums_may_differ_a_little(is_close, model, recordings):
    """As kernels with atomic additions do."""
    passes, generator = GraphedPass(model), torch.Generator().manual_seed(0)

    def run(batch):
        result = noisy(model)(batch)
        for weight in model.parameters():
            weight.grad *= 1 + (1e-4 if is_close else 1.0) * torch.rand((), generator=generator)
        return result

    with fused(model), nullcontext() if is_close else pytest.warns(UserWarning, match="gives other numbers"):
        for batch in batches(5):
            model.zero_grad()
            passes(run, batch, ())
    assert recordings["replayed"] == (3 if is_close else 1)


def test_gradients_that_share_memory_with_the_recorded_ones_are_kept(model, recordings):
    first, second = batches(5), list(batches(2))
    with fused(model):
        run, plain = graphed(model), noisy(model)
        for batch in first:
            model.zero_grad()
            run(batch)
        found = []
        for function in (run, plain):
            torch.manual_seed(1)
            model.zero_grad()
            function(second[0])
            for weight in model.parameters():
                weight.grad = None if weight.grad is None else weight.grad.view_as(weight.grad)
            function(second[1])
            found.append([weight.grad.clone() for weight in model.parameters()])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_a_pass_that_is_not_finite_may_be_recorded(model, recordings):
    """The update is left out, which is no reason to record nothing any more."""
    passes, broken = GraphedPass(model), iter([False, False, True, True, True])

    def run(batch):
        result = noisy(model)(batch)
        if next(broken, False):
            for weight in model.parameters():
                weight.grad *= float("nan")
        return result

    with fused(model):
        for batch in batches(5):
            model.zero_grad()
            passes(run, batch, ())
    assert recordings["recorded"] == 1


def test_comparisons():
    one, two = torch.ones(3), torch.full((3,), float("nan"))
    assert are_equal((one, None), (one.clone(), None))
    assert not are_equal((one, None), (one, one))
    assert are_equal((two,), (two.clone(),))
    assert not are_equal((two,), (one,))
    assert are_close((one, one * 1.005), (one, one))
    for other in (one * 1.5, two, None):
        assert not are_close((one, one, other), (one, one, one))
    assert not are_close((one, one), (one, two))
    beside_large = (one, one * 100, one)  # a small gradient may differ by a thousandth of the largest
    assert are_close((one, one * 100, one * 1.05), beside_large)
    nothing = torch.zeros(3)
    assert are_close((nothing, nothing), (nothing, nothing))
    assert not are_close((nothing, one), (nothing, nothing))
    assert not are_close((one, one * 100, one * 1.5), beside_large)


def test_a_trainer_of_a_model_is_freed_with_it(model):
    gradients = Gradients(ReplicatedModel(model), NextToken(), torch.device("cpu"), "float32")
    gradients.compute(list(batches(1)), model.zero_grad)
    gone = weakref.ref(gradients)
    del gradients
    assert gone() is None


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
            assert memory.are_all_read
            assert torch.equal(torch.get_rng_state(), state)
            next_seed()
            assert not memory.are_all_read
        torch.manual_seed(3)
        counter = SeedCounter()
        with counter.used():
            assert [next_seed() for _ in range(count)] == drawn
        assert counter.count == count


KINDS = {
    "text": (
        DecoderOnlyConfig(dropout=0.2, attention_dropout=0.1, **SIZES),
        NextToken(),
        lambda: [
            *([each] * 2 for each in batches(3)),
            list(batches(1, length=9)),
            *([each] for each in batches(6)),
        ],
    ),
    "pairs": (
        EncoderDecoderConfig(
            src_vocab_size=90, tgt_vocab_size=90, d_model=64, num_heads=4, d_ff=96, num_encoder_layers=2,
            num_decoder_layers=2, dropout=0.2, attention_dropout=0.1, norm_position="pre",
            positions="rotary",
        ),
        CrossEntropy(smoothing=0.1),
        lambda: [
            *([each] for each in packed_batches(7)),
            list(packed_batches(4)),
            [*packed_batches(4)][::-1],
        ],
    ),
}  # fmt: skip


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_on_a_gpu_a_replay_is_equal_to_the_bit(kind, precision, monkeypatch):
    """With dropout of every kind, over several updates of the weights, of several shapes."""
    found, (config, objective, groups) = [], KINDS[kind]
    for is_graphed in (False, True):
        monkeypatch.setattr(graphed_pass, "DEVICES", ("cuda",) if is_graphed else ())
        model, device = build_model(config, seed=0).to("cuda").train(), torch.device("cuda")
        gradients = Gradients(ReplicatedModel(model), objective, device, precision)
        sums = []
        torch.manual_seed(5)
        with fused(model):
            for group in groups():
                model.zero_grad(set_to_none=True)
                sums.append(
                    gradients.compute(
                        [prepared_for_gpu(each, objective.ignored).to(device) for each in group],
                        model.zero_grad,
                    ).clone()
                )
                with torch.no_grad():
                    for weight in model.parameters():
                        weight -= 0.1 * weight.grad
            if is_graphed:
                recorded = gradients._graphed._recorded
                assert len(recorded) == (1 if kind == "text" else 2)
                assert all(each._replay is not None for each in recorded.values())
                if kind == "pairs" and precision == "bfloat16":
                    assert all(shape[0] is PackedPairs for shape in recorded)
        found.append([*sums, *(weight.detach() for weight in model.parameters())])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)
