"""What a run starts with: its data, and a model of fresh weights or of those of a trained one."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.distributed.group import SINGLE, Group
from regard.errors import FolderError, RecipeError
from regard.models.build import MODELS, build, count_parameters
from regard.models.config import ModelConfig
from regard.models.model import Model
from regard.recipe import read_toml
from regard.training.trainable import choose_trainable
from regard.verbs.box import model_path
from regard.verbs.tasks.kinds import kind_of
from regard.verbs.tasks.recipe import RecipeFile
from regard.verbs.tasks.task import TAKEN_FROM, TOKENIZERS, Say, Task
from regard.weights.checkpoint import RunFolder
from regard.weights.folder import write_folder
from regard.weights.model_folder import LoadedModel, load_model
from regard.weights.strict_json import json_bytes, read_json
from regard.weights.tensors import model_tensors
from regard.weights.transfer import modules_of, transfer

START = "start.json"  # in a run folder: what it needs to know of the model that it started from


@dataclass(frozen=True, kw_only=True)
class InitialModel:
    """The trained model that a run starts from, at its beginning or as it remembers it afterwards."""

    path: str
    kind: str
    settings: Mapping[str, Any]
    loaded: LoadedModel | None  # None: the run has begun, and its checkpoints hold the weights
    fresh: tuple[str, ...] = ()  # weights of the run that it has none for


def begin(
    source: RecipeFile,
    run: RunFolder,
    device: torch.device,
    *,
    say: Say,
    group: Group = SINGLE,
    limit: int | None = None,
) -> tuple[Task, Model]:
    """The task whose data are ready in the run folder, and the model that it trains, on `device`.

    `[model] init` names a trained model: the model is of its shape, but for what `[model]` says besides,
    reads with its tokenisers, and has its weights wherever they fit. Once the run has a checkpoint, that
    model need not be there any more.

    Raises:
        UserError: recipe, data or trained model do not do.
    """
    training = source.recipe.training
    start = _start(source, run)
    if start is not None:
        source = _shaped(source, start, say)
    elif training.adapter is not None:
        raise RecipeError(
            "training.adapter adapts a trained model, and there is none", "name one with --init DIR"
        )
    with group.first_alone():
        if start is not None and start.loaded is not None:
            _keep_tokenizers(start, start.loaded, run.path / "data", say)
        task = kind_of(source.recipe).prepare(source, run.path / "data", say=say, limit=limit)
    model = build(task.config, seed=training.seed)
    fresh: tuple[str, ...] = ()
    if start is not None:
        fresh = start.fresh if start.loaded is None else _give_weights(start.loaded, model, task, say)
        if group.is_first and start.loaded is not None:
            run.write_text(START, json_bytes(_remembered(start, fresh)).decode())
    parameters = count_parameters(model)
    trained = choose_trainable(
        model.to(device), freeze=training.freeze, adapter=training.adapter, fresh=fresh, seed=training.seed
    )
    some = "" if trained == parameters else f", {trained:,} trained"
    say(f"model: {parameters:,} parameters{some}; {_place(device, group)}")
    return task, model


def origin(run: RunFolder) -> str:
    """The name of the trained model that a run started from; empty where there was none."""
    return read_json(run.path / START)["name"] if (run.path / START).is_file() else ""


def _start(source: RecipeFile, run: RunFolder) -> InitialModel | None:
    model = source.recipe.model
    if (init := model.get("init")) is None:
        return None
    if not isinstance(init, str):
        raise RecipeError(f"model.init = {init!r} is no path", "name the folder of a trained model")
    if "preset" in model:
        raise RecipeError(
            "model.preset and model.init both say what the model is like",
            "leave out the one or the other; what [model] says besides changes it",
        )
    if run.latest() is not None:
        saved = read_json(run.path / START)
        return InitialModel(
            path=saved["model"],
            kind=saved["kind"],
            settings=saved["settings"],
            loaded=None,
            fresh=tuple(saved["fresh"]),
        )
    loaded = load_model(model_path(init, source.base))
    return InitialModel(
        path=str(loaded.path), kind=loaded.config.kind, settings=loaded.config.to_dict(), loaded=loaded
    )


def _remembered(start: InitialModel, fresh: Sequence[str]) -> dict[str, Any]:
    """What the run will need when it goes on, and what its model card says."""
    table, _ = read_toml(Path(start.path) / "recipe.toml")
    return {
        "name": table.get("name", Path(start.path).name),
        "model": start.path,
        "kind": start.kind,
        "settings": dict(start.settings),
        "fresh": list(fresh),
    }


def _shaped(source: RecipeFile, start: InitialModel, say: Say) -> RecipeFile:
    """The recipe with the shape of the model that it starts from, which `ModelConfig.from_table` reads."""
    recipe = source.recipe
    kind = recipe.model.get("kind", recipe.model_kind)
    if kind != start.kind:
        raise FolderError(
            f"{start.path} is of kind {start.kind!r}, and the recipe trains one of kind {kind!r}",
            f"name another model, or set model.kind to {start.kind!r} where the task can do with it",
        )
    changed = [
        f"{name} = {value!r}, {start.settings[name]!r} there"
        for name, value in recipe.model.items()
        if name in start.settings and value != start.settings[name] and not name.endswith("dropout")
    ]
    if changed:
        say(f"model: not as in {start.path}: {'; '.join(changed)}")
    model = {**recipe.model, "init": start.settings}
    return dataclasses.replace(source, recipe=dataclasses.replace(recipe, model=model))


def _keep_tokenizers(start: InitialModel, loaded: LoadedModel, folder: Path, say: Say) -> None:
    """Put the model's tokenisers where the task looks for its own."""
    if loaded.text is None or (folder / TOKENIZERS).is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_folder(folder / TOKENIZERS, loaded.text.files(), manifest_extra={TAKEN_FROM: start.path})
    sizes = sorted({loaded.text.source.vocab_size, loaded.text.target.vocab_size})
    say(f"tokeniser: that of {start.path}, {' and '.join(map(str, sizes))} tokens")


