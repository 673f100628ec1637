"""The speed of `regard look`: recording a pass, the summary, the first token of an answer, the page.

    python -m benchmarks.look [--quick] [--threads N] [--rounds N]

The passes are of a sentence pair of 64 tokens: through the model in the box, and through one of 63 million
parameters with random weights (the paper's base model with 37,000 tokens). Requests to the server are those
of the page. Times are wall-clock and processor seconds; the latter depend less on other load of the machine.
"""

import argparse
import gzip
import http.client
import json
import statistics
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from benchmarks.common import program
from benchmarks.common.results import Result, Table
from benchmarks.common.unfit import Unfit
from benchmarks.look_page import in_browser

if TYPE_CHECKING:
    from regard.verbs.look import Looker

SENTENCE = "Where is the station?"
TOKENS = 64
COLUMNS = {
    "name": ("what", ""),
    "median": ("seconds, median", ".3f"),
    "best": ("best", ".3f"),
    "processor": ("of the processor", ".3f"),
    "bar": ("at most", ".1f"),
    "note": ("", ""),
}


def main() -> None:
    program.run(look, program.argument_parser(__doc__))


def look(options: argparse.Namespace) -> Result:
    import torch

    from regard.verbs.look import Looker

    torch.set_num_threads(options.threads)
    count = options.rounds or (2 if options.quick else 5)
    result = Result(part="look", settings={"rounds": count, "threads": options.threads})
    box = Looker(threads=options.threads)
    table = Table(title="seconds", columns=COLUMNS)
    for name, looker, bar in (("in the box", box, None), ("of 63 M parameters", large(box), 0.5)):
        program.say(f"passes through the model {name}")
        table.rows += passes(name, looker, count, bar)
    program.say("the server")
    table.rows += served(box, count)
    result.tables += [table, page()]
    program.say("the page in a browser")
    try:
        result.tables.append(in_browser(box, count))
    except Unfit as unfit:
        result.checks.append(f"in the browser nothing was measured: {unfit}")
    return result


def large(box: "Looker") -> "Looker":
    """A model with random weights and the tokeniser of the included model."""
    from dataclasses import replace

    from regard.models.build import build_model
    from regard.models.encoder_decoder import EncoderDecoderConfig
    from regard.verbs.look import Looker

    sizes = {"src_vocab_size": 37_000, "tgt_vocab_size": 37_000}
    config = EncoderDecoderConfig.from_table({"preset": "base"}, **sizes)
    return Looker(replace(box.loaded, model=build_model(config, seed=0).eval(), config=config))


def passes(name: str, looker: "Looker", count: int, bar: float | None) -> list[dict[str, Any]]:
    """Rows for a plain forced pass, for one with everything recorded, and for a Look with its summary."""
    import torch

    from regard.verbs.views.recorded_pass import RecordedPass

    tokenizer = looker.loaded.tokenizers.source
    ids = (tokenizer.encode(SENTENCE) * TOKENS)[: TOKENS - 1]
    text = tokenizer.decode(ids)
    run = looker.look(text, target=text).run
    with torch.no_grad():
        return [
            row(f"forced pass through the model {name}", run.forced, count),
            row("the same, everything recorded", lambda: RecordedPass(run).recording, count, bar=bar),
            row(
                "the same from the text to the summary", lambda: looker.look(text, target=text).summary, count
            ),
        ]


def served(looker: "Looker", count: int) -> list[dict[str, Any]]:
    """Rows for the requests of the page: a Look with a search, each of its resources, the first token."""
    from regard.serving.local import LocalServer
    from regard.serving.look_store import LookStore

    with LocalServer(LookStore(looker)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def post(path: str, size: int | None = None) -> bytes:
            connection = http.client.HTTPConnection("127.0.0.1", server.port)
            body = json.dumps({"text": SENTENCE})
            connection.request("POST", f"/{server.token}{path}", body, {"Content-Type": "application/json"})
            held = connection.getresponse().read(size)
            connection.close()
            return held

        made = json.loads(post("/api/look"))

        def resources() -> None:
            connection = http.client.HTTPConnection("127.0.0.1", server.port)
            for path in made["summary"]["resources"]:
                connection.request("GET", f"/{server.token}/api/look/{made['id']}/{path}")
                connection.getresponse().read()
            connection.close()

        began = time.perf_counter()
        resources()
        first = time.perf_counter() - began
        found = [
            row(f"server, box model: a new look at {SENTENCE!r}", lambda: post("/api/look"), count),
            row("its resources, all of them, known already", resources, count),
            row("the first token of a stream", lambda: post("/api/stream", 1), count),
        ]
        found[1]["note"] = f"{len(made['summary']['resources'])}; {first:.2f} s when they are computed"
        server.shutdown()
    return found


def row(name: str, call: Callable[[], Any], count: int, *, bar: float | None = None) -> dict[str, Any]:
    """The row of `call`, called `count` times after a warm-up call."""
    call()
    clock, processor = [], []
    for _ in range(count):
        began = time.perf_counter(), time.process_time()
        call()
        clock.append(time.perf_counter() - began[0])
        processor.append(time.process_time() - began[1])
    return {
        "name": name,
        "median": statistics.median(clock),
        "best": min(clock),
        "processor": statistics.median(processor),
        "bar": bar,
        "seconds": clock,
    }


def page() -> Table:
    """The table of the page's size, over the network and as a file."""
    from regard.page.assets import assets, one_file

    columns = {
        "name": ("the page", ""),
        "size": ("kB", ",.1f"),
        "packed": ("compressed", ",.1f"),
        "bar": ("at most", ".0f"),
    }
    table = Table(title="bytes", columns=columns)
    index = assets()["index.html"].content
    files = [index, *(each.content for name, each in assets().items() if f'"{name}"'.encode() in index)]
    packed = sum(len(gzip.compress(content, mtime=0)) for content in files)
    whole = one_file({"resources": []}, {}, {}).encode()
    table.rows.append(
        {
            "name": f"{len(files)} files",
            "size": sum(map(len, files)) / 1e3,
            "packed": packed / 1e3,
            "bar": 150,
        }
    )
    table.rows.append(
        {
            "name": "one file, without data",
            "size": len(whole) / 1e3,
            "packed": len(gzip.compress(whole, mtime=0)) / 1e3,
        }
    )
    return table


if __name__ == "__main__":
    main()
