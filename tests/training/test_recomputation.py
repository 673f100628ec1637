"""Recomputed activations give the same gradients to the bit, keep less, and leave the model as it was."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.data import TensorExamples
from regard.distributed.replicated import ReplicatedModel
from regard.errors import RecipeError
from regard.fast.training import fused
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.recurrent import RecurrentConfig
from regard.training import gradients
from regard.training.fitting import fit
from regard.training.gradients import Gradients
from regard.training.objective import CrossEntropy, LabelCrossEntropy, Loss, NextToken
from regard.training.recomputation import blocks_of, recomputed, refuse_without_blocks
from regard.training.schedule import ScheduleSettings
from regard.training.settings import TrainingSettings
from tests.data.test_packed_pairs import batch_of
from tests.laws.test_family import running_text

SIZES = {
    "d_model": 64,
    "num_heads": 4,
    "d_ff": 96,
    "dropout": 0.3,
    "attention_dropout": 0.2,
}
PAIRS = EncoderDecoderConfig(
    src_vocab_size=90, tgt_vocab_size=90, num_encoder_layers=2, num_decoder_layers=2, **SIZES
)
MODELS = {
    "encoder-decoder": (PAIRS, CrossEntropy(smoothing=0.1), batch_of([(5, 7), (3, 2), (9, 9)])),
    "pre-norm, rotary": (
        replace(PAIRS, norm_position="pre", positions="rotary"),
        CrossEntropy(smoothing=0.1),
        batch_of([(5, 7), (3, 2)]),
    ),
    "decoder-only": (DecoderOnlyConfig(vocab_size=90, num_layers=3, **SIZES), NextToken(), running_text()),
}


def results(model, objective, batch, *, recompute, precision="float32"):
    """The numbers and gradients of an update, and the random state after it."""
    model.zero_grad(set_to_none=True)
    device = torch.device("cpu")
    update = Gradients(ReplicatedModel(model), objective, device, precision, recompute=recompute)
    torch.manual_seed(5)
    with fused(model):
        sums = update([batch, batch], model.zero_grad)
    return [torch.tensor(sums), *(p.grad for p in model.parameters()), torch.get_rng_state()]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", list(MODELS))
def test_gradients_are_equal_to_the_bit_with_dropout_and_fused_forms(name, precision):
    config, objective, batch = MODELS[name]
    model = build_model(config, seed=0).train()
    kept, recomputed_too = (
        results(model, objective, batch, recompute=on, precision=precision) for on in (False, True)
    )
    for one, other in zip(kept, recomputed_too, strict=True):
        assert torch.equal(one, other)
    assert all("forward" not in vars(block) for block in blocks_of(model))


def kept_bytes(model, objective, batch, *, on):
    """The bytes that a forward pass keeps for the backward pass, weights left out."""
    storages, weights = {}, {p.untyped_storage().data_ptr() for p in model.parameters()}

    def note(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            storages[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor), recomputed(model, on=on):
        objective(model, batch)
    return sum(size for size, _ in storages.values())


@pytest.mark.parametrize("name", list(MODELS))
def test_less_is_kept_for_the_backward_pass(name):
    config, objective, batch = MODELS[name]
    model = build_model(config, seed=0).train()
    kept, recomputed_too = (kept_bytes(model, objective, batch, on=on) for on in (False, True))
    assert recomputed_too < kept / 2


def test_each_block_runs_twice_and_nothing_else_does():
    config, objective, batch = MODELS["decoder-only"]
    model = build_model(config, seed=0).train()
    runs = {"block": 0, "embedding": 0}
    counted = {"block": blocks_of(model)[1].feed_forward, "embedding": model.get_submodule("input")}
    for name, module in counted.items():
        module.register_forward_hook(lambda *_, name=name: runs.update({name: runs[name] + 1}))
    with recomputed(model):
        objective(model, batch).total.backward()
    assert runs == {"block": 2, "embedding": 1}


class Normed(nn.Module):
    """A model of somebody else, whose blocks have buffers that each pass changes."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)) for _ in range(2)
        )

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def squares(model, batch):
    total = model(*batch.inputs).square().sum()
    return Loss(total=total, nll=total, num_targets=len(batch.labels))


