"""`regard look`."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.errors import UserError
from regard.verbs.controls import BeamSize
from regard.verbs.runtime import Runtime

if TYPE_CHECKING:
    from regard.verbs.look import Look


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """What is written instead of showing the page."""

    html: Path | None
    npz: Path | None
    as_text: bool
    as_json: bool
    pair: tuple[str, str] | None

    def __bool__(self) -> bool:
        return bool(self.html or self.npz or self.printed)

    @property
    def printed(self) -> list[str]:
        """The options that print to stdout."""
        given = {"--text": self.as_text, "--json": self.as_json, "--pair": self.pair}
        return [name for name, value in given.items() if value]


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(BeamSize):
    """What of the answer is asked for, as `Request` has it."""

    target: str | None
    prefix: str | None
    max_new_tokens: int | None


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """Where the page is shown."""

    port: int | None
    no_browser: bool


outputs = options.together(
    "outputs",
    OutputOptions,
    click.option(
        "--html", type=options.FILE, metavar="FILE", help="Write the page as one file, to open offline."
    ),
    click.option("--text", "as_text", is_flag=True, help="Show it here: cells in colours, tables."),
    options.as_json,
    click.option(
        "--npz", type=options.FILE, metavar="FILE", help="Write all arrays, as numpy.load reads them."
    ),
    click.option(
        "--pair",
        nargs=2,
        metavar="WORD WORD",
        help="Print the heads by how much the second word, of the answer, looks at the first, of the source.",
    ),
)
asked = options.together(
    "asked",
    AnswerOptions,
    click.option("--target", metavar="TEXT", help="Force this answer on the model."),
    click.option("--prefix", metavar="TEXT", help="Force the beginning of the answer; the model goes on."),
    options.field_options(BeamSize),
    click.option(
        "--max-new-tokens",
        type=options.LimitedInt("max_new_tokens"),
        metavar="N",
        help="Of a text that goes on. [default: 24, or what there is room for]",
    ),
)
page = options.together(
    "page",
    PageOptions,
    click.option(
        "--port", type=options.LimitedInt("port"), metavar="N", help="Of the page. [default: a free one]"
    ),
    click.option("--no-browser", is_flag=True, help="Only say where the page is."),
)


@click.command("look", cls=Command)
@click.argument("text", required=False)
@options.model
@outputs
@asked
@page
@options.runtime
def command(
    text: str | None,
    model: Path | None,
    outputs: OutputOptions,
    asked: AnswerOptions,
    page: PageOptions,
    runtime: Runtime,
) -> None:
    """Show what a model does with a text: attention, alignment, predictions, beam, all numbers.

    Opens a page in the browser, from a server that this machine alone can reach; or writes the same as one
    HTML file, as text, JSON or NPZ. Of a model of images TEXT is FILE:NUMBER, an image of an IDX or NPZ
    file or of NAME:FILE, counted from 0.
    """
    _refuse_contradictions(text, outputs, asked, page)

    with importing():
        from regard.verbs.look import Looker, Request
        from regard.verbs.looking.files import writable

    for file in (outputs.html, outputs.npz):
        if file is not None:
            writable(file)
    request = None if text is None else Request(text=text, **vars(asked))
    looker = Looker(model, runtime=runtime)
    if request is not None and outputs:
        _write(looker(request), outputs)
        return

    from regard.serving.local import serve

    serve(looker, request, port=page.port or 0, browser=not page.no_browser)


def _refuse_contradictions(
    text: str | None, outputs: OutputOptions, asked: AnswerOptions, page: PageOptions
) -> None:
    if text is None and (outputs or asked.target is not None or asked.prefix is not None):
        raise UserError("there is no TEXT to look at", 'regard look "Where is the station?" --text')
    if asked.target is not None and asked.prefix is not None:
        raise UserError("both --target and --prefix are given", "leave one of them out")
    if len(outputs.printed) > 1:
        raise UserError(f"both {' and '.join(outputs.printed[:2])} are given", "leave one of them out")
    if outputs and (page.port is not None or page.no_browser):
        name = "--port" if page.port is not None else "--no-browser"
        raise UserError(
            f"{name} is for the page, which is not served where something is written", f"leave {name} out"
        )


def _write(look: "Look", outputs: OutputOptions) -> None:
    from regard import console
    from regard.verbs.looking.terminal import show

    if outputs.as_text and console.is_terminal():
        show(look)
    elif outputs.as_text:
        _print(look.to_text())
    if outputs.pair:
        for each in look.heads_linking(*outputs.pair):
            _print(f"{each.weight:.4f}\tlayer {each.layer}, head {each.head}\t{each.name}\n")
    if outputs.as_json:
        _print(look.to_json() + "\n")
    if (outputs.html or outputs.npz or outputs.as_json) and (slow := look.slow_paths()):
        console.note(f"left out, because of this model and text they take long: {', '.join(slow)}")
    for file, write in ((outputs.html, look.to_html), (outputs.npz, look.to_npz)):
        if file is not None:
            click.echo(write(file), err=bool(outputs.printed))


def _print(text: str) -> None:
    """To stdout, whatever its encoding is."""
    sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass"))
