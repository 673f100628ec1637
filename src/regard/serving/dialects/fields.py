"""The fields of a request that comes as JSON, as a form, or in the query."""

from collections.abc import Sequence
from typing import Any

from starlette.datastructures import UploadFile

from regard.serving.dialects.dialect import JSON, Call, decoded, with_integers
from regard.serving.http_error import HttpProblem, unknown_field
from regard.serving.limits import ServerLimits

URL_ENCODED, MULTIPART = FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


class Fields:
    """Fields by name; of a form each is a list of texts, of JSON any value."""

    def __init__(self, values: dict[str, Any], *, is_form: bool) -> None:
        self._values, self.is_form = values, is_form

    def text(self, name: str, default: str | None = None) -> str | None:
        """The text of this name.

        Raises:
            HttpProblem: it is not text, or given twice.
        """
        value = self._one(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise wrong(name, "must be a text")
        return value

    def texts(self, name: str) -> str | list[str] | None:
        """The text of this name, or its texts."""
        value = self._values.get(name)
        if self.is_form and isinstance(value, list):
            value = value[0] if len(value) == 1 else value
        if value is None or isinstance(value, str):
            return value
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise wrong(name, "must be a text, or a list of texts")
        return value

    def number(self, name: str, default: int = 0) -> int:
        """The whole number of this name, which a form has as a text."""
        value = self._one(name)
        if value is None or value == "":
            return default
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
            return int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong(name, "must be a whole number")
        return value

    def file(self, name: str) -> UploadFile | None:
        """The uploaded file of this name."""
        value = self._one(name)
        if value is not None and not isinstance(value, UploadFile):
            raise wrong(name, "must be a file")
        return value

    def given(self, name: str) -> Any:
        """The value of this name, whatever it is."""
        return self._one(name)

    def refuse_others(self, names: Sequence[str]) -> None:
        """Raise an HttpProblem for a field of another name."""
        for name in self._values:
            if name not in names:
                raise unknown_field(name, names)

    def _one(self, name: str) -> Any:
        value = self._values.get(name)
        if self.is_form and isinstance(value, list):
            if len(value) > 1:
                raise wrong(name, "is given twice")
            return value[0]
        return value


async def fields_of(call: Call, *, may_be_empty: bool = False, limits: ServerLimits | None = None) -> Fields:
    """The fields of a request's body, and of its query; `limits` replaces the server's.

    Raises:
        HttpProblem: the body is neither a JSON object nor a form.
    """
    http, limits = call.request.http, limits or call.service.limits
    query = {name: http.query_params.getlist(name) for name in http.query_params}
    content_type = call.request.content_type()
    if content_type == JSON:
        values = with_integers(decoded(await call.request.body(limits), dict))
        return Fields({**{name: each[0] for name, each in query.items()}, **values}, is_form=False)
    if content_type == URL_ENCODED:
        return Fields({**query, **await call.request.url_encoded_form(limits)}, is_form=True)
    if content_type == MULTIPART:
        form = await call.request.form(limits)
        return Fields({**query, **{name: form.getlist(name) for name in form}}, is_form=True)
    body = await call.request.body(limits)
    if body or not (query or may_be_empty):
        raise HttpProblem(415, "the body is neither JSON nor a form", "send JSON or a form", code="not_json")
    return Fields(query, is_form=True)


def wrong(name: str, why: str) -> HttpProblem:
    """The problem of a field with another type."""
    return HttpProblem(400, f"{name} {why}", "see the documentation", parameter=name, code="invalid_type")


async def uploaded_text(file: UploadFile, name: str | None = None) -> str:
    """The text of an uploaded file; `name` replaces its own.

    Raises:
        HttpProblem: it is not plain text in UTF-8.
    """
    if not (name or file.filename or "").lower().endswith(".txt"):
        raise HttpProblem(400, "only plain-text files (.txt) are supported", "save it as UTF-8 text")
    try:
        return (await file.read()).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise HttpProblem(400, "the file is not UTF-8", "save it as UTF-8 text") from None