def _give_weights(loaded: LoadedModel, model: Model, task: Task, say: Say) -> tuple[str, ...]:
    """Copy what fits into `model`, and say what does not; the names of the weights that stay fresh."""
    tensors = model_tensors(loaded.model)
    of_labels: set[str] = set()
    if loaded.labels != task.labels:
        of_labels = _of_labels(loaded.config) | _of_labels(task.config)
    try:
        found = transfer(model, tensors, exclude=of_labels)
    except FolderError as error:
        raise FolderError(f"{loaded.path}: {error.message}", error.hint) from error
    own = model_tensors(model)
    taken = sum(own[name].numel() for name in found.taken)
    say(f"start: {taken:,} of {count_parameters(model):,} parameters are those of {loaded.path}")
    for part in dict.fromkeys(name.partition(".")[0] for name in found.fresh):
        names = [name for name in found.fresh if f"{name}.".startswith(f"{part}.")]
        which = ", ".join(module.removeprefix(f"{part}.") for module in modules_of(names, own))
        others = loaded.labels and of_labels & set(names)
        why = "the classes are others" if others else "nothing there fits"
        say(f"{part}: fresh ({why if which == part else f'{which}: {why}'})")
    if found.unused:
        say(f"left over: {', '.join(modules_of(found.unused, tensors))}")
    return found.fresh


def _of_labels(config: ModelConfig) -> set[str]:
    """The weights that mean classes: those that would have another shape if there were one more."""
    count = getattr(config, "num_labels", 0)
    if not count:
        return set()
    shapes, others = (_shapes(each) for each in (config, dataclasses.replace(config, num_labels=count + 1)))
    return {name for name, shape in shapes.items() if others.get(name) != shape}


def _shapes(config: ModelConfig) -> dict[str, torch.Size]:
    with torch.device("meta"):
        return {name: tensor.shape for name, tensor in MODELS[config.kind][1](config).state_dict().items()}


def _place(device: torch.device, group: Group) -> str:
    threads = torch.get_num_threads()
    each = f"{threads} thread{'s' if threads > 1 else ''}"
    return f"{device}, {each}" if group.size == 1 else f"{device}, {group.size} workers of {each}"
