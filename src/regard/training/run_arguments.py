"""The arguments that a run of `fit` began with, in its folder, so that other arguments are refused.

Compared are settings, sizes of batches, and what is known of the model, the objective and the data:

- model: its class, its weights by name, type and shape, its modules with their settings; not the values of
  weights, which a resumed run reads from its checkpoint;
- objective, `validate`, a registered optimiser or schedule: name, source code without comments, and plain
  values of fields, of defaults and of enclosing functions; not global variables, and not other functions
  that they call;
- examples: their number and lengths, and the contents of `SAMPLED` of them, evenly spaced.
"""

import ast
import contextlib
import dataclasses
import functools
import hashlib
import inspect
import json
import math
import re
import textwrap
from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.examples import Examples
from regard.data.loader import LoaderSettings
from regard.errors import FolderError
from regard.models.model import Model
from regard.training.registered_optimizers import OPTIMIZERS
from regard.training.schedule import FORMER_FACTOR, SCHEDULES, former_factor_note
from regard.training.settings import TrainingSettings
from regard.weights.checkpoint import RunFolder
from regard.weights.strict_json import read_json

ARGUMENTS = "fit.json"  # in the run folder
SAMPLED = 64  # examples whose contents are compared
MEASURED = 100_000  # examples whose lengths are compared
SHOWN = 5  # differences in a message
LISTED = 100  # values of a list or a mapping that are stored one by one
MODULE_FIELDS = frozenset(vars(nn.Module()))  # what each module has
DIGEST = "sha256 "  # begins a value of which only its digest is stored
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
Description = dict[str, Any]  # JSON data
Inside = tuple[int, ...]  # the ids of objects


def run_arguments(
    model: nn.Module,
    objective: Callable[..., Any],
    settings: TrainingSettings,
    batches: LoaderSettings,
    examples: Examples,
    valid: Examples | None,
    validate: Callable[..., Any] | None,
) -> Description:
    """The description of the arguments of `fit`, without `max_steps`, as JSON data."""
    own = dataclasses.asdict(settings)
    del own["max_steps"]
    own["schedule"]["learning_rate"] = settings.schedule.given_or_default_rate  # as before it could be unset
    found = {
        "settings": own,
        "batches": dataclasses.asdict(batches),
        "model": _described_model(model),
        "objective": _described(objective),
        "examples": _described_examples(examples),
        "valid": None if valid is None else _described_examples(valid),
        "validate": None if validate is None else _described(validate),
        **_registered(settings),
    }
    return json.loads(json.dumps(found))


def _registered(settings: TrainingSettings) -> Description:
    """The functions that are registered as the optimiser and the schedule."""
    optimizer = OPTIMIZERS.added.get(settings.optimizer.kind)
    schedule = SCHEDULES.added.get(settings.schedule.kind)
    named = {"optimizer": optimizer, "schedule": schedule}
    return {
        # not the attributes of a class: PyTorch wraps the `step` of an optimiser
        name: {"class": _name(made), "source": _source(made)} if isinstance(made, type) else _described(made)
        for name, made in named.items()
        if made is not None
    }


def refuse_other_arguments(run: RunFolder, arguments: Description, max_steps: int) -> None:
    """Compares the arguments with those that `run` began with; a run without an update begins again.

    Raises:
        FolderError: the run has updates, and began with others or with a recipe, or is longer already.
    """
    checkpoint, path = run.latest(), run.path / ARGUMENTS
    changed = _changes(read_json(path), arguments) if path.is_file() else None
    is_empty = (checkpoint is None or checkpoint.step == 0) and run.best([]) is None
    if is_empty and changed != [] and run.recipe() is None:
        run.remove_after(-1)  # the checkpoint of step 0, of other arguments
        run.write_text(ARGUMENTS, json.dumps(arguments, indent=1, sort_keys=True) + "\n")
        return
    if changed is None:
        raise FolderError(
            f"{run.path} holds a run that this version of fit did not begin",
            "give another folder; `regard train` resumes the run of a recipe",
        )
    if changed:
        more = f"; and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
        raise FolderError(
            f"{run.path} holds a run with other arguments: {'; '.join(changed[:SHOWN])}{more}",
            "give another folder, or delete this one",
        )
    if checkpoint is not None and checkpoint.step > max_steps:
        raise FolderError(
            f"{run.path} is at step {checkpoint.step:,}, beyond max_steps = {max_steps}",
            f"give {checkpoint.step} or more, give another folder, or delete this one",
        )


