"""Registries: what other packages add to regard under a name, so that a recipe can ask for it.

    from regard.training import register_loss

    @register_loss("focal")
    def focal(logits, labels): ...

A name is known in the process that registered it. An installed package is found by every process: it names
its module under the entry points `regard.extensions`, and the module is imported when a name is asked for
that regard itself does not have. A recipe names things, never files of code: recipes come with models, and
data must not become code.
"""

import importlib.metadata
import inspect
import json
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from regard.errors import RegardError, UserError, did_you_mean

GROUP = "regard.extensions"
BY_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
NOT_BY_POSITION = (
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.KEYWORD_ONLY,
    inspect.Parameter.VAR_KEYWORD,
)
SIMILAR = 0.7  # of a misspelled name; unrelated ones, such as "onearg" and "neg", have up to two thirds
Thing = TypeVar("Thing")

_imported: set[str] = set()  # modules of entry points that were imported


class Registry(Mapping[str, Thing], Generic[Thing]):
    """Named things of one kind: regard's own, then those that were registered.

    Args:
        what: what they are, for messages: "loss", "positional encoding".
        own: those of regard itself; their names cannot be taken.
        how: the call that registers one, for messages.
    """

    def __init__(self, what: str, own: Mapping[str, Thing] | None = None, *, how: str) -> None:
        self.what, self.how = what, how
        self.own = dict(own or {})
        self.added: dict[str, Thing] = {}
        self._packages: dict[str, set[str]] = {}  # name -> packages whose code registered it

    def register(self, name: object) -> Callable[[Thing], Thing]:
        """A decorator that makes a thing known by `name`; a registered name is replaced.

        Raises:
            UserError: the name is empty or no str, one of regard's own, or that of another installed package,
                which may be one that was not imported yet.
        """
        if not isinstance(name, str) or not name:
            raise UserError(
                f"the name of the {self.what} is {name!r}, not a text", f'{self.how}("my_{_word(self.what)}")'
            )
        if name in self.own:
            raise UserError(f"the {self.what} {name!r} is one of regard's own", "choose another name")

        def add(thing: Thing) -> Thing:
            packages = _running_packages()
            if extension_packages().isdisjoint(packages):
                self._refuse_installed(name, thing)
            before, now = (
                extension_packages() & found for found in (self._packages.get(name, set()), packages)
            )
            if before and now and before.isdisjoint(now):
                raise UserError(
                    f"two installed packages register the {self.what} {name!r}: {_names(before)} and"
                    f" {_names(now)}",
                    "uninstall one of them, or give one of both another name",
                )
            self.added[name] = thing
            self._packages[name] = packages
            return thing

        return add

    def _refuse_installed(self, name: str, thing: Thing) -> None:
        """Raise a UserError if an installed package has the name that a script gives to another thing.

        Processes that do not run the script would have the thing of the package.
        """
        load_extensions(leave_broken=True)  # such a package is reported when a name is unknown
        owners = extension_packages() & self._packages.get(name, set())
        if name in self.added and owners and _file_of(self.added[name]) != _file_of(thing):
            raise UserError(
                f"the installed package {_names(owners)} registers the {self.what} {name!r}",
                f"choose another name, or uninstall {_names(owners)}",
            )

    def __getitem__(self, name: str) -> Thing:
        """Raises KeyError where nothing has the name, in no installed extension either."""
        if name not in self.own and name not in self.added:
            load_extensions()
        return self.own[name] if name in self.own else self.added[name]

    def __contains__(self, name: object) -> bool:
        if name not in self.own and name not in self.added:
            load_extensions()
        return name in self.own or name in self.added

    def __iter__(self) -> Iterator[str]:
        load_extensions()
        return iter([*self.own, *self.added])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def is_installed(self, name: str) -> bool:
        """True if other processes know the name too: it is of regard, or of an installed extension."""
        return name in self.own or (
            name in self and not extension_packages().isdisjoint(self._packages[name])
        )

    def hint(self, name: str) -> str:
        """What to do about an unknown name: the nearest one, or how to register it."""
        known = did_you_mean(name, self, SIMILAR) if len(self) else "none is registered in this process"
        joined = f"{known} {self.how}" if known.endswith("?") else f"{known}; {self.how}"
        return f"{joined} makes one known, in this process or in an installed package"


