"""Plot: figures as files, of attention, an alignment, positions, a schedule, a run's curves."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard import console
from regard.errors import ConfigError, FolderError, did_you_mean
from regard.inspection.curves import draw_curves
from regard.inspection.fonts import families_for
from regard.inspection.plots import Size, draw_attention, draw_positions, draw_schedule
from regard.inspection.positional import positional
from regard.models.build import build, config_class
from regard.models.encoder_only import EncoderOnlyConfig
from regard.models.model import Model
from regard.training.schedule import Schedule
from regard.verbs.any_model import AnyModel, open_model
from regard.verbs.arguments import checked
from regard.verbs.curves import curves_of_run
from regard.verbs.keyword_fields import keyword_fields
from regard.verbs.look import Look, look
from regard.verbs.looking.files import writable
from regard.verbs.recipes import recipe_path
from regard.verbs.runtime import RUNTIME, Runtime
from regard.verbs.settings import load_recipe
from regard.verbs.tasks.recipe import Recipe

Drawable = Literal["sinusoidal", "rotary", "alibi"]  # learned ones are a model's
D_MODEL = 512  # the paper's, where a recipe says nothing else


@checked
@keyword_fields
def plot_attention(
    text: str,
    *,
    out: str | Path,
    model: AnyModel | None = None,
    attention: str | None = None,
    heads: tuple[int, ...] = (),
    target: str | None = None,
    runtime: Runtime = RUNTIME,
    size: Size = "screen",
) -> Path:
    """Draw where each head of one attention looks as the model reads `text`.

    Args:
        text: what the model reads.
        out: the figure to write: .svg, .png or .pdf.
        model: a model or run folder, or what `regard.load` gives; the model in the box without.
        attention: its name, such as decoder.blocks.1.cross_attention; the last without.
        heads: their numbers from 0; all without.
        target: an answer to force on the model.
        size: "screen": as wide as its cells need; "column", "page": one or two columns of a paper.

    Raises:
        ConfigError: the model has no such attention or head. MissingExtra: matplotlib is not installed.
    """
    path = writable(out)
    seen = look(text, model, target=target, runtime=runtime)
    summary = seen.summary
    known = {each["name"]: each for each in summary["attentions"]}
    if not known:
        raise FolderError("this model has no attention", "name another model with --model DIR")
    name = attention or list(known)[-1]
    if name not in known:
        raise ConfigError(f"the model has no attention {name!r}", did_you_mean(name, known))
    place = known[name]
    chosen = heads or tuple(range(place["num_heads"]))
    for head in chosen:
        if not 0 <= head < place["num_heads"]:
            raise ConfigError(f"{name} has no head {head}", f"heads go from 0 to {place['num_heads'] - 1}")
    weights = array_of(seen, f"attention/{name}")
    rows = "written" if place["part"] == "cross" else place["rows"]  # as the page and an alignment name them
    tokens = [summary["sequences"][each]["tokens"] for each in (rows, place["columns"])]
    draw_attention(
        path,
        {f"head {head}": weights[head] for head in chosen},
        *tokens,
        title=name,
        row_name=rows,
        column_name=place["columns"],
        size=size,
    )
    _tell_missing_signs(tokens)
    return path


@checked
@keyword_fields
def plot_alignment(
    text: str,
    *,
    out: str | Path,
    model: AnyModel | None = None,
    target: str | None = None,
    runtime: Runtime = RUNTIME,
    size: Size = "screen",
) -> Path:
    """Draw which source tokens the model looks at as it writes each token of its answer, or of `target`.

    Args:
        text: what the model reads.
        out: the figure to write: .svg, .png or .pdf.
        model: a model or run folder, or what `regard.load` gives; the model in the box without.
        target: an answer to force on the model.
        size: "screen": as wide as its cells need; "column", "page": one or two columns of a paper.

    Raises:
        FolderError: the model has no source. MissingExtra: matplotlib is not installed.
    """
    path = writable(out)
    seen = look(text, model, target=target, runtime=runtime)
    if "alignment" not in seen.paths():
        raise FolderError(
            f"{seen.run.loaded.path}: this model does not look at a source, so nothing is aligned",
            "`regard plot attention` draws what it looks at",
        )
    sequences = seen.summary["sequences"]
    draw_attention(
        path,
        {"": array_of(seen, "alignment")},
        sequences["written"]["tokens"],
        sequences["source"]["tokens"],
        row_name="written",
        column_name="source",
        size=size,
    )
    _tell_missing_signs([sequences[name]["tokens"] for name in ("written", "source")])
    return path


def _tell_missing_signs(sequences: list[list[str]]) -> None:
    """In place of the boxes that stand for them."""
    _, missing = families_for(token for tokens in sequences for token in tokens)
    if missing:
        shown = missing if len(missing) <= 20 else f"{missing[:20]}..."
        console.warn(f"no font of this machine has {shown}: boxes stand for them (Noto Sans CJK has most)")


@checked
@keyword_fields
def plot_positions(
    *,
    out: str | Path,
    model: AnyModel | None = None,
    scheme: Drawable = "sinusoidal",
    length: int = 64,
    d_model: int = 128,
    num_heads: int = 4,
    runtime: Runtime = RUNTIME,
) -> Path:
    """Draw the first `length` positions as a model tells them, or, without one, a scheme that nobody trains.

    Args:
        out: the figure to write: .svg, .png or .pdf.
        model: whose positions are drawn, a folder or what `regard.load` gives.
        scheme: "sinusoidal", "rotary" or "alibi"; learned ones are a model's.
        length: positions that are drawn.
        d_model: the scheme's width.
        num_heads: the scheme's heads.

    Raises:
        ConfigError: the model, or the scheme, tells none. MissingExtra: matplotlib is not installed.
    """
    path = writable(out)
    found = positional(_with_positions(model, scheme, d_model, num_heads, runtime), length)
    if found.scheme == "none":
        raise ConfigError("this model is not told positions", "name another model with --model DIR")
    arrays = {name: getattr(found, name) for name in ("table", "similarity", "bias")}
    drawn = {name: None if each is None else each.numpy() for name, each in arrays.items()}
    draw_positions(path, **drawn, title=f"{found.scheme} positions")
    return path


def _with_positions(
    model: AnyModel | None,
    scheme: Drawable,
    d_model: int,
    num_heads: int,
    runtime: Runtime,
) -> Model:
    if model is not None:
        return open_model(model, runtime).model
    config = EncoderOnlyConfig(
        vocab_size=1,
        head="none",
        d_model=d_model,
        num_heads=num_heads,
        num_layers=1,
        d_ff=1,
        positions=scheme,
    )
    return build(config, seed=0)


@checked
def plot_schedule(recipe: str | Path, *, out: str | Path) -> Path:
    """Draw the learning rate of each update that a recipe makes.

    Args:
        recipe: a TOML file, or the name of a recipe that comes with regard.
        out: the figure to write: .svg, .png or .pdf.

    Raises:
        RecipeError: the recipe cannot be read. MissingExtra: matplotlib is not installed.
    """
    file = recipe_path(recipe)
    settings = load_recipe(file).recipe
    schedule = Schedule(
        settings=settings.training.schedule,
        max_steps=settings.training.max_steps,
        d_model=width_of(settings),
    )
    path = writable(out)
    rates = [schedule(step) for step in range(1, settings.training.max_steps + 1)]
    draw_schedule(path, rates, title=f"{file.stem}: {settings.training.schedule.kind}")
    return path


@checked
def plot_curves(run: str | Path, *, out: str | Path) -> Path:
    """Draw loss, scores and learning rate of a run; `regard curves` does so in the run's own folder.

    Args:
        run: a run folder.
        out: the figure to write: .svg, .png or .pdf.

    Raises:
        FolderError: `run` is no run folder, or nothing was measured.
    """
    path = writable(out)
    draw_curves(curves_of_run(run), path, title=Path(run).expanduser().resolve().name)
    return path


def array_of(seen: Look, path: str) -> np.ndarray:
    found = seen.get(path)
    assert isinstance(found, np.ndarray)
    return found.astype(np.float32)


def width_of(recipe: Recipe) -> int:
    """The d_model that a recipe's model will have, of which one schedule depends."""
    table: Mapping[str, Any] = recipe.model
    config = config_class(table.get("kind", recipe.model_kind))
    preset = config.presets.get(table.get("preset", ""), {})
    return table.get("d_model", preset.get("d_model", getattr(config, "d_model", D_MODEL)))
