"""What a file of texts holds, by its name: lines of text, subtitles, HTML, Markdown, or others.

PyTorch is not imported here.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from regard.errors import UserError
from regard.verbs.shared.text_options import FileFormat

READ: dict[str, FileFormat] = {
    ".srt": "srt",
    ".vtt": "vtt",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".md": "markdown",
    ".markdown": "markdown",
}
NAMES: dict[FileFormat, str] = {"srt": "SRT", "vtt": "VTT", "html": "HTML", "markdown": "Markdown"}
TABLES = {".csv": "CSV", ".tsv": "tab-separated values", ".jsonl": "JSON Lines", ".ndjson": "JSON Lines"}
TABS = ".tsv"  # a table only if its lines have tabs
OTHERS = {
    ".rst": "reStructuredText",
    ".adoc": "AsciiDoc",
    ".tex": "LaTeX",
    ".rtf": "RTF",
    ".xml": "XML",
    ".xlf": "XLIFF",
    ".xliff": "XLIFF",
    ".tmx": "TMX",
    ".sgm": "SGML",
    ".svg": "SVG",
    ".resx": "XML",
    ".json": "JSON",
    ".yaml": "YAML",
    ".yml": "YAML",
    ".toml": "TOML",
    ".ini": "INI",
    ".po": "gettext's PO",
    ".pot": "gettext's PO",
    ".properties": "Java properties",
    ".strings": "Apple's strings",
    ".ass": "ASS subtitles",
    ".ssa": "SSA subtitles",
    ".sbv": "SBV subtitles",
    ".sub": "MicroDVD or VobSub subtitles",
}
COLUMN = "--column NAME"
TableOutput = Literal["csv", "tsv", "jsonl"]
WRITTEN: dict[str, TableOutput] = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


def format_to_translate(file: str | Path | None, given: FileFormat | None) -> FileFormat:
    """What a file is translated as: `given`, or by its name; None is standard input, of lines.

    Raises:
        UserError: its format is not read.
    """
    if given is not None or file is None:
        return given or "lines"
    suffix = _suffix(file)
    if suffix not in TABLES and suffix not in OTHERS:
        return READ.get(suffix, "lines")
    every_line = "--format lines translates each line as a text, its markup too"
    if suffix not in TABLES:
        kind = OTHERS[suffix]
        raise UserError(
            f"{file}: {kind} {'are' if kind.endswith(' subtitles') else 'is'} not read",
            f"translate its texts as lines of a file, as HTML or as Markdown; {every_line}",
        )
    raise table_without_column(file, f"{COLUMN} translates a column; {every_line}")


def table_without_column(file: str | Path, hint: str) -> UserError:
    """The error of a table of which no column is named."""
    return UserError(f"{file}: a table ({TABLES[_suffix(file)]}), not lines of text", hint)


def refuse_table(file: str | Path, hint: str | None = None) -> None:
    """Raise a UserError for a table by its name; not for .tsv, whose lines may be texts without tabs."""
    suffix = _suffix(file)
    if suffix in TABLES and suffix != TABS:
        raise table_without_column(file, hint or _column_hint(file))


def without_tabs(file: str | Path, lines: Iterable[str], hint: str | None = None) -> Iterator[str]:
    """The lines of a file; the first with a tab raises a UserError if the file is called .tsv."""
    is_tsv = _suffix(file) == TABS
    for line in lines:
        if is_tsv and "\t" in line:
            raise table_without_column(file, hint or _column_hint(file))
        yield line


def note_tabs(file: str | Path, lines: Iterable[str]) -> Iterator[str]:
    """The lines of a file; a note at the first with a tab if the file is called .tsv."""
    from regard import console

    is_tsv = _suffix(file) == TABS
    for line in lines:
        if is_tsv and "\t" in line:
            console.note(f"{file}: each line is read as a text, with all its columns")
            is_tsv = False
        yield line


def _column_hint(file: str | Path) -> str:
    return f"{COLUMN} reads the texts of a column; `cat {file} | regard ...` reads each line as a text"


def note_markup(file: str | Path) -> None:
    """Tell the user of a file whose lines are read as texts although its name says that it has markup."""
    from regard import console  # rich takes longer to import than a help text to print

    suffix = _suffix(file)
    kind = {**TABLES, **OTHERS, **{each: NAMES[name] for each, name in READ.items()}}.get(suffix)
    if kind is None or suffix == TABS:
        return
    console.note(f"{file}: each line is read as a text, with what is {kind} in it")


def table_output(
    output: str | Path | None, column: str | None, *, as_json: bool, n_best: int = 1, option: str = ""
) -> TableOutput | None:
    """The kind of table that is written: that of which a `column` is read, with one more; None: lines.

    `option` is the command's option for `n_best`, if it has one.

    Raises:
        UserError: lines would be written into a file that is called CSV or JSON Lines.
    """
    suffix = "" if output is None else _suffix(output)
    is_table = column is not None and not as_json and n_best == 1
    if is_table:
        return WRITTEN.get(suffix)
    is_json = WRITTEN.get(suffix) == "jsonl"
    if suffix == ".csv" or (is_json and not as_json):
        others = (
            "or --json, which writes a line of JSON for each" if is_json else "or let the name end in .txt"
        )
        raise UserError(
            f"{output}: a table is written from a table alone, with one answer for each record",
            f"give --input TABLE --column NAME, {without_lines(option)}; {others}",
        )
    return None


def without_lines(option: str) -> str:
    """The options to leave out for a table, to end a hint: --json, and `option`, for more answers."""
    return f"without --json and {option}" if option else "without --json"


def refuse_line_options(file_format: FileFormat, *, as_json: bool, n_best: int) -> None:
    """Raise a UserError for an option that lines alone have."""
    name = "--json" if as_json else "--n-best" if n_best > 1 else None
    if file_format != "lines" and name is not None:
        raise UserError(f"{name} is for lines, not for {file_format}", "leave it out, or give --format lines")


def _suffix(file: str | Path) -> str:
    """The end of a file's name, in lower case, without that of gzip."""
    return Path(str(file).lower().removesuffix(".gz")).suffix
