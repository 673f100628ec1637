"""`make guided`: fuzzing that follows what the code does (atheris, libFuzzer); a line of figures each.

    python tests/long/guided.py [--seconds 300] [--only TARGET]

Bytes that reach new branches of the readers of recipes, manifests, model settings, corpora and the page's
requests are kept and changed further. What may not be: another exception than a RegardError. Exit code 1
where it was, with the bytes that did it in `build/guided/`.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from benchmarks.common.checks import Record, record_of

TESTS = Path(__file__).parent.parent
BUILD = TESTS.parent / "build" / "guided"
TARGETS = ("recipe", "manifest", "config", "corpus", "request")
LONGEST = 10  # seconds for one input: the machine may be busy


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=300, help="for each target (300)")
    parser.add_argument("--only", choices=TARGETS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        fuzz(options.only, options.seconds)
        return
    targets = [options.only] if options.only else TARGETS
    record = record_of("guided", parser, options)
    kept = [passes(target, options.seconds, record) for target in targets]
    sys.exit(not all(kept))


def passes(target: str, seconds: int, record: Record) -> bool:
    """Fuzz one target in a process of its own, which libFuzzer ends; print its line."""
    began = time.monotonic()
    command = [sys.executable, __file__, "--child", "--only", target, "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    tried = re.findall(r"stat::number_of_executed_units: *(\d+)", done.stderr)
    reached = re.findall(r"cov: (\d+)", done.stderr)
    inputs, branches = int(tried[-1]) if tried else 0, reached[-1] if reached else "?"
    print(
        f"guided: {target}: {inputs:,} inputs, {branches} branches reached,"
        f" {'no crash' if done.returncode == 0 else 'CRASHED'} ({time.monotonic() - began:.0f} s)",
        flush=True,
    )
    if done.returncode:
        print(done.stderr[-3000:], file=sys.stderr)
    record(target, {"inputs": inputs, "seconds": seconds, "crashed": done.returncode != 0})
    return done.returncode == 0


def fuzz(target: str, seconds: int) -> None:
    import atheris

    sys.path += [str(TESTS / "crash"), str(TESTS / "data")]
    with atheris.instrument_imports(include=["regard"]):
        from regard.errors import RegardError

        read, seed = subject(target, Path(tempfile.mkdtemp(prefix="guided-")))

    def once(content: bytes) -> None:
        try:
            read(content)
        except RegardError as error:
            if not error.message:
                raise ValueError("a failure without a message") from error

    BUILD.mkdir(parents=True, exist_ok=True)
    seeds = Path(tempfile.mkdtemp(prefix="guided-"))
    (seeds / "seed").write_bytes(seed)
    flags = [f"-max_total_time={seconds}", f"-timeout={LONGEST}", "-print_final_stats=1", "-max_len=4096"]
    atheris.Setup([sys.argv[0], *flags, f"-artifact_prefix={BUILD}/{target}-", str(seeds)], once)
    atheris.Fuzz()


def subject(target: str, folder: Path) -> tuple[Callable[[bytes], object], bytes]:
    """What reads the bytes, and bytes that it reads without complaint."""
    import json
    from dataclasses import asdict

    from test_run_killed import RECIPE

    from regard.data.corpus import CorpusSettings, LinePolicy, open_corpus
    from regard.models.encoder_decoder import EncoderDecoderConfig
    from regard.recipe import read_toml
    from regard.verbs.shared.settings import recipe_from
    from regard.verbs.views.request import LookRequest
    from regard.weights.folder import verify_folder
    from regard.weights.strict_json import parse_json

    file = folder / "file"

    def recipe(content: bytes) -> object:
        file.write_bytes(content)
        table, text = read_toml(file)
        return recipe_from(table, text, folder, str(file))

    def manifest(content: bytes) -> object:
        (folder / "MANIFEST.json").write_bytes(content)
        return verify_folder(folder)

    def config(content: bytes) -> object:
        return EncoderDecoderConfig.from_dict(parse_json(content, "config.json"))

    def corpus(content: bytes) -> object:
        source, _, target_side = content.partition(b"\xff\xff")
        (folder / "a").write_bytes(source)
        (folder / "b").write_bytes(target_side)
        return list(open_corpus(CorpusSettings(source="a", target="b"), LinePolicy(), folder))

    def request(content: bytes) -> object:
        return LookRequest.from_json(parse_json(content, "the request"))

    shape = asdict(EncoderDecoderConfig(src_vocab_size=9, tgt_vocab_size=9))
    seeds = {
        "recipe": RECIPE.encode(),
        "manifest": json.dumps({"format_version": 1, "files": {}}).encode(),
        "config": json.dumps(shape, default=str).encode(),
        "corpus": b"a dog\nruns\n\xff\xffein Hund\nrennt\n",
        "request": b'{"text": "a dog", "prefix": "ein", "changes": {"heads": {"encoder.0": [1]}}}',
    }
    return locals()[target], seeds[target]


if __name__ == "__main__":
    main()
