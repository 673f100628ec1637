"""Out of memory in the forward or backward pass: batches are halved, with the same gradient."""

import pytest
import torch

from regard.data.batch import IGNORED, collate
from regard.data.images import ImageBatch
from regard.data.texts import LabelledTextBatch
from regard.data.token_stream import TextBatch
from regard.errors import RunError
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.training.objective import CrossEntropy
from regard.training.out_of_memory import halved, is_out_of_memory, with_halved_batches

CUDA = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
CPU = RuntimeError(
    "[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory: you tried"
)


def model_and_batches():
    config = EncoderDecoderConfig(
        src_vocab_size=30, tgt_vocab_size=30, d_model=16, num_heads=2, d_ff=24, num_encoder_layers=1,
        num_decoder_layers=1, dropout=0.0,
    )  # fmt: skip
    draw = torch.Generator().manual_seed(1)

    def some(least):
        return [
            [2, *torch.randint(4, 30, (least + number,), generator=draw).tolist(), 3] for number in range(5)
        ]

    batches = [collate(some(least), some(least + 1), range(5), pad_id=0) for least in (1, 4)]
    return build_model(config, seed=1).train(), batches


class Room:
    """An objective with memory for so many rows, which fails before, after or within its pass."""

    def __init__(self, rows, error, where):
        self.rows, self.error, self.where, self.base = rows, error, where, CrossEntropy(smoothing=0.1)

    def __call__(self, model, batch):
        if len(batch) > self.rows and self.where == "forward":
            raise self.error
        loss = self.base(model, batch)
        if len(batch) > self.rows:
            loss.total.register_hook(self.fail)
        return loss

    def fail(self, _):
        raise self.error


def gradients(model, objective, batches):
    def compute(parts):
        return sum(float(step(objective(model, batch))) for batch in parts)

    def step(loss):
        loss.total.backward()
        return loss.nll.detach()

    model.zero_grad(set_to_none=True)
    caught = []

    def counted(parts):
        caught.append(len(parts))
        return compute(parts)

    nll = with_halved_batches(counted, batches, model.zero_grad)
    return nll, {name: weight.grad.clone() for name, weight in model.named_parameters()}, caught[1:]


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize("error", [CUDA, CPU], ids=["cuda", "cpu"])
@pytest.mark.parametrize(("rows", "parts"), [(5, []), (3, [4]), (1, [4, 8, 10])])
def test_the_gradient_is_that_of_the_whole_batch(where, error, rows, parts):
    model, batches = model_and_batches()
    nll, whole, _ = gradients(model, CrossEntropy(smoothing=0.1), batches)
    found, in_parts, caught = gradients(model, Room(rows, error, where), batches)
    assert caught == parts
    assert found == pytest.approx(nll, rel=1e-6)
    for name, gradient in whole.items():
        torch.testing.assert_close(in_parts[name], gradient, atol=1e-5, rtol=1e-5, msg=name)


def test_without_memory_for_a_single_example_the_run_ends_with_a_message():
    model, batches = model_and_batches()
    with pytest.raises(RunError, match="single example"):
        gradients(model, Room(0, CUDA, "forward"), batches)


def test_other_errors_are_let_through():
    assert not is_out_of_memory(RuntimeError("shapes do not fit"))
    with pytest.raises(RuntimeError, match="shapes"):
        with_halved_batches(lambda _: (_ for _ in ()).throw(RuntimeError("shapes")), [], lambda: None)


def test_halves_of_every_kind_of_batch_are_all_of_it():
    lines = torch.arange(5)
    batches = [
        ImageBatch(images=torch.randn(5, 1, 4, 4), labels=lines, lines=lines),
        TextBatch(
            ids=torch.ones(5, 3).long(), labels=torch.full((5, 3), IGNORED), documents=None, lines=lines
        ),
        LabelledTextBatch(ids=torch.ones(5, 3).long(), lengths=lines, labels=lines, lines=lines),
    ]
    for batch in batches:
        parts = halved([batch])
        assert [len(part) for part in parts] == [2, 3]
        for name, tensor in batch.tensors().items():
            assert torch.equal(torch.cat([getattr(part, name) for part in parts]), tensor)
