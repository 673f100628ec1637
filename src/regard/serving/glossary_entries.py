"""The entries of a glossary in a request: what is wrong with them is an error with an HTTP status."""

from regard.errors import DataError
from regard.serving.http_error import HttpProblem
from regard.verbs.generation.glossary import Dictionary, read_entries


def requested_entries(content: str, kind: str, languages: tuple[str, str]) -> Dictionary:
    """The entries in a text of DeepL's formats "tsv" or "csv".

    Raises:
        HttpProblem: the format is another, there is no entry, or one is wrong.
    """
    if kind not in ("tsv", "csv"):
        raise _wrong("entries_format must be tsv or csv", "entries_format = tsv", "entries_format")
    try:
        return read_entries(content, kind, languages)
    except DataError as error:
        raise _wrong(error.message, error.hint, "entries") from None


def _wrong(message: str, hint: str, parameter: str) -> HttpProblem:
    return HttpProblem(400, message, hint, parameter=parameter, code="invalid_value")
