"""The command line answers at once, and every misspelt name is met with the nearest."""

import importlib
import inspect
import json
import subprocess
import sys

import click
import pytest

from regard.cli import run
from regard.cli.group import SHORT_HELP, regard

QUICK = [
    [],
    ["--help"],
    ["-h"],
    ["--version"],
    ["trian"],
    ["--hlep"],
    *([name, "--help"] for name in SHORT_HELP),
    *([name, "--no-such-option"] for name in SHORT_HELP),
    ["train"],
    ["translate", "--beam-size", "many"],
    ["evaluate", "--src", "x"],
    ["data", "shwo"],
    ["data", "get", "--help"],
]


def test_help_version_and_mistakes_import_neither_torch_nor_numpy():
    program = (
        "import sys, json; from regard.cli import run\n"
        "for arguments in json.loads(sys.argv[1]):\n"
        "    run(arguments)\n"
        "    heavy = {'torch', 'numpy', 'tokenizers', 'sacrebleu', 'rich'} & set(sys.modules)\n"
        "    assert not heavy, (arguments, heavy)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, json.dumps(QUICK)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_importing_regard_imports_no_torch():
    program = (
        "import sys, regard; regard.RegardError; assert not {'torch', 'numpy', 'click'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("typed", "message", "hint"),
    [
        (["trian"], "no command 'trian'", "did you mean 'train'?"),
        (["data", "lst"], "no command `regard data lst`", "did you mean 'list'?"),
        (["translate", "--beam-sze", "3"], "no option --beam-sze", "did you mean '--beam-size'?"),
        (["translate", "--early"], "no option --early", "did you mean '--early-stopping'?"),
        (["translate", "--beam"], "no option --beam", "did you mean '--beam-size'?"),
        (["jobs", "merge", "a", "--out", "b"], "no option --out", "did you mean '--to'?"),
        (["jobs", "merge", "a", "--output", "b"], "no option --output", "did you mean '--to'?"),
        (["sweep", "x.toml"], "no command 'sweep'", "`regard train RECIPE --sweep SECTION.KEY=VALUE,VALUE`"),
        (["trans"], "no command 'trans'", "did you mean 'translate'?"),
        (["--verison"], "no option --verison", "did you mean '--version'?"),
        (["train"], "missing argument 'RECIPE'", "see `regard train --help`"),
        (["convert", "a"], "missing option '--out'", "see `regard convert --help`"),
        (["recipes", "sst2"], "no command `regard recipes sst2`", "`regard recipes show sst2`"),
        (["translate", "--model", "a", "--model=a", "x"], "--model is given twice", "leave one of them out"),
        (["embed", "--input", "a", "--input", "b"], "--input is given twice", "leave one of them out"),
        (
            ["train", "a.toml", "--max-steps", "20"],
            "no option --max-steps",
            "a setting of the recipe is given as --set training.max_steps=VALUE; see `regard train --help`",
        ),
        (
            ["train", "a.toml", "--lr", "0.1"],
            "no option --lr",
            "a setting of the recipe is given as --set training.schedule.learning_rate=VALUE; see"
            " `regard train --help`",
        ),
        (
            ["train", "a.toml", "--colour", "red"],
            "no option --colour",
            "a setting of the recipe is given as --set SECTION.KEY=VALUE; see `regard train --help`",
        ),
        (["translate", "--num_beams", "4", "a"], "no option --num_beams", "did you mean '--beam-size'?"),
        (["compare", "a", "--config", "x"], "no option --config", "see `regard compare --help`"),
        (["data", "get"], "missing argument 'NAME'", "see `regard data get --help`"),
        (
            ["translate", "--beam-size", "0"],
            "--beam-size is 0, but must be at least 1",
            "--beam-size = 1",
        ),
    ],
)
def test_a_typing_mistake_gives_one_error_one_hint_and_exit_code_2(capsys, typed, message, hint):
    assert run(typed) == 2
    output = capsys.readouterr()
    assert output.err == f"error: {message}\nhint: {hint}\n"
    assert output.out == ""


def test_regard_alone_shows_its_help(capsys):
    assert run([]) == 0
    alone = capsys.readouterr().out
    assert run(["--help"]) == 0
    assert capsys.readouterr().out == alone
    assert all(f"  {name} " in alone for name in SHORT_HELP)


def test_the_version_is_the_package_s(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"regard {importlib.import_module('regard').__version__}\n"


@pytest.mark.parametrize("name", SHORT_HELP)
def test_each_verb_is_listed_with_the_first_line_of_its_own_help(name):
    command = regard.get_command(click.Context(regard), name)
    assert command is not None
    assert command.name == name
    assert (command.help or "").splitlines()[0] == SHORT_HELP[name]


# How the command line prints, and nothing that the Python call knows.
DOOR = {
    *("as_json", "as_text", "debug", "help", "html", "live", "no_browser", "no_jupyter", "npz"),
    *("page_runtime", "pair", "port", "streamed", "subtitle_format"),
}
# What only the Python call knows.
CODE = {
    "as_json",
    "changes",
    "done",
    "on_report",
    "prefix_ids",
    "progress",
}
CALLS = {
    **{name: [f"{name}:{name}"] for name in SHORT_HELP if name not in ("data", "jobs", "plot", "serve")},
    "train": ["train:train", "sweep:sweep"],
    "evaluate": ["evaluate:evaluate", "evaluate_sets:evaluate_sets"],
    "translate": ["translate:translate", "translate:translate_file", "shards:translate_shard"],
    "summarize": ["summarize:summarize", "summarize:summarize_file", "shards:summarize_shard"],
    "generate": ["generate:generate", "generate:generate_file", "shards:generate_shard"],
    "classify": [
        "classify:classify",
        "classify:classify_file",
        "classify_images:classify_images",
        "shards:classify_shard",
    ],
    "tag": ["tag:tag", "tag:tag_file", "shards:tag_shard"],
    "embed": [
        "embed:embed",
        "embed:embed_file",
        "embed:embed_similar",
        "embed_images:embed_images",
        "shards:embed_shard",
    ],
    "fill": ["fill:fill", "fill:fill_file", "shards:fill_shard"],
    "score": ["score:score", "shards:score_shard"],
    "jobs status": ["jobs:jobs_status"],
    "jobs verify": ["jobs:jobs_verify"],
    "jobs merge": ["jobs:jobs_merge"],
    "data list": ["data:data_list"],
    "data show": ["data:data_show"],
    "data get": ["data:data_get"],
    "data check": ["data:data_check"],
    "plot alignment": ["plot:plot_alignment"],
    "plot attention": ["plot:plot_attention"],
    "plot curves": ["plot:plot_curves"],
    "plot positions": ["plot:plot_positions"],
    "plot schedule": ["plot:plot_schedule"],
    "recipes keys": ["recipe_keys:recipes_keys"],
    "recipes show": ["recipes:recipes_show"],
}


@pytest.mark.parametrize("path", CALLS)
def test_a_command_and_its_python_call_have_the_same_names_and_defaults(path):
    command: click.Command = regard
    context = click.Context(regard)
    for name in path.split():
        assert isinstance(command, click.Group)
        found = command.get_command(context, name)
        assert found is not None
        command = found
    known: dict[str, inspect.Parameter] = {}
    for call in CALLS[path]:
        module, function = call.split(":")
        known |= inspect.signature(
            getattr(importlib.import_module(f"regard.verbs.{module}"), function)
        ).parameters
    needed = [
        each
        for each in command.params
        if each.required or (each.name == "model" and each.callback)  # which says what trains one
    ]
    typed = []
    for each in needed:
        value = each.type.choices[0] if isinstance(each.type, click.Choice) else "1"
        typed += [each.opts[0], value] if each.opts[0][0] == "-" else [value]
    given = {
        name: value for name, value in command.make_context(path, typed).params.items() if name not in DOOR
    }
    assert set(given) == set(known) - CODE
    for name, value in given.items():
        if name not in {each.name for each in needed} and known[name].default is not inspect.Parameter.empty:
            assert value == known[name].default, name


def test_the_functions_of_regard_are_named_like_the_commands():
    package = importlib.import_module("regard")
    for name in package.__all__:
        assert getattr(package, name).__name__ == name
    with pytest.raises(AttributeError):
        _ = package.no_such_verb


def test_a_shell_completes_a_command_in_which_an_option_is_repeated():
    words = ["--model", "a", "--model", "b"]
    command = importlib.import_module("regard.cli.translate").command
    with command.make_context("translate", words, resilient_parsing=True):
        pass
