"""The verb `plot`: figures of attention, alignments, positions, schedules and learning curves."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard import console
from regard.errors import ConfigError, FolderError, UserError, did_you_mean
from regard.inspection.curves import draw_curves, draw_runs
from regard.inspection.fonts import font_families
from regard.inspection.plots import FigureSize, draw_attention, draw_positions, draw_schedule
from regard.inspection.positional import positions_of
from regard.models.build import build_model, config_class
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.model import Model
from regard.training.schedule import Schedule
from regard.verbs.compared_runs import is_run, names_of_runs, runs_in
from regard.verbs.curves import run_curves
from regard.verbs.look import Look, look
from regard.verbs.recipes import recipe_path
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.model_loading import model_path
from regard.verbs.shared.python_call import python_call
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.shared.settings import load_recipe
from regard.verbs.tasks.recipe import RecipeFile
from regard.verbs.training_run.initial_model import START
from regard.verbs.views.files import writable
from regard.weights.model_folder import CONFIG, open_model_folder, read_config
from regard.weights.strict_json import read_json

FixedScheme = Literal["sinusoidal", "rotary", "alibi"]  # schemes that need no training
D_MODEL = 512  # the paper's, if a recipe has none


@python_call
def plot_attention(
    text: str,
    *,
    out: str | Path,
    model: AnyModel | None = None,
    attention: str | None = None,
    heads: tuple[int, ...] = (),
    target: str | None = None,
    runtime: Runtime = DEFAULT_RUNTIME,
    size: FigureSize = "screen",
) -> Path:
    """Draw the weights of each head of one attention for `text`.

    Labels do not overlap. If there are too many tokens for labels of a legible size, only every second one
    has a label, or every third, ...; the name of the axis says so.

    Args:
        text: the input.
        out: the figure to write: .svg, .png or .pdf.
        model: a model or run folder, or the result of `regard.load`; by default the included model.
        attention: its name, such as decoder.blocks.1.cross_attention; by default the last.
        heads: their numbers from 0; by default all.
        target: an answer to force; by default the model's own. "": a decoder-only model's text alone.
        size: "screen": cells of one size; "column", "page": as wide as one or two columns of a paper.

    Raises:
        ConfigError: the model has no such attention or head. MissingExtra: matplotlib is not installed.
    """
    path = writable(out)
    found_look = look(text, model, target=target, runtime=runtime)
    summary = found_look.summary
    name, site = _attention_site(summary, attention)
    chosen = heads or tuple(range(site["num_heads"]))
    for head in chosen:
        if not 0 <= head < site["num_heads"]:
            raise ConfigError(f"{name} has no head {head}", f"heads go from 0 to {site['num_heads'] - 1}")
    weights = float_array(found_look, f"attention/{name}")
    rows = "written" if site["part"] == "cross" else site["rows"]  # as on the page
    columns: str = site["columns"]
    tokens = [summary["sequences"][each]["tokens"] for each in (rows, columns)]
    names: dict[str, str] = {each: each for each in summary["sequences"]}
    if (
        summary["model"]["kind"] == "decoder_only"
        and len(summary["sequences"]["read"]["ids"]) > summary["answer"]["start"] + 1
    ):
        names = {each: f"{each} and its continuation" for each in names}
        continuation = summary["answer"]["text"]
        alone = "; --target '' draws the text alone" if target is None else ""
        console.note(f"the figure has the text and its continuation, {continuation!r}{alone}")
    draw_attention(
        path,
        {f"head {head}": weights[head] for head in chosen},
        *tokens,
        title=name,
        row_name=names.get(rows, rows),
        column_name=names.get(columns, columns),
        size=size,
    )
    _warn_missing_characters(tokens)
    return path


def _attention_site(summary: Mapping[str, Any], attention: str | None) -> tuple[str, Mapping[str, Any]]:
    """The attention of that name, or the last, and what the look's summary has about it.

    Raises:
        ConfigError: there is none of that name, or it has no weights. FolderError: the model has none at all.
    """
    sites = {each["name"]: each for each in summary["attentions"]}
    for each in summary["without_weights"]:
        if attention in (None, each["name"]) and (attention or not sites):
            hint = f"name another attention: {', '.join(sites)}" if sites else "name another model"
            raise ConfigError(f"{each['name']} has no weights to plot: {each['why']}", hint)
    if not sites:
        raise FolderError("this model has no attention", "name another model with --model DIR")
    name = attention or list(sites)[-1]
    if name not in sites:
        raise ConfigError(f"the model has no attention {name!r}", did_you_mean(name, sites))
    return name, sites[name]


@python_call
def plot_alignment(
    text: str,
    *,
    out: str | Path,
    model: AnyModel | None = None,
    target: str | None = None,
    runtime: Runtime = DEFAULT_RUNTIME,
    size: FigureSize = "screen",
) -> Path:
    """Draw the attention from each token of the answer, or of `target`, to the source tokens.

    Args:
        text: the input.
        out: the figure to write: .svg, .png or .pdf.
        model: a model or run folder, or the result of `regard.load`; by default the included model.
        target: an answer to force; by default the model's own.
        size: "screen": cells of one size; "column", "page": as wide as one or two columns of a paper.

    Raises:
        FolderError: the model has no attention to a source. MissingExtra: matplotlib is not installed.
    """
    path = writable(out)
    found_look = look(text, model, target=target, runtime=runtime)
    if "alignment" not in found_look.paths():
        raise FolderError(
            f"{found_look.run.loaded.path}: this model has no attention to a source, so no alignment",
            "`regard plot attention` draws its self-attention",
        )
    sequences = found_look.summary["sequences"]
    draw_attention(
        path,
        {"": float_array(found_look, "alignment")},
        sequences["written"]["tokens"],
        sequences["source"]["tokens"],
        row_name="written",
        column_name="source",
        size=size,
    )
    _warn_missing_characters([sequences[name]["tokens"] for name in ("written", "source")])
    return path


def _warn_missing_characters(sequences: list[list[str]]) -> None:
    """Warn about characters that no font has, which matplotlib draws as boxes."""
    _, missing = font_families(token for tokens in sequences for token in tokens)
    if missing:
        shown = missing if len(missing) <= 20 else f"{missing[:20]}..."
        console.warn(f"no font on this machine has {shown}: they become boxes (Noto Sans CJK has most)")


@python_call
def plot_positions(
    *,
    out: str | Path,
    model: AnyModel | None = None,
    scheme: FixedScheme = "sinusoidal",
    length: int = 64,
    d_model: int = 128,
    num_heads: int = 4,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> Path:
    """Draw the first `length` positions of a model, or of a scheme that needs no training.

    "sinusoidal" and "rotary" have a table, some of its columns as waves (of at most 128 positions), and the
    similarity of each two positions. "alibi" has a line for each head: what it adds to the score of a key
    that is so many positions before the query. It is the paper's, for causal attention. The variant of an
    encoder has two directions; it is drawn for a `model` that is an encoder with ALiBi.

    Args:
        out: the figure to write: .svg, .png or .pdf.
        model: a model or run folder, or the result of `regard.load`; by default `scheme` is drawn.
        scheme: "sinusoidal", "rotary" or "alibi" (causal); for learned positions give a model.
        length: number of positions.
        d_model: width of the scheme.
        num_heads: heads of the scheme.

    Raises:
        ConfigError: the model has no positions. MissingExtra: matplotlib is not installed.
    """
    path = writable(out)
    found = positions_of(_model_with_positions(model, scheme, d_model, num_heads, runtime), length)
    if found.scheme == "none":
        raise ConfigError("this model has no positions", "name another model with --model DIR")
    arrays = {name: getattr(found, name) for name in ("table", "similarity", "bias")}
    panels = {name: None if each is None else each.numpy() for name, each in arrays.items()}
    variant = "" if found.bias is None else ", causal" if found.causal else ", of an encoder"
    draw_positions(path, **panels, causal=found.causal, title=f"{found.scheme} positions{variant}")
    return path


def _model_with_positions(
    model: AnyModel | None,
    scheme: FixedScheme,
    d_model: int,
    num_heads: int,
    runtime: Runtime,
) -> Model:
    if model is not None:
        return open_model(model, runtime).model
    config = DecoderOnlyConfig(
        vocab_size=1, d_model=d_model, num_heads=num_heads, num_layers=1, d_ff=1, positions=scheme
    )
    return build_model(config, seed=0)


@checked
def plot_schedule(recipe: str | Path, *, out: str | Path, overrides: Sequence[str] = ()) -> Path:
    """Draw the learning rate of each update of a recipe or a run.

    Args:
        recipe: a TOML file, the name of a recipe that regard includes, or a run folder.
        out: the figure to write: .svg, .png or .pdf.
        overrides: settings `section.key=value` that replace those of the recipe.

    Raises:
        RecipeError: the recipe cannot be read. MissingExtra: matplotlib is not installed.
    """
    file = recipe_path(recipe)
    source = load_recipe(file, overrides)
    settings = source.recipe
    schedule = Schedule(
        settings=settings.training.schedule,
        max_steps=settings.training.max_steps,
        d_model=recipe_d_model(source, file) if settings.training.schedule.kind == "noam" else D_MODEL,
    )
    path = writable(out)
    name = file.resolve().name if file.is_dir() else file.stem
    rates = [schedule(step) for step in range(1, settings.training.max_steps + 1)]
    draw_schedule(path, rates, title=f"{name}: {settings.training.schedule.kind}")
    return path


@checked
def plot_curves(run: str | Path | Iterable[str | Path], *, out: str | Path) -> Path:
    """Draw loss, scores and learning rate of a run; `regard curves` writes them into the run folder.

    Of several runs, each quantity has a panel with a line for each run. The legend names the settings in
    which they differ.

    Args:
        run: a run folder, a folder of run folders such as that of a sweep, or several of them.
        out: the figure to write: .svg, .png or .pdf.

    Raises:
        FolderError: a folder is not a run folder, or has no measurements. UserError: a run is named twice.
    """
    path = writable(out)
    given = [run] if isinstance(run, str | Path) else list(run)
    paths = [Path(one).expanduser() for one in given]
    folders = [each for one in paths for each in ([one] if is_run(one) else runs_in(one) or [one])]
    if not folders:
        raise UserError("there is no run to draw", "give a run folder")
    if len(folders) == 1:
        draw_curves(run_curves(folders[0]), path, title=folders[0].resolve().name)
        return path
    draw_runs({name: run_curves(each) for name, each in names_of_runs(folders).items()}, path)
    return path


def float_array(found_look: Look, path: str) -> np.ndarray:
    found = found_look.get(path)
    assert isinstance(found, np.ndarray)
    return found.astype(np.float32)


def recipe_d_model(source: RecipeFile, file: Path) -> int:
    """The d_model of the model of a recipe or a run, on which the "noam" schedule depends."""
    table = source.recipe.model
    settings: Mapping[str, Any] = {}
    if (file / START).is_file():
        settings = read_json(file / START)["settings"]
    elif isinstance(init := table.get("init"), str):
        settings = read_config(open_model_folder(model_path(init, source.base), {CONFIG}))[0].to_dict()
    config = config_class(source.recipe.chosen_model_kind)
    preset = config.presets.get(table.get("preset", ""), {})
    return {"d_model": getattr(config, "d_model", D_MODEL), **preset, **settings, **table}["d_model"]
