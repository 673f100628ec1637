"""`regard look`."""

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.cli.text_command import check_text
from regard.errors import UserError
from regard.verbs.generation.controls import BeamSize
from regard.verbs.shared.runtime import Runtime

if TYPE_CHECKING:
    from regard.verbs.look import Look


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Outputs that replace the page."""

    html: Path | None
    live: bool
    page_runtime: Path | None
    npz: Path | None
    as_text: bool
    as_json: bool
    pair: tuple[str, str] | None

    def __bool__(self) -> bool:
        return bool(self.html or self.npz or self.printed)

    @property
    def printed(self) -> list[str]:
        """The options that print to stdout."""
        values_by_name = {"--text": self.as_text, "--json": self.as_json, "--pair": self.pair}
        return [name for name, value in values_by_name.items() if value]


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(BeamSize):
    """Options of the answer, with the names of `LookRequest`."""

    target: str | None
    prefix: str | None
    max_new_tokens: int | None


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """Options of the page's server."""

    port: int | None
    no_browser: bool


outputs = options.together(
    "outputs",
    OutputOptions,
    click.option(
        "--html", type=options.FILE_PATH, metavar="FILE", help="Write the page as one file, to open offline."
    ),
    click.option(
        "--live", is_flag=True, help="With --html: the file holds the model too, and looks at other texts."
    ),
    click.option(
        "--runtime",
        "page_runtime",
        type=options.FILE_PATH,
        metavar="PATH",
        help="With --live: onnxruntime-web as npm packs or installs it. [default: fetched once by npm]",
    ),
    click.option("--text", "as_text", is_flag=True, help="Print it: coloured cells and tables."),
    options.as_json,
    click.option(
        "--npz", type=options.FILE_PATH, metavar="FILE", help="Write all arrays, as numpy.load reads them."
    ),
    click.option(
        "--pair",
        nargs=2,
        metavar="WORD WORD",
        help="Rank heads by the weight from the second word (answer) on the first word (source).",
    ),
)
answer_options = options.together(
    "answer_options",
    AnswerOptions,
    click.option("--target", metavar="TEXT", help="Force this answer on the model."),
    click.option(
        "--prefix", metavar="TEXT", help="Force the beginning of the answer; the model continues it."
    ),
    options.field_options(BeamSize),
    click.option(
        "--max-new-tokens",
        type=options.LimitedInt("max_new_tokens"),
        metavar="N",
        help="Tokens that continue a text. [default: 24, or what fits the model's length]",
    ),
)
page = options.together(
    "page",
    PageOptions,
    click.option(
        "--port", type=options.LimitedInt("port"), metavar="N", help="Port of the page. [default: a free one]"
    ),
    click.option("--no-browser", is_flag=True, help="Print the page's address only."),
)


@click.command("look", cls=Command)
@click.argument("text", required=False)
@options.model
@outputs
@answer_options
@page
@options.runtime
def command(
    text: str | None,
    model: Path | None,
    outputs: OutputOptions,
    answer_options: AnswerOptions,
    page: PageOptions,
    runtime: Runtime,
) -> None:
    """Show what a model does with a text: attention, alignment, predictions, beam, all numbers.

    Opens a page in the browser, served to this machine only, or writes the same as one HTML file, as text,
    JSON or NPZ. For an image classifier TEXT is FILE:NUMBER, an image of an IDX or NPZ file or of NAME:FILE,
    counted from 0.
    """
    check_text(text, reads=False)
    _refuse_contradictions(text, outputs, answer_options, page)

    with importing():
        from regard.verbs.look import Looker, LookRequest
        from regard.verbs.views.files import HTML, NPZ, writable

    for file, suffixes in ((outputs.html, HTML), (outputs.npz, NPZ)):
        if file is not None:
            writable(file, *suffixes)
    request = None if text is None else LookRequest(text=text, **vars(answer_options))
    looker = Looker(model, runtime=runtime)
    if request is not None and outputs:
        _write(looker(request), outputs)
        return

    from regard.serving.local import serve

    serve(looker, request, port=page.port or 0, browser=not page.no_browser)


def _refuse_contradictions(
    text: str | None, outputs: OutputOptions, answer_options: AnswerOptions, page: PageOptions
) -> None:
    if text is None and (outputs or answer_options.target is not None or answer_options.prefix is not None):
        raise UserError("there is no TEXT to look at", 'regard look "Where is the station?" --text')
    if answer_options.target is not None and answer_options.prefix is not None:
        raise UserError("both --target and --prefix are given", "leave one of them out")
    if len(outputs.printed) > 1 and outputs.as_json:
        raise UserError(f"both {' and '.join(outputs.printed[:2])} are given", "leave one of them out")
    for name, is_given in (("--live", outputs.live), ("--runtime", outputs.page_runtime is not None)):
        if is_given and outputs.html is None:
            raise UserError(f"{name} is for a page in a file, and there is no --html", f"--html FILE {name}")
    if outputs.page_runtime is not None and not outputs.live:
        raise UserError("--runtime is for a page that holds its model", "add --live, or leave --runtime out")
    if outputs and (page.port is not None or page.no_browser):
        name = "--port" if page.port is not None else "--no-browser"
        raise UserError(
            f"{name} is for the page, which is not served when output is written", f"leave {name} out"
        )


def _write(look: "Look", outputs: OutputOptions) -> None:
    from regard import console
    from regard.verbs.views.terminal import print_look

    if outputs.as_text and console.is_terminal():
        print_look(look)
    elif outputs.as_text:
        _print(look.to_text())
    if outputs.pair:
        for each in look.heads_linking(*outputs.pair):
            _print(f"{each.weight:.4f}\tlayer {each.layer}, head {each.head}\t{each.name}\n")
    if outputs.as_json:
        _print(look.to_json() + "\n")
    if (outputs.html or outputs.npz or outputs.as_json) and (slow := look.slow_paths()):
        console.note(f"left out, because they take long for this model and text: {', '.join(slow)}")
    to_html = partial(look.to_html, live=outputs.live, runtime=outputs.page_runtime)
    for file, write in ((outputs.html, to_html), (outputs.npz, look.to_npz)):
        if file is not None:
            click.echo(write(file), err=bool(outputs.printed))


def _print(text: str) -> None:
    """Print to stdout in UTF-8, whatever its encoding."""
    sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass"))
