"""The process in which Argos Translate, or what it calls, computes what a certificate compares.

A job comes by standard input and the answer goes to standard output, both as JSON. Nothing of regard's models
is loaded here. Where argostranslate is installed, it installs the package into a folder of its own and
translates each text; the splitting into sentences is its own matter, and left out. Its own loading of the
weights may choose another type ("auto"), with which the texts are translated once more.
"""

import contextlib
import importlib.util
import json
import os
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from regard.exports.ctranslate2_calls import ARGOS_BEAM, argos_outputs
from regard.exports.ctranslate2_package import ctranslate2
from regard.exports.sentencepiece_package import sentencepiece

SETTINGS = {  # its defaults, whatever the user's are
    "ARGOS_BEAM_SIZE": str(ARGOS_BEAM), "ARGOS_BATCH_SIZE": "32", "ARGOS_DEVICE_TYPE": "cpu",
    "ARGOS_CHUNK_TYPE": "DEFAULT", "ARGOS_MODEL_PROVIDER": "OPENNMT", "ARGOS_DEBUG": "0",
    "ARGOS_INTER_THREADS": "1",
}  # fmt: skip


class WholeText:
    """In place of Argos Translate's models that split a text: a text is a sentence."""

    def split_sentences(self, text: str) -> list[str]:
        """The sentences."""
        return [text]


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Pieces, translations as pieces and, by Argos Translate, as texts."""
    folder = Path(job["folder"])  # the content of the package
    pieces = sentencepiece().SentencePieceProcessor(model_file=str(folder / "sentencepiece.model"))
    sources = [pieces.encode(text, out_type=str) for text in job["texts"]]
    engine = ctranslate2().Translator(
        str(folder / "model"), device="cpu", compute_type="default", intra_threads=job["threads"]
    )
    found = {
        "pieces": sources,
        "outputs": [argos_outputs(engine, source) for source in sources],
        "versions": {
            **{name: version(name) for name in ("ctranslate2", "sentencepiece")},
            "python": platform.python_version(),
        },
    }
    if importlib.util.find_spec("argostranslate") is not None:
        found |= by_argos_translate(job)
        found["versions"]["argostranslate"] = version("argostranslate")
    return found


def by_argos_translate(job: dict[str, Any]) -> dict[str, Any]:
    """The translations of the installed package, with the weights as they are, and as it loads them."""
    with tempfile.TemporaryDirectory() as home, contextlib.redirect_stdout(sys.stderr):
        os.environ |= SETTINGS | {
            "ARGOS_INTRA_THREADS": str(job["threads"]),
            "ARGOS_PACKAGES_DIR": f"{home}/packages",
            **dict.fromkeys(("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "HOME"), home),
        }
        from argostranslate import (  # pyright: ignore[reportMissingImports] (no extra of regard)
            package,
            settings,
            translate,
        )

        package.install_from_path(job["package"])
        own = translate.get_translation_from_codes(job["from"], job["to"]).underlying
        own.sentencizer = WholeText()
        found = {}
        for name, kind in (("texts", "default"), ("usual_texts", "auto")):
            settings.compute_type, own.translator = kind, None
            found[name] = [own.translate(text) for text in job["texts"]]
    return found


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
