"""Translate: texts in, their translations out; a line for a line, in order."""

from collections.abc import Iterable
from pathlib import Path

from regard.verbs.generation.controls import UNSET, Controls
from regard.verbs.generation.translated_document import document_lines
from regard.verbs.generation.translations import check_output, write_lines, write_texts
from regard.verbs.generation.translator import OPTIONS, Translator
from regard.verbs.shared.any_model import AnyModel
from regard.verbs.shared.file_formats import format_to_translate, refuse_line_options
from regard.verbs.shared.lines import document_of, stream_lines
from regard.verbs.shared.python_call import python_call
from regard.verbs.shared.runtime import DEFAULT_DECODING_RUNTIME, DecodingRuntime
from regard.verbs.shared.text_options import FileFormat, TranslationOptions
from regard.verbs.shared.texts import OneOrSeveral


@python_call
def translate(
    text: str | Iterable[str],
    *,
    model: AnyModel | None = None,
    controls: Controls = UNSET,
    options: TranslationOptions = OPTIONS,
    runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
) -> OneOrSeveral:
    """The translation of a text, or of each text of several, by `model` or the included model.

    A text may have several sentences and lines: each sentence is translated alone, and the translations are
    joined by the spaces and line breaks between the sentences; with `split` "off" each line is. For many
    calls keep a `Translator`, which also gives scores.

    Args:
        text: one text, or several.
        model: a model or run folder, or what `regard.load` returns; the included model by default.

    Returns:
        str for a str, list[str] for several; with `n_best` above 1 list[str] and list[list[str]].
    """
    return answers(Translator(model, controls=controls, options=options, runtime=runtime), text)


@python_call
def translate_file(
    input: str | Path,
    output: str | Path,
    *,
    model: AnyModel | None = None,
    controls: Controls = UNSET,
    as_json: bool = False,
    file_format: FileFormat | None = None,
    options: TranslationOptions = OPTIONS,
    runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
) -> int:
    """Translate a file into another, which appears when it is complete; returns the line count.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a text, except of
            subtitles, HTML and Markdown.
        output: the file to write, gzipped if its name ends with .gz; not the input.
        model: a model or run folder, or what `regard.load` returns; the included model by default.
        as_json: write a line of JSON for each line.
        file_format: lines, srt, vtt, html or markdown; by the file's name by default.

    Raises:
        UserError: the name says that the file has a format that is not read.
    """
    check_output(input, Path(output))
    kind = format_to_translate(input, file_format)
    refuse_line_options(kind, as_json=as_json, n_best=options.n_best)
    translator = Translator(model, controls=controls, options=options, runtime=runtime)
    if kind != "lines":
        content = document_of(input)
        return write_texts(document_lines(translator, content, kind, str(input)), Path(output))
    lines = stream_lines(input, notes=False)
    return write_lines(translator(lines), Path(output), ranked=options.n_best > 1, as_json=as_json)


def answers(translator: Translator, text: str | Iterable[str]) -> OneOrSeveral:
    """The translation of a text, or a list for several; with `n_best` above 1 lists of candidates."""
    found = translator.texts([text] if isinstance(text, str) else text)
    if translator.options.n_best == 1:
        texts = [each.text for each in found]
        return texts[0] if isinstance(text, str) else texts
    lists = [[candidate.text for candidate in each.candidates] for each in found]
    return lists[0] if isinstance(text, str) else lists
