"""The models of a server: loaded, unloaded by a memory budget, reloaded without dropping a request.

A model and what answers its requests are one engine. A reload puts a new engine in its place; the old one
answers what it has accepted, with the old weights, and ends.
"""

import asyncio
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from regard import console
from regard.errors import UserError, did_you_mean
from regard.serving.engine import Engine
from regard.serving.http_error import HttpProblem
from regard.serving.metrics import Metrics, ModelObserver
from regard.serving.scheduler import Observer

NAME = re.compile(r"[a-zA-Z0-9][\w.-]{0,63}", re.ASCII)
PAIR = re.compile(r"([a-z]{2,3})-([a-z]{2,3})(?:[.-].*)?")
SHOWN = 100  # characters of a wrong name in a message
Loader = Callable[[Path | None, Observer], Engine]


@dataclass(eq=False, kw_only=True)
class Slot:
    """A model by its name: the folder, and the engine if it is loaded."""

    name: str
    path: Path | None
    engine: Engine | None = None
    used: float = 0.0
    created: int = field(default_factory=lambda: int(time.time()))
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def languages(self) -> tuple[str, str] | None:
        """Source and target language, if the model's name has them: "en-de"."""
        found = PAIR.fullmatch(self.name)
        return (found[1], found[2]) if found else None


class ModelStore:
    """The models by name; the first is the default. `budget_bytes`: of all loaded weights together."""

    def __init__(
        self,
        paths: Mapping[str, Path | None],
        load: Loader,
        *,
        metrics: Metrics,
        budget_bytes: int | None = None,
    ) -> None:
        self.slots = {name: Slot(name=name, path=path) for name, path in paths.items()}
        self._load, self._metrics, self.budget_bytes = load, metrics, budget_bytes
        self._beyond: set[str] = set()  # names of models that alone have more than the budget

    @property
    def default(self) -> Slot:
        return next(iter(self.slots.values()))

    def slot(self, name: str | None) -> Slot:
        """The model of this name.

        Raises:
            HttpProblem: there is none.
        """
        if name is None:
            return self.default
        if name not in self.slots:
            hint = did_you_mean(name[:SHOWN], self.slots)
            raise HttpProblem(
                404, f"there is no model {name[:SHOWN]!r}", hint, parameter="model", code="model_not_found"
            )
        return self.slots[name]

    async def engine(self, slot: Slot) -> Engine:
        """The engine of a model, loaded if it is not.

        Raises:
            HttpProblem: it cannot be loaded.
        """
        slot.used = time.monotonic()
        if slot.engine is None:
            async with slot.lock:
                if slot.engine is None:
                    slot.engine = await self._engine_of(slot)
                    self._unload_others(slot)
        return slot.engine

    async def reload(self) -> None:
        """Load each loaded model again, and let new requests have the new weights."""
        for slot in self.slots.values():
            async with slot.lock:
                if slot.engine is None:
                    continue
                try:
                    new = await self._engine_of(slot)
                except HttpProblem as problem:
                    console.warn(f"{slot.name} keeps its weights: {problem.text}")
                    continue
                old, slot.engine = slot.engine, new
                if old is not None:  # it was not unloaded meanwhile
                    old.runner.close()
                self._unload_others(slot)
                console.note(f"{slot.name} is reloaded")

    @property
    def busy(self) -> bool:
        """True if a request is not answered yet."""
        return any(slot.engine is not None and slot.engine.runner.busy for slot in self.slots.values())

    def abort(self) -> None:
        """Refuse all requests that are not answered."""
        for slot in self.slots.values():
            if slot.engine is not None:
                slot.engine.runner.abort()

    def close(self) -> None:
        """End all engines when they have answered."""
        for slot in self.slots.values():
            if slot.engine is not None:
                slot.engine.runner.close()

    async def _engine_of(self, slot: Slot) -> Engine:
        try:
            engine = await asyncio.to_thread(self._load, slot.path, ModelObserver(self._metrics, slot.name))
        except Exception as error:  # whatever it is, other models are served on
            console.warn(f"{slot.name} cannot be loaded: {error}")
            raise HttpProblem(
                503,
                f"the model {slot.name} cannot be loaded",
                "see the server's log",
                code="model_unavailable",
                retry_after=30,
            ) from error
        self._metrics.loads.labels(slot.name).inc()
        return engine

    def _loaded_bytes(self) -> int:
        return sum(slot.engine.model.bytes for slot in self.slots.values() if slot.engine is not None)

    def _unload_others(self, kept: Slot) -> None:
        """Unload models until the budget is kept, the least recently used first, but no busy one."""
        if self.budget_bytes is not None:
            for slot in sorted(self.slots.values(), key=lambda slot: slot.used):
                if self._loaded_bytes() <= self.budget_bytes:
                    break
                if slot is not kept and slot.engine is not None and not slot.engine.runner.busy:
                    slot.engine.runner.close()
                    slot.engine = None
                    self._metrics.unloads.labels(slot.name).inc()
            assert kept.engine is not None
            size = kept.engine.model.bytes
            if size > self.budget_bytes and kept.name not in self._beyond:
                self._beyond.add(kept.name)
                console.warn(
                    f"{kept.name} alone has {size / 2**20:,.0f} MB, more than --memory"
                    f" {self.budget_bytes >> 20:,}; it is served all the same"
                )
        self._metrics.loaded_bytes.set(self._loaded_bytes())


def named_paths(models: list[str]) -> dict[str, Path | None]:
    """The folders by name, from NAME=DIR or DIR, whose name is that of the folder; none: the included model.

    Raises:
        UserError: a name is used twice, or has other characters than letters, digits, ".", "_" and "-".
    """
    found: dict[str, Path | None] = {}
    for each in models:
        name, equals, folder = each.partition("=")
        path = Path(folder if equals else each)
        name = name if equals else Path(os.path.abspath(path)).name  # of "." too; a link has its own
        if not NAME.fullmatch(name):
            raise UserError(
                f"--model {each}: {name!r} is not a name", "write NAME=DIR, NAME of letters, digits, . _ -"
            )
        if name in found:
            raise UserError(
                f"--model {each}: there is a model {name} already", "give it another name: NAME=DIR"
            )
        found[name] = path
    return found or {"en-de": None}
