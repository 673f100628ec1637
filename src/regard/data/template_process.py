"""The process that runs chat templates: JSON requests in, one a line, and JSON answers out.

It imports nothing of regard, so it starts quickly. Jinja's sandbox keeps a template from Python's internals,
and this process has limits of time and memory. Besides Jinja itself, templates may use what Hugging Face
gives them: `tojson`, `raise_exception`, `strftime_now`, loop controls and the `generation` block.
"""

import json
import signal
import sys
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

MEMORY = 512 * 2**20  # bytes of address space
MAX_CHARACTERS = 4_000_000  # of the rendered text


class Refusal(jinja2.TemplateError):
    """The template says by `raise_exception` that it has no place for these messages."""


class GenerationBlock(Extension):
    """`{% generation %}`: marks what the model writes, for training; the text is that of its body."""

    tags = {"generation"}  # noqa: RUF012 (as Jinja declares it)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The body alone."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def main() -> None:
    """Answers each request until the input ends."""
    _limit_memory()
    for line in sys.stdin:
        request = json.loads(line)
        _end_after(request["seconds"])
        answered = answer(request)
        _end_after(0)
        print(json.dumps(answered), flush=True)


def answer(request: dict[str, Any]) -> dict[str, str]:
    """`{"text": ...}`, or why there is none: `{"refusal": ...}`, `{"error": ...}`."""
    try:
        text = _compiled(request["template"]).render(request["variables"])
    except Refusal as error:
        return {"refusal": _one_line(error)}
    except Exception as error:  # noqa: BLE001 (a template from anybody can raise anything)
        return {"error": _one_line(error)}
    if len(text) > MAX_CHARACTERS:
        return {"error": f"its text has more than {MAX_CHARACTERS:,} characters"}
    return {"text": text}


@lru_cache(1)
def _compiled(template: str) -> jinja2.Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, GenerationBlock]
    )
    environment.filters["tojson"] = _to_json
    environment.globals |= {"raise_exception": _refuse, "strftime_now": _now}
    return environment.from_string(template)


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    """Jinja's own filter would escape characters of HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def _refuse(message: str) -> None:
    raise Refusal(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)


def _one_line(error: Exception) -> str:
    return " ".join((str(error) or type(error).__name__).split())[:200]


def _end_after(seconds: float) -> None:
    """End the process after `seconds` (0: never), even if nobody waits for it any more."""
    if hasattr(signal, "setitimer"):  # not on Windows
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _limit_memory() -> None:
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limit, macOS refuses it
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


if __name__ == "__main__":
    main()