def with_factor_of_run(run: RunFolder, settings: TrainingSettings) -> tuple[TrainingSettings, str | None]:
    """The settings with the factor of `kind = "noam"` of a run with updates, and a note if it is the former.

    Where settings give none, it was FORMER_FACTOR before it became that of the paper.
    """
    schedule, path, checkpoint = settings.schedule, run.path / ARGUMENTS, run.latest()
    is_default = schedule.kind == "noam" and schedule.learning_rate is None
    if not is_default or checkpoint is None or not checkpoint.step or not path.is_file():
        return settings, None
    own = read_json(path).get("settings", {}).get("schedule", {})
    if own.get("kind") != "noam" or own.get("learning_rate") != FORMER_FACTOR:
        return settings, None
    found = dataclasses.replace(settings, schedule=dataclasses.replace(schedule, learning_rate=FORMER_FACTOR))
    return found, former_factor_note("schedule.learning_rate", "its settings do")


def forget_what_changed(run: RunFolder, arguments: Description, afterwards: Description) -> None:
    """Drops from the folder what a run changes in its own arguments, such as a counter of an objective."""
    kept = {**_unchanged(arguments, afterwards), "model": arguments["model"]}
    if kept != arguments:
        run.write_text(ARGUMENTS, json.dumps(kept, indent=1, sort_keys=True) + "\n")


def _unchanged(old: Description, new: Description) -> Description:
    """The values that are the same in both."""
    found: Description = {}
    for key in old.keys() & new.keys():
        if isinstance(old[key], dict) and isinstance(new[key], dict):
            found[key] = _unchanged(old[key], new[key])
        elif old[key] == new[key]:
            found[key] = old[key]
    return found


def _changes(old: Any, new: Any, name: str = "") -> list[str]:
    """One text for each value in which two descriptions differ.

    Outside the model, what the old one does not have is not compared: a setting of a later version, or a
    value that the run changes itself.
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return [
            text
            for key in sorted({*old, *new} if name.startswith("model") else old)
            for text in _changes(old.get(key), new.get(key), f"{name}.{key}" if name else key)
        ]
    if old == new:
        return []
    for before, after in ((old, new), (new, old)):
        if str(before).startswith(DIGEST) or isinstance(after, Mapping):
            return [f"{name} differs"]
    return [f"{name} was {_shown(old)}, and is {_shown(new)}"]


def _shown(value: Any) -> str:
    return "not there" if value is None else value if isinstance(value, str) and value else repr(value)


def _described_model(model: nn.Module) -> Description:
    found: Description = {
        "class": _name(type(model)),
        "weights": {
            name: f"{str(each.dtype).removeprefix('torch.')} {list(each.shape)}"
            f"{'' if each.requires_grad else ', frozen'}"
            for name, each in model.named_parameters()
        },
        "modules": {
            name: ADDRESS.sub("", f"{type(each).__name__}({each.extra_repr()})")
            for name, each in model.named_modules()
            if name
        },
    }
    if isinstance(model, Model):
        found["config"] = _plain(model.config)
    return found


def _described_examples(examples: Examples) -> Description:
    count = len(examples)
    lengths = examples.lengths(_spread(count, MEASURED), 0)
    contents = examples.batch(_spread(count, SAMPLED), 0)
    return {
        "class": _name(type(examples)),
        "count": count,
        "lengths": _digest(*(np.asarray(each, np.int64).tobytes() for each in lengths)),
        "contents": _digest(*(_bytes(value) for _, value in sorted(_fields(contents).items()))),
    }


def _spread(count: int, most: int) -> np.ndarray:
    """At most `most` of `count` indices, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def _bytes(value: Any) -> bytes:
    """The contents of a field of a batch; empty if they are not known."""
    match value:
        case Tensor():
            whole = value.detach().cpu().contiguous()
            contents = whole.view(-1).view(torch.uint8).numpy().tobytes()
            return f"{whole.dtype}{list(whole.shape)}".encode() + contents
        case np.ndarray():
            return f"{value.dtype}{value.shape}".encode() + value.tobytes()
        case tuple() | list():
            return b"".join(map(_bytes, value))
        case bool() | int() | float() | str():
            return repr(value).encode()
    return b""


