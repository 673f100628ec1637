"""The group of all commands; a command's module is imported when it is called, not for `--help`."""

import difflib
import importlib
import signal
import sys
from collections import Counter
from typing import Any

import click

from regard.cli.failures import Session
from regard.errors import Interrupted, UserError, did_you_mean

VERBS = {  # heading -> command -> its line in `regard --help`, the first line of its own help
    "Begin": {
        "demo": "Train a small translator of dates, and show what it does.",
        "learn": "Write the tutorial as notebooks, and open Jupyter.",
        "doctor": "Report what regard finds on this machine.",
    },
    "Train": {
        "new": "Write a commented recipe for a corpus of your own.",
        "train": "Train a model by a recipe, or resume a run.",
        "average": "Average the last checkpoints of a run into one model.",
        "curves": "Draw loss and scores of a run, or compare the runs in a folder.",
        "recipes": "List the recipes that come with regard, show one, or print all keys.",
        "data": "List, download and check known data sets; tokenise a large corpus.",
        "convert": "Convert models of Hugging Face and of translation toolkits, or a model to Hugging Face.",
        "export": "Write a model for another engine, with a certificate.",
    },
    "Use": {
        "translate": "Translate a text, a file or what comes through a pipe.",
        "summarize": "Summarize a text, each line of a file or of a pipe.",
        "generate": "Continue a text, each line of a file or of a pipe.",
        "classify": "Classify texts, each line of a file or of a pipe, or images.",
        "tag": "Label each word of a text, of the lines of a file or of a pipe.",
        "embed": "Turn each text, or each line of a file or of standard input, into a vector.",
        "fill": "Predict the masked tokens of a text, of each line of a file or of a pipe.",
        "transcribe": "Transcribe recordings.",
        "jobs": "Look at the output of commands with --shard, check it, and merge it.",
        "serve": "Answer requests over HTTP: regard's own dialect, OpenAI's, LibreTranslate's and DeepL's.",
    },
    "Look inside": {
        "look": "Show what a model does with a text: attention, alignment, predictions, beam, all numbers.",
        "plot": "Draw curves, a schedule, positions, attention or an alignment as a figure.",
    },
    "Measure": {
        "evaluate": "Score a model on test data: classes, labels, running text, translations.",
        "score": "Score given translations, or texts of a language model, by their probability.",
        "compare": "Score outputs of one system, or compare those of several, with significance.",
    },
}
ELSEWHERE = {  # what might be a command -> the command that does it
    "sweep": "`regard train RECIPE --sweep SECTION.KEY=VALUE,VALUE`",
    "resume": "`regard train RUN` resumes a run",
    "finetune": "`regard train RECIPE --init MODEL`",
    "fine-tune": "`regard train RECIPE --init MODEL`",
    "tokenize": "`regard data tokenize`",
}
SIGPIPE = 13  # `signal` has no SIGPIPE on Windows
CLOSED_PIPE = 128 + SIGPIPE  # the exit code of a process that writes to a closed pipe
SHORT_HELP = {name: text for verbs in VERBS.values() for name, text in verbs.items()}


def set_debug(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(Session).debug = True


def debug_option() -> click.Option:
    """`--debug`, an option of every command and of `regard` itself."""
    return click.Option(
        ["--debug"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=set_debug,
        help="Show the traceback of a failure.",
    )


class Command(click.Command):
    """A command with the option `--debug`.

    `if_more`: what to do where more arguments are given than the command takes; None: see its help.
    """

    def __init__(self, *arguments, if_more: str | None = None, **settings) -> None:
        super().__init__(*arguments, **settings)
        self.params.append(debug_option())
        self._if_more = if_more

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if self._if_more is None or "unexpected extra argument" not in error.message:
                raise
            message = f"{error.message[:1].lower()}{error.message[1:]}".removesuffix(".")
            raise UserError(message, self._if_more) from None

    def make_parser(self, ctx: click.Context) -> Any:
        """click's parser, but a model or file that is named twice is refused: the first would not be used."""
        parser = super().make_parser(ctx)
        if ctx.resilient_parsing:  # the shell completes a command
            return parser
        parse = parser.parse_args

        def parse_args(args: list[str]) -> Any:
            found = parse(args)
            for parameter, count in Counter(found[2]).items():
                if count > 1 and parameter.metavar in ("DIR", "FILE") and not parameter.multiple:
                    raise UserError(f"{parameter.opts[-1]} is given twice", "leave one of them out")
            return found

        parser.parse_args = parse_args
        return parser


class AllVerbs(click.Group):
    """The group of all commands, which are listed in a table and imported one by one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SHORT_HELP)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SHORT_HELP:
            return None
        return importlib.import_module(f"regard.cli.{cmd_name}").command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in SHORT_HELP and not ctx.resilient_parsing:
            hint = ELSEWHERE.get(args[0]) or did_you_mean(args[0], SHORT_HELP)
            raise UserError(f"no command {args[0]!r}", hint)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> None:
        """Run the command; raise Interrupted for a closed pipe and for Ctrl-C, as click does not."""
        try:
            super().invoke(ctx)
            sys.stdout.flush()
        except (BrokenPipeError, SystemExit):  # rich raises SystemExit when a pipe is closed
            raise Interrupted(SIGPIPE, "the output pipe is closed") from None
        except KeyboardInterrupt:
            raise Interrupted(signal.SIGINT, "interrupted", "the same command starts it again") from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, verbs in VERBS.items():
            with formatter.section(heading):
                formatter.write_dl(list(verbs.items()))


class VerbGroup(click.Group):
    """A command with subcommands, such as `regard data`; a misspelt one is answered with the nearest."""

    command_class = Command

    def __init__(self, *args: Any, usual: str | None = None, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._usual = usual  # the subcommand that is meant where only its argument is given

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands and not ctx.resilient_parsing:
            hint = did_you_mean(args[0], self.commands)
            if self._usual and not difflib.get_close_matches(args[0], self.commands):
                hint = f"`{ctx.command_path} {self._usual} {args[0]}`"
            raise UserError(f"no command `{ctx.command_path} {args[0]}`", hint)
        return super().resolve_command(ctx, args)


@click.group(
    cls=AllVerbs,
    params=[debug_option()],
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`regard COMMAND --help` shows the options of a command.",
)
@click.version_option(package_name="regard", prog_name="regard", message="%(prog)s %(version)s")
@click.pass_context
def regard(ctx: click.Context) -> None:
    """The Transformer and its family: train it, run it, look inside it."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