def refuse_not_callable(thing: object, what: str) -> None:
    """Raise a UserError if this cannot be called; `what` it is, for the message."""
    if not callable(thing):
        raise UserError(
            f"{what} is {type(thing).__name__}, which cannot be called", "register a class or a function"
        )


def refuse_other_arguments(
    thing: Any,
    what: str,
    arguments: Iterable[str],
    by_name: Iterable[str] = (),
    *,
    kind: type[UserError] = UserError,
) -> None:
    """Raise an error of `kind` if `thing` cannot be called with these arguments; `what` it is, for messages.

    `arguments` are the names of positional arguments, `by_name` those of arguments that are given by name.
    """
    try:
        signature = inspect.signature(thing, follow_wrapped=False)
    except (TypeError, ValueError):  # of a class or a function written in C
        return
    given, named = [*arguments], dict.fromkeys(by_name)
    try:
        signature.bind(*given, **named)
    except TypeError as error:
        shown = ", ".join([*given, *(f"{name}=..." for name in named)])
        raise kind(f"{what}: {error}{_definition(thing)}", f"it is called with {shown}") from None


def refuse_unwritable_options(options: Any, what: str, kind: type[UserError]) -> None:
    """Raise an error of `kind` for options that a recipe could not have; `what` they are, for the message."""
    try:
        json.dumps(options)
    except (TypeError, ValueError) as error:
        raise kind(
            f"{what} must be numbers, texts and lists of these: {error}", "as a recipe has them"
        ) from None


def refuse_other_options(
    thing: Any,
    what: str,
    arguments: Iterable[Any],
    options: Mapping[str, Any],
    *,
    setting: str,
    by_name: Iterable[str] = (),
    not_options: Iterable[str] = (),
    trial: Callable[[], object] | None = None,
    kind: type[UserError],
) -> None:
    """Raise an error of `kind` if a registered thing does not have these options.

    A decorator with `**options` may hide them. With `functools.wraps`, those of the function in it count too.

    Args:
        what: the thing, for messages: "the optimiser 'muon'".
        arguments: those by position, with which it is called, too; `by_name` are names of others.
        setting: the key of a recipe that has the options.
        not_options: parameters of which no option is made.
        trial: a call with the options, made if the names of options cannot be found otherwise.
    """
    given, named = [*arguments], dict.fromkeys(by_name)
    known, is_complete = _keywords(thing, len(given))
    wrong = next((key for key in options if key not in known), None) if is_complete else None
    try:
        if (signature := _signature(thing)) is not None:
            signature.bind(*given, **{**named, **options})
        if wrong is not None:
            raise TypeError(f"got an unexpected keyword argument {wrong!r}")
        if not is_complete and trial is not None:
            _try_options(trial, options)
    except TypeError as error:
        names = [name for name in known if name not in named and name not in not_options]
        wrong = next((key for key in options if key not in names), None)
        hint = f"change {setting}, or what is registered under this name"
        if wrong is not None and is_complete:
            hint = did_you_mean(wrong, names) if names else "it has no options"
        raise kind(f"{setting}: {what}: {error}", hint) from None


def _keywords(thing: Any, given: int) -> tuple[list[str], bool]:
    """The arguments by name that a thing and what it wraps take; False if it may take others, too.

    The first `given` ones of the thing itself are given by position.
    """
    names: dict[str, None] = {}
    while (signature := _signature(thing)) is not None:
        parameters = [*signature.parameters.values()]
        by_position = [each for each in parameters if each.kind not in NOT_BY_POSITION][:given]
        others = (each for each in parameters if each not in by_position)
        names |= dict.fromkeys(each.name for each in others if each.kind in BY_KEYWORD)
        if all(each.kind is not each.VAR_KEYWORD for each in parameters):
            return [*names], True
        thing, given = getattr(thing, "__wrapped__", None), 0
    return [*names], False


def _signature(thing: Any) -> inspect.Signature | None:
    """The signature of a thing itself, not of what it wraps; None if it has none or is written in C."""
    try:
        return inspect.signature(thing, follow_wrapped=False)
    except (TypeError, ValueError):
        return None


