"""The exceptions of regard, each with a message and a hint.

Reported                   shown as one `error:` line and one `hint:` line
├── RegardError            an Exception
│   ├── UserError          something the user can correct: exit code 2
│   │   ├── RecipeError    a recipe or a setting of it
│   │   ├── ConfigError    a model configuration, a setting or an argument that cannot work
│   │   ├── DataError      a corpus, a line, an encoding, a data set
│   │   ├── FolderError    a model folder, a run folder, a weights file
│   │   └── MissingExtra   an optional dependency that is not installed
│   └── RunError           a failure while running: exit code 1
│       └── OutputIsNaN    a model whose output is NaN
└── Interrupted            a signal: exit code 130 or 143; like KeyboardInterrupt no Exception
    └── Stopped            a training run that saved its state
"""

import difflib
from collections.abc import Iterable
from typing import Any

from regard.peer_names import called_so, with_unit


class Reported(BaseException):
    """What is shown to the user: `message` says what is wrong, `hint` what to do."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickling keeps all attributes, also of subclasses whose constructor takes no message."""
        return _unpickled, (type(self), self.args, self.__dict__)


def _unpickled(kind: type[Reported], args: tuple[Any, ...], attributes: dict[str, Any]) -> Reported:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class RegardError(Reported, Exception):
    """An error that is shown to the user: `message` says what is wrong, `hint` what to do."""


class UserError(RegardError):
    """An error that the user can correct."""

    exit_code = 2


class RecipeError(UserError):
    """A recipe, or a setting in it, that cannot be read."""


class ConfigError(UserError):
    """A model configuration, a setting or an argument that cannot work."""


class DataError(UserError):
    """A corpus that cannot be read as it is."""


class FolderError(UserError):
    """A model or run folder that is missing, damaged or has another format."""


class MissingExtra(UserError):
    """An optional dependency that is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs {package}, which is not installed", f"pip install 'regard[{extra}]'"
        )


class RunError(RegardError):
    """A failure while running that the user did not cause."""


class OutputIsNaN(RunError):
    """A model whose output is NaN: its training diverged, or its weights are damaged."""

    def __init__(self) -> None:
        super().__init__(
            "the model's output is NaN",
            "its weights are damaged, or its training diverged: a lower learning rate helps; or a registered"
            " rule gives NaN",
        )


class Interrupted(Reported):
    """An interruption by a signal; `exit_code` is 128 + its number.

    It is no Exception, so that nothing that handles failures, of a library or of a file, takes it for one.
    """

    def __init__(self, signal_number: int, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.exit_code = 128 + signal_number


class Stopped(Interrupted):
    """An interrupted training run that saved its state; all of its processes have stopped."""


SHORT = 4  # characters of a name that has to share more of them with another


def did_you_mean(name: object, known: Iterable[str], cutoff: float | None = None) -> str:
    """A hint for an unknown name: what peers call so, the shortest that begins so, the nearest, or all.

    The nearest is one whose similarity (`difflib`) is `cutoff` or more; None: 0.6, for long names 0.5.
    """
    known = sorted(known)
    if not isinstance(name, str):  # a number, for instance
        return f"known: {', '.join(known) or 'none'}"
    if peers := called_so(name, known):
        return meant(map(with_unit, peers))
    begun = sorted((each for each in known if name and each.startswith(name)), key=len)
    if cutoff is None:
        cutoff = 0.5 if len(name) > SHORT else 0.6  # "opt" is no misspelled "gpt2"
    near = begun or difflib.get_close_matches(name, known, n=1, cutoff=cutoff)
    return meant(map(repr, near[:1])) if near else f"known: {', '.join(known) or 'none'}"


def meant(quoted: Iterable[str]) -> str:
    """The question whether one of these names was meant; the first three."""
    return f"did you mean {' or '.join([*quoted][:3])}?"
