"""A Sphinx extension: `{commands}` describes every command of `regard` from click's own objects."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import click
from docutils import nodes
from plain_text import inline, paragraphs
from sphinx.util.docutils import SphinxDirective

from regard.cli.group import VERBS, regard
from regard.cli.options import LimitedInt

RANGE = re.compile(r"\s*\[\d+<=x<=\d+\]|; \d+<=x<=\d+(?=\])")


class Commands(SphinxDirective):
    """A section for each heading of `regard --help`, and in it one for each command."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # the commands can change without a change of the page
        context = click.Context(regard, info_name="regard", **regard.context_settings)
        found: list[nodes.Node] = [*self.contents(context)]
        for heading, names in VERBS.items():
            section = self.section(heading, heading.lower().replace(" ", "-"))
            for name in names:
                command = regard.get_command(context, name)
                assert command is not None, name
                section += self.described(command, click.Context(command, context, info_name=name))
            found.append(section)
        return found

    def section(self, title: str, name: str, code: bool = False) -> nodes.section:
        """A section that other pages can link by its name."""
        shown = nodes.literal(title, title) if code else nodes.Text(title)
        section = nodes.section("", nodes.title(title, "", shown), names=[name])
        self.state.document.note_explicit_target(section, section)
        return section

    def described(self, command: click.Command, context: click.Context) -> nodes.section:
        """A command, and those below it."""
        section = self.section(context.command_path, context.command_path.replace(" ", "-"), code=True)
        section += self.contents(context)
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None, name
                section += self.described(below, click.Context(below, context, info_name=name))
        return section

    def contents(self, context: click.Context) -> Iterator[nodes.Node]:
        """How it is called, its help text, its options."""
        yield nodes.literal_block("", usage(context), language="text")
        yield from paragraphs(inspect.cleandoc(context.command.help or ""))
        options = list(described_options(context))
        if options:
            yield nodes.definition_list("", *(_option(*each) for each in options), classes=["options"])
        yield from paragraphs(context.command.epilog or "")


def usage(context: click.Context) -> str:
    """The line of usage, as `--help` prints it."""
    return " ".join([context.command_path, *context.command.collect_usage_pieces(context)])


def described_options(context: click.Context) -> Iterator[tuple[str, str]]:
    """Each option with its text; a range that depends on the machine is left out."""
    for parameter in context.command.get_params(context):
        if not isinstance(parameter, click.Option) or parameter.hidden:
            continue
        record = parameter.get_help_record(context)
        if record is None:
            continue
        of_machine = isinstance(parameter.type, LimitedInt) and "this process" in parameter.type.limit.why
        yield record[0], RANGE.sub("", record[1]) if of_machine else record[1]


def _option(option: str, described: str) -> nodes.definition_list_item:
    return nodes.definition_list_item(
        "",
        nodes.term("", "", nodes.literal(option, option)),
        nodes.definition("", nodes.paragraph("", "", *inline(described))),
    )


def setup(app: Any) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
