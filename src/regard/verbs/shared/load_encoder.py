"""Opening an encoder with the head that a verb needs."""

import torch
from torch import Tensor

from regard.errors import FolderError
from regard.models.encoder_only import EncoderOnly, Head
from regard.verbs.shared.model_loading import model_that, use_of
from regard.weights.model_folder import LoadedModel

NO_HEAD = ("none", "pooled")


def encoder_that(does: str, heads: tuple[Head, ...], loaded: LoadedModel, allow_fresh: bool) -> EncoderOnly:
    """The loaded encoder, which must have one of these heads; a trained one, unless `allow_fresh`.

    Raises:
        FolderError: the encoder has another head, or an untrained one, whose predictions are random.
    """
    model = model_that(does, EncoderOnly, loaded)
    head, where = model.config.head, loaded.path
    if head in NO_HEAD:
        raise FolderError(
            f"{where}: this is not a model that {does}: it has no trained head (its head is {head!r})",
            "`regard train RECIPE --init DIR` trains one, DIR by `regard convert`; `regard embed` needs none",
        )
    if head not in heads:
        raise FolderError(
            f"{where}: this is not a model that {does}: its head is {head!r}", f"it {use_of(loaded)}"
        )
    refuse_other_labels(loaded, model.config.num_labels)
    if model.config.fresh_head and not allow_fresh:
        raise FolderError(
            f"{where}: the head of this model is untrained, so its predictions are random",
            "train it with `regard train`, or use it as it is with --allow-fresh-head",
        )
    return model


def refuse_other_labels(loaded: LoadedModel, num_labels: int) -> None:
    """Raise a FolderError if there are more or fewer labels than classes."""
    if len(loaded.labels) != num_labels:
        raise FolderError(
            f"{loaded.path}: {len(loaded.labels)} labels for {num_labels} classes",
            "config.json belongs to another model: copy the folder again",
        )


def probabilities(logits: Tensor) -> list[list[float]]:
    """The probability of each class in each row."""
    return torch.softmax(logits.double(), dim=-1).tolist()


def most_probable(logits: Tensor, count: int) -> list[list[tuple[int, float]]]:
    """The most probable classes of each row and their probabilities; of equal ones the first class first."""
    shares = torch.softmax(logits.double(), dim=-1)
    count = min(count, shares.shape[1])
    least, classes = shares.topk(count)
    cut = (shares >= least[:, -1:]).sum(-1) > count  # equal ones are left out, of which topk kept any
    for row in cut.nonzero().flatten().tolist():
        classes[row] = shares[row].sort(descending=True, stable=True).indices[:count]
    classes = classes.sort().values
    order = shares.gather(1, classes).sort(descending=True, stable=True)
    found = zip(classes.gather(1, order.indices).tolist(), order.values.tolist(), strict=True)
    return [list(zip(*row, strict=True)) for row in found]