def test_a_batch_norm_counts_a_batch_once():
    found = []
    for on in (False, True):
        torch.manual_seed(1)
        model = Normed()
        examples = TensorExamples(torch.randn(6, 4), torch.zeros(6, dtype=torch.int64))
        numbers = results(model, squares, examples.batch(torch.arange(6).numpy(), 0), recompute=on)
        found.append([*numbers, *model.buffers()])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


class Centred(nn.Module):
    """A block that reads its buffer, and then changes it in place or has another one."""

    def __init__(self, in_place):
        super().__init__()
        self.linear, self.in_place = nn.Linear(4, 4), in_place
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        y = self.linear(x) - self.mean
        new = 0.9 * self.mean + 0.1 * y.detach().mean(0)
        if self.in_place:
            self.mean.copy_(new)
        else:
            self.mean = new
        return y.tanh()


STATEFUL = {
    "in place": lambda: Centred(True),
    "another": lambda: Centred(False),
    # wide enough that its power iteration still moves
    "spectral norm": lambda: nn.Sequential(
        nn.Linear(4, 16), nn.utils.parametrizations.spectral_norm(nn.Linear(16, 16)), nn.Linear(16, 4)
    ),
}


@pytest.mark.parametrize("kind", list(STATEFUL))
def test_a_block_that_reads_what_it_changes_computes_the_same_again(kind):
    found = []
    for on in (False, True):
        torch.manual_seed(1)
        model = Normed()
        model.blocks = nn.ModuleList(STATEFUL[kind]() for _ in range(2))
        examples = TensorExamples(torch.randn(6, 4), torch.zeros(6, dtype=torch.int64))
        numbers = results(model.train(), squares, examples.batch(torch.arange(6).numpy(), 0), recompute=on)
        found.append([*numbers, *model.buffers()])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_a_block_in_two_places_is_recomputed_in_both():
    found = []
    for on in (False, True):
        torch.manual_seed(1)
        model = Normed()
        model.blocks.append(model.blocks[0])
        examples = TensorExamples(torch.randn(6, 4), torch.zeros(6, dtype=torch.int64))
        numbers = results(model, squares, examples.batch(torch.arange(6).numpy(), 0), recompute=on)
        found.append([*numbers, *model.buffers()])
        assert all("forward" not in vars(block) for block in model.blocks)
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_a_forward_that_was_patched_before_is_used_and_stays():
    config, objective, batch = MODELS["decoder-only"]
    model = build_model(config, seed=0).train()
    block, calls = blocks_of(model)[0], []
    plain = block.forward

    def patched(*inputs, **more):
        calls.append(1)
        return plain(*inputs, **more)

    block.forward = patched
    with recomputed(model):
        objective(model, batch).total.backward()
    assert len(calls) == 2
    assert block.forward is patched


def test_a_model_without_blocks_is_refused(tmp_path):
    sizes = {"src_vocab_size": 20, "tgt_vocab_size": 20, "d_model": 8, "d_embedding": 8}
    model = build_model(RecurrentConfig.from_table({}, **sizes), seed=0)
    with pytest.raises(RecipeError, match=r"recompute_activations = true, but .* has no list of `blocks`"):
        refuse_without_blocks(model)
    refuse_without_blocks(build_model(PAIRS, seed=0))
    rows = TensorExamples(torch.ones(2, 3), torch.tensor([0, 1]))
    settings = TrainingSettings(recompute_activations=True)
    with pytest.raises(RecipeError, match="no list of `blocks`"):
        fit(nn.Linear(3, 2), rows, tmp_path / "run", objective=LabelCrossEntropy(), settings=settings)


def test_a_run_recomputes_if_its_settings_say_so_and_ends_with_the_same_weights(tmp_path, monkeypatch):
    found, entered = [], []
    monkeypatch.setattr(
        gradients, "recomputed", lambda *given, on: entered.append(on) or recomputed(*given, on=on)
    )
    for on in (False, True):
        torch.manual_seed(1)
        model = Normed()
        examples = TensorExamples(torch.randn(8, 4), torch.zeros(8, dtype=torch.int64))
        schedule = ScheduleSettings(warmup_steps=1)
        settings = TrainingSettings(max_steps=3, recompute_activations=on, schedule=schedule)
        fit(model, examples, tmp_path / str(on), objective=squares, settings=settings)
        found.append([*model.parameters(), *model.buffers()])
    assert set(entered[: len(entered) // 2]) == {False}
    assert set(entered[len(entered) // 2 :]) == {True}
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)
