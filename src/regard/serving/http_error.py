"""An error with an HTTP status, which each dialect sends in its own shape."""

import re
from collections.abc import Sequence

from regard.errors import FolderError, MissingExtra, RegardError, UserError, did_you_mean
from regard.serving.scheduler import Closed, DeadlinePassed, QueueFull

FEW = 30  # fields that a hint names, all of them


class HttpProblem(RegardError):
    """What is wrong with a request, and what to do; `parameter`: the field that is wrong, if it is one."""

    def __init__(
        self,
        status: int,
        message: str,
        hint: str = "",
        *,
        parameter: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message, hint)
        self.status, self.parameter, self.code, self.retry_after = status, parameter, code, retry_after

    @property
    def text(self) -> str:
        """The message and the hint in one line."""
        return f"{self.message}; {self.hint}" if self.hint else self.message


def problem_of(error: RegardError) -> HttpProblem:
    """The problem that an error is for a client."""
    if isinstance(error, HttpProblem):
        return error
    if isinstance(error, QueueFull):
        return HttpProblem(429, error.message, error.hint, code="overloaded", retry_after=error.retry_after)
    if isinstance(error, DeadlinePassed):
        return HttpProblem(504, error.message, error.hint, code="timeout")
    if isinstance(error, Closed):
        return HttpProblem(503, error.message, error.hint, code="unavailable", retry_after=1)
    if isinstance(error, MissingExtra):
        return HttpProblem(501, f"not possible on this server: {error.message}", code="not_installed")
    if isinstance(error, FolderError):
        return HttpProblem(400, error.message, error.hint, code="model_cannot")
    if isinstance(error, UserError):
        return HttpProblem(400, _of_fields(error.message), _of_fields(error.hint), code="invalid_value")
    return HttpProblem(500, error.message, error.hint, code="model_failed")


def unknown_field(name: str, known: Sequence[str]) -> HttpProblem:
    """The problem of a field that does not exist; the hint names the nearest one, or all of a few."""
    name = name[:64]
    shown = name if name.strip() and name.isprintable() else repr(name)
    hint = did_you_mean(name, known)
    if hint.startswith("known:") and len(known) > FEW:
        hint = "see /openapi.json"
    return HttpProblem(400, f"there is no field {shown}", hint, parameter=name, code="unknown_field")


def _of_fields(text: str) -> str:
    """A message with the names of fields in place of the options of the command: top_k for --top-k."""
    return re.sub(r"(?<![\w-])--([a-z][a-z-]+)", lambda found: found[1].replace("-", "_"), text)


def unsupported(name: str, why: str, hint: str = "", *, of: str = "") -> HttpProblem:
    """The refusal of a field that cannot be honoured.

    `of`: the field, if `name` is one of its values or says more than its name.
    """
    return HttpProblem(
        400,
        f"{name} is not supported: {why}",
        hint or f"leave out {of or name}",
        parameter=of or name,
        code="unsupported_value",
    )
