"""What the Python calls of verbs share that run a model."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from regard.training.threads import unchanged_threads
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def python_call(call: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """`call` with checked arguments, its dataclasses' fields as keywords, and PyTorch's threads unchanged."""
    return checked(keyword_fields(unchanged_threads()(call)))
