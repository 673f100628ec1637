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
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from regard.errors import UserError, did_you_mean

GROUP = "regard.extensions"
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
            UserError: the name is empty or no str, one of regard's own, or that of another installed package.
        """
        if not isinstance(name, str) or not name:
            raise UserError(
                f"the name of the {self.what} is {name!r}, not a text", f'{self.how}("my_{_word(self.what)}")'
            )
        if name in self.own:
            raise UserError(f"the {self.what} {name!r} is one of regard's own", "choose another name")

        def add(thing: Thing) -> Thing:
            packages = _running_packages()
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
        known = did_you_mean(name, self) if len(self) else "none is registered in this process"
        joined = f"{known} {self.how}" if known.endswith("?") else f"{known}; {self.how}"
        return f"{joined} makes one known, in this process or in an installed package"


def refuse_not_callable(thing: object, what: str) -> None:
    """Raise a UserError if this cannot be called; `what` it is, for the message."""
    if not callable(thing):
        raise UserError(
            f"{what} is {type(thing).__name__}, which cannot be called", "register a class or a function"
        )


def load_extensions() -> None:
    """Import the modules that installed packages name under the entry points `regard.extensions`, once each.

    Raises:
        UserError: such a module cannot be imported.
    """
    for point in importlib.metadata.entry_points(group=GROUP):
        if point.value in _imported:
            continue
        _imported.add(point.value)
        try:
            point.load()
        except Exception as error:
            raise UserError(
                f"the extension {point.name} ({point.value}) cannot be imported: {error}",
                f"repair or uninstall {point.dist.name if point.dist else 'its package'}",
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


def _word(what: str) -> str:
    return what.rpartition(" ")[2]
