"""The start of a run: its data, and a model with fresh weights or the weights of a pretrained model."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard import console
from regard.counted import counted
from regard.data import chat_template
from regard.data.tokenizer import TokenizerPair
from regard.data.tokenizer_extension import ExtensionSettings
from regard.distributed.group import SINGLE, Group
from regard.errors import FolderError, RecipeError
from regard.layers.convolution import InputConvolution
from regard.models.build import build_model, build_uninitialised, count_parameters, resized_weights
from regard.models.config import ModelConfig
from regard.models.model import Model
from regard.recipe import read_toml
from regard.training.trainable import choose_trainable
from regard.verbs.shared.model_loading import model_path
from regard.verbs.tasks.kinds import task_kind
from regard.verbs.tasks.recipe import UNTRAINED, RecipeFile
from regard.verbs.tasks.task import BEGINS, TAKEN_FROM, TOKENIZERS_FOLDER, Say, Task
from regard.verbs.training_run.data_checks import ChangedData
from regard.verbs.training_run.model_check import refuse_impossible_model
from regard.verbs.training_run.teacher import refuse_other_targets
from regard.verbs.training_run.unbegun_run import DATA, has_trained, set_data_aside
from regard.weights.checkpoint import RunFolder
from regard.weights.folder import write_folder
from regard.weights.model_folder import LoadedModel, load_model
from regard.weights.strict_json import json_bytes, read_json
from regard.weights.tensors import model_tensors
from regard.weights.transfer import modules_of, transfer
from regard.weights.vocabulary_growth import OUTPUT_BIAS, GrownWeights, grown_weights

WITH_ANY_TOKENIZER = {"extension", "dropout", "copies"}  # settings of [tokenizer] that need no new one
MOSTLY_FRESH = 0.5  # the share of fresh parameters from which a run is warned about
START = "start.json"  # file of a run folder: the pretrained model that the run started from


@dataclass(frozen=True, kw_only=True)
class InitialModel:
    """The pretrained model that a run starts from; read from START when the run resumes."""

    path: str
    kind: str
    settings: Mapping[str, Any]
    loaded: LoadedModel | None  # None if the run has a checkpoint, which holds the weights
    generation: Mapping[str, Any] | None  # its decoding defaults; None: begun by an older version
    chat_template: Mapping[str, Any] | None  # None if it has none
    fresh: tuple[str, ...] = ()  # names of the run's weights that are not in the pretrained model, or in part


def begin(
    source: RecipeFile,
    run: RunFolder,
    device: torch.device,
    *,
    say: Say,
    group: Group = SINGLE,
    limit: int | None = None,
    teacher: LoadedModel | None = None,
    resumes: bool = False,
) -> tuple[Task, Model]:
    """Prepare the data of a run and build its model on `device`.

    If `[model] init` names a pretrained model, the model has its shape, except for other settings of
    `[model]`, its tokenisers, and those of its weights that fit. With `[tokenizer.extension]` its tokenisers
    and the weights of its vocabulary are extended. If the run `resumes` from a checkpoint, the model has no
    weights yet, and the pretrained model is no longer needed. Without a pretrained model, the tokenisers are
    those of the `teacher`, if there is one. A model that will be sharded stays on the CPU: `distribute` moves
    it to `device` layer by layer.

    Raises:
        UserError: the recipe, the data or the pretrained model cannot be used.
    """
    training = source.recipe.training
    start = _start(source, run, resumes)
    if start is None:
        _refuse_settings_of_pretrained(source)
    else:
        source = _with_shape(source, start, say)
    refuse_impossible_model(source.recipe)
    given = teacher if start is None else start.loaded
    with group.first_alone():
        # another process, whose files are not those of the first, must not undo what that one prepared
        may_prepare_again = group.is_first and not resumes
        begins = start is not None and bool((start.generation or {}).get("begin", True))
        task = _prepared(source, run, given, say, limit, may_prepare_again, begins)
    if start is not None:
        _take_over(start, task, source)
    # without weights it takes no memory until the checkpoint is read
    model = build_uninitialised(task.config) if resumes else build_model(task.config, seed=training.seed)
    if teacher is not None:
        refuse_other_targets(teacher, task, model)
    fresh: tuple[str, ...] = () if start is None else start.fresh
    grown: tuple[str, ...] = ()
    if start is not None and start.loaded is not None:
        if group.is_first and (warning := task.warning_of_start(start.loaded)):
            console.warn(warning)
        fresh, grown = _copy_weights(start.loaded, model, task, say)
        fresh = (*fresh, *grown)
        if group.is_first and (other_shape := _warning_of_shape(start, model, fresh, source)):
            console.warn(other_shape)
        if group.is_first:
            run.write_text(START, json_bytes(_start_record(start, fresh)).decode())
    parameters = count_parameters(model)
    sharded = source.recipe.distributed.is_sharded(group.size)
    trained = choose_trainable(
        model if sharded else model.to(device),
        freeze=training.freeze,
        adapter=training.adapter,
        fresh=fresh,
        seed=training.seed,
    )
    _refuse_frozen(model, fresh, grown)
    trained_count = "" if trained == parameters else f", {trained:,} trained"
    say(f"model: {parameters:,} parameters{trained_count}; {_hardware(device, group)}")
    return task, model


def _prepared(
    source: RecipeFile,
    run: RunFolder,
    given: LoadedModel | None,
    say: Say,
    limit: int | None,
    may_prepare_again: bool,
    begins: bool,
) -> Task:
    """The task of a run, with the tokenisers of the model `given`.

    `may_prepare_again`: data that changed are prepared again if no training has begun. `begins`: the run
    starts from that model, which begins texts with <s>.
    """
    folder = run.path / DATA
    if given is not None:
        _copy_tokenizers(given, folder, source.table.get("tokenizer", {}), say, begins)
    try:
        return task_kind(source.recipe).prepare(source, folder, say=say, limit=limit)
    except ChangedData as error:
        if not may_prepare_again or has_trained(run):
            raise
        say(f"{error.message}: as no training has begun, they are read again{set_data_aside(run)}")
        return _prepared(source, run, given, say, limit, may_prepare_again=False, begins=begins)


def _refuse_settings_of_pretrained(source: RecipeFile) -> None:
    """Raise a RecipeError for settings that only a run from a pretrained model can have."""
    settings = {
        "training.adapter needs a pretrained model to adapt": source.recipe.training.adapter,
        "tokenizer.extension needs a pretrained model to extend": _extension(source),
    }
    for message, value in settings.items():
        if value is not None:
            raise RecipeError(message, "name one with --init DIR")


def origin(run: RunFolder) -> str:
    """The name of the pretrained model that a run started from; empty if there was none."""
    return read_json(run.path / START)["name"] if (run.path / START).is_file() else ""


def _start(source: RecipeFile, run: RunFolder, resumes: bool) -> InitialModel | None:
    model = source.recipe.model
    if (init := model.get("init")) is None:
        return None
    if not isinstance(init, str):
        raise RecipeError(f"model.init must be a path, not {init!r}", "name the folder of a pretrained model")
    if "preset" in model:
        raise RecipeError(
            "model.preset and model.init both set the shape of the model",
            "leave out one of them; other settings of [model] still apply",
        )
    if resumes:
        saved = read_json(run.path / START)
        return InitialModel(
            path=saved["model"],
            kind=saved["kind"],
            settings=saved["settings"],
            loaded=None,
            generation=saved.get("generation"),
            chat_template=saved.get("chat_template"),
            fresh=tuple(saved["fresh"]),
        )
    loaded = load_model(model_path(init, source.base))
    return InitialModel(
        path=str(loaded.path),
        kind=loaded.config.kind,
        settings=loaded.config.to_dict(),
        loaded=loaded,
        generation=loaded.generation,
        chat_template=None if loaded.chat_template is None else loaded.chat_template.to_dict(),
    )


def _start_record(start: InitialModel, fresh: Sequence[str]) -> dict[str, Any]:
    """The content of START, for resuming the run and for its model card."""
    table, _ = read_toml(Path(start.path) / "recipe.toml")
    return {
        "name": table.get("name", Path(start.path).name),
        "model": start.path,
        "kind": start.kind,
        "settings": dict(start.settings),
        "generation": start.generation,
        "chat_template": start.chat_template,
        "fresh": list(fresh),
    }


def _take_over(start: InitialModel, task: Task, source: RecipeFile) -> None:
    """Give the task what the pretrained model has beside its weights: decoding defaults, a chat template."""
    if start.generation is not None:
        task.start_from(start.generation, source.table.get("decoding", {}))
    if start.chat_template is not None:
        task.files = {**task.files, chat_template.FILE: json_bytes(start.chat_template)}


def _with_shape(source: RecipeFile, start: InitialModel, say: Say) -> RecipeFile:
    """The recipe with the pretrained model's settings as `init`, as `ModelConfig.from_table` reads it."""
    recipe = source.recipe
    kind = recipe.chosen_model_kind
    if start.kind in UNTRAINED:
        raise FolderError(
            f"{start.path} is a model of kind {start.kind!r}, and no task trains such models",
            "give another model",
        )
    if kind != start.kind:
        raise FolderError(
            f"{start.path} is a model of kind {start.kind!r}, but the recipe trains kind {kind!r}",
            f"name another model, or set model.kind to {start.kind!r} if the task can train it",
        )
    changed = [
        f"{name} = {recipe.model[name]!r} instead of {start.settings[name]!r}"
        for name in _changed_settings(recipe.model, start)
    ]
    if changed:
        say(f"model: differs from {start.path}: {'; '.join(changed)}")
    settings = dict(start.settings)
    if _extension(source) is not None and settings.get(OUTPUT_BIAS) is False:
        if recipe.model.get(OUTPUT_BIAS) is False:
            raise RecipeError(
                "model.output_bias = false, but with tokenizer.extension the outputs have a bias",
                "leave output_bias out: new tokens begin improbable by it",
            )
        say("model: output_bias = true is added, so that new tokens start with a low probability")
        settings[OUTPUT_BIAS] = True
    model = {**recipe.model, "init": settings}
    return dataclasses.replace(source, recipe=dataclasses.replace(recipe, model=model))


