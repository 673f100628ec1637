"""The Python calls: their types, their help, and that they are the options of the command line."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import regard
from regard.cli.group import SHORT_HELP
from tests.warm_process import run_python

ROOT = Path(__file__).parent.parent
CALLS = [name for name in regard.__all__ if inspect.isfunction(getattr(regard, name))]
CLASSES = [
    name
    for name in regard.__all__
    if inspect.isclass(getattr(regard, name)) and not issubclass(getattr(regard, name), Exception)
]
RIGHT = """
import regard
regard.translate("a", model=regard.load("m"), beam_size=4, ban=["b"], precision="int8")
regard.Translator(beam_size=4, workers=1)(["a"])
regard.classify(["a", "b"], model="m", top=2)
regard.generate("a", model="m", temperature=0.5, stop="b")
from regard.layers import EncoderBlock
EncoderBlock.of_size(8, 2, d_ff=16, norm_position="post")
"""
WRONG = {
    'regard.translate("a", bem_size=4)': 'No overloads for "translate"',
    "regard.Translator(beam_sise=4)": 'No parameter named "beam_sise"',
    'regard.translate("a", beam_size="4")': 'parameter "beam_size"',
    'regard.translate("a", precision="fp16")': 'parameter "precision"',
    'regard.generate("a", model="m", temprature=1)': 'No overloads for "generate"',
    'regard.classify("a", model="m", tops=1)': 'No overloads for "classify"',
    'regard.embed("a", model="m", threds=1)': 'No parameter named "threds"',
    'regard.translate("a").append("b")': 'attribute "append" for class "str"',
    'regard.translate(["a"]).strip()': 'attribute "strip" for class "list[str]"',
    'regard.generate("a", model="m", num=2).strip()': 'attribute "strip" for class "list[str]"',
    'regard.summarize(5, model="m")': 'parameter "text"',
    "regard.layers.EncoderBlock.of_size(8, 2, ff=3)": 'No parameter named "ff"',
}


def output_of(*command: str) -> str:
    found = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=ROOT)
    return found.stdout + found.stderr


def test_pyright_finds_a_misspelt_parameter_and_nothing_wrong_with_right_ones(tmp_path):
    lines = [*WRONG]
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text("import regard\nimport regard.layers\n" + "\n".join(lines) + "\n")
    (tmp_path / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{(ROOT / "src").as_posix()}"]}}')
    shown = output_of("-m", "pyright", "--pythonpath", sys.executable, "-p", str(tmp_path))
    assert "right.py:" not in shown
    for number, line in enumerate(lines, start=3):
        reported = [each for each in shown.splitlines() if f"wrong.py:{number}:" in each]
        assert reported, f"no error in {line}: {shown}"
    for message in WRONG.values():
        assert message in shown


def test_the_stub_is_what_the_verbs_say():
    found = run_python(["tools/stub.py", "--check"], ROOT)
    assert found.stdout + found.stderr == ""  # else: python tools/stub.py


def test_importing_regard_does_not_import_pytorch():
    code = "import sys, regard, regard.layers; print('torch' in sys.modules)"
    assert output_of("-c", code) == "False\n"


@pytest.mark.parametrize("name", [name for name in CALLS + CLASSES if name not in ("train", "Look")])
def test_help_has_a_line_about_each_parameter(name):
    call = getattr(regard, name)
    text = inspect.getdoc(call) or ""
    if inspect.isclass(call):
        text += inspect.getdoc(call.__init__) or ""
    for parameter in inspect.signature(call).parameters.values():
        assert parameter.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        assert re.search(rf"^    {parameter.name}: \S+", text, re.MULTILINE), parameter.name


COMMANDS = [  # command, the calls that it stands for, options without a keyword, keywords without an option
    ("average", ["average"], "", ""),
    ("classify", ["classify", "classify_file", "classify_images", "classify_shard"], "", "done"),
    ("compare", ["compare"], "json", ""),
    ("convert", ["convert"], "", ""),
    ("curves", ["curves"], "json", ""),
    ("demo", ["demo"], "", ""),
    ("embed", ["embed", "embed_file", "embed_similar", "embed_images", "embed_shard"], "", "done"),
    ("evaluate", ["evaluate", "evaluate_sets"], "json", "done"),
    ("export", ["export"], "", ""),
    ("fill", ["fill", "fill_file", "fill_shard"], "", "done"),
    ("generate", ["generate", "generate_file", "generate_shard"], "stream", "done"),
    ("learn", ["learn"], "no_jupyter", ""),
    ("new", ["new"], "", ""),
    ("look", ["look"], "json text html live npz pair port no_browser runtime", "text prefix_ids changes"),
    ("score", ["score", "score_shard"], "", "done"),
    ("jobs merge", ["jobs_merge"], "", ""),
    ("jobs status", ["jobs_status"], "", ""),
    ("jobs verify", ["jobs_verify"], "", ""),
    ("summarize", ["summarize", "summarize_file", "summarize_shard"], "", "done"),
    ("tag", ["tag", "tag_file", "tag_shard"], "", "done"),
    ("train", ["train", "sweep"], "", "on_report done"),
    ("transcribe", ["transcribe"], "json subtitles", ""),
    ("translate", ["translate", "translate_file", "translate_shard"], "", "done"),
    ("plot alignment", ["plot_alignment"], "", ""),
    ("plot attention", ["plot_attention"], "", ""),
    ("plot curves", ["plot_curves"], "", ""),
    ("plot positions", ["plot_positions"], "", ""),
    ("plot schedule", ["plot_schedule"], "", ""),
    ("recipes show", ["recipes_show"], "", ""),
    ("data check", ["data_check"], "", ""),
    ("data get", ["data_get"], "", "progress"),
    ("data show", ["data_show"], "", ""),
]
RENAMED = {
    "for": "targets",
    "format": "file_format",
    "json": "as_json",
    "label": "labels",
    "head": "heads",
    "rule": "rules",
    "set": "overrides",
    "sweep": "values",
}


def command_of(names: str) -> click.Command:
    first, *rest = names.split()
    command = importlib.import_module(f"regard.cli.{first}").command
    for name in rest:
        command = command.commands[name]
    return command


@pytest.mark.parametrize(("names", "calls", "alone", "without"), COMMANDS, ids=[each[0] for each in COMMANDS])
def test_options_are_parameters_with_the_same_defaults(names, calls, alone, without):
    options = {}
    for each in command_of(names).params:
        flags = [flag.lstrip("-").replace("-", "_") for flag in each.opts if flag.startswith("--")]
        name = flags[0] if flags else str(each.name)
        if name not in ("debug", "help", *alone.split()) and "--debug" not in each.opts:
            options[RENAMED.get(name, name)] = each
    parameters = {
        name: each
        for call in calls
        for name, each in inspect.signature(getattr(regard, call)).parameters.items()
    }
    hidden = {"text"} & {*without.split()}
    assert {*options} - hidden == {*parameters} - {*without.split()}
    for name, option in options.items():
        ours = parameters[name].default if name in parameters else None
        theirs = option.default if isinstance(option.default, str | int | float | tuple) else None
        absent = (None, (), False, inspect.Parameter.empty)
        assert theirs == ours or (theirs in absent and ours in absent), (name, theirs, ours)


def test_every_command_is_compared():
    compared = {names.split()[0] for names, *_ in COMMANDS}
    assert {*SHORT_HELP} - compared == {"doctor", "serve"}  # without options, and without a call
