"""The page of commands has every command, and of each every option."""

import html
import re

import click
import pytest

from regard.cli.group import SHORT_HELP, regard

pytest.importorskip("sphinx", reason="the book needs `pip install 'regard[book]'`")


def commands(group, context):
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        below = click.Context(command, context, info_name=name)
        yield below
        if isinstance(command, click.Group):
            yield from commands(command, below)


ALL = list(commands(regard, click.Context(regard, info_name="regard", **regard.context_settings)))


@pytest.mark.parametrize("context", ALL, ids=lambda context: context.command_path)
def test_a_text_for_each_option_that_help_prints(context):
    from commands import described_options, usage

    described, printed = dict(described_options(context)), context.get_help()
    options = {name for names in described for name in re.findall(r"--[\w-]+", names)}
    assert set(re.findall(r"^  (--[\w-]+)(?:  | [A-Z\[{])", printed, re.M)) <= options
    assert all(described.values())
    assert usage(context) in " ".join(printed.split())


def test_no_text_depends_on_the_number_of_cores_of_the_machine():
    from commands import described_options

    context = next(each for each in ALL if each.command_path == "regard train")
    described = dict(described_options(context))
    assert described["--threads N"] == "CPU threads. [default: PyTorch's choice]"
    assert described["--workers N"].endswith("[default: 1]")


@pytest.mark.nightly
def test_the_page_has_a_section_for_each_command_with_its_options(book):
    page = (book / "reference/commands.html").read_text("utf-8")
    assert {*re.findall(r'<section id="regard-([a-z]+)">', page)} == {*SHORT_HELP}
    for context in ALL:
        identity = context.command_path.replace(" ", "-")
        assert f'<section id="{identity}">' in page
        section = page.partition(f'<section id="{identity}">')[2].partition("<section")[0]
        text = html.unescape(re.sub(r"<[^>]*>", "", section))
        options = [each for each in context.command.params if isinstance(each, click.Option)]
        assert all(option.hidden or option.opts[0] in text for option in options), identity