def _changed_settings(model: Mapping[str, Any], start: InitialModel) -> list[str]:
    """The settings of [model] that differ from the pretrained model's, apart from dropout."""
    return [
        name
        for name, value in model.items()
        if start.settings.get(name, value) != value and not name.endswith("dropout")
    ]


def _copy_tokenizers(
    loaded: LoadedModel, folder: Path, settings: Mapping[str, Any], say: Say, begins: bool
) -> None:
    """Copy the tokenisers of a pretrained model or a teacher into the data folder of the run.

    `settings` is the recipe's `[tokenizer]`; those without effect are named. `begins`: as in `_prepared`.
    """
    if loaded.tokenizer_pair is not None:
        loaded.tokenizers  # noqa: B018 (refuses a model of several languages of which none is chosen)
    if loaded.tokenizer_pair is None or (folder / TOKENIZERS_FOLDER).is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_folder(
        folder / TOKENIZERS_FOLDER,
        loaded.tokenizer_pair.files(),
        manifest_extra={TAKEN_FROM: str(loaded.path), BEGINS: begins},
    )
    sizes = sorted({loaded.tokenizer_pair.source.vocab_size, loaded.tokenizer_pair.target.vocab_size})
    say(f"tokeniser: from {loaded.path}, {' and '.join(map(str, sizes))} tokens")
    if unused := [name for name in settings if name not in WITH_ANY_TOKENIZER]:
        say(f"[tokenizer] {', '.join(unused)}: without effect, since the tokeniser is that of {loaded.path}")


