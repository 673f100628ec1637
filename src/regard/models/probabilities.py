"""Probabilities in place of logits: the mistake of a module that ends with a softmax."""

from jaxtyping import Float
from torch import Tensor

from regard.errors import ConfigError

ROUNDING = 0.01  # of the sum of a row of probabilities, in bfloat16 too


def refuse_probabilities(logits: Float[Tensor, "*rows classes"], what: str) -> None:
    """Raise a ConfigError if these are probabilities; `what` gives them, for the message."""
    if are_probabilities(logits):
        raise probabilities_error(what)


def are_probabilities(logits: Float[Tensor, "*rows classes"]) -> bool:
    """True if each row is a distribution, of which the softmax is another one.

    Zeros and ones alone are logits of a table.
    """
    sums = logits.float().sum(dim=-1)
    are_shares = bool((logits >= 0).all() & ((sums - 1).abs() < ROUNDING).all())
    return are_shares and bool(((logits > 0) & (logits < 1)).any())


def probabilities_error(what: str) -> ConfigError:
    """The error for probabilities in place of logits."""
    return ConfigError(
        f"{what} gives probabilities, not logits: none is below 0, and each row sums to 1",
        "leave out its softmax, or give their logarithms, which are logits too",
    )
