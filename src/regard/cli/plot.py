"""`regard plot`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from regard.cli import options
from regard.cli.group import Command, VerbGroup

out = click.option(
    "--out",
    type=options.FILE_PATH,
    required=True,
    metavar="FILE",
    help="The .svg, .png or .pdf file to write.",
)
size = click.option(
    "--size",
    type=click.Choice(["screen", "column", "page"]),
    default="screen",
    show_default=True,
    help="Cells of one size, or a figure as wide as one or two columns of a paper.",
)
target = click.option("--target", metavar="TEXT", help="Force this answer on the model.")


@click.group("plot", cls=VerbGroup)
def command() -> None:
    """Draw curves, a schedule, positions, attention or an alignment as a figure.

    Needs matplotlib: pip install 'regard[plot]'.
    """


def figure(name: str, *decorators: Callable[[Any], Any]) -> Callable[[Callable[..., Path]], Any]:
    """A command that writes a figure and prints its path."""

    def decorated(draw: Callable[..., Path]) -> Any:
        def run_and_print(**given: Any) -> None:
            click.echo(draw(**given))

        run_and_print.__doc__ = draw.__doc__
        return command.command(name, cls=Command)(options.stacked(*decorators, out)(run_and_print))

    return decorated


def count(name: str, default: int, text: str) -> Callable[[Any], Any]:
    """An option for an integer with limits."""
    kind = options.LimitedInt(name.removeprefix("--").replace("-", "_"))
    return click.option(name, type=kind, default=default, show_default=True, metavar="N", help=text)


@figure(
    "attention",
    click.argument("text"),
    options.model,
    click.option(
        "--attention", metavar="NAME", help="Such as decoder.blocks.1.cross_attention. [default: the last]"
    ),
    click.option(
        "--head", "heads", type=int, multiple=True, metavar="N", help="Only this head; repeat for more."
    ),
    target,
    size,
    options.runtime,
)
def attention(**given: Any) -> Path:
    """Draw the weights of each head of one attention for a text."""
    from regard.verbs.plot import plot_attention

    return plot_attention(given.pop("text"), **given)


@figure("alignment", click.argument("text"), options.model, target, size, options.runtime)
def alignment(**given: Any) -> Path:
    """Draw the attention from each token of the answer to the source tokens."""
    from regard.verbs.plot import plot_alignment

    return plot_alignment(given.pop("text"), **given)


@figure(
    "positions",
    click.option("--model", type=options.FILE_PATH, metavar="DIR", help="Draw the positions of this model."),
    click.option(
        "--scheme",
        type=click.Choice(["sinusoidal", "rotary", "alibi"]),
        default="sinusoidal",
        show_default=True,
        help="Without --model. Learned positions need a model; alibi is the paper's, for causal attention.",
    ),
    count("--length", 64, "Number of positions."),
    count("--d-model", 128, "Width of the scheme."),
    count("--num-heads", 4, "Heads of the scheme."),
    options.runtime,
)
def positions(**given: Any) -> Path:
    """Draw the positions of a scheme or a model: table, waves, similarity, bias.

    The bias is a line for each head, by the distance from query to key: in both directions for an encoder, to
    earlier keys for a causal model and for --scheme alibi.
    """
    from regard.verbs.plot import plot_positions

    return plot_positions(**given)


@figure("schedule", click.argument("recipe", type=options.FILE_PATH), options.overrides)
def schedule(recipe: Path, out: Path, overrides: tuple[str, ...]) -> Path:
    """Draw the learning rate of each update of a recipe or a run folder."""
    from regard.verbs.plot import plot_schedule

    return plot_schedule(recipe, out=out, overrides=overrides)


@figure("curves", click.argument("run", type=options.FILE_PATH, nargs=-1, required=True, metavar="RUN..."))
def curves(run: tuple[Path, ...], out: Path) -> Path:
    """Draw loss, scores and learning rate of a run, or of several in one figure.

    A folder of runs, such as that of a sweep, stands for all of them. The legend names the settings in which
    they differ.
    """
    from regard.verbs.plot import plot_curves

    return plot_curves(run, out=out)