def _copy_weights(
    loaded: LoadedModel, model: Model, task: Task, say: Say
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Copy the weights that fit into `model`, and print which do not.

    Returns the names of fresh weights, and of those that have new rows.
    """
    grown = _grown_weights(loaded, task)
    tensors = grown.tensors
    label_weights: set[str] = set()
    if loaded.labels != task.labels:
        label_weights = _label_weights(loaded.config) | _label_weights(task.config)
    try:
        transferred = transfer(model, tensors, exclude=label_weights)
    except FolderError as error:
        raise FolderError(f"{loaded.path}: {error.message}", error.hint) from error
    _zero_fresh_convolutions(model, transferred.fresh)
    own = model_tensors(model)
    given = {name: tensor.numel() for name, tensor in model_tensors(loaded.model).items()}
    copied = sum(given.get(name, 0) for name in transferred.taken)
    say(f"start: {copied:,} of {count_parameters(model):,} parameters are copied from {loaded.path}")
    if grown.names:
        say(f"start: new rows of {', '.join(grown.names)} are means of the rows of old pieces")
    for part in dict.fromkeys(name.partition(".")[0] for name in transferred.fresh):
        names = [name for name in transferred.fresh if f"{name}.".startswith(f"{part}.")]
        modules = ", ".join(module.removeprefix(f"{part}.") for module in modules_of(names, own))
        other_classes = loaded.labels and label_weights & set(names)
        reason = "the classes differ" if other_classes else "no weights fit"
        say(f"{part}: fresh ({reason if modules == part else f'{modules}: {reason}'})")
    if transferred.unused:
        say(f"not used: {', '.join(modules_of(transferred.unused, tensors))}")
    return transferred.fresh, tuple(name for name in grown.names if name in transferred.taken)


def _warning_of_shape(
    start: InitialModel, model: Model, fresh: Sequence[str], source: RecipeFile
) -> str | None:
    """A warning if most weights are fresh because [model] describes another model than the pretrained one."""
    tensors = model_tensors(model)
    share = sum(tensors[name].numel() for name in fresh) / sum(map(torch.numel, tensors.values()))
    own = _changed_settings(source.recipe.model, start)
    if share < MOSTLY_FRESH or not own:
        return None
    return (
        f"{share:.0%} of the parameters are not those of {start.path}, as [model] has {', '.join(own)}:"
        " to train that model further, leave out all settings of [model] but init"
    )


def _grown_weights(loaded: LoadedModel, task: Task) -> GrownWeights:
    """The pretrained model's weights, extended if the task's tokenisers are an extension of its own."""
    if getattr(task.recipe, "tokenizer", None) is None or task.recipe.tokenizer.extension is None:
        return GrownWeights(tensors=model_tensors(loaded.model), names=())
    return grown_weights(loaded, TokenizerPair.of(task.files))


def _extension(source: RecipeFile) -> ExtensionSettings | None:
    settings = getattr(source.recipe, "tokenizer", None)
    return None if settings is None else settings.extension


@torch.no_grad()
def _zero_fresh_convolutions(model: Model, fresh: Sequence[str]) -> None:
    """A convolution of embeddings that the pretrained model lacks starts as zeros, which change no state."""
    for name, module in model.named_modules():
        if isinstance(module, InputConvolution) and f"{name}.depthwise.weight" in fresh:
            module.depthwise.weight.zero_()


def _refuse_frozen(model: Model, fresh: Sequence[str], grown: Sequence[str]) -> None:
    """Raise a RecipeError if weights that are not pretrained, or have rows of new tokens, are not trained."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for name in fresh:
        if name in parameters and not parameters[name].requires_grad:
            has = "the new tokens of tokenizer.extension" if name in grown else "no pretrained weights"
            raise RecipeError(
                f"training.freeze has {name!r}, which has {has}",
                'leave it out of freeze: "encoder.blocks" freezes the blocks alone',
            )


def _label_weights(config: ModelConfig) -> set[str]:
    """The weights that have a row for each class: those whose shape changes with the number of classes."""
    count = getattr(config, "num_labels", 0)
    return resized_weights(config, num_labels=count + 1) if count else set()


def _hardware(device: torch.device, group: Group) -> str:
    """The device, threads and workers of a run, in words."""
    threads = counted(torch.get_num_threads(), "thread")
    return f"{device}, {threads}" if group.size == 1 else f"{device}, {group.size} workers of {threads}"
