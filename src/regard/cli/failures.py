"""Any exception as one `error:` line and one `hint:` line."""

import difflib
import errno
import os
import signal
import traceback
from collections.abc import Iterable
from dataclasses import dataclass

import click

from regard.errors import Interrupted, Reported, RunError, UserError, did_you_mean
from regard.peer_names import called_so, keys_called
from regard.registry import extension_packages

SEE_TRACEBACK = "the same command with --debug shows the traceback"
TRACEBACK_ABOVE = "the traceback above says where; add it to a report of this error"
OUT_OF_MEMORY = ("out of memory", "not enough memory", "can't allocate memory")  # in messages of PyTorch
OUTPUT_OPTIONS = {"out", "output", "to"}  # they name where to write; a command has one of them


@dataclass
class Session:
    """The state of one call of the command line."""

    debug: bool = False


def report(error: Reported, *, debug: bool = False) -> None:
    """Writes the error and its hint to stderr, each in one line without control characters.

    `debug`: the traceback was shown, so the hint does not say how to see it.
    """
    colour = False if os.environ.get("NO_COLOR") else None  # None: as click decides
    hint = TRACEBACK_ABOVE if debug and error.hint == SEE_TRACEBACK else error.hint
    for label, text, hue in (("error", error.message, "red"), ("hint", hint, "cyan")):
        line = "".join(character if character.isprintable() else " " for character in text)
        click.echo(f"{click.style(f'{label}:', fg=hue, bold=True)} {line}", err=True, color=colour)


def failure(error: BaseException) -> Reported:
    """The exception as an error that can be reported, with a hint."""
    if isinstance(error, Reported):
        error.hint = error.hint or "see `regard --help`"
        return error
    if isinstance(error, click.ClickException):
        return _mistyped(error)
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return Interrupted(signal.SIGINT, "interrupted", "the same command starts it again")
    if isinstance(error, PermissionError) and error.filename:
        return UserError(
            f"{error.filename}: {error.strerror}", f"ls -ld {error.filename} shows its owner and mode"
        )
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "free some space, or choose another disk" if is_full else SEE_TRACEBACK
        return RunError(f"{where}{error.strerror}", hint)
    text = f"{type(error).__name__}: {error}".removesuffix(": ") + _place_in_extension(error)
    if isinstance(error, MemoryError) or any(words in text for words in OUT_OF_MEMORY):
        return RunError(text, "use smaller batches: --batch-tokens, or batches.batch_tokens in the recipe")
    return RunError(text, SEE_TRACEBACK)


def _place_in_extension(error: BaseException) -> str:
    """The line of an installed extension that raised or caused the error; empty if none did."""
    packages = extension_packages()
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in packages:
            return f" (in {frame.f_code.co_filename}:{line}, {frame.f_code.co_name})"
    return ""


def _mistyped(error: click.ClickException) -> UserError:
    """A mistake in the arguments; for an unknown option, the hint is the option that was meant."""
    message = error.message or error.format_message()
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = f"see `{context.command_path} --help`" if context else "see `regard --help`"
    if isinstance(error, click.NoSuchOption) and context:
        known = {name for parameter in context.command.get_params(context) for name in parameter.opts}
        options = {name for name in known if name.startswith("--")}
        arguments = [each for each in context.command.params if isinstance(each, click.Argument)]
        given = error.option_name.lstrip("-")
        if given not in OUTPUT_OPTIONS and (
            argument := next((each for each in arguments if each.name == given), None)
        ):
            name = (argument.name or "").upper()
            hint = f"{name} stands without an option: `{context.command_path} {name}`"
            return UserError(f"no option {error.option_name}", hint)
        return UserError(f"no option {error.option_name}", _option_hint(error.option_name, options, hint))
    if isinstance(error, click.BadParameter | click.BadOptionUsage):
        message = error.format_message()
    return UserError(f"{message[:1].lower()}{message[1:]}".removesuffix("."), hint)


def _option_hint(given: str, options: Iterable[str], otherwise: str) -> str:
    """The option that was meant, or how a setting of the recipe is given; `otherwise` if neither is known."""
    names = {name.removeprefix("--") for name in options}
    name = given.lstrip("-")
    if (
        called_so(given, names)
        or any(each.startswith(name) for each in names)
        or difflib.get_close_matches(name, names, 1, 0.7)
    ):
        return did_you_mean(given, options)
    if name in OUTPUT_OPTIONS and (others := sorted(OUTPUT_OPTIONS & names)):
        return f"did you mean '--{others[0]}'?"
    if "set" in names:
        keys = keys_called(given)[:3] or ["SECTION.KEY"]
        setting = " or ".join(f"--set {key}=VALUE" for key in keys)
        return f"a setting of the recipe is given as {setting}; {otherwise}"
    return otherwise
