"""What a file of texts holds, by its name: lines of text, subtitles, HTML, or another format.

PyTorch is not imported here.
"""

from pathlib import Path

from regard.errors import UserError
from regard.verbs.shared.text_options import FileFormat

READ: dict[str, FileFormat] = {
    ".srt": "srt",
    ".vtt": "vtt",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
}
TABLES = {".csv": "CSV", ".tsv": "tab-separated values", ".jsonl": "JSON Lines", ".ndjson": "JSON Lines"}
PAIRS = ".tsv"  # a line may be a pair of texts with a tab between them, which some models read
OTHERS = {
    ".md": "Markdown",
    ".markdown": "Markdown",
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
COLUMN = "--shard 1/1 --column NAME --output DIR"


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
            f"translate its texts as lines of a file or as HTML; {every_line}",
        )
    first = ", after it is written as .tsv or .jsonl" if suffix == ".csv" else ""
    raise UserError(
        f"{file}: a table ({TABLES[suffix]}), not lines of text",
        f"{COLUMN} translates a column{first}; {every_line}",
    )


def note_markup(file: str | Path) -> None:
    """Tell the user of a file whose lines are read as texts although its name says that it has markup."""
    from regard import console  # rich takes longer to import than a help text to print

    suffix = _suffix(file)
    kind = {**TABLES, **OTHERS, **{each: name.upper() for each, name in READ.items()}}.get(suffix)
    if kind is None or suffix == PAIRS:
        return
    column = f"; {COLUMN} reads a column of .tsv and .jsonl" if suffix in TABLES else ""
    console.note(f"{file}: each line is read as a text, with what is {kind} in it{column}")


def refuse_line_options(file_format: FileFormat, *, as_json: bool, n_best: int) -> None:
    """Raise a UserError for an option that lines alone have."""
    name = "--json" if as_json else "--n-best" if n_best > 1 else None
    if file_format != "lines" and name is not None:
        raise UserError(f"{name} is for lines, not for {file_format}", "leave it out, or give --format lines")


def _suffix(file: str | Path) -> str:
    """The end of a file's name, in lower case, without that of gzip."""
    return Path(str(file).lower().removesuffix(".gz")).suffix
