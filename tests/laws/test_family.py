"""Laws of all models, whatever their input; each kind has a small example."""

import copy
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from regard.data.batch import PairBatch
from regard.data.token_stream import TextBatch
from regard.errors import ConfigError
from regard.fast.linear_cross_entropy import output_layer
from regard.models.adapters import adapters_of, add_lora, merge_lora
from regard.models.build import MODELS, build_model, config_class, count_parameters
from regard.models.model import Model
from regard.training.layer_depths import depths
from regard.training.objective import CrossEntropy, NextToken
from regard.weights.tensors import model_tensors, restore_model

IDS = torch.tensor([[5, 9, 17, 25, 6, 3], [8, 11, 29, 3, 0, 0], [7, 3, 0, 0, 0, 0]])
LENGTHS = torch.tensor([6, 4, 2])
TGT = torch.tensor([[2, 7, 19, 4, 23], [2, 28, 28, 5, 3], [2, 6, 10, 3, 0]])
TRANSFORMER = {"d_model": 16, "num_heads": 4, "d_ff": 32}


@dataclass(frozen=True)
class Specimen:
    """A small model: its table, the sizes that data would say, and what it is called with."""

    kind: str
    table: dict
    sizes: dict
    inputs: Callable[[], tuple[Tensor, ...]]
    alone: Callable[[int, tuple[Tensor, ...]], tuple[Tensor, ...]] | None = None  # one row without the others


def sequences() -> tuple[Tensor, ...]:
    return IDS, LENGTHS, TGT


def texts() -> tuple[Tensor, ...]:
    return IDS, LENGTHS


def frames() -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(3, 24, 8, generator=generator), torch.tensor([24, 16, 9])


def images() -> tuple[Tensor, ...]:
    return (torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(3)),)


def graph() -> tuple[Tensor, ...]:
    features = torch.randn(6, 10, generator=torch.Generator().manual_seed(3))
    return features, torch.tensor([[0, 1, 1, 2, 3, 4, 5, 5], [1, 0, 2, 1, 4, 3, 0, 4]])


def compared_texts() -> tuple[Tensor, ...]:
    """A translation, its source and its reference in each row."""
    return torch.stack([IDS, IDS.flip(0), IDS[[1, 1, 0]]], dim=1), torch.stack(
        [LENGTHS, LENGTHS.flip(0), LENGTHS[[1, 1, 0]]], dim=1
    )


