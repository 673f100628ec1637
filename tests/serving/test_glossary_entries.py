"""Wrong entries in a request are problems of their fields."""

import pytest

from regard.serving.glossary_entries import requested_entries
from regard.serving.http_error import HttpProblem


@pytest.mark.parametrize(
    ("content", "kind", "parameter"), [("a", "tsv", "entries"), ("a\tb", "xml", "entries_format")]
)
def test_a_wrong_entry_or_format_is_a_problem_of_its_field(content, kind, parameter):
    with pytest.raises(HttpProblem) as refused:
        requested_entries(content, kind, ("en", "de"))
    assert (refused.value.status, refused.value.parameter) == (400, parameter)
    assert requested_entries("a\tb", "tsv", ("en", "de")).entries == {"a": "b"}
