"""Training objectives: losses summed over the predictions of a batch, in nats."""

import functools
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.data.batch import IGNORED, LabelledBatch, PairBatch
from regard.data.examples import Examples
from regard.data.token_stream import TextBatch
from regard.errors import ConfigError
from regard.fast.linear_cross_entropy import (
    can_be_linear_cross_entropy,
    linear_cross_entropy,
    output_layer,
)
from regard.models.decoder_only import DecoderOnly
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.recipe import check_types
from regard.registry import refuse_other_arguments

PYTORCH_LOSSES = ("torch.nn.modules.", "torch.nn.functional")  # modules that define them


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The loss of a batch, summed over its `num_targets` predictions (tokens, labels)."""

    total: Float[Tensor, ""]  # the differentiated loss
    nll: Float[Tensor, ""]  # negative log-likelihood alone, without smoothing or regularisers
    num_targets: int


@runtime_checkable
class Objective(Protocol):
    """A function from a model and a batch to a loss."""

    def __call__(self, model: Any, batch: Any) -> Loss: ...


def ignored_label(objective: Any) -> int | None:
    """The label that `objective` ignores; None if it ignores none, or is not of the kinds of this file.

    If it is known, the labels that count can be found before a batch is copied to a GPU.
    """
    base = getattr(objective, "base", None)
    return getattr(objective, "ignored", None) if base is None else ignored_label(base)


def refuse_unused_forward(model: nn.Module, objective: Any) -> None:
    """Raise a ConfigError for a subclass that overrides `forward` alone, which this objective does not call.

    The objectives are regard's own, also within others of regard; another one may call what it likes.
    """
    while type(objective).__module__.startswith("regard.") and hasattr(objective, "base"):
        objective = objective.base
    for kind, family, methods in (
        (CrossEntropy, SequenceToSequence, ("encode", "decoder_states", "project")),
        (NextToken, DecoderOnly, ("states", "project")),
    ):
        if type(objective) is not kind or not isinstance(model, family):
            continue
        below = type(model).mro()[: type(model).mro().index(family)]
        own = {name for each in below if not each.__module__.startswith("regard.") for name in vars(each)}
        if "forward" in own and own.isdisjoint(methods):
            raise ConfigError(
                f"{type(model).__name__} overrides forward, which training by {kind.__name__} does not call",
                f"override {' or '.join(methods)}, of which forward consists",
            )


def refuse_other_inputs(model: nn.Module, objective: Any, examples: Any) -> None:
    """Raise a ConfigError if an objective of regard cannot use this model, or batches of these examples."""
    while type(objective).__module__.startswith("regard.") and hasattr(objective, "base"):
        objective = objective.base
    if isinstance(objective, type) or not callable(objective):
        name = getattr(objective, "__name__", repr(objective))
        raise ConfigError(f"the objective {name} is not a function of a model and a batch", f"give {name}()")
    refuse_loss_of_pytorch(objective)
    called = objective.forward if isinstance(objective, nn.Module) else objective
    refuse_other_arguments(called, f"the objective {_name(objective)}", ("model", "batch"), kind=ConfigError)
    if not isinstance(examples, Examples):
        raise ConfigError(
            f"the examples are {type(examples).__name__}, without lengths and batch",
            "SequencePairs and TensorExamples of regard.data make examples of lists and tensors",
        )
    if type(objective) not in INPUTS or not len(examples):
        return
    of_model, of_batch, hint = INPUTS[type(objective)]
    batch = examples.batch(np.arange(1), 0)
    for what, thing, names in (("a model", model, of_model), ("batches", batch, of_batch)):
        if missing := [name for name in names if not hasattr(thing, name)]:
            raise ConfigError(
                f"{type(objective).__name__} needs {what} with {' and '.join(names)}, and a"
                f" {type(thing).__name__} has no {missing[0]}",
                hint,
            )


def refuse_loss_of_pytorch(objective: Any) -> None:
    """Raise a ConfigError for a loss such as `nn.CrossEntropyLoss()`, a function of outputs and labels."""
    function = objective.func if isinstance(objective, functools.partial) else objective
    module = getattr(function, "__module__", None) or ""
    if not module.startswith(PYTORCH_LOSSES):  # not a compiled one of yours, which is of `torch._dynamo`
        return
    name = _name(function)
    own = "SquaredError()" if "mse" in name.lower() else "LabelCrossEntropy()"
    raise ConfigError(
        f"the objective {name} is a function of outputs and labels, not of a model and a batch",
        f"{own} of regard.training, or a function of a model and a batch that calls it and returns"
        " Loss(total=..., nll=..., num_targets=...), sums over the targets of the batch",
    )


def _name(objective: Any) -> str:
    return getattr(objective, "__name__", type(objective).__name__)


def refuse_other_padding(model: nn.Module, objective: Any, examples: Any, name: str = "examples") -> None:
    """Raise a ConfigError if examples, objective and model differ in `pad_id`.

    Those of labels, for which padding is IGNORED, and classes of yours that have none are not compared.
    """
    while hasattr(objective, "base"):
        objective = objective.base
    if not isinstance(objective, CrossEntropy):
        return
    places = {f"the {name}": examples, "the objective": objective}
    places["the model"] = getattr(model, "config", None)
    known = {
        place: pad_id
        for place, each in places.items()
        if (pad_id := getattr(each, "pad_id", None)) is not None
    }
    if len(set(known.values())) > 1:
        raise ConfigError(
            f"pad_id is {', '.join(f'{pad_id} in {place}' for place, pad_id in known.items())}",
            "give all the same, by pad_id of SequencePairs, of CrossEntropy and of the model's config",
        )


@dataclass(frozen=True, kw_only=True)
class CrossEntropy:
    """Cross-entropy with label smoothing (Szegedy et al. 2016; section 5.4 of Vaswani et al. 2017).

    The smoothed target distributes `smoothing` over all tokens, the gold token included, as
    `F.cross_entropy(label_smoothing=...)` does. Padding is ignored.
    """

    smoothing: float = 0.0
    pad_id: int = 0

    def __post_init__(self) -> None:
        check_types(self, kind=ConfigError)
        _refuse_other_smoothing(self)
        if self.pad_id < 0:
            raise ConfigError(f"pad_id = {self.pad_id} is below 0", "give the id of padding: 0 is usual")

    @property
    def ignored(self) -> int:
        """The label that is ignored."""
        return self.pad_id

    def __call__(self, model: SequenceToSequence, batch: PairBatch) -> Loss:
        return _of_states(model, *real_states(model, batch, self.pad_id), self.smoothing)

    def logits(self, model: SequenceToSequence, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """The logits and labels of all targets, without padding."""
        return real_logits(model, batch, self.pad_id)

    def of_logits(self, logits: Tensor, labels: Tensor) -> Loss:
        """The loss from what `logits` returns."""
        return self.of_log_probs(F.log_softmax(logits, dim=-1), labels)

    def of_log_probs(
        self, log_probs: Float[Tensor, "tokens vocab"], labels: Int64[Tensor, " tokens"]
    ) -> Loss:
        """The loss from log-probabilities."""
        return _of_log_probs(log_probs, labels, self.smoothing)


@dataclass(frozen=True, kw_only=True)
class NextToken:
    """Cross-entropy of the next token in running text; positions with the label IGNORED are ignored."""

    smoothing: float = 0.0
    ignored: ClassVar[int] = IGNORED

    def __post_init__(self) -> None:
        check_types(self, kind=ConfigError)
        _refuse_other_smoothing(self)

    def __call__(self, model: DecoderOnly, batch: TextBatch) -> Loss:
        return _of_states(model, *self._states(model, batch), self.smoothing)

    def logits(self, model: DecoderOnly, batch: TextBatch) -> tuple[Tensor, Tensor]:
        """The logits and labels of all targets, without padding."""
        states, labels = self._states(model, batch)
        return model.project(states), labels

    def of_logits(self, logits: Tensor, labels: Tensor) -> Loss:
        """The loss from what `logits` returns."""
        return _of_log_probs(F.log_softmax(logits, dim=-1), labels, self.smoothing)

    def _states(self, model: DecoderOnly, batch: TextBatch) -> tuple[Tensor, Tensor]:
        return _counted(model.states(batch.ids, batch.documents), batch, IGNORED)


@dataclass(frozen=True, kw_only=True)
class LabelCrossEntropy:
    """Cross-entropy of labels: of texts, words, images, nodes, or positions of a text.

    Labels IGNORED are ignored. `weights` are class weights, which multiply the loss of each label; the sum is
    still divided by the number of labels.
    """

    smoothing: float = 0.0
    weights: tuple[float, ...] | None = None
    ignored: ClassVar[int] = IGNORED

    def __post_init__(self) -> None:
        check_types(self, kind=ConfigError)
        _refuse_other_smoothing(self)
        if self.weights is not None and not (all(each >= 0 for each in self.weights) and any(self.weights)):
            raise ConfigError(
                f"weights = {self.weights} are no weights of classes",
                "give a number from 0 on for each class",
            )

    def __call__(self, model: nn.Module, batch: LabelledBatch) -> Loss:
        return self.of_logits(*self.logits(model, batch))

    def of_logits(self, logits: Tensor, labels: Tensor) -> Loss:
        """The loss from what `logits` returns."""
        weights = None if self.weights is None else _on_device(self.weights, logits.device)
        total = F.cross_entropy(logits, labels, weights, reduction="sum", label_smoothing=self.smoothing)
        nll = total.detach()
        if self.smoothing or weights is not None:
            nll = F.cross_entropy(logits.detach(), labels, reduction="sum")
        return Loss(total=total, nll=nll, num_targets=labels.numel())

    def logits(self, model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        """The logits and labels of all predictions, without IGNORED labels."""
        logits, labels = _counted(model(*batch.inputs), batch, IGNORED)
        return logits.float(), labels


def _refuse_other_smoothing(objective: "CrossEntropy | NextToken | LabelCrossEntropy") -> None:
    """Raise a ConfigError if the label smoothing is not in [0, 1)."""
    if not 0 <= objective.smoothing < 1:
        raise ConfigError(
            f"smoothing = {objective.smoothing} is out of range",
            "0 <= smoothing < 1: the share of the target that is spread over all labels; 0.1 is usual",
        )


@functools.lru_cache(maxsize=8)
def _on_device(numbers: tuple[float, ...], device: torch.device) -> Tensor:
    """The numbers as a tensor, copied to the device once: a copy makes the processor wait."""
    return torch.tensor(numbers, device=device)


@dataclass(frozen=True, kw_only=True)
class SquaredError:
    """Squared error in units of the labels' standard deviation `std`; also reported as the likelihood."""

    std: float = 1.0

    def __post_init__(self) -> None:
        check_types(self, kind=ConfigError)
        if self.std <= 0:
            raise ConfigError(f"std = {self.std} is not above 0", "give the standard deviation of the labels")

    def __call__(self, model: nn.Module, batch: LabelledBatch) -> Loss:
        total = ((model(*batch.inputs).float() - batch.labels) / self.std).square().sum()
        return Loss(total=total, nll=total.detach(), num_targets=batch.labels.numel())


