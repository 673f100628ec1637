"""Steps of one model or of several: how many rows go together, who can join, and what is taken back."""

from types import SimpleNamespace

import jaxtyping
import pytest
import torch

from regard.decoding.step import (
    ROW_MULTIPLE,
    CacheStepper,
    EnsembleStepper,
    ModelStepper,
    mean_log_probs,
    multiple_of,
    stepper_of,
)
from regard.errors import ConfigError

MODEL = SimpleNamespace(device=torch.device("cpu"))


@pytest.fixture(autouse=True)
def _without_checks_of_types():
    """Parts of models stand for models here."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


class Other(CacheStepper):
    """Another kind of stepper."""


def stepper(fast=None, kind=CacheStepper, cache=None):
    made = kind(MODEL)
    made._fast, made.cache = fast, cache
    return made


def fast(pads=False, candidates=False):
    return SimpleNamespace(pads=pads, has_top_candidates=candidates)


def test_only_the_rows_of_a_plain_step_go_in_multiples_and_take_memory_as_the_longest():
    plain, quick, padding = stepper(), stepper(fast()), stepper(fast(pads=True))
    assert [each.multiple for each in (plain, quick)] == [ROW_MULTIPLE, 1]
    assert [each.pads for each in (plain, quick, padding)] == [True, False, True]
    found = [each.has_top_candidates for each in (plain, quick, stepper(fast(candidates=True)))]
    assert found == [False, False, True]


def test_before_its_first_step_a_stepper_has_read_nothing():
    made = CacheStepper(MODEL)
    assert (made.length, made.rows, made.cache, made.device) == (0, 0, None, MODEL.device)
    assert stepper(cache=SimpleNamespace(length=7)).length == 7


def test_rows_join_a_stepper_of_the_same_kind_with_the_same_fast_step():
    one, another = fast(), fast()
    assert stepper(one).can_join(stepper(one))
    assert not stepper(one).can_join(stepper(another))
    assert not stepper(one).can_join(stepper(one, Other))
    assert not stepper(one, Other).can_join(stepper(one))
    assert not stepper().can_join(stepper())
    assert not stepper(one).can_join(stepper())
    assert not stepper(one).can_join(SimpleNamespace(_fast=one))


@pytest.mark.parametrize("error", [AttributeError, ValueError])
def test_a_cache_that_cannot_be_cut_takes_nothing_back(error):
    def cut(length):
        raise error

    with pytest.raises(ConfigError, match="cannot take back") as caught:
        stepper(cache=SimpleNamespace(cut=cut)).cut(3)
    assert "prompt_lookup" in caught.value.hint
    lengths = []
    stepper(cache=SimpleNamespace(cut=lengths.append)).cut(3)
    assert lengths == [3]


def test_an_ensemble_has_the_multiple_of_its_greatest_and_one_model_is_none():
    steppers = [SimpleNamespace(multiple=number) for number in (1, 8, 2)]
    assert EnsembleStepper(steppers).multiple == 8
    assert multiple_of(steppers[2]) == 2
    assert multiple_of(SimpleNamespace()) == ROW_MULTIPLE
    assert isinstance(stepper_of([MODEL]), ModelStepper)
    both = stepper_of([MODEL, MODEL])
    assert isinstance(both, EnsembleStepper)
    assert len(both.steppers) == 2


def test_an_ensemble_starts_steps_and_selects_with_each_of_its_models():
    calls = []

    class Recorded:
        def __init__(self, shares):
            self.log_probs = torch.tensor([shares]).log()

        def start(self, src_ids, src_lengths):
            calls.append(("start", src_ids.tolist(), src_lengths.tolist()))

        def step(self, ids):
            calls.append(("step", ids.tolist()))
            return self.log_probs

        def select(self, rows):
            calls.append(("select", rows.tolist()))

    ensemble = EnsembleStepper([Recorded([0.5, 0.5]), Recorded([0.25, 0.75])])
    ensemble.start(torch.tensor([[4, 3]]), torch.tensor([2]))
    torch.testing.assert_close(ensemble.step(torch.tensor([2])).exp(), torch.tensor([[0.375, 0.625]]))
    ensemble.select(torch.tensor([0, 0]))
    once = [("start", [[4, 3]], [2]), ("step", [2]), ("select", [0, 0])]
    assert calls == [each for each in once for _ in range(2)]


def test_a_mean_is_one_of_probabilities_of_one_vocabulary():
    shares = torch.tensor([[0.2, 0.8], [0.6, 0.4]])
    torch.testing.assert_close(mean_log_probs([shares.log()]), shares.log())
    torch.testing.assert_close(
        mean_log_probs([shares[:1].log(), shares[1:].log()]).exp(), shares.mean(0)[None]
    )
    impossible = torch.tensor([[1.0, 0.0]]).log()
    torch.testing.assert_close(mean_log_probs([impossible] * 3), impossible)
    for shape in ((2,), (2, 2), (2, 2, 2)):
        with pytest.raises(ConfigError, match="theirs have 2, 3 tokens") as caught:
            mean_log_probs([torch.zeros(*shape), torch.zeros(*shape[:-1], 3)])
        assert caught.value.hint


def test_a_step_reads_the_last_position_and_a_reading_all():
    seen = []

    class Model:
        device = torch.device("cpu")

        def extend(self, ids, cache):
            seen.append((ids.tolist(), cache))
            return torch.arange(2.0 * ids.numel()).view(*ids.shape, 2).half()

    made = CacheStepper(Model())
    made.cache = "cache"
    logits = made.logits(torch.tensor([5, 6]))
    assert (logits.tolist(), logits.dtype) == ([[0.0, 1.0], [2.0, 3.0]], torch.float32)
    torch.testing.assert_close(made.step(torch.tensor([5, 6])), logits.log_softmax(-1))
    read = made.read(torch.tensor([[7, 8, 9]]))
    assert (read.tolist(), read.dtype) == ([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], torch.float32)
    assert seen == [([[5], [6]], "cache")] * 2 + [([[7, 8, 9]], "cache")]


def test_rows_are_selected_in_the_cache_and_joined_to_it():
    class Cache:
        def __init__(self, rows):
            self.rows = rows

        def select(self, rows):
            return Cache([self.rows[row] for row in rows.tolist()])

        def join(self, other):
            return Cache(self.rows + other.rows)

    made, other = stepper(cache=Cache([1, 2, 3])), stepper(cache=Cache([9]))
    made.select(torch.tensor([2, 0, 0]))
    assert made.cache.rows == [3, 1, 1]
    made.join(other)
    assert made.cache.rows == [3, 1, 1, 9]


@pytest.mark.parametrize(("is_fast", "device"), [(False, "meta"), (True, "cpu")])
def test_rows_come_to_the_device_of_a_plain_cache_and_stay_on_the_host_for_a_fast_one(is_fast, device):
    step = SimpleNamespace(slots=lambda cache, rows: cache) if is_fast else None
    made = stepper(step, cache=SimpleNamespace(select=lambda rows: rows.device.type))
    made.device = torch.device("meta")
    made.select(torch.tensor([0]))
    assert made.cache == device


def test_a_source_is_read_once_and_at_once_without_a_fast_encoder():
    calls = []

    class Model:
        device = torch.device("cpu")

        def encode(self, ids, lengths):
            calls.append((ids.tolist(), lengths.tolist()))
            return "memory"

        def start(self, memory):
            return f"cache of {memory}"

    made = ModelStepper(Model())
    made.begin = lambda cache, rows: setattr(made, "rows", rows)
    made.start(torch.tensor([[4, 3], [5, 3]]), torch.tensor([2, 2]))
    assert (made.cache, made.rows) == ("cache of memory", 2)
    assert made.plain() == made.stepped() == "cache of memory"
    assert calls == [([[4, 3], [5, 3]], [2, 2])]


@pytest.mark.parametrize("has_encoder", [True, False])
def test_a_fast_encoder_reads_a_source_when_steps_begin(has_encoder):
    calls = []

    def encode(ids, lengths):
        calls.append(ids.tolist())
        return "slots"

    def by_layer(ids, lengths):
        yield
        yield
        return "slots by layer"

    encode.by_layer = by_layer

    class Model:
        device = torch.device("cpu")

        def encode(self, ids, lengths):
            return "memory"

        def start(self, memory):
            return "plain"

    step = SimpleNamespace(start=encode if has_encoder else None, slots=lambda cache, rows: (cache, rows))
    made = ModelStepper(Model())
    made.begin = lambda cache, rows: (setattr(made, "_fast", step), setattr(made, "rows", rows))
    made.start(torch.tensor([[4, 3]]), torch.tensor([2]))
    assert made.cache == (None if has_encoder else "plain")
    assert made.stepped() == ("slots" if has_encoder else "plain", 1)
    assert calls == ([[[4, 3]]] if has_encoder else [])
    made.cache = None
    assert len([*made.starts(torch.tensor([[4, 3]]), torch.tensor([2]))]) == (2 if has_encoder else 0)
    assert made.cache == ("slots by layer" if has_encoder else "plain")
