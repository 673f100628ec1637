"""The loss and its gradients, found in one pass, are those of PyTorch in float64."""

import pytest
import torch
import torch.nn.functional as F

from regard.fast.native import cross_entropy, kernels
from regard.fast.native.cross_entropy import LinearCrossEntropy

pytestmark = pytest.mark.usefixtures("any_width")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("classes", [1, 3, 16, 50])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_any_number_of_classes(threads, classes, smoothing, monkeypatch):
    monkeypatch.setattr(cross_entropy, "threads_for", lambda multiplications: threads)
    assert kernels.available()
    generator = torch.Generator().manual_seed(classes)
    shapes = [(9, 6), (classes, 6), (classes,)]
    given = [torch.randn(shape, generator=generator, requires_grad=True) for shape in shapes]
    exact = [each.detach().double().requires_grad_() for each in given]
    labels = torch.randint(classes, (9,), generator=generator)
    total, nll = LinearCrossEntropy.apply(*given, labels, smoothing)
    expected = F.cross_entropy(F.linear(*exact), labels, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(total.double(), expected, rtol=1e-5, atol=1e-5)
    plain_nll = F.cross_entropy(F.linear(*exact), labels, reduction="sum").detach()
    torch.testing.assert_close(nll.double(), plain_nll, rtol=1e-5, atol=1e-5)
    found, plain = torch.autograd.grad(2 * total, given), torch.autograd.grad(2 * expected, exact)
    for each, its in zip(found, plain, strict=True):
        torch.testing.assert_close(each.double(), its, rtol=1e-4, atol=1e-5)
