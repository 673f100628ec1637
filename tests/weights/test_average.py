import pytest
import torch
from torch import nn

from regard.errors import FolderError
from regard.weights.average import MovingAverage, average_tensors, used_weights
from regard.weights.folder import write_folder
from regard.weights.verified_folder import VerifiedFolder


def samples(count, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return [
        {"w": torch.randn(3, 4, generator=generator).to(dtype), "n": torch.tensor(7)} for _ in range(count)
    ]


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.register_buffer("seen", torch.tensor(0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_the_mean_is_that_of_float64_in_the_width_of_the_weights(dtype):
    points = samples(5, dtype)
    mean = average_tensors(iter(points))
    assert mean["w"].dtype == dtype
    assert torch.equal(mean["w"], torch.stack([point["w"].double() for point in points]).mean(0).to(dtype))
    assert mean["n"] == 7


@pytest.mark.parametrize("count", [1, 3, 7, 10])
def test_the_mean_of_equals_is_their_equal_to_the_bit(count):
    point = samples(1)[0]
    before = point["w"].clone()
    assert torch.equal(average_tensors([point] * count)["w"], before)
    assert torch.equal(point["w"], before)


def test_averaging_changes_none_of_its_checkpoints():
    points = samples(3, torch.float64)
    before = [point["w"].clone() for point in points]
    average_tensors(points)
    for point, own in zip(points, before, strict=True):
        assert torch.equal(point["w"], own)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"w": torch.zeros(3, 4)}, "'n' is in one"),
        ({"w": torch.zeros(3, 4), "n": torch.tensor(7), "x": torch.zeros(1)}, "'x' is in one"),
        ({"w": torch.zeros(4, 3), "n": torch.tensor(7)}, r"'w' is \[3, 4\] .* \[4, 3\]"),
        ({"w": torch.zeros(3, 4), "n": torch.tensor(8)}, "'n' is not floating point and differs"),
    ],
)
def test_what_does_not_fit_together_is_not_averaged(other, message):
    with pytest.raises(FolderError, match=message):
        average_tensors([*samples(1), other])


def test_nothing_has_no_mean():
    with pytest.raises(FolderError, match="no checkpoint"):
        average_tensors([])


def test_the_moving_average_follows_its_formula():
    model = Tiny()
    average = MovingAverage(model, 0.9, warm_up=False)
    expected = model.first.weight.detach().clone()
    for step in range(5):
        with torch.no_grad():
            model.first.weight.add_(step)
            model.seen.add_(1)
        average.update(model)
        expected = 0.9 * expected + 0.1 * model.first.weight
    torch.testing.assert_close(average.tensors()["first.weight"], expected.detach())
    assert average.tensors()["seen"] == 5


@pytest.mark.parametrize("warm_up", [True, False])
def test_an_average_that_does_not_read_whether_an_update_counts_is_the_same(warm_up):
    """As `update` where it counts; as if it had not been where it does not."""
    model = Tiny()
    plain, where = (MovingAverage(model, 0.6, warm_up=warm_up) for _ in range(2))
    for step in range(12):
        with torch.no_grad():
            model.first.weight.add_(step)
            model.seen.add_(1)
        counts = step % 3 != 1
        if counts:
            plain.update(model)
        where.update_where(torch.tensor(counts), model)
        assert where.updates == plain.updates
        torch.testing.assert_close(where.tensors()["first.weight"], plain.tensors()["first.weight"])
    assert where.tensors()["seen"] == 12
    assert MovingAverage(model, 0.6).warm_up


def test_an_average_whose_updates_the_device_counts_has_the_precision_of_its_weights():
    model = Tiny().double()
    plain, where = (MovingAverage(model, 0.9999, warm_up=False) for _ in range(2))
    with torch.no_grad():
        model.first.weight.add_(100.0)
    plain.update(model)
    where.update_where(torch.tensor(True), model)
    found, expected = (average.tensors()["first.weight"] for average in (where, plain))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_warmed_up_the_start_is_soon_forgotten():
    model = Tiny()
    warm, cold = (MovingAverage(model, 0.999, warm_up=warm_up) for warm_up in (True, False))
    nn.init.ones_(model.first.weight)
    for _ in range(100):
        warm.update(model)
        cold.update(model)
    distance = [(a.tensors()["first.weight"] - 1).abs().max() for a in (warm, cold)]
    assert distance[0] < 1e-6 < distance[1]


