"""Summarize: texts in, summaries out; by models such as T5 and BART."""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from regard.verbs.generation.controls import UNSET, Controls
from regard.verbs.generation.translations import Translation, check_output, write_lines
from regard.verbs.generation.translator import Translator
from regard.verbs.shared.any_model import AnyModel
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.lines import stream_lines
from regard.verbs.shared.python_call import python_call
from regard.verbs.shared.runtime import DEFAULT_DECODING_RUNTIME, DecodingRuntime
from regard.verbs.shared.suggested_recipes import needs_model
from regard.verbs.shared.text_options import SummaryOptions
from regard.verbs.shared.texts import OneOrSeveral
from regard.verbs.translate import answers

OPTIONS = SummaryOptions()


class Summary(Translation):
    """A text and its summaries, best first."""

    called: ClassVar[str] = "summary"


class Summarizer(Translator):
    """A model, loaded once, that summarizes documents, one in each line.

    Args:
        model: a model or run folder, or what `regard.load` returns.
    """

    task: ClassVar[str] = "summarization"
    does: ClassVar[str] = "summarizes"
    answer: ClassVar[type[Translation]] = Summary
    max_characters: ClassVar[int] = 100_000

    @needs_model
    @checked
    @keyword_fields
    def __init__(
        self,
        model: AnyModel,
        *,
        controls: Controls = UNSET,
        options: SummaryOptions = OPTIONS,
        runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
    ) -> None:
        """Load the model; controls that are not given have the model's defaults."""
        self._load(model, controls, options, runtime, split=None)


@needs_model
@python_call
def summarize(
    text: str | Iterable[str],
    *,
    model: AnyModel,
    controls: Controls = UNSET,
    options: SummaryOptions = OPTIONS,
    runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
) -> OneOrSeveral:
    """The summary of a text, or of each text of several. For many calls keep a `Summarizer`.

    Args:
        text: one text, or several.
        model: a model or run folder, or what `regard.load` returns.

    Returns:
        str for a str, list[str] for several; with `n_best` above 1 list[str] and list[list[str]].
    """
    return answers(Summarizer(model, controls=controls, options=options, runtime=runtime), text)


@needs_model
@python_call
def summarize_file(
    input: str | Path,
    output: str | Path,
    *,
    model: AnyModel,
    controls: Controls = UNSET,
    as_json: bool = False,
    options: SummaryOptions = OPTIONS,
    runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
) -> int:
    """Summarize each line of a file into another, which appears when it is complete; returns the line count.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a text.
        output: the file to write, gzipped if its name ends with .gz; not the input.
        model: a model or run folder, or what `regard.load` returns.
        as_json: write a line of JSON for each line.
    """
    check_output(input, Path(output))
    summarizer = Summarizer(model, controls=controls, options=options, runtime=runtime)
    return write_lines(
        summarizer(stream_lines(input)), Path(output), ranked=options.n_best > 1, as_json=as_json
    )