def real_states(
    model: SequenceToSequence, batch: PairBatch, pad_id: int
) -> tuple[Float[Tensor, "tokens d_model"], Int64[Tensor, " tokens"]]:
    """The decoder states and labels at all target positions without padding."""
    memory = model.encode(batch.src_ids, batch.src_lengths)
    return _counted(model.decoder_states(batch.tgt_input, memory), batch, pad_id)


def _counted(
    outputs: Float[Tensor, "*places features"], batch: Any, ignored: int
) -> tuple[Float[Tensor, "targets features"], Int64[Tensor, " targets"]]:
    """The outputs and labels at all places whose label is not `ignored`.

    How many there are depends on values, for which a GPU would have to be waited for; not so if the batch
    has their places (`targets`).
    """
    labels = _class_numbers(batch.labels)
    targets = getattr(batch, "targets", None)
    if targets is None:
        counted = labels != ignored
        return outputs[counted], labels[counted]
    flat = outputs.flatten(0, labels.ndim - 1)
    return flat.index_select(0, targets), labels.flatten().index_select(0, targets)


def _class_numbers(labels: Tensor) -> Int64[Tensor, "*places"]:
    """The labels as int64, of which PyTorch's losses are."""
    if labels.is_floating_point():
        raise ConfigError(
            f"the labels have dtype {labels.dtype}, and cross-entropy needs the number of a class in each",
            "give int64: `labels.long()`; SquaredError() learns numbers, an objective of yours probabilities",
        )
    return labels.long()