def test_the_weights_are_swapped_in_and_back_to_the_bit_even_after_an_error_or_nan():
    model = Tiny()
    average = MovingAverage(model, 0.5)
    with torch.no_grad():
        model.first.weight.mul_(3)
        model.first.bias[0] = torch.nan
    own = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    held = {name: tensor.clone() for name, tensor in average.tensors().items()}
    places = [parameter.data_ptr() for parameter in model.parameters()]

    def use():
        with average.applied(model):
            assert torch.equal(model.second.weight, held["first.weight"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        use()
    assert [parameter.data_ptr() for parameter in model.parameters()] == places
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor.nan_to_num(9), own[name].nan_to_num(9)), name
    for name, tensor in average.tensors().items():
        assert torch.equal(tensor, held[name])


def test_a_restored_average_continues_to_the_same_bits():
    model = Tiny()
    first = MovingAverage(model, 0.999)
    first.update(model)
    second = MovingAverage(Tiny(), 0.999)
    second.restore({name: tensor.clone() for name, tensor in first.tensors().items()})
    nn.init.ones_(model.first.weight)
    for average in (first, second):
        average.update(model)
    for name, tensor in first.tensors().items():
        assert torch.equal(second.tensors()[name], tensor)


def test_an_average_of_another_model_is_refused():
    average = MovingAverage(Tiny(), 0.9)
    for tensors in ({"updates": torch.tensor(1)}, {**average.tensors(), "x": torch.zeros(1)}):
        with pytest.raises(FolderError, match="is in one set"):
            average.restore(tensors)
    tensors = average.tensors()
    del tensors["updates"]
    with pytest.raises(FolderError, match="lacks 'updates'"):
        average.restore(tensors)


def test_the_warm_up_of_the_moving_average_follows_its_formula():
    """Update t has the decay (1 + t) / (10 + t), up to the given decay."""
    model = Tiny()
    average = MovingAverage(model, 0.3)
    expected = model.first.weight.detach().clone()
    for t in range(1, 7):
        with torch.no_grad():
            model.first.weight.add_(t)
        average.update(model)
        decay = [2 / 11, 3 / 12, 0.3, 0.3, 0.3, 0.3][t - 1]
        expected = decay * expected + (1 - decay) * model.first.weight.detach()
        torch.testing.assert_close(average.tensors()["first.weight"], expected)


def test_a_checkpoint_is_used_with_its_moving_average_if_that_has_a_model_s_weights(tmp_path):
    weights, average = {"w": torch.zeros(2)}, {"w": torch.ones(2), "updates": torch.tensor(3)}
    adapters = {"w.adapter.up": torch.ones(2), "updates": torch.tensor(3)}
    cases = [({}, 0.0, False), ({"average.safetensors": average}, 1.0, True)]
    cases += [({"average.safetensors": adapters}, 0.0, False)]
    for number, (more, value, averaged) in enumerate(cases):
        write_folder(tmp_path / str(number), {"model.safetensors": weights, **more})
        found, is_average = used_weights(VerifiedFolder.open(tmp_path / str(number)))
        assert is_average is averaged
        assert list(found) == ["w"]
        assert torch.equal(found["w"], torch.full((2,), value))


def test_the_number_of_updates_of_an_average_is_one_number():
    average = MovingAverage(Tiny(), 0.9)
    with pytest.raises(FolderError, match="lacks 'updates'"):
        average.restore({**average.tensors(), "updates": torch.tensor([1, 2])})
    average.restore({**average.tensors(), "updates": torch.tensor([7])})
    assert average.updates == 7
