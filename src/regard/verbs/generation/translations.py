"""Translations of lines, and how they are written: as text, with scores, or as JSON."""

import errno
import gzip
import io
import json
import os
import platform
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from regard.errors import DataError, UserError
from regard.verbs.generation.candidates import TranslationCandidate
from regard.verbs.shared.precision import with_precision
from regard.verbs.shared.runtime import Precision
from regard.weights.folder import dead_partials

COMPRESSIONS = (".bz2", ".xz", ".zst", ".zip", ".lz4")  # that are not written


@dataclass(frozen=True, kw_only=True)
class Translation:
    """A line and its candidates, best first; an empty line has one empty candidate.

    `sentences`: if the line was split, its sentences, whose candidates were joined. Scores and
    log-probabilities were computed in `precision`.
    """

    called: ClassVar[str] = "translation"
    line: int
    source: str
    candidates: tuple[TranslationCandidate, ...]
    sentences: "tuple[Translation, ...]" = ()
    precision: Precision = "float32"

    @property
    def text(self) -> str:
        return self.candidates[0].text

    def to_dict(self) -> dict[str, Any]:
        """The line of `regard translate --json`."""
        hypotheses = [
            {
                "text": each.text,
                "score": each.score,
                "log_prob": each.log_prob,
                "tokens": list(each.tokens),
                # unknown if another engine has translated
                "token_log_probs": None
                if each.tokens and not each.token_log_probs
                else list(each.token_log_probs),
            }
            for each in self.candidates
        ]
        found = {"line": self.line, "source": self.source, self.called: self.text, "hypotheses": hypotheses}
        found = with_precision(found, self.precision)
        if not self.sentences:
            return found
        sentences = [{"source": each.source, self.called: each.text} for each in self.sentences]
        return {**found, "sentences": sentences}


def write_lines(
    translations: Iterable[Translation], output: Path, *, ranked: bool = False, as_json: bool = False
) -> int:
    """Write translations to a file, gzipped if it ends with .gz, which appears when the last is written."""
    return write_texts((output_lines(each, ranked=ranked, as_json=as_json) for each in translations), output)


def write_texts(texts: Iterable[str], output: Path) -> int:
    """Write texts to a file, as `write_lines`; returns how many they are."""
    special = output.exists() and not output.is_file()  # a device or a named pipe is opened itself
    hidden = f".{output.name}.{platform.node()}."  # another machine may have this PID
    partial = output if special else output.with_name(f"{hidden}{os.getpid()}.partial")
    count = 0
    try:
        with _naming(output):
            if not special:
                with suppress(PermissionError):  # a folder that may be written to and not be listed
                    for path in dead_partials(output.parent, hidden):
                        path.unlink(missing_ok=True)
            plain = partial.open("wb")
        with plain, _text_file(plain, gzipped=output.suffix == ".gz") as file:
            for text in texts:
                with _naming(output):
                    file.write(text)
                count += 1
        if not special:
            with _naming(output):
                os.replace(partial, output)
    except BaseException as error:
        if not special:
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DataError(f"{output}: {error.strerror}", "choose another --output") from None
        raise
    return count


def check_output(input: str | Path | None, output: Path | None) -> None:
    """Raise a UserError if a file cannot be the output; `input` is standard input if None.

    The file that is read would be replaced; and a compression other than gzip is not written.
    """
    check_compression(output)
    source = 0 if input is None else input
    if (
        output is not None
        and output.is_file()
        and os.path.exists(source)
        and os.path.samefile(source, output)
    ):
        raise UserError(f"{output} is read, and would be replaced by its output", "name another --output")


def check_compression(output: Path | None) -> None:
    """Raise a UserError for the name of a compressed file that is not gzipped; a device may have any name."""
    if output is None or output.suffix.lower() not in COMPRESSIONS:
        return
    if output.is_file() or not output.exists():
        raise UserError(
            f"{output}: outputs are compressed by gzip only", "let its name end in .gz, or in .txt"
        )


def _text_file(plain: io.BufferedWriter, *, gzipped: bool) -> io.TextIOWrapper:
    """Lines for a file; gzipped without a name and a time, so that the same lines give the same bytes."""
    file = gzip.GzipFile("", "wb", fileobj=plain, mtime=0) if gzipped else plain
    return io.TextIOWrapper(file, encoding="utf-8", newline="\n")


@contextmanager
def _naming(output: Path) -> Iterator[None]:
    """Raise an OSError as a DataError that names the file."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{output}: {error.strerror}", "choose another --output") from None


def output_lines(translation: Translation, *, ranked: bool = False, as_json: bool = False) -> str:
    """A translation as a line of text; `ranked`: LINE, SCORE, TEXT for each candidate; or a line of JSON."""
    if as_json:
        return json.dumps(translation.to_dict(), ensure_ascii=False) + "\n"
    if not ranked:
        return _one_line(translation.text) + "\n"
    return "".join(
        f"{translation.line}\t{each.score:.4f}\t{_one_line(each.text)}\n" for each in translation.candidates
    )


def _one_line(text: str) -> str:
    """The text in one line: models of bytes and characters can output line feeds."""
    return text.replace("\r", " ").replace("\n", " ")
