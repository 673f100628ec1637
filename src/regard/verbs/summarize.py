"""Summarize: a text in, a shorter one out; by models such as T5 and BART, as `translate` by others."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from regard.verbs.any_model import AnyModel
from regard.verbs.arguments import checked
from regard.verbs.computing import USUAL, Computing
from regard.verbs.controls import UNSET, Controls
from regard.verbs.keyword_fields import keyword_fields
from regard.verbs.lines import stream
from regard.verbs.suggested_recipes import needs_model
from regard.verbs.translate import Translation, Translator, answers, write


class Summary(Translation):
    """A text and what it is in short, several times if that is asked for, best first."""

    called: ClassVar[str] = "summary"


class Summarizer(Translator):
    """A model, loaded once, that says texts in short: a `Translator` of whole documents, each a line.

    Args:
        model: a model or run folder, or what `regard.load` gives.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        n_best: candidates of each text; a beam is as wide as that at least.
        prefix: what stands before each text; what the model's folder says of summaries without.
        split: leave it out, or "off": a document is summarized whole.
        workers: processes that share many lines; one for each core of a CPU without, one where `threads` are
            given.
    """

    task: ClassVar[str] = "summarization"
    does: ClassVar[str] = "summarizes"
    answer: ClassVar[type[Translation]] = Summary
    splits: ClassVar[bool] = False
    max_characters: ClassVar[int] = 100_000
    __init__ = needs_model(Translator.__init__, "summarize")


@needs_model
@checked
@keyword_fields
def summarize(
    text: str | Iterable[str],
    *,
    model: AnyModel,
    controls: Controls = UNSET,
    batch_tokens: int = 4096,
    n_best: int = 1,
    prefix: str | None = None,
    workers: int | None = None,
    computing: Computing = USUAL,
) -> Any:
    """A text in short, or each of several.

    With `n_best` above 1 there is a list of that many, best first, in the place of each. For many calls keep
    a `Summarizer`.

    Args:
        text: one text, or several.
        model: a model or run folder, or what `regard.load` gives.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        n_best: candidates of each text; a beam is as wide as that at least.
        prefix: what stands before each text; what the model's folder says of summaries without.
        workers: processes that share many lines; one for each core of a CPU without, one where `threads` are
            given.

    Returns:
        str for a str, list[str] for several; with `n_best` above 1 list[str] and list[list[str]].
    """
    summarizer = Summarizer(
        model,
        controls=controls,
        batch_tokens=batch_tokens,
        n_best=n_best,
        prefix=prefix,
        workers=workers,
        computing=computing,
    )
    return answers(summarizer, text, n_best)


@needs_model
@checked
@keyword_fields
def summarize_file(
    input: str | Path,
    output: str | Path,
    *,
    model: AnyModel,
    controls: Controls = UNSET,
    batch_tokens: int = 4096,
    n_best: int = 1,
    prefix: str | None = None,
    as_json: bool = False,
    workers: int | None = None,
    computing: Computing = USUAL,
) -> int:
    """Say each line of a file in short, into another, which appears when it is whole; the number of lines.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a text.
        output: the file to write.
        model: a model or run folder, or what `regard.load` gives.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        n_best: candidates of each text; a beam is as wide as that at least.
        prefix: what stands before each text; what the model's folder says of summaries without.
        as_json: write a line of JSON for each line.
        workers: processes that share many lines; one for each core of a CPU without, one where `threads` are
            given.
    """
    summarizer = Summarizer(
        model,
        controls=controls,
        batch_tokens=batch_tokens,
        n_best=n_best,
        prefix=prefix,
        workers=workers,
        computing=computing,
    )
    return write(summarizer(stream(input)), Path(output), ranked=n_best > 1, as_json=as_json)
