"""`regard serve`."""

from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.errors import MissingExtra
from regard.stop_signals import ignored_hangup
from regard.verbs.shared.runtime import DecodingRuntime

PACKAGES = {
    "uvicorn": "uvicorn",
    "starlette": "Starlette",
    "msgspec": "msgspec",
    "prometheus_client": "prometheus-client",
}


@click.command("serve", cls=Command)
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME=DIR",
    help="A model or run folder, and the name that clients call it by; again for more. A name such as"
    " en-de gives its languages.  [default: en-de, the included English-German model]",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=options.LimitedInt("port"),
    default=8000,
    show_default=True,
    metavar="N",
    help="The port to listen on; 0: a free one.",
)
@click.option(
    "--api-keys",
    type=options.FILE_PATH,
    metavar="FILE",
    help="Answer only clients with a key of this file, one a line.",
)
@click.option("--open", "is_open", is_flag=True, help="Answer other machines without keys, too.")
@click.option(
    "--allow-origin",
    "allow_origins",
    multiple=True,
    metavar="ORIGIN",
    help="Answer pages of this site, such as https://app.example.org (CORS); again for more. *: all, with"
    " --api-keys.  [default: only the server's own]",
)
@click.option(
    "--requests-per-minute",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help="Refuse more requests of a key, or without keys of all clients together.",
)
@click.option("--lazy", is_flag=True, help="Load a model at the first request to it, not at the start.")
@click.option(
    "--memory",
    "memory_mb",
    type=click.IntRange(1, 10_000_000),
    metavar="MB",
    help="Unload models, the least recently used first, when their weights together need more.",
)
@click.option("--access-log/--no-access-log", default=True, help="A line of JSON on stderr for each request.")
@click.option("--log-texts", is_flag=True, help="Write the texts of requests into the access log, too.")
@click.option(
    "--glossaries",
    type=options.FILE_PATH,
    metavar="DIR",
    help="Keep glossaries in this folder.  [default: in memory, until the server ends]",
)
@click.option(
    "--look/--no-look",
    "look",
    default=None,
    help="The page of `regard look` for each model, at /look.  [default: on 127.0.0.1 without keys]",
)
@click.option(
    "--workers",
    type=click.IntRange(0, 1024),
    metavar="N",
    help="Processes that answer the requests to a model; 0: a thread of the server.  [default: one for each"
    " core; with --threads, one]",
)
@options.fields_of("runtime", DecodingRuntime)
def command(
    runtime: DecodingRuntime,
    models: tuple[str, ...],
    host: str,
    port: int,
    api_keys: Path | None,
    is_open: bool,
    allow_origins: tuple[str, ...],
    requests_per_minute: int | None,
    lazy: bool,
    memory_mb: int | None,
    access_log: bool,
    log_texts: bool,
    glossaries: Path | None,
    look: bool | None,
    workers: int | None,
) -> None:
    """Answer requests over HTTP: regard's own dialect, OpenAI's, LibreTranslate's and DeepL's.

    SIGTERM and Ctrl-C answer all accepted requests first; SIGHUP loads the models again.
    """
    with ignored_hangup():  # a reload right after the start must not stop the server
        with importing():
            try:
                from regard.serving.run import ServeOptions, serve
            except ModuleNotFoundError as error:
                if error.name in PACKAGES:
                    raise MissingExtra(PACKAGES[error.name], "serve", "the server") from None
                raise

        serve(
            ServeOptions(
                models=list(models),
                host=host,
                port=port,
                api_keys=api_keys,
                open=is_open,
                allow_origins=list(allow_origins),
                requests_per_minute=requests_per_minute,
                lazy=lazy,
                memory_mb=memory_mb,
                access_log=access_log,
                log_texts=log_texts,
                glossaries=glossaries,
                look=look,
                workers=workers,
                runtime=runtime,
            )
        )