def real_logits(
    model: SequenceToSequence, batch: PairBatch, pad_id: int
) -> tuple[Float[Tensor, "tokens vocab"], Int64[Tensor, " tokens"]]:
    """The logits and labels at all target positions without padding."""
    states, labels = real_states(model, batch, pad_id)
    return model.project(states), labels


def _of_states(
    model: SequenceToSequence | DecoderOnly,
    states: Float[Tensor, "tokens d_model"],
    labels: Int64[Tensor, " tokens"],
    smoothing: float,
) -> Loss:
    """The loss of predicting `labels` from decoder states: for some rows at a time, or with all logits.

    The first where the model's `project` is one linear layer and nothing else.
    """
    output = None if torch.compiler.is_compiling() else output_layer(model)
    if output is None or not can_be_linear_cross_entropy(states, output):
        return _of_log_probs(F.log_softmax(model.project(states), dim=-1), labels, smoothing)
    total, nll = linear_cross_entropy(states, output, labels, smoothing)
    return Loss(total=total, nll=nll, num_targets=labels.numel())


def _of_log_probs(
    log_probs: Float[Tensor, "tokens vocab"], labels: Int64[Tensor, " tokens"], smoothing: float
) -> Loss:
    nll = F.nll_loss(log_probs, labels, reduction="sum")
    total = nll
    if smoothing:
        total = (1 - smoothing) * nll - smoothing * log_probs.sum() / log_probs.size(-1)
    return Loss(total=total, nll=nll.detach(), num_targets=labels.numel())


# what an objective uses of a model and of a batch, and what fits otherwise
INPUTS: dict[type, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    CrossEntropy: (
        ("encode", "decoder_states", "project"),
        ("src_ids", "tgt_ids"),
        "CrossEntropy is for encoder-decoders and SequencePairs; LabelCrossEntropy for other models"
        " with TensorExamples",
    ),
    NextToken: (
        ("states", "project"),
        ("ids", "documents"),
        "NextToken is for language models and TextBatch; LabelCrossEntropy takes"
        " TensorExamples(ids[:, :-1], ids[:, 1:])",
    ),
    LabelCrossEntropy: (
        (),
        ("inputs", "labels"),
        "LabelCrossEntropy is for TensorExamples; CrossEntropy for SequencePairs",
    ),
}
