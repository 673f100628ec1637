"""Start-up times of whole processes: `regard --help`, a first translation.

    python -m benchmarks.start [--quick] [--rounds N]

The commands take turns. The translations are by the included model.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.common import program
from benchmarks.common.machine import version
from benchmarks.common.results import Result, Table

TEXT = "Where is the station?"
WITHOUT_TORCH = """
import sys
from regard.cli import main
sys.argv = ["regard", "--help"]
try:
    main()
except SystemExit:
    pass
print("torch" in sys.modules, file=sys.stderr)
"""
CTRANSLATE2 = """
import sys, tokenizers, ctranslate2
folder, file, text = sys.argv[1:]
pieces = tokenizers.Tokenizer.from_file(file).encode(text, add_special_tokens=False).tokens
print(ctranslate2.Translator(folder).translate_batch([pieces], beam_size=5)[0].hypotheses[0])
"""
COLUMNS = {
    "name": ("command", ""),
    "median": ("seconds, median", ".3f"),
    "best": ("best", ".3f"),
    "over": ("more than importing torch", "+.3f"),
    "note": ("", ""),
}


def main() -> None:
    parser = program.argument_parser(__doc__)
    program.run(start, parser)


def start(options: argparse.Namespace) -> Result:
    from benchmarks.decoding.prepared import prepared
    from regard.verbs.shared.included_models import included_model

    count = options.rounds or (1 if options.quick else 5)
    work = prepared(included_model())
    tokenizer = str(included_model() / "tokenizer.json")
    commands = commands_with(work.converted, tokenizer)
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(-1, count):  # the first fills the system's cache of files
        for name, command in commands.items():
            taken = timed(command)
            if number >= 0:
                seconds[name].append(taken)
        program.say(f"round {number + 1} of {count}")
    result = Result(part="start", settings={"rounds": count})
    result.tables.append(table_of(seconds))
    imported = torch_is_imported()
    result.checks.append(f"`regard --help` imports torch: {'YES' if imported else 'no'}")
    return result


def commands_with(converted: str, tokenizer: str) -> dict[str, list[str]]:
    python, regard = sys.executable, str(Path(sys.executable).parent / "regard")
    commands = {
        "python -c pass": [python, "-c", "pass"],
        "regard --help": [regard, "--help"],
        "python -c 'import torch'": [python, "-c", "import torch"],
        f"regard translate '{TEXT}'": [regard, "translate", TEXT],
    }
    if version("transformers") != "not installed":
        model = "from transformers import MarianMTModel"
        commands[f"python -c '{model}' (no model is loaded)"] = [python, "-c", model]
    if not converted.startswith("!"):
        commands["CTranslate2 on the same model, a program of four lines"] = [
            python, "-c", CTRANSLATE2, converted, tokenizer, TEXT,
        ]  # fmt: skip
    return commands


def timed(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


def table_of(seconds: dict[str, list[float]]) -> Table:
    table = Table(title="whole processes", columns=COLUMNS)
    torch = statistics.median(seconds["python -c 'import torch'"])
    for name, taken in seconds.items():
        middle = statistics.median(taken)
        table.rows.append(
            {"name": name, "median": middle, "best": min(taken), "over": middle - torch, "seconds": taken}
        )
    return table


def torch_is_imported() -> bool:
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    return done.stderr.strip().endswith("True")


if __name__ == "__main__":
    main()