def cut(row: int, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """A row of padded sequences without its padding and without the other rows."""
    first, lengths, *others = inputs
    return (first[[row], : lengths[row]], lengths[[row]], *(each[[row]] for each in others))


def cut_texts(row: int, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    ids, lengths = inputs
    return ids[[row], :, : lengths[row].max()], lengths[[row]]


def cut_beside_images(row: int, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    ids, lengths, pixels = inputs
    return *cut(row, (ids, lengths)), pixels


def row_of(row: int, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(each[[row]] for each in inputs)


VOCABULARIES = {"src_vocab_size": 30, "tgt_vocab_size": 30}
SPECIMENS = {
    "encoder-decoder": Specimen(
        "encoder_decoder",
        {**TRANSFORMER, "num_encoder_layers": 2, "num_decoder_layers": 2},
        VOCABULARIES,
        sequences,
        cut,
    ),
    "decoder-only": Specimen(
        "decoder_only", {**TRANSFORMER, "num_layers": 2}, {"vocab_size": 30}, lambda: (TGT,), row_of
    ),
    "classifier": Specimen(
        "encoder_only",
        {**TRANSFORMER, "num_layers": 2, "pooling": "mean"},
        {"vocab_size": 30, "head": "classification", "num_labels": 3},
        texts,
        cut,
    ),
    "tagger": Specimen(
        "encoder_only",
        {**TRANSFORMER, "num_layers": 2, "norm_position": "pre", "positions": "rotary"},
        {"vocab_size": 30, "head": "tokens", "num_labels": 3},
        texts,
        cut,
    ),
    "metric": Specimen(
        "translation_metric",
        {**TRANSFORMER, "num_layers": 2, "reads": ("source", "reference"), "joined": False},
        {"vocab_size": 30},
        compared_texts,
        cut_texts,
    ),
    "context vector": Specimen(
        "recurrent", {"preset": "rnn", "d_model": 16, "d_embedding": 12}, VOCABULARIES, sequences, cut
    ),
    "additive attention": Specimen(
        "recurrent", {"preset": "bahdanau", "d_model": 16, "d_embedding": 12}, VOCABULARIES, sequences, cut
    ),
    "Luong's attention": Specimen(
        "recurrent", {"preset": "luong", "d_model": 16, "d_embedding": 12}, VOCABULARIES, sequences, cut
    ),
    "neighbourhoods": Specimen(
        "gat", {"d_model": 16, "num_heads": 4}, {"num_features": 10, "num_labels": 3}, graph
    ),
    "GATv2": Specimen(
        "gat",
        {"d_model": 16, "num_heads": 4, "attention": "gatv2"},
        {"num_features": 10, "num_labels": 3},
        graph,
    ),
    "nodes of a graph": Specimen(
        "graph_transformer",
        {**TRANSFORMER, "num_layers": 2, "node_positions": "none"},
        {"num_features": 10, "num_labels": 3},
        lambda: (*graph(), torch.tensor([1, 1, 1, 1, 1, 1, 0, 1])),
    ),
    "frames": Specimen(
        "conformer",
        {"preset": "tiny", "d_model": 16, "d_ff": 32, "subsampling_factor": 2, "kernel_size": 5},
        {"num_features": 8, "num_labels": 5},
        frames,
        cut,
    ),
    "speech": Specimen(
        "speech_to_text",
        {
            **TRANSFORMER,
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
            "num_encoder_heads": 2,
            "d_ff_encoder": 24,
            "max_source_positions": 12,
            "dropout": 0.1,
        },
        {"vocab_size": 30, "num_features": 8},
        lambda: (frames()[0], TGT),
        row_of,
    ),
    "images": Specimen(
        "vision",
        {**TRANSFORMER, "num_layers": 2, "patch_size": 4},
        {"image_size": 8, "channels": 1, "num_labels": 3},
        images,
        row_of,
    ),
    "images and texts": Specimen(
        "image_text",
        {
            "d_model": 6,
            "d_text": 16,
            "text_heads": 4,
            "d_ff_text": 32,
            "text_layers": 2,
            "end_id": 3,
            "d_image": 20,
            "image_heads": 2,
            "d_ff_image": 24,
            "image_layers": 2,
            "patch_size": 4,
        },
        {"vocab_size": 30, "image_size": 8, "channels": 1, "pixel_mean": 0.5, "pixel_std": 0.5},
        lambda: (IDS, LENGTHS, *images()),
        cut_beside_images,
    ),
}


def test_every_kind_of_model_has_a_specimen():
    assert {each.kind for each in SPECIMENS.values()} == set(MODELS)


@pytest.fixture(params=SPECIMENS.values(), ids=SPECIMENS)
def specimen(request) -> Specimen:
    return request.param


def made(specimen: Specimen, seed: int = 0) -> Model:
    return build_model(config_class(specimen.kind).from_table(specimen.table, **specimen.sizes), seed=seed)


@pytest.fixture
def model(specimen) -> Model:
    """In evaluation, and shaken: biases of zero and gains of one would hide mistakes."""
    model = made(specimen)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


def test_logits_leave_a_model(specimen, model):
    logits = model(*specimen.inputs())
    assert logits.isfinite().all()
    assert (logits < 0).any()
    assert (logits.exp().sum(-1) - 1).abs().max() > 1e-3  # no probabilities


def test_a_seed_makes_the_weights_and_nothing_else_does(specimen):
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, again, other = made(specimen, 1), made(specimen, 1), made(specimen, 2)
    assert torch.equal(torch.random.get_rng_state(), before)
    pairs = zip(first.state_dict().values(), again.state_dict().values(), strict=True)
    assert all(torch.equal(one, two) for one, two in pairs)
    pairs = zip(first.parameters(), other.parameters(), strict=True)
    assert any(not torch.equal(one, two) for one, two in pairs)


def test_a_config_comes_back_from_its_dict(model):
    assert type(model.config).from_dict(model.config.to_dict()) == model.config


def test_what_is_saved_loads_back(specimen, model):
    inputs, other = specimen.inputs(), made(specimen, 7).eval()
    assert not torch.allclose(other(*inputs), model(*inputs))
    restore_model(other, model_tensors(model))
    assert torch.equal(other(*inputs), model(*inputs))


def test_a_copy_is_whole_and_apart(specimen, model):
    twin = copy.deepcopy(model)
    assert torch.equal(twin(*specimen.inputs()), model(*specimen.inputs()))
    assert count_parameters(twin) == count_parameters(model)  # what was tied is tied
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert all(parameter.any() for parameter in model.parameters())


def test_evaluation_turns_every_dropout_off(specimen, model):
    inputs = specimen.inputs()
    assert torch.equal(model(*inputs), model(*inputs))
    rates = {name: 0.5 for name in model.config.to_dict() if name.endswith("dropout")}
    loud = build_model(type(model.config).from_dict({**model.config.to_dict(), **rates}), seed=0)
    assert not torch.equal(loud(*inputs), loud(*inputs))
    loud.eval()
    assert torch.equal(loud(*inputs), loud(*inputs))


def test_gradients_reach_every_parameter(specimen, model):
    """All but what moves every score of a query alike: biases of keys, stacked between others or alone."""
    logits = model(*specimen.inputs())
    if logits.size(-1) == 1:  # a number, against 0
        logits = torch.nn.functional.pad(logits, (0, 1))
    labels = torch.arange(logits[..., 0].numel()) % logits.size(-1)
    torch.nn.functional.cross_entropy(logits.flatten(0, -2), labels).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if not name.endswith("key.bias"):
            assert parameter.grad.any(), name


def test_the_neighbours_and_their_padding_do_not_matter(specimen, model):
    if specimen.alone is None:
        assert specimen.kind in ("gat", "graph_transformer")
        pytest.skip("its rows are one whole")
    inputs = specimen.inputs()
    together = model(*inputs)
    for row in range(len(inputs[0])):
        alone = model(*specimen.alone(row, inputs))[0]
        torch.testing.assert_close(alone, together[row][: len(alone)], atol=2e-5, rtol=1e-5)


def test_a_model_runs_on_the_device_it_is_on(specimen, model):
    """Notebooks named "cuda", or made positions on the CPU; "meta" refuses tensors from elsewhere."""
    if specimen.kind in ("gat", "graph_transformer"):
        pytest.skip("how many edges there are is looked up, which no shape tells")
    model.to("meta")
    assert model.device.type == "meta"
    assert model(*(each.to("meta") for each in specimen.inputs())).device.type == "meta"


def adaptable(model: Model) -> list[str]:
    """The linear layers that an adapter may be put on."""
    names = []
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            with suppress(ConfigError):
                add_lora(copy.deepcopy(model), rank=1, targets=[name])
                names.append(name)
    return names


def test_adapters_change_nothing_at_first_are_all_read_and_merge_into_the_same_logits(specimen, model):
    """A layer whose weight is read past its adapter would be trained in vain, and is refused."""
    inputs, names = specimen.inputs(), adaptable(model)
    assert bool(names) == (specimen.kind != "gat")
    if not names:
        return
    before = model(*inputs)
    add_lora(model, rank=1, targets=names)
    assert torch.equal(model(*inputs), before)
    model(*inputs).logsumexp(-1).sum().backward()
    for name, (_, adapter) in adapters_of(model).items():
        assert adapter.up.grad is not None, name
        with torch.no_grad():
            adapter.up += 0.1
    adapted = model(*inputs)
    assert not torch.allclose(adapted, before)
    merge_lora(model)
    torch.testing.assert_close(model(*inputs), adapted, atol=1e-5, rtol=1e-5)


def pairs() -> PairBatch:
    target_lengths = torch.tensor([5, 5, 4])
    return PairBatch(
        src_ids=IDS, src_lengths=LENGTHS, tgt_ids=TGT, tgt_lengths=target_lengths, lines=torch.arange(1, 4)
    )


def running_text() -> TextBatch:
    return TextBatch(ids=TGT[:, :-1], labels=TGT[:, 1:], documents=None, lines=torch.arange(1, 4))


PREDICTORS = {  # of tokens: what their tasks train them by, with an output that is its own weight
    "encoder-decoder": (CrossEntropy, pairs, {"tied": "none"}),
    "decoder-only": (NextToken, running_text, {"tied": False}),
}


@pytest.fixture(params=PREDICTORS)
def predictor(request) -> Model:
    specimen, (_, _, untied) = SPECIMENS[request.param], PREDICTORS[request.param]
    table = {**specimen.table, **untied}
    return build_model(config_class(specimen.kind).from_table(table, **specimen.sizes), seed=0).eval()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_task_s_loss_reaches_the_adapters_of_the_output_too(request, predictor, smoothing):
    """The loss in pieces reads the output's weight itself, past any adapter, and must stand back for one."""
    objective, batch, _ = PREDICTORS[request.node.callspec.params["predictor"]]
    loss_of, batch = objective(smoothing=smoothing), batch()
    plain = loss_of(predictor, batch)
    names = add_lora(predictor, rank=1, targets=["output", "self_attention", "feed_forward"])
    assert "output" in names
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for _, adapter in adapters_of(predictor).values():
            adapter.up += 0.3 * torch.randn(adapter.up.shape, generator=generator)
    loss = loss_of(predictor, batch)
    loss.total.backward()
    for name, (_, adapter) in adapters_of(predictor).items():
        for parameter in adapter.parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.any(), name
    assert not torch.allclose(loss.total, plain.total)
    merge_lora(predictor)
    torch.testing.assert_close(loss_of(predictor, batch).total, loss.total.detach(), atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_task_s_loss_reaches_every_parameter(request, predictor, smoothing):
    objective, batch, _ = PREDICTORS[request.node.callspec.params["predictor"]]
    objective(smoothing=smoothing)(predictor, batch()).total.backward()
    for name, parameter in predictor.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if not name.endswith("key.bias"):
            assert parameter.grad.any(), name


def test_an_output_layer_with_a_hook_is_called_instead_of_the_fused_loss(predictor):
    assert output_layer(predictor) is predictor.output
    add_lora(predictor, rank=1, targets=["output"])
    assert output_layer(predictor) is None
    merge_lora(predictor)
    assert output_layer(predictor) is predictor.output


def test_every_parameter_stands_somewhere_between_the_head_and_the_input(specimen, model):
    found = depths(model)
    assert set(found) == {name for name, _ in model.named_parameters()}
    lowest, highest = max(found.values()), min(found.values())
    assert highest == 0 or (
        highest == 1 and getattr(model.config, "tied", "all") == "all"
    )  # then there is no head apart
    assert lowest > highest