def _try_options(trial: Callable[[], object], options: Mapping[str, Any]) -> None:
    """Raise the TypeError of a call that names an option; any other failure is not judged."""
    try:
        trial()
    except TypeError as error:
        if "keyword argument" in str(error) and any(repr(name) in str(error) for name in options):
            raise
    except Exception:  # noqa: BLE001, it may need other arguments
        return


def refuse_other_methods(
    kind_given: type, base: type, what: str, *, kind: type[UserError] = UserError
) -> None:
    """Raise an error of `kind` if a method cannot be called with the arguments of the one that it replaces.

    `base` is the class of regard that `kind_given` inherits from; `what` it is, for the message.
    """
    for name in dir(base):
        own, other = (inspect.getattr_static(each, name) for each in (base, kind_given))
        is_special = name.startswith("__") and name != "__call__"
        if own is other or is_special or not (inspect.isfunction(own) and inspect.isfunction(other)):
            continue
        parameters = [*inspect.signature(own).parameters.values()]
        by_name = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
        positional = [each for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
        required = [each.name for each in positional if each.default is each.empty]
        for arguments in ([each.name for each in positional], required):
            refuse_other_arguments(other, f"{what}: {name}", arguments, by_name, kind=kind)


@contextmanager
def naming_failures(
    what: str,
    thing: object,
    hint: str,
    *,
    kind: type[UserError] = UserError,
    unnamed: tuple[type[Exception], ...] = (),
) -> Iterator[None]:
    """Turn an exception in the code of a registered thing into an error of `kind` that names the thing.

    Errors of regard, those of the system (a missing file) and a lack of memory are not changed, nor are those
    of the classes `unnamed`.
    """
    try:
        yield
    except (RegardError, OSError, MemoryError, *unnamed):
        raise
    except Exception as error:
        if any(text in str(error) for text in ("out of memory", "can't allocate memory")):  # for the trainer
            raise
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise kind(f"{what} fails: {text}{_place_of(error, thing)}", hint) from error


def _definition(thing: Any) -> str:
    """Where a class or a function is defined; empty if that is unknown."""
    function = thing.__init__ if isinstance(thing, type) else getattr(thing, "__func__", thing)
    if not inspect.isfunction(function):
        function = vars(type(thing)).get("__call__")
    if not inspect.isfunction(function):
        return ""
    code = function.__code__
    return f" (in {code.co_filename}:{code.co_firstlineno}, {function.__qualname__})"


def _place_of(error: BaseException, thing: object) -> str:
    """The last line of the module of a registered thing that an error passed; empty if there is none."""
    module = getattr(thing, "__module__", None) or type(thing).__module__
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        if frame.f_globals.get("__name__") == module:
            return f" (in {frame.f_code.co_filename}:{line}, {frame.f_code.co_name})"
    return ""


def load_extensions(*, leave_broken: bool = False) -> None:
    """Import the modules that installed packages name under the entry points `regard.extensions`, once each.

    Raises:
        UserError: such a module cannot be imported (not with `leave_broken`).
    """
    for point in importlib.metadata.entry_points(group=GROUP):
        if point.value in _imported:
            continue
        _imported.add(point.value)
        try:
            point.load()
        except Exception as error:
            _imported.discard(point.value)
            if leave_broken:
                continue
            raise UserError(
                f"the extension {point.name} ({point.value}) cannot be imported: {error}",
                error.hint
                if isinstance(error, UserError) and error.hint
                else f"repair or uninstall {point.dist.name if point.dist else 'its package'}",
            ) from error


def extension_packages() -> set[str]:
    """The packages that installed extensions name."""
    return {point.module.partition(".")[0] for point in importlib.metadata.entry_points(group=GROUP)}


def _names(packages: set[str]) -> str:
    return ", ".join(sorted(packages))


def _running_packages() -> set[str]:
    """The packages of all functions and modules that are running now."""
    found, frame = set[str](), sys._getframe()
    while frame is not None:
        found.add(str(frame.f_globals.get("__name__", "")).partition(".")[0])
        frame = frame.f_back
    return found


def _file_of(thing: Any) -> Path:
    """The file of the module that defines a thing; one that runs as a script has another name."""
    name = getattr(thing, "__module__", None) or type(thing).__module__
    return Path(getattr(sys.modules.get(name), "__file__", None) or name).absolute()


def _word(what: str) -> str:
    return what.rpartition(" ")[2]
