"""`regard look`."""

import sys
from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.errors import UserError


@click.command("look", cls=Command)
@click.argument("text", required=False)
@options.model
@click.option(
    "--html", type=options.FILE, metavar="FILE", help="Write the page as one file, to open offline."
)
@click.option("--text", "as_text", is_flag=True, help="Show it here: cells in colours, tables.")
@options.as_json
@click.option("--npz", type=options.FILE, metavar="FILE", help="Write all arrays, as numpy.load reads them.")
@click.option("--target", metavar="TEXT", help="Force this answer on the model.")
@click.option("--prefix", metavar="TEXT", help="Force the beginning of the answer; the model goes on.")
@options.beam_size
@click.option(
    "--max-new-tokens",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of a text that goes on. [default: 24, or what there is room for]",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Of the page. [default: a free one]"
)
@click.option("--no-browser", is_flag=True, help="Only say where the page is.")
@options.device
@options.threads
def command(
    text: str | None,
    model: Path | None,
    html: Path | None,
    as_text: bool,
    as_json: bool,
    npz: Path | None,
    target: str | None,
    prefix: str | None,
    beam_size: int | None,
    max_new_tokens: int | None,
    port: int,
    no_browser: bool,
    device: str,
    threads: int | None,
) -> None:
    """Show what a model does with a text: attention, alignment, predictions, beam, all numbers.

    Opens a page in the browser, from a server that this machine alone can reach; or writes the same as one
    HTML file, as text, JSON or NPZ.
    """
    written = bool(html or as_text or as_json or npz)
    if text is None and (written or target is not None or prefix is not None):
        raise UserError("there is no TEXT to look at", 'regard look "Where is the station?" --text')
    if target is not None and prefix is not None:
        raise UserError("both --target and --prefix are given", "leave one of them out")
    if as_text and as_json:
        raise UserError("both --text and --json are given", "leave one of them out")

    from regard import console
    from regard.verbs.look import Looker, Request
    from regard.verbs.looking.terminal import show

    looker = Looker(model, device=device, threads=threads)
    request = None
    if text is not None:
        request = Request(
            text=text, target=target, prefix=prefix, beam_size=beam_size, max_new_tokens=max_new_tokens
        )
    if request is None or not written:
        from regard.serving.local import serve

        serve(looker, request, port=port, browser=not no_browser)
        return
    look = looker(request)
    if as_text and console.is_terminal():
        show(look)
    elif as_text:
        sys.stdout.buffer.write(look.to_text().encode("utf-8", "surrogatepass"))
    if as_json:
        sys.stdout.buffer.write(look.to_json().encode("utf-8", "surrogatepass") + b"\n")
    if (html or npz or as_json) and (slow := look.slow_paths()):
        console.note(f"left out, because of this model and text they take long: {', '.join(slow)}")
    for file, write in ((html, look.to_html), (npz, look.to_npz)):
        if file is not None:
            click.echo(write(file), err=as_text or as_json)