def _described(function: Any, inside: Inside = ()) -> Any:
    """A function or a callable object: its name, source code and plain values.

    `inside`: the objects of whose description this is a part; functions may refer to each other.
    """
    if id(function) in inside:
        return _name(function if hasattr(function, "__qualname__") else type(function))
    inside = (*inside, id(function))
    match function:
        case functools.partial():
            found = {"of": _described(function.func, inside), "arguments": _plain(function.args, inside)}
            return {"class": "partial", **found, **_plain(function.keywords, inside)}
        case MethodType():
            found = {"class": function.__qualname__, "source": _source(function.__func__)}
            return {**found, "of": _described(function.__self__, inside)}
        case FunctionType():
            values = _plain({**_defaults(function), **_enclosed(function)}, inside)
            return {"class": _name(function), "source": _source(function), **values}
        case nn.Module():
            own = {name: each for name, each in _fields(function).items() if name not in MODULE_FIELDS}
            return {**_described_model(function), "source": _source(type(function)), **_plain(own, inside)}
    values = _plain(_fields(function), inside)
    return {"class": _name(type(function)), "source": _source(type(function)), **values}


def _defaults(function: FunctionType) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not inspect.Parameter.empty}


def _enclosed(function: FunctionType) -> dict[str, Any]:
    """The values of an enclosing function that it uses, but for those that are not there yet."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            found[name] = cell.cell_contents
    return found


def _fields(value: Any) -> dict[str, Any]:
    """The fields of an object by name."""
    if dataclasses.is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    return dict(getattr(value, "__dict__", {}))


def _plain(value: Any, inside: Inside = ()) -> Any:
    """The part of a value that can be compared, as JSON data; the name of its class for any other value."""
    match value:
        case float() if not math.isfinite(value):  # which JSON does not have
            return str(value)
        case None | bool() | int() | float() | str():
            return value
        case Tensor() | np.ndarray():
            return _digest(_bytes(value))
        case Mapping() | tuple() | list() if id(value) in inside:
            return _name(type(value))
        case Mapping():
            return _short({str(key): _plain(each, (*inside, id(value))) for key, each in value.items()})
        case tuple() | list():
            return _short([_plain(each, (*inside, id(value))) for each in value])
        case nn.Module():
            return _described_model(value)
        case FunctionType() | MethodType() | functools.partial():
            return _described(value, inside)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _described(value, inside)
    return _name(value if isinstance(value, type) else type(value))


def _short(data: Any) -> Any:
    """The data, or the digest of data of many parts, such as a list of sentences."""
    return data if len(data) <= LISTED else _digest(json.dumps(data, sort_keys=True).encode())


def _source(code: Any) -> str | None:
    """The digest of the source code without comments and layout; None for regard's own, and if unknown."""
    if (code.__module__ or "").partition(".")[0] == "regard":
        return None
    try:
        text = textwrap.dedent(inspect.getsource(code))
    except (OSError, TypeError):
        return None
    with contextlib.suppress(SyntaxError):  # a lambda's source is the line that it is in
        text = ast.unparse(ast.parse(text))
    return _digest(text.encode())


def _digest(*parts: bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "little") + part)
    return DIGEST + whole.hexdigest()


def _name(code: Any) -> str:
    module = code.__module__
    return code.__qualname__ if module in ("builtins", "__main__") else f"{module}.{code.__qualname__}"
